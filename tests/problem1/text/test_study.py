"""The comparison of schemes and seeds: the runs it plans, what is measured, and how seeds are put together."""

import pytest

from lab import jobs
from lab.settings import as_plain
from problem1.text import lengths, study, train
from problem1.text.dataset import generate


def test_runs_of_a_scheme_differ_in_order_and_seed_alone(tmp_path):
    work = study.all_runs(study.Settings(output_dir=tmp_path))
    assert len(work) == 5 + 3 * 2 * 3
    assert len({job.result for job in work}) == len({job.name for job in work}) == len(work)
    for job in work:
        flags = dict(job.settings["flags"])
        scheme = flags["scheme"]
        assert {**flags, "order": "plain", "seed": 0} == {
            "scheme": scheme, "order": "plain", "seed": 0, **study.SHARED, **study.SIZES[scheme]
        }  # fmt: skip
    default = as_plain(train.Settings())
    assert work[0].settings["flags"] == default | {"seed": 0}


def test_another_budget_is_another_run(tmp_path):
    one, other, third = (
        study.all_runs(study.Settings(output_dir=tmp_path, **changed))[0]
        for changed in ({}, {"epochs": 5}, {"samples": 7})
    )
    assert one.result == other.result
    assert other.settings["flags"]["epochs"] == 5
    assert one.settings != other.settings and one.settings != third.settings


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A tiny run of a classic scheme."""
    monkeypatch.setattr(lengths, "CLASSIC_LENGTHS", (8,))
    generate(tmp_path / "data", {"train": 64, "val": 8, "test": 8}, max_digits=2)
    flags = {"scheme": "none", "order": "plain", "seed": 0, **study.SHARED, **study.SIZES["none"], "epochs": 2}
    flags |= {"batch_size": 8, "epoch_rows": 16, "d_model": 16, "num_heads": 2, "d_ff": 16}
    folder = tmp_path / "run"
    paths = {"folder": folder, "data_dir": tmp_path / "data"}
    return jobs.Job("none", study.train_and_measure, {"flags": flags, "samples": 3}, folder / "measured.json", paths)


def test_a_run_is_trained_and_measured_once(job, monkeypatch):
    first = study.train_and_measure(**job.settings, **job.paths)
    assert first["lengths"]["8"]["random"]["of"] == 3
    assert first["steps"] == 4 and first["proof"] is None and "seconds" not in str(first)
    monkeypatch.setattr(jobs, "call", lambda *_: (_ for _ in ()).throw(AssertionError("trained again")))
    again = study.train_and_measure(**job.settings | {"samples": 4}, **job.paths)
    assert again["lengths"]["8"]["random"]["of"] == 4
    with pytest.raises(AssertionError, match="trained again"):
        changed = {"flags": job.settings["flags"] | {"epochs": 3}, "samples": 3}
        study.train_and_measure(**changed, **job.paths)


def test_a_run_works_in_a_process_of_its_own(job):
    (measured,) = jobs.run([job], workers=1)
    assert measured["settings"] == job.settings and "512" in measured["lengths"]


def test_seeds_are_put_together(tmp_path):
    def measured(right: int) -> dict:
        result = {"random": lengths.share(right, 10), "chain": lengths.share(10, 10)}
        return {"test_acc": 0.5, "lengths": {"32": result, "64": result}}

    runs = {"place_value, seed 0": measured(10)}
    runs |= {"none, plain, seed 0": measured(2), "none, plain, seed 1": measured(6)}
    groups = study.summary(runs)
    assert list(groups) == ["place_value", "none, plain"] and groups["none, plain"]["seeds"] == 2
    point = groups["none, plain"]["random"]["64"]
    assert point["mean"] == 0.4 and point["seeds"] == [0.2, 0.6]
    assert point["low"] == lengths.share(2, 10)["interval_95"][0]
    assert point["high"] == lengths.share(6, 10)["interval_95"][1]
    study.draw(groups, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").exists()
