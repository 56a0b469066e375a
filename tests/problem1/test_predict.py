"""predict.py: which model it uses, what it prints, and what it refuses."""

import pytest
import torch

from lab import checkpoint
from lab.files import UserError
from problem1 import predict, trained
from problem1.text import trained as text

DIGITS = {"d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16, "dropout": 0.0, "num_digits": 2}


def untrained(module, settings: dict, path):
    torch.manual_seed(0)
    content = {"kind": module.KIND, "settings": settings, "model": module.build(settings).state_dict()}
    checkpoint.save(path, content)
    return path


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A two-digit model and one of addition as text in the default places."""
    paths = {"digits": tmp_path / "digits.pth", "text": tmp_path / "text.pth"}
    untrained(trained, DIGITS, paths["digits"])
    untrained(text, DIGITS, paths["text"])
    monkeypatch.setattr(predict, "MODELS", paths)
    return paths


def run(*words, model_path=None) -> None:
    predict.main(predict.Settings(words, model_path))


def test_the_model_of_train_py_is_used_where_the_operands_fit(models, capsys):
    run("47", "+", "19")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("47 + 19 = ") and lines[1] == "wrong: it is 66"
    assert lines[2].startswith("smallest logit margins") and "(units)" in lines[2]
    assert str(models["digits"]) in lines[3] and "exactly 2 digits" in lines[3]


@pytest.mark.parametrize("words", [("123456789", "+", "5"), ("7", "+", "5"), ("47", "+", "5"), ("007 + 0012",)])
def test_other_operands_go_to_the_text_model_and_it_says_why(models, capsys, words):
    run(*words)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"model: {models['text']}, because {models['digits']} was trained on operands of exactly 2 digits"


def test_without_a_trained_model_the_text_model_is_used(models, capsys):
    models["digits"].unlink()
    run("47 + 19")
    assert f"because {models['digits']} does not exist" in capsys.readouterr().out


def test_a_model_can_be_named(models, capsys):
    for path in models.values():
        run("47+19", model_path=path)
        assert f"model: {path}, named with --model-path" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"exactly 2 digits.*text\.pth for others"):
        run("123 + 9", model_path=models["digits"])


def test_a_right_sum_is_called_right():
    prediction = predict.Prediction(["4", "2"], [3.0, 1.5, 9.0], ended=True)
    lines = predict.report(("12", "30"), prediction).splitlines()
    assert lines[:2] == ["12 + 30 = 42", "right"]
    assert lines[2].endswith("2 (units) 1.5, 4 (tens) 3.0")


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


def test_refused_with_exit_2(refused, script, models, tmp_path):
    refused("problem1/predict.py", "1", "+", "x", words=["1 + x"])
    missing = tmp_path / "no.pth"
    refused("problem1/predict.py", "1", "+", "2", "--model-path", missing, words=["no.pth", "does not exist"])
    result = script("problem1/predict.py", "--model-path", models["text"], "0012", "+", "30")
    assert result.returncode == 0 and result.stdout.startswith("12 + 30 = "), result.stderr
