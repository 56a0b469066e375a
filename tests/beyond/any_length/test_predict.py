"""The calculator of any length: what it prints, and what it refuses."""

import pytest
import torch

from beyond.any_length import checkpoint as text
from lab import checkpoint

SETTINGS = {"d_model": 16, "num_heads": 2, "d_ff": 16, "dropout": 0.0}


@pytest.fixture
def model(tmp_path):
    torch.manual_seed(0)
    content = {"kind": text.KIND, "settings": SETTINGS, "model": text.build(SETTINGS).state_dict()}
    checkpoint.save(tmp_path / "text.pth", content)
    return tmp_path / "text.pth"


def test_it_adds_what_problem1_refuses(script):
    problem1 = script("problem1/predict.py", "123456789", "+", "987654321")
    assert problem1.returncode == 2 and "beyond/any_length/predict.py 123456789 + 987654321" in problem1.stderr
    result = script("beyond/any_length/predict.py", "123456789", "+", "987654321")
    assert result.returncode == 0 and result.stdout.splitlines()[:2] == ["123456789 + 987654321 = 1111111110", "right"]


def test_a_wrong_sum_and_the_model_are_named(script, model):
    result = script("beyond/any_length/predict.py", "--model-path", model, "0012", "+", "30")
    assert result.returncode == 0 and result.stdout.startswith("12 + 30 = "), result.stderr
    assert "wrong: it is 42" in result.stdout and f"model: {model}" in result.stdout


def test_nonsense_is_refused(refused):
    refused("beyond/any_length/predict.py", "1.5", "+", "2", words=["1.5 + 2"])
    refused("beyond/any_length/predict.py", words=["there is no sum", "beyond/any_length/predict.py"])
