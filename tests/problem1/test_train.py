"""train.py as its users run it: real processes, killed, resumed, and given nonsense."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from lab import checkpoint
from problem1 import seeds
from tests.conftest import ROOT

TINY = ["--epochs=6", "--batch-size=16", "--d-model=16", "--d-ff=16", "--num-heads=2", "--num-layers=1"]
TINY += ["--dropout=0.1", "--device=cpu", "--seed=3"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "data"
    sizes = ["--num-digits=2", "--train-size=64", "--val-size=16", "--test-size=16"]
    make = [sys.executable, str(ROOT / "problem1/generate_data.py"), *sizes, "--output-dir", str(folder)]
    subprocess.run(make, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """The folder of a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    train(data, folder)
    return folder


def command(data, folder, *more) -> list[str]:
    script = str(ROOT / "problem1/train.py")
    return [sys.executable, script, *TINY, "--data-dir", str(data), "--output-dir", str(folder), *more]


def train(data, folder, *more, env=ONE_THREAD) -> str:
    result = subprocess.run(command(data, folder, *more), capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stderr
    return result.stdout


def weights(folder) -> dict:
    return torch.load(folder / "best_model.pth", weights_only=True)["model"]


def same(first: dict, second: dict) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def check_same_run(undisturbed, folder) -> None:
    assert same(weights(undisturbed), weights(folder))
    whole, parts = (json.loads((path / "training_log.json").read_text()) for path in (undisturbed, folder))
    for name in ("train_loss", "train_acc", "val_loss", "val_acc", "test_loss", "test_acc", "best_epoch", "config"):
        assert whole[name] == parts[name], name
    assert not list(folder.glob(".*.tmp"))


@pytest.mark.parametrize(("stop", "epoch"), [(signal.SIGKILL, 1), (signal.SIGKILL, 5), (signal.SIGINT, 2)])
def test_stopped_and_resumed_ends_in_the_same_bits(data, undisturbed, tmp_path, stop, epoch):
    """Killed somewhere in the next epoch or while its checkpoint is written; Ctrl-C says how to go on."""
    process = subprocess.Popen(
        command(data, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
        # A suite that was itself started in the background ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in process.stdout:
        if line.startswith(f"epoch   {epoch}/"):
            time.sleep(0.004 * epoch * (stop == signal.SIGKILL))
            process.send_signal(stop)
            break
    _, errors = process.communicate()
    if stop == signal.SIGINT:
        assert process.returncode == 2 and "--resume" in errors and "Traceback" not in errors, errors
    for path in tmp_path.glob("*.pth"):
        checkpoint.load(path, "problem1/digits")
    train(data, tmp_path, "--resume")
    check_same_run(undisturbed, tmp_path)


def test_missing_data_in_the_default_folder_is_generated(tmp_path):
    """`cd problem1 && python train.py` in a fresh clone."""
    clone = tmp_path / "clone"
    for name in ("lab", "problem1"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("data", "results", "__pycache__"))
    flags = [*TINY, "--epochs", "1", "--batch-size", "5000"]
    result = subprocess.run(
        [sys.executable, "train.py", *flags], cwd=clone / "problem1", capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "generating it" in result.stdout and "25 of the 2,000 pairs" in result.stdout
    assert (clone / "problem1/data/train.json").exists() and (clone / "problem1/results/training_log.json").exists()


def test_one_digit_sums_in_folders_named_from_where_the_user_stands(tmp_path, script):
    """All test pairs can have been seen in training: nothing is said of others."""
    sizes = ["--num-digits", 1, "--train-size", 81, "--val-size", 20, "--test-size", 20]
    assert script("problem1/generate_data.py", *sizes, "--output-dir", "data").returncode == 0
    result = script("problem1/train.py", *TINY, "--epochs", 1, "--data-dir", "data", "--output-dir", "out")
    assert result.returncode == 0 and "nan" not in result.stdout, result.stdout + result.stderr
    assert (tmp_path / "out/best_model.pth").exists()


def test_a_finished_run_is_not_lost(data, tmp_path):
    train(data, tmp_path)
    first = weights(tmp_path)
    assert "previous" in train(data, tmp_path, "--seed", "4") and same(first, weights(tmp_path / "previous"))
    assert not same(first, weights(tmp_path))


@pytest.mark.parametrize("threads", ["2", None])
def test_the_bits_do_not_depend_on_the_number_of_cores(data, undisturbed, tmp_path, threads):
    env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    train(data, tmp_path, env=env | ({"OMP_NUM_THREADS": threads} if threads else {}))
    check_same_run(undisturbed, tmp_path)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--d-model", "30", "--num-heads", "4"], ["--d-model 30", "--num-heads 4", "multiple"]),
        (["--device", "abacus"], ["--device abacus"]),
        (["--speed", "9"], ["--speed"]),
        (["--data-dir", "typo"], ["typo", "does not exist"]),
    ],
)
def test_impossible_flags(refused, tmp_path, flags, words):
    refused("problem1/train.py", *flags, words=words)
    assert not (tmp_path / "typo").exists()


@pytest.fixture
def run_seeds(tmp_path, monkeypatch, capfd):
    """seeds.py on such runs instead of its own: what it writes, and what it prints."""

    def run(runs: dict, names) -> tuple[dict, str]:
        monkeypatch.setattr(seeds, "RUNS", runs)
        monkeypatch.setattr(seeds, "DATA", tmp_path / "data")
        seeds.main(seeds.Settings(tuple(names), tmp_path))
        return json.loads((tmp_path / "robustness.json").read_text())["runs"], capfd.readouterr().out

    return run


SMALLEST = {"epochs": 2, "batch_size": 16, "d_model": 8, "num_heads": 1, "num_layers": 1, "d_ff": 8}


def test_seeds_are_trained_once_and_again_with_other_settings(tmp_path, run_seeds):
    runs = {name: seeds.Run("tiny", SMALLEST | {"seed": number}, 2, 64) for number, name in enumerate("ab")}
    found, _ = run_seeds(runs, runs)
    assert [*found] == ["a", "b"] and found["a"]["pairs"] == 8100 and found["a"]["steps"] == 8
    assert str(tmp_path) not in json.dumps(found)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("seeds/*/best_model.pth")}
    assert run_seeds(runs, runs)[0] == found and len(stamps) == 2
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}
    runs = {name: seeds.Run("tiny", run.flags | {"epochs": 1}, 2, 64) for name, run in runs.items()}
    changed, _ = run_seeds(runs, runs)
    assert changed["a"]["steps"] == 4 and changed["a"]["smallest_margin"] != found["a"]["smallest_margin"]


