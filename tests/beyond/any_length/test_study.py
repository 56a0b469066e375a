"""The comparison of schemes and seeds: the runs it plans, what is measured, and how seeds are put together."""

import pytest
from matplotlib.figure import Figure

from beyond.any_length import runs, study, train
from beyond.any_length.dataset import generate
from lab import training
from lab.files import read_json
from lab.settings import as_plain


def test_the_committed_sizes_are_those_of_the_committed_runs():
    work = study.all_runs(study.Settings())
    measured = {job.name: read_json(job.result, "") for job in work}
    assert len({job.result for job in work}) == len(measured) == 5 + 3 * len(study.SIZES)
    assert all(measured[job.name]["settings"] == job.settings for job in work)
    assert study.by_size(measured) == read_json(study.MODEL.parent / "sizes.json", "")["runs"]
    assert work[0].settings["flags"] == as_plain(train.Settings()) | {"seed": 0}  # every flag that decides a result
    assert [*measured[work[0].name]["settings"]["flags"]] == [*work[0].settings["flags"]]  # as the file has them


def test_a_run_is_trained_once_and_proven(tmp_path, monkeypatch):
    generate(tmp_path / "data", {"train": 64, "val": 8, "test": 8}, max_digits=2)
    (job, *_) = study.all_runs(study.Settings())
    flags = job.settings["flags"] | {"epochs": 2, "batch_size": 8, "epoch_rows": 16, "d_model": 4, "d_ff": 4}
    monkeypatch.setattr(runs.proof, "run", lambda model, exp_step: {"proven": False, "failures": 3, "other": [1]})
    paths = {"folder": tmp_path / "run", "data_dir": tmp_path / "data"}
    first = runs.train_and_prove(flags, **paths)
    assert first["proof"] == {"proven": False, "failures": 3} and "seconds" not in str(first)
    monkeypatch.setattr(training, "_train", lambda *_: (_ for _ in ()).throw(AssertionError("trained again")))
    assert runs.train_and_prove(flags, **paths) == first
    with pytest.raises(AssertionError, match="trained again"):
        runs.train_and_prove(flags | {"epochs": 3}, **paths)


def test_the_smallest_proven_size_is_named(tmp_path, monkeypatch):
    def one(parameters: int, **found) -> dict:
        return dict.fromkeys(study.SIZE, 4) | {"parameters": parameters, "local_contexts": 1000} | found

    right = {"wrong_local_contexts": 0, "smallest_margin": 3.0, "proven": True}
    wrong = {"wrong_local_contexts": 7, "smallest_margin": -4.0, "proven": False}
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda self, text: titles.append(text))
    study.draw_sizes([one(6000, **right), one(500, **wrong), one(500, **right)], tmp_path / "sizes.png")
    study.draw_sizes([one(6000, **right), one(500, **wrong)], tmp_path / "sizes.png")
    assert titles[0].startswith("500 parameters") and "1 of 2 seeds" in titles[0] and titles[1].startswith("6,000")
