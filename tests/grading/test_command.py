"""`python -m grading`: where results are looked for, what it prints and writes, its exit codes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grading.report import grade
from tests.grading.submissions import PROBLEM1, PROBLEM2, valid
from tests.grading.test_grading import EXPECTED
from tests.grading.with_issues import baseline

ROOT = Path(__file__).resolve().parents[2]


def command(*arguments, cwd=ROOT, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "grading", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return valid(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def folder(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "submission"))


def test_all_is_well(sound, tmp_path):
    result = command(sound, "--json", tmp_path / "out.json", cwd=tmp_path)
    assert result.returncode == 0 and result.stderr == ""
    assert "Total 100 of 100: all sound." in result.stdout and "Known issues" not in result.stdout
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["passed"] and report["score"] == report["maximum"] == 100
    assert {"id", "score", "maximum", "message"} == set(report["items"][0])
    assert sum(item["score"] for item in report["items"]) == 100


def test_something_falls_short(folder):
    (folder / PROBLEM1 / "training_curves.png").unlink()
    result = command(folder, "--json", "-", PYTHONIOENCODING="ascii")
    assert result.returncode == 1
    report = json.loads(result.stdout)
    assert not report["passed"] and report["score"] == 97
    assert [issue["name"] for issue in report["issues"]] == ["missing-deliverables"]
    assert {"name", "item", "file", "evidence", "hint", "cost"} == set(report["issues"][0])


def test_gradescope(folder, tmp_path):
    (folder / PROBLEM1 / "best_model.pth").write_bytes(b"malformed")
    baseline(0.412)(folder)
    result = command(folder, "--gradescope", tmp_path / "results.json")
    assert result.returncode == 1
    results = json.loads((tmp_path / "results.json").read_text())
    assert {"score", "output", "tests"} == set(results) and results["score"] == 87
    assert "Total 87 of 100" in results["output"]
    tests = {test.pop("name"): test for test in results["tests"]}
    assert tests["problem1/test-accuracy"] == {
        "score": 10,
        "max_score": 10,
        "visibility": "visible",
        "output": "test accuracy 99.85%",
    }
    assert "damaged" in tests["problem1/checkpoint"]["output"] and tests["problem1/checkpoint"]["score"] == 0
    assert "Known issue: first-digit-given" in tests["problem1/ablation"]["output"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/no/such/folder"], "not a folder"),
        ([__file__], "not a folder"),
        ([".", "--problem", "problem9"], "invalid choice"),
        ([".", "--jsn", "x"], "unrecognized"),
        ([".", "--problem", "problem1", "--json", "/no/such/folder/out.json"], "cannot be written"),
        ([".", "--problem", "problem1", "--gradescope", "/no/such/folder/out.json"], "cannot be written"),
    ],
)
def test_wrong_use(arguments, words, tmp_path):
    if os.geteuid() == 0:  # root could make /no
        arguments = [argument.replace("/no/such/folder/out.json", f"{__file__}/out.json") for argument in arguments]
    result = command(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert words in result.stderr and "Traceback" not in result.stderr


def test_nobody_reads_to_the_end(sound):
    shell = f"{sys.executable} -m grading {sound} | head -1"
    result = subprocess.run(shell, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""


def test_help_teaches():
    result = command("--help")
    assert result.returncode == 0 and "FOLDER" in result.stdout and "Exit code" in result.stdout


# ---------------------------------------------------------------------------------------- where results may stand


def places(folder: Path, required=()) -> dict:
    return grade(folder, EXPECTED, set(required)).results


def test_one_problem_alone(folder):
    shutil.rmtree(folder / "problem2")
    report = grade(folder, EXPECTED, set())
    assert report.passed and report.maximum == 50
    assert any("problem2: no results here" in remark for remark in report.remarks)
    assert not grade(folder, EXPECTED, {"problem1", "problem2"}).passed
    assert grade(folder, EXPECTED, set(), only="problem2").items == []


@pytest.mark.parametrize("inside", [PROBLEM1, "problem1", PROBLEM2, "problem2"])
def test_the_folder_of_one_problem(folder, inside):
    report = grade(folder / inside, EXPECTED, set())
    assert report.passed and report.maximum == 50
    assert {item.id.split("/")[0] for item in report.items} == {inside[:8]}


def test_an_empty_folder_of_one_problem_is_all_missing(tmp_path):
    (tmp_path / "problem1").mkdir()
    report = grade(tmp_path, EXPECTED, set())
    assert report.score == 0 and report.maximum == 50


def test_a_folder_within_a_folder(folder, tmp_path):
    shutil.move(folder, tmp_path / "outer" / "inner")
    assert places(tmp_path / "outer") == {"problem1": f"inner/{PROBLEM1}", "problem2": f"inner/{PROBLEM2}"}


def test_results_under_another_name(folder):
    (folder / "problem1").rename(folder / "part A")
    (folder / "problem2/results").rename(folder / "sorting")
    assert places(folder) == {"problem1": "part A/results", "problem2": "sorting"}


def test_another_experiment_is_not_taken_for_the_missing_one(folder):
    results = folder / PROBLEM1
    (results / "text").mkdir()
    for name in ("best_model.pth", "training_log.json"):
        (results / name).rename(results / "text" / name)
    report = grade(folder, EXPECTED, set())
    scores = {item.id: item.score for item in report.items}
    assert scores["problem1/training-log"] == scores["problem1/checkpoint"] == 0


def test_one_encoding_is_not_taken_for_another(folder):
    shutil.rmtree(folder / PROBLEM2 / "sinusoidal")
    shutil.rmtree(folder / PROBLEM2 / "learned")
    scores = {item.id: item.score for item in grade(folder, EXPECTED, set()).items}
    assert scores["problem2/none-log"] == 2
    assert scores["problem2/sinusoidal-log"] == scores["problem2/learned-checkpoint"] == 0


def test_one_log_for_three_encodings_is_nobodys(folder):
    results = folder / PROBLEM2
    (results / "learned/training_log.json").rename(results / "training_log.json")
    scores = {item.id: item.score for item in grade(folder, EXPECTED, set()).items}
    assert scores["problem2/sinusoidal-log"] == 2 and scores["problem2/learned-log"] == 0


def test_several_submissions_at_once_are_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "another")
    result = command(tmp_path)
    assert result.returncode == 2
    assert "2 places" in result.stderr and "name one of them" in result.stderr


def test_nothing_at_all(tmp_path):
    result = command(tmp_path)
    assert result.returncode == 1
    assert "Nothing to grade" in result.stdout
