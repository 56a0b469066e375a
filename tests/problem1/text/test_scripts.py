"""train.py, analyze.py, study.py and ask.py on a tiny version of the task, as users run them."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import torch

from lab import checkpoint
from lab.settings import as_plain
from problem1 import train as digits
from problem1.text import analyze, calculator, lengths, proof
from problem1.text.dataset import load_or_generate, right_answer
from problem1.text.model import build
from problem1.text.train import Settings, load_model
from tests.conftest import ROOT

SHAPE = ["--d-model", "32", "--num-heads", "4", "--d-ff", "64", "--device", "cpu", "--seed", "1"]
TINY = [*SHAPE, "--batch-size", "64", "--epochs", "8", "--epoch-rows", "6400", "--lr", "4e-3"]
SHORT = [*SHAPE, "--batch-size", "16", "--epochs", "6", "--epoch-rows", "320", "--dropout", "0.1"]


def train(data, output, *flags, **keywords):
    command = [sys.executable, str(ROOT / "problem1/train.py"), "--task", "text", "--data-dir", str(data)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, "--output-dir", str(output), *flags], capture_output=True, text=True, env=environment, **keywords
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sums of numbers of at most four digits."""
    folder = tmp_path_factory.mktemp("text") / "data"
    load_or_generate(folder, {"train": 8000, "val": 200, "test": 500}, max_digits=4)
    return folder


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "results"
    result = train(data, folder, *TINY)
    assert result.returncode == 0, result.stderr
    return folder


def test_a_tiny_model_learns_to_add(trained, data):
    log = json.loads((trained / "training_log.json").read_text())
    assert log["test_acc"] > 0.97 and len(log["val_acc"]) == 8 and log["config"]["scheme"] == "places"
    assert (trained / "training_curves.png").stat().st_size > 10_000
    asked = calculator.load(trained / "best_model.pth")
    pairs = load_or_generate(data)["test"]
    right = sum(calculator.is_right(pair, answer) for pair, answer in zip(pairs, asked.answer(pairs), strict=True))
    assert right / len(pairs) == pytest.approx(log["test_acc"])  # greedy decoding is what the log says


def test_it_adds_numbers_far_longer_than_any_it_saw(trained):
    asked = calculator.load(trained / "best_model.pth")
    assert asked.add(12, 30) == 42
    pairs = [(10**60, 7), (3, 10**30), (0, 0), (111, 222 * 10**40)]
    assert asked.add_many(pairs) == [a + b for a, b in pairs]
    with pytest.raises(ValueError, match="-5"):
        asked.add(3, -5)
    with pytest.raises(ValueError, match="'7'"):
        asked.add("7", 5)


def test_interrupted_and_resumed_ends_in_the_same_bits(data, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert train(data, whole, *SHORT).returncode == 0
    command = [sys.executable, str(ROOT / "problem1/train.py"), "--task", "text", "--data-dir", str(data)]
    running = subprocess.Popen(
        [*command, "--output-dir", str(broken), *SHORT],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )
    while not (broken / "last.pth").exists():
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert not (broken / "training_log.json").exists()
    resumed = train(data, broken, *SHORT, "--resume")
    assert resumed.returncode == 0 and "resuming after epoch" in resumed.stdout
    one, other = (torch.load(folder / "best_model.pth", weights_only=True)["model"] for folder in (whole, broken))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_two_processes_share_every_batch(data, tmp_path):
    """The same loss as one process, but for the order in which numbers are added up."""
    flags = [*SHORT[:-2], "--epochs", "1"]
    assert train(data, tmp_path / "one", *flags).returncode == 0
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += [str(ROOT / "problem1/train.py"), "--task", "text", "--data-dir", str(data), *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run([*command, "--output-dir", str(tmp_path / "two")], capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    one, two = (json.loads((tmp_path / name / "training_log.json").read_text()) for name in ("one", "two"))
    assert (one["processes"], two["processes"]) == (1, 2)
    assert two["train_loss"] == pytest.approx(one["train_loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--scheme", "places", "--order", "plain"], ["units first"]),
        (["--d-model", "30"], ["--num-heads 4"]),
    ],
)
def test_impossible_settings_are_one_sentence(refused, tmp_path, flags, words):
    refused("problem1/train.py", "--task", "text", "--output-dir", tmp_path, *flags, words=words)


def test_help_shows_the_flags_of_the_task(script):
    assert "--scheme" in script("problem1/train.py", "--task", "text", "--help").stdout
    assert "--scheme" not in script("problem1/train.py", "--help").stdout
    assert "proof.json" in script("problem1/text/analyze.py", "--help").stdout


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "none"])
def test_classic_schemes_answer_and_are_scored_alike(scheme):
    """Teacher-forced exact match and greedy decoding agree for models of characters too."""
    torch.manual_seed(0)
    settings = Settings(scheme=scheme, order="plain", d_model=16, num_heads=2, d_ff=16)
    model = build(settings).eval()
    asked = calculator.Calculator(model, settings)
    pairs = [("12", "7"), ("999", "1"), ("0", "0")]
    together, alone = asked.answer(pairs), [asked.answer([pair])[0] for pair in pairs]
    for pair, one, other in zip(pairs, together, alone, strict=True):
        shortest = min(len(one.text), len(other.text))
        assert one.text[:shortest] == other.text[:shortest]  # padding changes nothing
        assert not calculator.is_right(pair, one)
    assert lengths.exact_match(model, settings, pairs)["right"] == 0


