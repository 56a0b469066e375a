"""The study as users start it: stopped, repeated, with other settings, shared among two machines."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["--encoding", "none", "--protocols", "strict", "--seeds", "5", "641", "--lengths", "24"]


def study(folder: Path, *flags, launcher=()) -> list[str]:
    where = ["--data-dir", str(folder / "data"), "--output-dir", str(folder / "results")]
    return [sys.executable, *launcher, str(ROOT / "problem2/study.py"), *where, *map(str, flags)]


def works(folder: Path, *flags) -> str:
    done = subprocess.run(study(folder, *flags), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    sizes = ["--train-size", "300", "--val-size", "50", "--test-size", "60"]
    sizes += ["--min-train-len", "2", "--max-train-len", "3"]  # the experiments are then on sequences of 48
    script = str(ROOT / "problem2/generate_data.py")
    subprocess.run([sys.executable, script, "--output-dir", str(folder / "data"), *sizes], check=True)
    return folder, works(folder, *FLAGS, "--epochs", 1)


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished[0], tmp_path / "copy")


def runs_of(folder: Path) -> dict[str, Path]:
    return {"641": folder / "results/strict/none", "5": folder / "results/seeds/5/strict/none"}


def test_runs_are_trained_measured_and_summed_up(finished):
    folder, said = finished
    assert "2 runs summed up" in said and "strict protocol, one swap of two neighbours" in said
    report = json.loads((folder / "results/study/study.json").read_text())
    none = report["summary"]["strict"]["none"]
    assert none["seeds"] == [5, 641] and none["sets"]["adjacent/24"]["rows"] == 500
    assert report["proofs"] == [] and report["trained_lengths"] == [2, 3]
    assert "seconds" not in json.dumps(report) and str(folder) not in json.dumps(report)
    for path in runs_of(folder).values():
        assert (path / "best_model.pth").exists() and (path / "measured.json").exists()


def test_what_is_finished_is_kept_and_what_is_not_is_made_or_resumed(folder):
    stopped, missing = runs_of(folder).values()
    measured = {seed: (path / "measured.json").read_bytes() for seed, path in runs_of(folder).items()}
    assert ": done" not in works(folder, *FLAGS, "--epochs", 1)
    for name in ("training_log.json", "measured.json"):
        (stopped / name).unlink()
    shutil.rmtree(missing)
    assert works(folder, *FLAGS, "--epochs", 1).count(": done") == 2
    assert "resuming after epoch 1" in (stopped / "measured.log").read_text()
    assert {seed: (path / "measured.json").read_bytes() for seed, path in runs_of(folder).items()} == measured


def test_other_settings_are_other_runs(folder):
    """Other epochs train again, and keep what was there; other lengths only measure again."""
    path, other = runs_of(folder).values()
    shutil.rmtree(other)
    flags = [*FLAGS, "--seeds", 641, "--epochs", 2]
    assert works(folder, *flags).count(": done") == 1
    log = json.loads((path / "training_log.json").read_text())
    measured = json.loads((path / "measured.json").read_text())
    assert len(log["val_acc"]) == 2 == measured["training"]["epochs"] == measured["settings"]["config"]["epochs"]
    assert len(json.loads((path / "previous/training_log.json").read_text())["val_acc"]) == 1
    trained = (path / "best_model.pth").stat().st_mtime_ns
    assert works(folder, *flags, "--lengths", 20).count(": done") == 1
    assert (path / "best_model.pth").stat().st_mtime_ns == trained
    assert "adjacent/20" in json.loads((path / "measured.json").read_text())["sets"]


def test_a_new_log_is_never_paired_with_an_old_measurement(folder):
    path, old = runs_of(folder)["641"], runs_of(folder)["5"]
    flags = ["--encoding", "none", "--protocol", "strict", "--data-dir", folder / "data", "--epochs", 1]
    command = [sys.executable, str(ROOT / "problem2/train.py"), *map(str, flags), "--lr", "0.001"]
    subprocess.run([*command, "--output-dir", str(path.parent)], check=True, capture_output=True)
    said = works(folder, "--only-sum-up")
    assert f"{path / 'measured.json'} is of an earlier training" in said and "1 runs summed up" in said
    assert works(folder, *FLAGS, "--epochs", 1).count(": done") == 1  # with the study's own settings again
    assert json.loads((path / "training_log.json").read_text())["config"]["lr"] == 0.003
    assert json.loads((old / "measured.json").read_text())["training"]["epochs"] == 1


def test_only_sum_up_trains_and_measures_nothing(folder, tmp_path):
    shutil.rmtree(folder / "data")
    shutil.rmtree(runs_of(folder)["5"])
    flags = ["--encoding", "rope", "--seeds", 641, "--protocols", "course", "--workers", 1]
    started = time.perf_counter()
    assert "1 runs summed up" in works(folder, *flags, "--only-sum-up")
    assert time.perf_counter() - started < 30 and not (folder / "results/rope").exists()
    done = subprocess.run(study(tmp_path, "--only-sum-up"), capture_output=True, text=True)
    assert done.returncode == 2 and "has no finished run" in done.stderr


def test_two_machines_share_the_runs(finished, tmp_path):
    shutil.copytree(finished[0] / "data", tmp_path / "data")
    launcher = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d"]
    launcher += ["--rdzv_endpoint=localhost:29633", "--rdzv_id=study"]
    command = study(tmp_path, *FLAGS, "--epochs", 1, launcher=launcher)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    nodes = [subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, **pipes) for _ in range(2)]
    said = []
    for node in nodes:
        out, errors = node.communicate(timeout=300)
        assert node.returncode == 0, errors
        said.append(out)
    assert [out.count(": done") for out in said] == [1, 1]
    assert sum("2 runs summed up" in out for out in said) == 1  # by the first rank alone
    for path in (path.relative_to(tmp_path) for path in runs_of(tmp_path).values()):
        mine, expected = (json.loads((top / path / "measured.json").read_text()) for top in (tmp_path, finished[0]))
        assert mine == expected
