"""The committed numbers of the study are those of its runs and of the committed model."""

import json

from beyond.schemes import window_proof as proof
from beyond.schemes.runs import collect, load_model
from beyond.schemes.summary import answer, sum_up
from problem2.positional_encoding import HOMEWORK, SCHEMES
from tests.conftest import ROOT

RESULTS = ROOT / "beyond/schemes/results"


def read(name: str) -> dict:
    return json.loads((RESULTS / name).read_text())


def test_the_study_is_the_mean_of_its_runs():
    study = read("study.json")
    assert study["summary"] == json.loads(json.dumps(sum_up(collect(RESULTS))))
    course = study["summary"]["course"]
    assert set(SCHEMES) <= set(course) and all(len(scheme["seeds"]) == 3 for scheme in course.values())


def test_readme_says_what_was_found():
    assert answer(read("study.json")["summary"]) in (ROOT / "beyond/schemes/README.md").read_text()


def test_accuracies_are_those_of_problem_2():
    details = json.loads((ROOT / "problem2/results/extrapolation/extrapolation_details.json").read_text())
    course = read("study.json")["summary"]["course"]
    for scheme in SCHEMES:
        assert read(f"course/641/{scheme}/measured.json")["sets"] == details["schemes"][scheme]["sets"], scheme
    for scheme in HOMEWORK:
        assert {name: course[scheme][name] for name in ("seeds", "sets")} == details["schemes"][scheme]["over_seeds"]


def test_accuracies_by_length_are_those_of_problem_2():
    results = json.loads((ROOT / "problem2/results/extrapolation/accuracy_by_length.json").read_text())
    for scheme, by_seed in results["schemes"].items():
        for seed, numbers in by_seed.items():
            measured = read(f"course/{seed}/{scheme}/measured.json")["by_length"]
            assert measured == numbers | {"lengths": results["lengths"]}, (scheme, seed)


def test_the_window_model_is_proven_again():
    measured = read("strict/641/window/measured.json")["proof"]
    found = proof.prove(load_model(RESULTS / "strict/641/window/best_model.pth"))
    counts = [name for name in found if not name.endswith("margin") and name != "rounding"]
    assert {name: found[name] for name in counts} == {name: measured[name] for name in counts}
    assert found["rounding"]["float64"]["holds"]
