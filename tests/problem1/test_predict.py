"""predict.py: what it prints, and what it refuses."""

import pytest
import torch

from lab import checkpoint
from lab.files import UserError
from problem1 import checkpoint as trained
from problem1 import predict
from problem1.dataset import START

DIGITS = {"d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16, "dropout": 0.0, "num_digits": 2}


@pytest.fixture
def model(tmp_path):
    """The checkpoint of an untrained two-digit model."""
    torch.manual_seed(0)
    content = {"kind": trained.KIND, "settings": DIGITS, "model": trained.build(DIGITS).state_dict()}
    checkpoint.save(tmp_path / "digits.pth", content)
    return tmp_path / "digits.pth"


def test_a_sum_its_verdict_and_the_smallest_margins(model, capsys):
    predict.main(predict.Settings(("47", "+", "19"), model))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("47 + 19 = ") and lines[1] == "wrong: it is 66"
    assert lines[2].startswith("smallest logit margins") and "(ones)" in lines[2]
    assert lines[3] == f"model: {model}"


@pytest.mark.parametrize("words", [("123456789", "+", "5"), ("7", "+", "5"), ("47", "+", "5"), ("007 + 0012",)])
def test_other_lengths_are_refused_with_the_command_that_adds_them(model, words):
    with pytest.raises(UserError, match=r"exactly 2 digits.*python beyond/any_length/predict.py \d+ \+ \d+$"):
        predict.main(predict.Settings(words, model))


def test_a_model_that_writes_no_digit_gets_a_question_mark(model, capsys):
    content = checkpoint.load(model, trained.KIND)
    content["model"]["output.bias"][START] = 100.0
    checkpoint.save(model, content)
    predict.main(predict.Settings(("47", "+", "19"), model))
    assert capsys.readouterr().out.startswith("47 + 19 = ???\nwrong: it is 66\n")


def test_a_right_sum_is_called_right():
    lines = predict.report(("12", "30"), "42", [3.0, 1.5], "42").splitlines()
    assert lines[:2] == ["12 + 30 = 42", "right"]
    assert lines[2].endswith("2 (ones) 1.5, 4 (tens) 3.0")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "there is no sum"),
        (["five", "+", "3"], "five + 3"),
        (["-5", "+", "3"], "-5 + 3"),
        (["1.5 + 3"], "1.5 + 3"),
        (["1", "+"], "'1 +'"),
        (["1 + 2 + 3"], "1 + 2 + 3"),
        (["٣ + 3"], "٣ + 3"),
        (["9" * 5000 + "x + 1"], "999…"),
    ],
)
def test_nonsense_gets_one_sentence(words, named):
    with pytest.raises(UserError) as refusal:
        predict.read_sum(words)
    assert named in str(refusal.value) and len(str(refusal.value)) < 200


def test_refused_with_exit_2(refused, tmp_path):
    refused("problem1/predict.py", "1", "+", "x", words=["1 + x"])
    missing = tmp_path / "no.pth"
    refused("problem1/predict.py", "1", "+", "2", "--model-path", missing, words=["no.pth", "does not exist"])
