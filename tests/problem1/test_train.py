"""train.py as its users run it: real processes, killed, resumed, and given nonsense."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

import problem1.train
from lab import checkpoint
from lab.files import UserError
from lab.settings import parse
from problem1.dataset import Sums
from tests.conftest import ROOT, works

TINY = ["--epochs=6", "--batch-size=16", "--d-model=16", "--d-ff=16", "--num-heads=2", "--num-layers=1"]
TINY += ["--dropout=0.1", "--device=cpu", "--seed=3"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "data"
    sizes = ["--num-digits", 2, "--train-size", 64, "--val-size", 16, "--test-size", 16]
    works("problem1/generate_data.py", *sizes, "--output-dir", folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """The folder of a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    train(data, folder)
    return folder


def train(data, folder, *more, **keywords) -> str:
    return works("problem1/train.py", *TINY, "--data-dir", data, "--output-dir", folder, *more, **keywords)


def weights(folder) -> dict:
    return torch.load(folder / "best_model.pth", weights_only=True)["model"]


def check_same_run(undisturbed, folder) -> None:
    whole, parts = weights(undisturbed), weights(folder)
    assert whole.keys() == parts.keys() and all(torch.equal(whole[name], parts[name]) for name in whole)
    whole, parts = (json.loads((path / "training_log.json").read_text()) for path in (undisturbed, folder))
    for name in ("train_loss", "train_acc", "val_loss", "val_acc", "test_loss", "test_acc", "best_epoch", "config"):
        assert whole[name] == parts[name], name
    assert not list(folder.glob(".*.tmp"))


@pytest.mark.parametrize(("stop", "epoch"), [(signal.SIGKILL, 5), (signal.SIGINT, 2)])
def test_stopped_and_resumed_ends_in_the_same_bits(data, undisturbed, tmp_path, stop, epoch):
    """Killed somewhere in the next epoch or while its checkpoint is written; Ctrl-C says how to go on."""
    process = subprocess.Popen(
        [sys.executable, ROOT / "problem1/train.py", *TINY, "--data-dir", data, "--output-dir", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
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
        assert process.returncode == 130 and "--resume" in errors and "Traceback" not in errors, errors
    for path in tmp_path.glob("*.pth"):
        checkpoint.load(path, "problem1/digits")
    train(data, tmp_path, "--resume")
    check_same_run(undisturbed, tmp_path)


def test_missing_data_in_the_default_folder_is_generated(tmp_path):
    """`cd problem1 && python train.py` in a fresh clone."""
    clone = tmp_path / "clone"
    for name in ("lab", "problem1"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("data", "results", "__pycache__"))
    train_py = clone / "problem1/train.py"
    said = works(train_py, *TINY, "--epochs", 1, "--batch-size", 5000, cwd=train_py.parent)
    assert "generating it" in said and "25 of the 2,000 pairs" in said
    assert (clone / "problem1/data/train.json").exists() and (clone / "problem1/results/training_log.json").exists()


def test_one_digit_sums_in_folders_named_from_where_the_user_stands(tmp_path):
    """All test pairs can have been seen in training: nothing is said of others."""
    sizes = ["--num-digits", 1, "--train-size", 81, "--val-size", 20, "--test-size", 20]
    works("problem1/generate_data.py", *sizes, "--output-dir", "data", cwd=tmp_path)
    assert "nan" not in train("data", "out", "--epochs", 1, cwd=tmp_path)
    assert (tmp_path / "out/best_model.pth").exists()


def test_the_bits_do_not_depend_on_the_number_of_cores(data, undisturbed, tmp_path):
    train(data, tmp_path, env={"OMP_NUM_THREADS": "2"})
    check_same_run(undisturbed, tmp_path)


def test_rows_weighted_beyond_what_can_be_drawn_are_refused():
    nines = Sums(torch.tensor([[4] * 30 + [10] + [5] * 30]), torch.tensor([[0] + [9] * 30]))
    with pytest.raises(UserError, match="--hard-weight 1000 is too large for 30 digits"):
        problem1.train.make_task({"train": nines, "val": nines, "test": nines}, 1000)


def test_impossible_flags(refused, tmp_path):
    width = ["--d-model", 30, "--num-heads", 4]
    refused("problem1/train.py", *width, words=["--d-model 30", "--num-heads 4", "multiple"])
    refused("problem1/train.py", "--data-dir", "typo", words=["typo", "does not exist"])
    assert not (tmp_path / "typo").exists()


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


def test_what_is_printed_as_the_next_command_works_as_printed(data, tmp_path):
    """From another folder, with another output folder: the model that was trained is analysed, and no other."""
    (tmp_path / "my run").mkdir()
    said = train(data, "my run", "--epochs=1", cwd=tmp_path)
    words = shlex.split(said.splitlines()[-1].partition("next: ")[2])
    assert words[0] == "python" and words[2:] == [
        *("--model-path", "my run/best_model.pth"),
        *("--output-dir", "my run"),
        *("--data-dir", os.path.relpath(data, tmp_path)),
    ]
    command = [sys.executable, *words[1:], "--examples", "45+55"]  # the same, but short
    assert "45+55 = " in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240).stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lr", "0"], "at least 1e-06"),
        (["--lr", "1e9"], "at most 1"),
        (["--seed", "9223372036854775808"], "--seed"),
        (["--seed", "1" * 31], "--seed"),
        (["--num-layers", "1000000"], "--num-layers"),
        (["--d-model", "10000000"], "--d-model"),
        (["--d-ff", "10000000"], "--d-ff"),
        (["--epochs", "1" + "0" * 100], "--epochs"),
        (["--batch-size", "1" + "0" * 30], "--batch-size"),
        (["--hard-weight", "1e300"], "--hard-weight"),
        (["--device", "meta"], "--device meta"),
    ],
)
def test_flags_out_of_any_sense_are_one_sentence(flags, words, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=words):
        problem1.train.main(parse(problem1.train.Settings, "", ["--output-dir", str(tmp_path / "out"), *flags]))
    assert not (tmp_path / "out").exists()
