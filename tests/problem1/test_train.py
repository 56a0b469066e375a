"""train.py as its users run it: real processes, killed, resumed, given nonsense, and shared among processes."""

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

TINY = [
    "--epochs",
    "6",
    "--batch-size",
    "16",
    "--d-model",
    "16",
    "--d-ff",
    "16",
    "--num-heads",
    "2",
    "--num-layers",
    "1",
]
TINY += ["--dropout", "0.1", "--device", "cpu", "--seed", "3"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "data"
    sizes = ["--num-digits", "2", "--train-size", "64", "--val-size", "16", "--test-size", "16"]
    command = [sys.executable, str(ROOT / "problem1/generate_data.py"), *sizes, "--output-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """The folder of a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    subprocess.run(command(data, folder), check=True, capture_output=True, env=one_thread())
    return folder


def one_thread() -> dict:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def command(data, folder, *more) -> list[str]:
    script = str(ROOT / "problem1/train.py")
    return [sys.executable, script, *TINY, "--data-dir", str(data), "--output-dir", str(folder), *more]


def weights(folder) -> dict:
    return torch.load(folder / "best_model.pth", weights_only=True)["model"]


def same(first: dict, second: dict) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def finish(data, folder) -> None:
    result = subprocess.run(command(data, folder, "--resume"), capture_output=True, text=True, env=one_thread())
    assert result.returncode == 0, result.stderr


def check_same_run(undisturbed, folder) -> None:
    assert same(weights(undisturbed), weights(folder))
    whole, parts = (json.loads((path / "training_log.json").read_text()) for path in (undisturbed, folder))
    for name in ("train_loss", "train_acc", "val_loss", "val_acc", "test_loss", "test_acc", "best_epoch", "config"):
        assert whole[name] == parts[name], name
    assert not list(folder.glob(".*.tmp"))


@pytest.mark.parametrize("epoch", [1, 3, 5])
def test_killed_and_resumed_ends_in_the_same_bits(data, undisturbed, tmp_path, epoch):
    process = subprocess.Popen(
        command(data, tmp_path), stdout=subprocess.PIPE, text=True, env={**one_thread(), "PYTHONUNBUFFERED": "1"}
    )
    for line in process.stdout:
        if line.startswith(f"epoch   {epoch}/"):
            time.sleep(0.004 * epoch)  # somewhere in the next epoch, or while its checkpoint is written
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    for path in tmp_path.glob("*.pth"):
        checkpoint.load(path, "problem1/digits")
    finish(data, tmp_path)
    check_same_run(undisturbed, tmp_path)


@pytest.mark.parametrize(("call", "moment"), [(1, "before"), (4, "half"), (7, "half"), (8, "before")])
def test_killed_while_a_checkpoint_is_being_written(data, undisturbed, tmp_path, call, moment):
    """The process kills itself in its `call`-th write: before the rename, or with half of the file written."""
    killer = f"""
import os, runpy, signal, sys
calls, fsync = 0, os.fsync
def deadly(descriptor):
    global calls
    calls += 1
    if calls == {call}:
        if {moment!r} == "half":
            os.truncate(descriptor, os.fstat(descriptor).st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)
os.fsync = deadly
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    full = command(data, tmp_path)
    died = subprocess.run([sys.executable, "-c", killer, *full[1:]], capture_output=True, env=one_thread())
    assert died.returncode == -signal.SIGKILL
    for path in tmp_path.glob("*.pth"):
        checkpoint.load(path, "problem1/digits")
    finish(data, tmp_path)
    check_same_run(undisturbed, tmp_path)


def test_ctrl_c_says_how_to_go_on(data, undisturbed, tmp_path):
    process = subprocess.Popen(
        command(data, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**one_thread(), "PYTHONUNBUFFERED": "1"},
        # A suite that was itself started in the background ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in process.stdout:
        if line.startswith("epoch   2/"):
            process.send_signal(signal.SIGINT)
            break
    rest, errors = process.communicate()
    assert process.returncode == 2 and "--resume" in errors and "Traceback" not in errors, rest + errors
    finish(data, tmp_path)
    check_same_run(undisturbed, tmp_path)


def test_two_processes_share_each_batch_and_reach_the_same(data, tmp_path):
    """Without dropout the two gradients add up to the one; all files are written once."""
    flags = ["--dropout", "0", "--epochs", "2"]
    alone, together = tmp_path / "one", tmp_path / "two"
    subprocess.run(command(data, alone, *flags), check=True, capture_output=True, env=one_thread())
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    result = subprocess.run(
        [*launch, *command(data, together, *flags)[1:]], capture_output=True, text=True, env=one_thread()
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("epoch   1/2") == 1 and result.stdout.count("test:") == 1
    first, second = weights(alone), weights(together)
    for name in first:
        # A key's bias shifts all scores of a query alike, which softmax ignores: its gradient is rounding error only.
        if not name.endswith("key.bias"):
            torch.testing.assert_close(first[name], second[name], atol=2e-4, rtol=1e-3)
    log = json.loads((together / "training_log.json").read_text())
    assert json.loads((together / "timing.json").read_text())["processes"] == 2
    assert log["val_loss"] == pytest.approx(json.loads((alone / "training_log.json").read_text())["val_loss"], rel=1e-3)


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


def test_a_data_folder_that_was_mistyped_is_an_error(refused, tmp_path):
    refused("problem1/train.py", "--data-dir", tmp_path / "typo", words=["typo", "does not exist"])
    assert not (tmp_path / "typo").exists()


def test_one_digit_sums(tmp_path, script):
    """All test pairs can have been seen in training: nothing is said of others."""
    sizes = ["--num-digits", 1, "--train-size", 81, "--val-size", 20, "--test-size", 20]
    assert script("problem1/generate_data.py", *sizes, "--output-dir", "data").returncode == 0
    result = script("problem1/train.py", *TINY, "--epochs", 1, "--data-dir", "data", "--output-dir", "out")
    assert result.returncode == 0 and "nan" not in result.stdout, result.stdout + result.stderr


def test_a_finished_run_is_not_lost(data, tmp_path):
    subprocess.run(command(data, tmp_path), check=True, capture_output=True)
    first = weights(tmp_path)
    again = subprocess.run(command(data, tmp_path, "--seed", "4"), check=True, capture_output=True, text=True)
    assert "previous" in again.stdout and same(first, weights(tmp_path / "previous"))
    assert not same(first, weights(tmp_path))


@pytest.mark.parametrize("threads", ["1", "2", None])
def test_the_bits_do_not_depend_on_the_number_of_cores(data, undisturbed, tmp_path, threads):
    env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    env |= {"OMP_NUM_THREADS": threads} if threads else {}
    subprocess.run(command(data, tmp_path), check=True, capture_output=True, env=env)
    check_same_run(undisturbed, tmp_path)


def test_paths_are_where_the_user_stands(tmp_path, script, data):
    result = script("problem1/train.py", *TINY, "--epochs", 1, "--data-dir", data, "--output-dir", "here")
    assert result.returncode == 0 and (tmp_path / "here/best_model.pth").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--epochs", "0"], ["--epochs", "at least 1"]),
        (["--batch-size", "-3"], ["--batch-size", "at least 1"]),
        (["--lr", "fast"], ["--lr", "not a number"]),
        (["--d-model", "30", "--num-heads", "4"], ["--d-model 30", "--num-heads 4", "multiple"]),
        (["--dropout", "1"], ["--dropout", "at most 0.9"]),
        (["--device", "abacus"], ["--device abacus"]),
        (["--speed", "9"], ["--speed"]),
    ],
)
def test_impossible_flags(refused, flags, words):
    refused("problem1/train.py", *flags, words=words)


def run_seeds(tmp_path, monkeypatch, flags) -> dict:
    values = dict(zip([flag[2:].replace("-", "_") for flag in TINY[::2]], TINY[1::2], strict=True))
    values = {name: float(value) if "." in value else int(value) for name, value in values.items() if name != "device"}
    runs = {name: seeds.Run("tiny", values | flags | {"seed": number}, 2, 64) for number, name in enumerate("ab")}
    monkeypatch.setattr(seeds, "RUNS", runs)
    monkeypatch.setattr(seeds, "DATA", tmp_path / "data")
    seeds.main(seeds.Settings(("a", "b"), tmp_path))
    return json.loads((tmp_path / "robustness.json").read_text())["runs"]


def test_seeds_are_trained_once_and_again_with_other_settings(tmp_path, monkeypatch, capfd):
    found = run_seeds(tmp_path, monkeypatch, {})
    assert [*found] == ["a", "b"] and found["a"]["pairs"] == 8100 and found["a"]["steps"] == 24
    assert str(tmp_path) not in json.dumps(found)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("seeds/*/best_model.pth")}
    assert run_seeds(tmp_path, monkeypatch, {}) == found and len(stamps) == 2
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}
    changed = run_seeds(tmp_path, monkeypatch, {"epochs": 2})
    assert changed["a"]["steps"] == 8 and changed["a"]["smallest_margin"] != found["a"]["smallest_margin"]


def test_seeds_of_longer_numbers_are_measured_on_random_and_on_hard_pairs(tmp_path, monkeypatch, capfd):
    flags = {"epochs": 1, "batch_size": 16, "d_model": 8, "num_heads": 1, "num_layers": 1, "d_ff": 8}
    shares = {"plain": 0.0, "hard": 1.0}
    runs = {name: seeds.Run(name, flags, 4, 40, hard_share=share, samples=500) for name, share in shares.items()}
    monkeypatch.setattr(seeds, "RUNS", runs)
    monkeypatch.setattr(seeds, "DATA", tmp_path / "data")
    seeds.main(seeds.Settings(("hard",), tmp_path))
    seeds.main(seeds.Settings(("plain",), tmp_path))
    found = json.loads((tmp_path / "robustness.json").read_text())["runs"]
    assert [*found] == ["plain", "hard"] and found["plain"]["config"]["data"] != found["hard"]["config"]["data"]
    for result in found.values():
        assert not result["exhaustive"] and result["pairs"] == 500 and result["hard"]["pairs"] == 100
        assert result["hard"]["errors"] > 90 and "the model writes" in result["hard"]["wrong_sums"][0]
    assert "wrong of       100 hard pairs" in capfd.readouterr().out


def test_broken_data_is_named(refused, tmp_path, data):
    for name in ("train", "val"):
        (tmp_path / f"{name}.json").write_text((data / f"{name}.json").read_text())
    refused(
        "problem1/train.py",
        "--data-dir",
        tmp_path,
        words=[tmp_path / "test.json", "does not exist", "generate_data.py"],
    )
    (tmp_path / "test.json").write_text('[{"input": [3, 12, 10, 1, 5], "target": [0, 4, 6]}]')
    refused("problem1/train.py", "--data-dir", tmp_path, words=["test.json, row 1", "12"])
    (tmp_path / "test.json").write_text('[{"input": [3, 4, 7, 10, 1, 5, 9], "target": [0, 5, 0, 6]}]')
    refused("problem1/train.py", "--data-dir", tmp_path, words=["operands of 3 digits", "generate_data.py"])


def test_an_output_folder_that_cannot_be_one(refused, tmp_path, data):
    (tmp_path / "file").write_text("")
    refused("problem1/train.py", *TINY, "--data-dir", data, "--output-dir", tmp_path / "file", words=["--output-dir"])


def test_a_full_disk_ends_in_one_sentence_and_no_torn_file(tmp_path, data):
    limited = ["bash", "-c", 'ulimit -f 8; trap "" XFSZ; exec "$@"', "bash"]  # files of at most 8 KiB
    result = subprocess.run(
        [*limited, *command(data, tmp_path / "out")], capture_output=True, text=True, env=one_thread()
    )
    assert result.returncode == 2 and "cannot be written" in result.stderr and "Traceback" not in result.stderr
    assert not list((tmp_path / "out").glob("*.pth")) and not list((tmp_path / "out").glob("*.tmp"))


def test_a_loss_that_explodes(refused, tmp_path, data):
    line = refused(
        "problem1/train.py", *TINY, "--lr", "1e30", "--data-dir", data, "--output-dir", tmp_path / "out",
        words=["no longer finite", "lower --lr"],
    )  # fmt: skip
    assert "epoch" in line


def test_help_teaches(script):
    result = script("problem1/train.py", "--help")
    assert result.returncode == 0
    for word in ("--resume", "torchrun", "exact match", "(default: 64)", "rows in a step"):
        assert word in result.stdout
