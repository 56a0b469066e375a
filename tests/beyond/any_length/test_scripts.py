"""train.py and analyze.py on a tiny version of the task, as users run them; and a trained model on sums."""

import json
import sys
from functools import partial

import pytest

from beyond.any_length import analyze, lengths, proof, scaling
from beyond.any_length.checkpoint import load_model, predict
from beyond.any_length.dataset import chain_pairs, encode, generate, load_or_generate, random_pairs
from lab.files import UserError
from tests.conftest import works

TRAIN = "beyond/any_length/train.py"
TINY = "--d-model 32 --num-heads 4 --d-ff 64 --epochs 8 --lr 4e-3 --device cpu --seed 1"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sums of numbers of at most four digits."""
    folder = tmp_path_factory.mktemp("text") / "data"
    generate(folder, {"train": 8000, "val": 200, "test": 500}, max_digits=4)
    return folder


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "results"
    works(TRAIN, "--data-dir", data, "--output-dir", folder, *TINY.split())
    return folder


def test_a_tiny_model_learns_to_add(trained, data):
    log = json.loads((trained / "training_log.json").read_text())
    assert log["test_acc"] > 0.97 and len(log["val_acc"]) == 8
    model, _ = load_model(trained / "best_model.pth")
    pairs = load_or_generate(data)["test"]
    right = sum(found.is_right(pair) for pair, found in zip(pairs, predict(model, pairs), strict=True))
    assert right / len(pairs) == pytest.approx(log["test_acc"])  # greedy decoding is what the log says


def test_it_adds_numbers_far_longer_than_any_it_saw(trained):
    model, _ = load_model(trained / "best_model.pth")
    pairs = [("12", "30"), ("1" + "0" * 60, "7"), ("3", "1" + "0" * 30), ("0", "0"), ("111", "222" + "0" * 40)]
    found = predict(model, pairs)
    assert all(prediction.is_right(pair) for pair, prediction in zip(pairs, found, strict=True))
    assert found[0].text == "42" and len(found[0].margins) == 3 and min(found[0].margins) > 0


def test_a_width_that_cannot_be_split_is_one_sentence(refused, tmp_path):
    refused(TRAIN, "--output-dir", tmp_path, "--d-model", "31", words=["--num-heads 2"])


# --- analyze.py --------------------------------------------------------------------------------------------------


@pytest.fixture
def small_proof(monkeypatch):
    """The whole takes a minute."""
    monkeypatch.setattr(proof, "run", partial(proof.run, digits=(0, 1, 9), far=60, exp_step=4096))


def test_analyze_writes_what_it_promises_and_prints_findings(trained, tmp_path, small_proof, capsys):
    settings = analyze.Settings(trained / "best_model.pth", tmp_path, num_samples=50)
    analyze.main(settings)
    proven, measured = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("proof", "lengths"))
    assert (tmp_path / "proof.png").exists()
    assert proven["covered"] == proven["local_contexts"] == 1444 and proven["seed"] == 1
    assert proven["proven"] == (proven["failures"] == 0)
    assert measured["lengths"]["8"]["random"]["share"] > 0.9 and measured["in_all"]["of"] > 1000
    lines = capsys.readouterr().out.splitlines()
    assert "1,444 local contexts" in lines[0] and lines[0].endswith("proof.json")
    assert f"{measured['in_all']['right']:,} of {measured['in_all']['of']:,} sums right" in lines[1]

    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.name != "analysis_timing.json"}
    analyze.main(settings)
    assert len(before) == 4 and all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_long_sums_are_compared_with_the_right_ones(trained, monkeypatch, precision):
    path = trained / "best_model.pth"
    pairs = random_pairs(20, 3, 20) + chain_pairs(20, 3, 20)
    right = [found.is_right(pair) for pair, found in zip(pairs, predict(load_model(path)[0], pairs), strict=True)]
    exact, cost = scaling.measure(path, 20, 6, precision)
    assert exact["right"] == sum(right) > 0 and exact["of"] == 6 and cost["seconds"] > 0
    monkeypatch.setattr(scaling, "encode", lambda pairs: encode(pairs[::-1]))
    assert scaling.measure(path, 20, 6, precision)[0]["right"] == 0


def test_scaling_writes_numbers_and_cost(trained, tmp_path):
    model = ["--model-path", trained / "best_model.pth", "--output-dir", tmp_path]
    works("beyond/any_length/scaling.py", *model, "--largest", 1000, "--sums", 2)
    found, cost = (json.loads((tmp_path / name).read_text()) for name in ("scaling.json", "scaling_timing.json"))
    (size,) = found["sizes"]
    assert size["digits"] == 1000 and size["of"] == 2 and 0 <= size["right"] <= 2
    assert "seconds" not in str(found) and cost["sizes"][0]["seconds"] > 0


@pytest.mark.parametrize("shape", lengths.SHAPES)
def test_shapes_are_sums_of_numbers_without_leading_zeros(shape):
    pairs = lengths.SHAPES[shape]()
    assert len(pairs) >= 50 and all(str(int(number)) == number for pair in pairs for number in pair)


def test_where_memory_cannot_be_measured_scaling_says_so(monkeypatch):
    """As on Windows."""
    monkeypatch.setattr(scaling.Path, "exists", lambda path: False)
    monkeypatch.setitem(sys.modules, "resource", None)
    with pytest.raises(UserError, match="run it on Linux or macOS"):
        scaling.main(scaling.Settings())
