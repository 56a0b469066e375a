"""train.py and analyze.py on a tiny version of the task, as users run them; the calculator."""

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
from lab.files import UserError
from problem1.text import analyze, calculator, lengths, proof, scaling
from problem1.text.dataset import generate, load_or_generate, right_answer
from problem1.text.trained import KIND, build
from tests.conftest import ROOT

TRAIN = "problem1/text/train.py"
SHAPE = ["--d-model", "32", "--num-heads", "4", "--d-ff", "64", "--device", "cpu", "--seed", "1"]
TINY = [*SHAPE, "--batch-size", "64", "--epochs", "8", "--epoch-rows", "6400", "--lr", "4e-3"]
SHORT = [*SHAPE, "--batch-size", "16", "--epochs", "6", "--epoch-rows", "320", "--dropout", "0.1"]


def untrained(folder, **changed):
    """The checkpoint of a model that has not learned anything."""
    settings = {"scheme": "place_value", "order": "reversed", "seed": 1, "d_model": 16, "num_heads": 2}
    settings |= {"num_layers": 1, "d_ff": 16, "dropout": 0.0, **changed}
    torch.manual_seed(0)
    content = {"kind": KIND, "settings": settings, "model": build(settings).state_dict()}
    checkpoint.save(folder / "model.pth", content)
    return folder / "model.pth"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sums of numbers of at most four digits."""
    folder = tmp_path_factory.mktemp("text") / "data"
    generate(folder, {"train": 8000, "val": 200, "test": 500}, max_digits=4)
    return folder


def command(data, output, *flags) -> list[str]:
    return [sys.executable, str(ROOT / TRAIN), "--data-dir", str(data), "--output-dir", str(output), *flags]


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "results"
    subprocess.run(command(data, folder, *TINY), check=True, capture_output=True)
    return folder


def test_a_tiny_model_learns_to_add(trained, data):
    log = json.loads((trained / "training_log.json").read_text())
    assert log["test_acc"] > 0.97 and len(log["val_acc"]) == 8 and log["config"]["scheme"] == "place_value"
    model = calculator.load(trained / "best_model.pth")
    pairs = load_or_generate(data)["test"]
    right = sum(calculator.is_right(pair, found) for pair, found in zip(pairs, model.predict(pairs), strict=True))
    assert right / len(pairs) == pytest.approx(log["test_acc"])  # greedy decoding is what the log says


def test_it_adds_numbers_far_longer_than_any_it_saw(trained, monkeypatch):
    monkeypatch.setattr(calculator, "POSITIONS_AT_ONCE", 100)  # several batches
    model = calculator.load(trained / "best_model.pth")
    assert model.add(12, 30) == 42
    pairs = [(10**60, 7), (3, 10**30), (0, 0), (111, 222 * 10**40), (5, 6)]
    assert model.add_many(pairs) == [a + b for a, b in pairs]
    found = model.predict([("12", "30")])[0]
    assert found.text == "42" and len(found.margins) == 3 and min(found.margins) > 0
    for wrong in (-5, "7", True):
        with pytest.raises(ValueError, match="whole numbers"):
            model.add(wrong, 5)


def test_interrupted_and_resumed_ends_in_the_same_bits(data, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(data, whole, *SHORT), check=True, capture_output=True)
    running = subprocess.Popen(command(data, broken, *SHORT), stdout=subprocess.DEVNULL)
    while not (broken / "last.pth").exists():
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert not (broken / "training_log.json").exists()
    resumed = subprocess.run(command(data, broken, *SHORT, "--resume"), check=True, capture_output=True, text=True)
    assert "resuming after epoch" in resumed.stdout
    one, other = (torch.load(folder / "best_model.pth", weights_only=True)["model"] for folder in (whole, broken))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_two_processes_share_every_batch(data, tmp_path):
    """The same loss as one process, but for the order in which numbers are added up."""
    flags = [*SHORT[:-2], "--epochs", "1"]
    subprocess.run(command(data, tmp_path / "one", *flags), check=True, capture_output=True)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    _, *script = command(data, tmp_path / "two", *flags)
    result = subprocess.run([sys.executable, *torchrun, *script], capture_output=True, env={**os.environ})
    assert result.returncode == 0, result.stderr
    one, two = (json.loads((tmp_path / name / "training_log.json").read_text()) for name in ("one", "two"))
    assert two["train_loss"] == pytest.approx(one["train_loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--scheme", "place_value", "--order", "plain"], ["units first"]),
        (["--scheme", "places"], ["places must be one of place_value"]),
        (["--d-model", "31"], ["--num-heads 2"]),
        (["--num-layers", "2"], ["place_value has one layer"]),
        (["--data-dir", "typo"], ["typo/train.json does not exist"]),
    ],
)
def test_impossible_settings_are_one_sentence(refused, tmp_path, flags, words):
    refused(TRAIN, "--output-dir", tmp_path, *flags, words=words)


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "none"])
def test_classic_schemes_are_decoded_and_scored_alike(scheme, tmp_path):
    """Teacher-forced exact match and greedy decoding agree for models of characters too."""
    model = calculator.load(untrained(tmp_path, scheme=scheme, order="plain"))
    pairs = [("12", "7"), ("999", "1"), ("0", "0")]
    together, alone = model.predict(pairs), [model.predict([pair])[0] for pair in pairs]
    for pair, one, other in zip(pairs, together, alone, strict=True):
        shortest = min(len(one.text), len(other.text))
        assert one.text[:shortest] == other.text[:shortest]  # padding changes nothing
        assert not calculator.is_right(pair, one)
    assert lengths.exact_match(model.model, model.settings, pairs)["right"] == 0


def test_a_sum_longer_than_the_positions_of_a_model_is_refused(tmp_path):
    model = calculator.load(untrained(tmp_path, scheme="learned"))
    with pytest.raises(UserError, match="2,100 characters, and the sum has 3,007"):
        model.predict([("1" * 3000, "2")])


# --- analyze.py --------------------------------------------------------------------------------------------------


@pytest.fixture
def small_proof(monkeypatch):
    monkeypatch.setattr(
        proof, "run", partial(proof.run, digits=(0, 1, 9), far=60, exp_step=4096)
    )  # the whole takes a minute


def run_analysis(path, data, folder) -> None:
    analyze.main(analyze.Settings(path, data, folder, num_samples=50))


def test_analyze_writes_what_it_promises_and_prints_findings(trained, data, tmp_path, small_proof, capsys):
    run_analysis(trained / "best_model.pth", data, tmp_path)
    names = ("proof", "heads", "lengths")
    proven, heads, measured = (json.loads((tmp_path / f"{name}.json").read_text()) for name in names)
    assert (tmp_path / "proof.png").exists() and (tmp_path / "heads.png").exists()
    assert proven["covered"] == proven["local_contexts"] == 1444 and proven["seed"] == 1
    assert proven["proven"] == (proven["failures"] == 0)
    assert len(heads["heads"]) == 12 and heads["all_heads"]["share"] > 0.9
    assert min(head["exact_match_without"]["share"] for head in heads["heads"].values()) < 0.5
    assert measured["lengths"]["8"]["random"]["share"] > 0.9 and measured["in_all"]["of"] > 1000
    lines = capsys.readouterr().out.splitlines()
    assert "1,444 local contexts" in lines[0] and lines[0].endswith("proof.json")
    assert lines[1].startswith("12 heads; without ") and lines[1].endswith("heads.json")
    assert f"{measured['in_all']['right']:,} of {measured['in_all']['of']:,} sums right" in lines[2]

    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.name != "analysis_timing.json"}
    run_analysis(trained / "best_model.pth", data, tmp_path)
    assert len(before) == 6 and all(path.read_bytes() == content for path, content in before.items())


def test_a_classic_model_is_measured_at_its_lengths(data, tmp_path, capsys):
    run_analysis(untrained(tmp_path, scheme="sinusoidal"), data, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").glob("*.json")} == {"lengths.json", "analysis_timing.json"}
    assert "no proof and no heads" in capsys.readouterr().out


@pytest.mark.parametrize("precision", calculator.PRECISIONS)
def test_long_sums_are_written_and_compared_with_the_right_ones(tmp_path, monkeypatch, precision):
    """In this process, with a model whose every symbol is 1: right are the sums of nothing but ones, none of these."""
    path = untrained(tmp_path)
    content = torch.load(path, weights_only=True)
    content["model"]["output.bias"][1] = 100.0
    checkpoint.save(path, content)
    pairs = [("1" * 20, "0"), ("2" * 20, "0")]
    monkeypatch.setattr(scaling, "random_pairs", lambda *_: pairs[:1])
    monkeypatch.setattr(scaling, "chain_pairs", lambda *_: pairs[1:])
    exact, cost = scaling.measure(path, 20, 2, precision)
    assert exact["right"] == 0 and exact["of"] == 2 and exact["smallest_margin"] > 50
    assert cost["seconds"] > 0
    monkeypatch.setattr(scaling, "encode_answers", lambda *_: torch.tensor([[1] * 22, [2] * 22]))
    assert scaling.measure(path, 20, 2, precision)[0]["right"] == 1


def test_scaling_writes_numbers_figure_and_cost(trained, tmp_path, script):
    result = script("problem1/text/scaling.py", "--model-path", trained / "best_model.pth", "--output-dir", tmp_path,
                    "--largest", "1000", "--sums", "2")  # fmt: skip
    assert result.returncode == 0, result.stderr
    found, cost = (json.loads((tmp_path / name).read_text()) for name in ("scaling.json", "scaling_timing.json"))
    (size,) = found["sizes"]
    assert size["digits"] == 1000 and size["of"] == 2 and 0 <= size["right"] <= 2
    assert "seconds" not in str(found) and cost["sizes"][0]["seconds"] > 0 and (tmp_path / "scaling.png").exists()


def test_scaling_is_of_place_value_models(refused, tmp_path):
    path = untrained(tmp_path, scheme="none")
    refused("problem1/text/scaling.py", "--model-path", path, "--output-dir", tmp_path, words=["of scheme none"])


@pytest.mark.parametrize("shape", lengths.SHAPES)
def test_shapes_are_sums(shape):
    pairs = lengths.SHAPES[shape]()
    assert len(pairs) >= 50
    assert all(number == "0" or (number.isdigit() and number[0] != "0") for pair in pairs for number in pair)
    assert right_answer(pairs[0]) == str(int(pairs[0][0]) + int(pairs[0][1]))
