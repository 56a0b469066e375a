"""The committed numbers are those of the committed models."""

import json
from pathlib import Path

import pytest

from problem2 import generate_data
from problem2.analysis import evaluation, proof
from problem2.analysis.study_runs import collect, read_log
from problem2.analysis.study_summary import sum_up
from problem2.dataset import load_test_set, to_rows
from problem2.positional_encoding import SCHEMES
from problem2.trained import load_model

RESULTS = Path(__file__).resolve().parents[2] / "problem2" / "results"


def read(name: str) -> dict:
    return json.loads((RESULTS / name).read_text())


@pytest.mark.parametrize("name", SCHEMES)
def test_models_are_as_accurate_as_their_files_say(name, tmp_path):
    model, settings = load_model(RESULTS / name / "best_model.pth")
    log, details = read_log(RESULTS / name / "training_log.json"), read("extrapolation/extrapolation_details.json")
    rows = generate_data.make_rows(8, 16, 2000, 641 + 2)
    sets = {"test": to_rows([row["sequence"] for row in rows])}
    sets |= {f"{kind}/32": load_test_set(tmp_path, kind, 32) for kind in ("extrapolation", "adjacent")}
    found = evaluation.measure(evaluation.predict(model, sets), sets)
    assert settings["encoding"] == name and found["test"]["accuracy"] == log["test_acc"]
    for key, numbers in found.items():
        assert numbers["accuracy"] == details["schemes"][name]["sets"][key]["accuracy"], key
    assert found["extrapolation/32"]["accuracy"] == read("extrapolation/extrapolation_results.json")[name]["32"]


def test_the_study_is_the_mean_of_its_runs():
    study = read("study/study.json")
    assert study["summary"] == json.loads(json.dumps(sum_up(collect(RESULTS))))
    course = study["summary"]["course"]
    assert set(SCHEMES) <= set(course) and all(len(scheme["seeds"]) == 3 for scheme in course.values())


def test_the_window_model_is_proven_again():
    measured = read("strict/window/measured.json")["proof"]
    found = proof.prove(load_model(RESULTS / "strict/window/best_model.pth")[0])
    counts = [name for name in found if not name.endswith("margin") and name != "rounding"]
    assert {name: found[name] for name in counts} == {name: measured[name] for name in counts}
    assert found["rounding"]["float64"]["holds"]
