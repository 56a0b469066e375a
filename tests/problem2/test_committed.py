"""The committed numbers are those of the committed models."""

import json
from pathlib import Path

import pytest

from problem2 import generate_data
from problem2.analysis import evaluation
from problem2.checkpoint import load_model
from problem2.dataset import load_test_set, to_rows
from problem2.positional_encoding import SCHEMES

RESULTS = Path(__file__).resolve().parents[2] / "problem2" / "results"


def read(name: str) -> dict:
    return json.loads((RESULTS / name).read_text())


@pytest.mark.parametrize("name", SCHEMES)
def test_models_are_as_accurate_as_their_files_say(name, tmp_path):
    model, settings = load_model(RESULTS / name / "best_model.pth")
    log, details = read(f"{name}/training_log.json"), read("extrapolation/extrapolation_details.json")
    rows = generate_data.make_rows(8, 16, 2000, 641 + 2)
    sets = {"test": to_rows([row["sequence"] for row in rows])}
    sets |= {f"{kind}/32": load_test_set(tmp_path, kind, 32) for kind in ("extrapolation", "adjacent")}
    found = evaluation.measure(model, sets)
    assert settings["encoding"] == name and found["test"]["accuracy"] == log["test_acc"]
    for key, numbers in found.items():
        assert numbers["accuracy"] == details["schemes"][name]["sets"][key]["accuracy"], key
    assert found["extrapolation/32"]["accuracy"] == read("extrapolation/extrapolation_results.json")[name]["32"]