def test_analyze_writes_what_it_promises(trained, data, tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "prove", partial(proof.prove, digits=(0, 1, 9), far=60))  # the whole takes a minute
    analyze.main(analyze.Settings("text", trained / "best_model.pth", data, tmp_path, num_samples=50, largest=30))
    for name in ("proof", "heads", "scaling"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    proven, measured, heads, cost = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("proof", "lengths", "heads", "scaling")
    )
    assert proven["covered"] == proven["situations"] and proven["seed"] == 1 and "code" in proven
    assert proven["proven"] == (proven["failures"] == 0)
    assert measured["lengths"]["8"]["random"]["share"] > 0.9
    assert len(heads["heads"]) == 12 and heads["all_heads"]["share"] > 0.9
    assert min(head["exact_match_without"]["share"] for head in heads["heads"].values()) < 0.5
    assert [size["digits"] for size in cost["sizes"]] == [10, 30]


@pytest.mark.parametrize("shape", lengths.SHAPES)
def test_shapes_are_sums(shape):
    pairs = lengths.SHAPES[shape]()
    assert len(pairs) >= 50
    assert all(number == "0" or (number.isdigit() and number[0] != "0") for pair in pairs for number in pair)
    assert int(right_answer(pairs[0])[-9:]) == (int(pairs[0][0][-9:]) + int(pairs[0][1][-9:])) % 10**9


# --- ask.py ------------------------------------------------------------------------------------------------------


def test_ask_prints_the_sum_and_whether_it_is_right(script, trained):
    result = script("problem1/ask.py", "--model-path", trained / "best_model.pth", "0012", "+", "30")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:2] == ["12 + 30 = 42", "right"] and lines[2].startswith("least sure of the ")


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
        (["9" * 5000 + "x + 1"], "999..."),
    ],
)
def test_nonsense_gets_one_sentence(words, named):
    from lab.files import UserError
    from problem1.predict import read_sum

    with pytest.raises(UserError) as refusal:
        read_sum(words)
    assert named in str(refusal.value) and len(str(refusal.value)) < 200


def test_ask_refuses_with_exit_2(refused, tmp_path):
    refused("problem1/ask.py", "1", "+", "x", words=["1 + x"])
    refused("problem1/ask.py", "1", "+", "2", "--model-path", tmp_path / "no.pth", words=["no.pth", "does not exist"])


def test_the_three_digit_model_answers_too(script, refused, tmp_path):
    settings = digits.Settings(d_model=16, num_layers=1, d_ff=16)
    untrained = {"kind": digits.KIND, "settings": as_plain(settings) | {"num_digits": 2}}
    checkpoint.save(tmp_path / "model.pth", untrained | {"model": digits.build(settings, 2).state_dict()})
    asked = ["problem1/ask.py", "--task", "digits", "--model-path", tmp_path / "model.pth"]
    result = script(*asked, "47", "+", "9")
    assert result.returncode == 0 and result.stdout.startswith("47 + 9 = "), result.stderr
    assert result.stdout.splitlines()[1] == "wrong: it is 56"
    refused(*asked, "123", "+", "9", words=["2 digits", "3 are too many"])


def test_checkpoints_of_the_other_task_are_refused(refused, trained):
    refused(
        "problem1/ask.py",
        "--task",
        "digits",
        "--model-path",
        trained / "best_model.pth",
        "1+1",
        words=["problem1/text", "problem1/digits"],
    )


def test_a_loaded_model_is_the_trained_one(trained):
    model, settings = load_model(trained / "best_model.pth")
    assert settings.d_model == 32 and not model.training