def test_seeds_of_longer_numbers_are_measured_on_random_and_on_hard_pairs(run_seeds):
    shares = {"plain": 0.0, "hard": 1.0}
    runs = {name: seeds.Run(name, SMALLEST, 4, 40, hard_share=share, samples=500) for name, share in shares.items()}
    run_seeds(runs, ["hard"])
    found, printed = run_seeds(runs, ["plain"])
    assert [*found] == ["plain", "hard"] and found["plain"]["config"]["data"] != found["hard"]["config"]["data"]
    for result in found.values():
        assert not result["exhaustive"] and result["pairs"] == 500 and result["hard"]["pairs"] == 100
        assert result["hard"]["errors"] > 90 and "the model writes" in result["hard"]["wrong_sums"][0]
    assert "wrong of       100 hard pairs" in printed


def test_broken_data_is_named(refused, tmp_path, data):
    for name in ("train", "val"):
        shutil.copy(data / f"{name}.json", tmp_path)
    for rows, words in (
        (None, [tmp_path / "test.json", "does not exist", "generate_data.py"]),
        ('[{"input": [3, 12, 10, 1, 5], "target": [0, 4, 6]}]', ["test.json, row 1", "12"]),
        ('[{"input": [3, 4, 7, 10, 1, 5, 9], "target": [0, 5, 0, 6]}]', ["operands of 3 digits", "generate_data.py"]),
    ):
        if rows:
            (tmp_path / "test.json").write_text(rows)
        refused("problem1/train.py", "--data-dir", tmp_path, words=words)


def test_a_loss_that_explodes(refused, tmp_path, data):
    flags = [*TINY, "--lr", "1e30", "--data-dir", data, "--output-dir", tmp_path / "out"]
    refused("problem1/train.py", *flags, words=["epoch", "no longer finite", "lower --lr"])


def test_help_teaches(script):
    result = script("problem1/train.py", "--help")
    assert result.returncode == 0
    for word in ("--resume", "exact match", "(default: 64)", "rows in a step"):
        assert word in result.stdout
