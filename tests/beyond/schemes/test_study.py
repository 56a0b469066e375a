"""The study as users start it: stopped, repeated, with other settings, after another training."""

import json
import shutil

import pytest
import torch

from beyond.schemes import runs
from beyond.schemes.strict import sample_rows
from lab.files import write_json
from problem2.analysis import evaluation
from tests.conftest import works
from tests.problem2.test_model import make
from tests.problem2.test_scripts import read

FLAGS = ["--encoding", "none", "--protocols", "strict", "--seeds", 5, 641, "--lengths", 24, "--epochs", 1]
RUNS = ["results/strict/641/none", "results/strict/5/none"]  # of both seeds


def study(folder, *flags) -> str:
    return works("beyond/schemes/study.py", "--data-dir", folder / "data", "--output-dir", folder / "results", *flags)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    sizes = ["--train-size", 300, "--val-size", 50, "--test-size", 60]
    sizes += ["--min-train-len", 2, "--max-train-len", 3]  # the experiments are then on sequences of 48
    works("problem2/generate_data.py", "--output-dir", folder / "data", *sizes)
    return folder, study(folder, *FLAGS)


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished[0], tmp_path / "copy")


def test_runs_are_trained_measured_and_summed_up(finished):
    folder, said = finished
    assert "2 runs summed up" in said and "strict protocol, one swap of two neighbours" in said
    report = read(folder / "results/study.json")
    none = report["summary"]["strict"]["none"]
    assert none["seeds"] == [5, 641] and none["sets"]["adjacent/24"]["rows"] == 500
    assert report["proofs"] == [] and report["trained_lengths"] == [2, 3]
    assert "seconds" not in json.dumps(report) and str(folder) not in json.dumps(report)


def test_what_is_finished_is_kept_and_what_is_not_is_made_or_resumed(folder):
    stopped, missing = (folder / run for run in RUNS)
    measured = [(folder / run / "measured.json").read_bytes() for run in RUNS]
    assert ": done" not in study(folder, *FLAGS)
    for name in ("training_log.json", "measured.json"):
        (stopped / name).unlink()
    shutil.rmtree(missing)
    assert study(folder, *FLAGS).count(": done") == 2
    assert "resuming after epoch 1" in (stopped / "measured.log").read_text()
    assert [(folder / run / "measured.json").read_bytes() for run in RUNS] == measured


def test_other_settings_are_other_runs(folder):
    """Other epochs train again, and keep what was there; other lengths only measure again."""
    path, other = (folder / run for run in RUNS)
    shutil.rmtree(other)
    flags = [*FLAGS, "--seeds", 641, "--epochs", 2]
    assert study(folder, *flags).count(": done") == 1
    log, measured = read(path / "training_log.json"), read(path / "measured.json")
    assert len(log["val_acc"]) == 2 == measured["training"]["epochs"] == measured["settings"]["config"]["epochs"]
    assert len(read(path / "previous/training_log.json")["val_acc"]) == 1
    trained = (path / "best_model.pth").stat().st_mtime_ns
    assert study(folder, *flags, "--lengths", 20).count(": done") == 1
    assert (path / "best_model.pth").stat().st_mtime_ns == trained
    assert "adjacent/20" in read(path / "measured.json")["sets"]


def test_a_new_log_is_never_paired_with_an_old_measurement(folder):
    path, old = (folder / run for run in RUNS)
    log = read(path / "training_log.json")
    log["config"]["lr"], log["test_loss"] = 0.001, 0.7  # as if trained again, with another rate
    (path / "training_log.json").write_text(json.dumps(log))
    said = study(folder, "--only-sum-up")
    assert f"{path / 'measured.json'} is of an earlier training: left out" in said and "1 runs summed up" in said
    assert (path / "measured.json").exists()
    assert study(folder, *FLAGS).count(": done") == 1  # with the study's own settings again
    assert read(path / "training_log.json")["config"]["lr"] == 0.003
    assert read(old / "measured.json")["training"]["epochs"] == 1


def test_only_sum_up_trains_and_measures_nothing(folder, tmp_path, refused):
    shutil.rmtree(folder / "data")
    shutil.rmtree(folder / RUNS[1])
    flags = ["--encoding", "rope", "--seeds", 641, "--protocols", "course", "--workers", 1]
    assert "1 runs summed up" in study(folder, *flags, "--only-sum-up") and not (folder / "results/rope").exists()
    refused("beyond/schemes/study.py", "--only-sum-up", "--output-dir", tmp_path / "empty", words=["no finished run"])


def test_a_model_of_problem_2_is_measured_once(tmp_path, monkeypatch):
    """Its numbers are those that analyze.py wrote, as long as they are of this very model."""
    monkeypatch.setattr(runs, "HOMEWORK", tmp_path)
    model, other = make("rope"), make("rope")
    other.embedding.weight.data *= 1.001
    sets = {key: sample_rows(20, 4, 8, torch.Generator().manual_seed(8)) for key in ("test", "extrapolation/32")}
    numbers = evaluation.measure(model, sets)
    written = numbers | {"extrapolation/32": numbers["extrapolation/32"] | {"accuracy": 0.123}}
    assert runs.numbers_of(model, sets, tmp_path / "rope") == numbers  # nothing was written yet
    write_json(tmp_path / "extrapolation/extrapolation_details.json", {"schemes": {"rope": {"sets": written}}})
    assert runs.numbers_of(model, sets, tmp_path / "rope") == written
    assert runs.numbers_of(model, sets, tmp_path / "elsewhere/rope") == numbers
    assert runs.numbers_of(other, sets, tmp_path / "rope") == evaluation.measure(other, sets)
    assert runs.numbers_of(model, sets | {"extrapolation/64": sets["test"]}, tmp_path / "rope").keys() > numbers.keys()
