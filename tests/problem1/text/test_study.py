"""The comparison of schemes and seeds: the runs it plans, what is measured, and how seeds are put together."""

import pytest
from matplotlib.figure import Figure

from lab import jobs
from lab.settings import as_plain
from problem1.text import study, train
from problem1.text.dataset import generate


def test_runs_are_those_of_the_comparison(tmp_path):
    work = study.all_runs(study.Settings(output_dir=tmp_path))
    assert len(work) == 5 + 3 * len(study.SIZES)
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


def test_a_run_is_trained_once_and_proven(tmp_path, monkeypatch):
    generate(tmp_path / "data", {"train": 64, "val": 8, "test": 8}, max_digits=2)
    flags = study.DEFAULTS | {"seed": 0, "epochs": 2, "batch_size": 8, "epoch_rows": 16, "d_model": 4, "d_ff": 4}
    monkeypatch.setattr(study.proof, "run", lambda model, exp_step: {"proven": False, "failures": 3, "other": [1]})
    paths = {"folder": tmp_path / "run", "data_dir": tmp_path / "data"}
    first = study.train_and_prove(flags, **paths)
    assert first["proof"] == {"proven": False, "failures": 3} and "seconds" not in str(first)
    monkeypatch.setattr(jobs, "call", lambda *_: (_ for _ in ()).throw(AssertionError("trained again")))
    assert study.train_and_prove(flags, **paths) == first
    with pytest.raises(AssertionError, match="trained again"):
        study.train_and_prove(flags | {"epochs": 3}, **paths)


def test_sizes_are_sorted_and_the_smallest_proven_one_is_named(tmp_path, monkeypatch):
    def measured(size: dict, seed: int, parameters: int, wrong: int) -> dict:
        found = {
            "local_contexts": 1000,
            "failures": wrong,
            "smallest_margin": 3.0 - wrong,
            "proven": wrong == 0,
            "proven_in_float32": False,
        }
        return {"parameters": parameters, "proof": found, "settings": {"flags": study.DEFAULTS | size | {"seed": seed}}}

    small = dict(zip(study.SIZE, study.SIZES[0], strict=True)) | study.SMALL
    runs = {"a": measured(small, 0, 500, 7), "b": measured(small, 1, 500, 0), "c": measured({}, 0, 6000, 0)}
    found = study.by_size(runs)
    assert [point["parameters"] for point in found] == [6000, 500, 500]
    assert found[1] == {**small, "parameters": 500, "seed": 0, "local_contexts": 1000, "wrong_local_contexts": 7,
                        "smallest_margin": -4.0, "proven": False, "proven_in_float32": False}  # fmt: skip
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda self, text: titles.append(text))
    study.draw_sizes(found, tmp_path / "sizes.png")
    study.draw_sizes(found[:1], tmp_path / "sizes.png")
    assert titles[0].startswith("500 parameters") and "1 of 2 seeds" in titles[0] and titles[1].startswith("6,000")
