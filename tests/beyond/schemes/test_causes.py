"""Tokens at other positions, and the means over seeds."""

import pytest
import torch

from beyond.schemes import mechanism, strict
from beyond.schemes import runs as runs_module
from beyond.schemes.summary import answer, as_table, sum_up
from lab.files import UserError, write_json
from problem2.analysis import evaluation
from tests.problem2.test_model import make


def moved(model, condition):
    """The model with its tokens where a condition of mechanism.py wants them."""
    return mechanism.moved(model, mechanism.CONDITIONS[condition][1])


def test_relative_schemes_do_not_notice_a_shift_and_absolute_ones_do():
    rows = strict.sample_rows(8, 16, 16, torch.Generator().manual_seed(0)).sequences
    for name in ("rope", "alibi", "t5", "window", "none", "sinusoidal", "learned", "onehot"):
        model = make(name, d_model=64)
        before = model(rows)
        with moved(model, "shifted"):
            same = torch.allclose(model(rows), before, atol=2e-3)
        assert same == (name not in ("sinusoidal", "learned", "onehot")), name
        assert torch.equal(model(rows), before), name  # an experiment leaves the model as it was


def test_where_the_tokens_are_put():
    model = make("learned")

    def positions(condition, length):
        with moved(model, condition):
            return model.scheme.positions(torch.tensor([length]), length)

    inside = positions("position interpolation", 256)
    assert inside[0] == 0 and abs(inside[-1] - 15) < 1e-4 and (inside.diff() > 0).all()
    assert positions("stretched", 16).tolist() == [*range(0, 256, 16)]
    assert positions("clamped", 20).tolist() == [*range(16), 15, 15, 15, 15]


def test_causes_follow_the_longest_sequence_of_training_and_use_what_is_known(tmp_path):
    model, sets = make("rope"), mechanism.test_sets(tmp_path, 4)
    assert [*sets] == [f"{kind}/{length}" for kind in ("extrapolation", "adjacent") for length in (4, 64)]
    report = mechanism.measure(model, sets, 4, {})
    assert [*report["adjacent"]] == [*mechanism.CONDITIONS]
    known = evaluation.measure(model, sets)
    assert mechanism.measure(model, sets, 4, known) == report
    known["adjacent/64"] = known["adjacent/64"] | {"accuracy": 2.0}
    known["adjacent/4"] = known["adjacent/4"] | {"accuracy": 2.0, "rows": 3}  # of other rows: not used
    changed = mechanism.measure(model, sets, 4, known)
    assert [c for kind in report for c in report[kind] if report[kind][c] != changed[kind][c]] == ["as it is"]


def a_run(seed, accuracy, collapsed=False, **settings):
    numbers = dict.fromkeys(("accuracy", "balanced_accuracy"), accuracy) | {"rows": 10, "interval_95": [0.1, 0.9]}
    numbers |= {name: {"accuracy": accuracy} for name in ("sorted", "unsorted")} | {"collapsed": collapsed}
    causes = {kind: dict.fromkeys(mechanism.CONDITIONS, numbers) for kind in ("extrapolation", "adjacent")}
    return {
        "settings": {"encoding": "rope", "config": {"protocol": "course", "seed": seed, "epochs": 2} | settings},
        "sets": {"test": numbers},
        "mechanism": causes,
        "training": {"val_acc": accuracy, "seed": seed, "data": str(seed)},
        "proof": None,
    }


def test_seeds_are_summed_up():
    runs = [a_run(3, 0.5, True), a_run(1, 1.0), a_run(2, 0.9)]
    summary = sum_up(runs)["course"]
    cell = summary["rope"]["sets"]["test"]
    assert summary["rope"]["seeds"] == [1, 2, 3] and abs(cell["mean"] - 0.8) < 1e-9 and cell["collapsed_seeds"] == 1
    assert (cell["min"], cell["max"]) == (0.5, 1.0)
    assert as_table(summary, "adjacent").splitlines()[1].split() == ["rope", "3", "80.0%"]
    summary["rope"]["sets"] |= {"extrapolation/1024": cell | {"min": 0.99}, "adjacent/32": cell}
    summary["alibi"] = {"sets": {"test": cell | {"min": 0.99}, "adjacent/32": cell | {"min": 0.99}}, "proof_holds": []}
    assert "*course* to length 1,024: 1 of 2 (alibi); where" in answer({"course": summary})
    assert "wrong, 1 of 2 (alibi); proven right at every length: none." in answer({"course": summary})
    summary["alibi"]["proof_holds"] = [True, True]
    assert answer({"course": summary}).endswith("every length: alibi.")
    with pytest.raises(UserError, match="rope, course protocol: seeds 1 and 4 have different settings"):
        sum_up([*runs, a_run(4, 1.0, epochs=3)])


def test_lengths_and_distances_are_summed_up_over_seeds():
    runs = [a_run(1, 1.0), a_run(2, 1.0)]
    for run, accuracies, first, constant in zip(runs, ([1.0, 0.9], [0.8, 0.5]), (None, 8), (False, True), strict=True):
        run["by_length"] = {"lengths": [8, 9], "balanced_accuracy": accuracies, "first_failure": first}
        run["by_length"]["constant_from"] = 9 if constant else None
        run["distances"] = {"clamped": {"32": {"balanced_accuracy": accuracies[1], "constant": constant}}}
    rope = sum_up(runs)["course"]["rope"]
    found = rope["by_length"]
    assert found["mean"] == pytest.approx([0.9, 0.7]) and (found["min"], found["max"]) == ([0.8, 0.5], [1.0, 0.9])
    assert found["first_failure"] == [None, 8] and found["constant_from"] == [None, 9]
    cell = rope["distances"]["clamped"]["32"]
    assert (cell["low"], cell["high"], cell["constant"]) == (0.5, 0.9, False) and cell["mean"] == pytest.approx(0.7)


def test_a_model_with_another_seed_is_found_in_problem_2(tmp_path, monkeypatch):
    monkeypatch.setattr(runs_module, "HOMEWORK", tmp_path / "homework")
    log = {"val_acc": [0.5, 0.9], "val_loss": [0.7, 0.2], "test_acc": 0.9, "test_loss": 0.2, "best_epoch": 2}
    log |= {"parameters": 3, "seed": 7, "config": {"data": "d"}}
    path = tmp_path / "homework/seeds/7/rope/training_log.json"
    write_json(path, log)
    training = runs_module.read_log(path)
    write_json(tmp_path / "results/course/7/rope/measured.json", {"training": training})
    write_json(tmp_path / "results/course/8/rope/measured.json", {"training": training})  # of a model that is not there
    assert [run["training"]["seed"] for run in runs_module.collect(tmp_path / "results")] == [7]
