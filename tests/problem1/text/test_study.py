"""The comparison of schemes and seeds: the runs it plans, what is measured, and how seeds are put together."""

import pytest
from matplotlib.figure import Figure

from lab import jobs
from lab.settings import as_plain
from problem1.text import lengths, study, train
from problem1.text.dataset import generate


def test_runs_are_those_of_the_comparison(tmp_path):
    work = study.all_runs(study.Settings(output_dir=tmp_path))
    assert len(work) == 5 + 3 * len(study.SIZES) + 3 * 2 * 3
    assert len({job.result for job in work}) == len({job.name for job in work}) == len(work)
    default = as_plain(train.Settings())
    for job in work:
        assert default.keys() >= job.settings["flags"].keys()  # every flag that decides a result is named
    assert work[0].settings["flags"] == default | {"seed": 0}
    groups = {}
    for job in work:
        groups.setdefault(job.name.rpartition(", seed ")[0], []).append(job.settings["flags"])
    for flags in groups.values():
        assert len({str({**one, "seed": 0}) for one in flags}) == 1
        assert [one["seed"] for one in flags] == list(range(len(flags)))


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A tiny run of a classic scheme."""
    monkeypatch.setattr(lengths, "CLASSIC_LENGTHS", (8,))
    generate(tmp_path / "data", {"train": 64, "val": 8, "test": 8}, max_digits=2)
    flags = study.DEFAULTS | {"scheme": "none", "order": "plain", "seed": 0, "epochs": 2}
    flags |= {"batch_size": 8, "epoch_rows": 16, "d_model": 16, "num_heads": 2, "d_ff": 16}
    folder = tmp_path / "run"
    paths = {"folder": folder, "data_dir": tmp_path / "data"}
    return jobs.Job("none", study.train_and_measure, {"flags": flags, "samples": 3}, folder / "measured.json", paths)


def test_a_run_is_trained_and_measured_once(job, monkeypatch):
    first = study.train_and_measure(**job.settings, **job.paths)
    assert first["lengths"]["8"]["random"]["of"] == 3
    assert first["proof"] is None and "seconds" not in str(first)
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
    study.draw_lengths(groups, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").exists()


def test_sizes_are_sorted_and_the_smallest_proven_one_is_named(tmp_path, monkeypatch):
    def measured(size: dict, seed: int, parameters: int, wrong: int) -> dict:
        found = {"local_contexts": 1000, "failures": wrong, "smallest_margin": 3.0 - wrong, "proven": wrong == 0}
        return {"parameters": parameters, "proof": found, "settings": {"flags": study.DEFAULTS | size | {"seed": seed}}}

    small = dict(zip(study.SIZE, study.SIZES[0], strict=True)) | study.SMALL
    runs = {"a": measured(small, 0, 500, 7), "b": measured(small, 1, 500, 0), "c": measured({}, 0, 6000, 0)}
    runs["d"] = {"proof": None, "settings": {"flags": study.DEFAULTS}}  # a classic scheme
    found = study.by_size(runs)
    assert [point["parameters"] for point in found] == [6000, 500, 500]
    assert found[1] == {**small, "parameters": 500, "seed": 0, "local_contexts": 1000, "wrong_local_contexts": 7,
                        "smallest_margin": -4.0, "proven": False}  # fmt: skip
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda self, text: titles.append(text))
    study.draw_sizes(found, tmp_path / "sizes.png")
    study.draw_sizes(found[:1], tmp_path / "sizes.png")
    assert titles[0].startswith("500 parameters") and "1 of 2 seeds" in titles[0] and titles[1].startswith("6,000")
