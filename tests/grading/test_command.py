"""`python -m grading`: where results are looked for, what it prints and writes, its exit codes."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest

from grading.grade import grade
from tests.grading.submissions import EXPECTED, PROBLEM1, PROBLEM2, ROOT
from tests.grading.with_issues import baseline


@pytest.fixture
def command(script):
    return partial(script, "-m", "grading")


def test_all_is_well(command, sound, tmp_path):
    result = command(sound, "--json", tmp_path / "out.json")
    assert result.returncode == 0 and result.stderr == ""
    assert "Total 100 of 100: all sound." in result.stdout and "Known issues" not in result.stdout
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["passed"] and report["score"] == report["maximum"] == 100
    assert {"id", "score", "maximum", "message", "advice", "value", "figure", "learned"} == set(report["items"][0])
    assert sum(item["score"] for item in report["items"]) == 100


def test_something_falls_short(command, folder):
    (folder / PROBLEM1 / "training_curves.png").unlink()
    result = command(folder, "--json", "-", env={"PYTHONIOENCODING": "ascii"})
    assert result.returncode == 1
    report = json.loads(result.stdout)
    assert not report["passed"] and report["score"] == 97
    assert [issue["name"] for issue in report["issues"]] == ["missing-deliverables"]
    assert {"name", "item", "file", "evidence", "hint", "cost"} == set(report["issues"][0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/no/such/folder"], "not a folder"),
        ([__file__], "not a folder"),
        ([".", "--problem", "problem9"], "invalid choice"),
        ([".", "--jsn", "x"], "unrecognized"),
        (["--all", "--csv", "x"], "needs a FOLDER"),
        ([".", "--csv", "x"], "add --all"),
        (["--all", ".", "--csv", "x"], "holds no folders"),
        *(
            ([".", "--problem", "problem1", flag, f"{__file__}/x"], "cannot be written")
            for flag in ("--json", "--html", "--gradescope")
        ),
    ],
)
def test_wrong_use(refused, arguments, words):
    refused("-m", "grading", *arguments, words=[words])


def test_nobody_reads_to_the_end(sound):
    shell = f"{sys.executable} -m grading {sound} | head -1"
    result = subprocess.run(shell, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""


# --- Gradescope -----------------------------------------------------------------------------------------------------

# The documented schema of results.json: what may stand there, and of which kind. A set holds the values there are.
VISIBILITY, FORMAT = {"hidden", "after_due_date", "after_published", "visible"}, {"text", "html", "simple_format", "md"}
RESULT = {"score": float, "execution_time": float, "output": str, "output_format": FORMAT, "test_output_format": FORMAT}
RESULT |= {"test_name_format": FORMAT, "visibility": VISIBILITY, "stdout_visibility": VISIBILITY, "extra_data": dict}
TEST = {"score": float, "max_score": float, "status": {"passed", "failed"}, "name": str, "name_format": FORMAT}
TEST |= {"number": str, "output": str, "output_format": FORMAT, "tags": [str], "visibility": VISIBILITY}
ROW = {"name": str, "value": float, "order": {"asc", "desc"}}
RESULT |= {"tests": [TEST], "leaderboard": [ROW]}


def conforms(value, schema) -> bool:
    if isinstance(schema, list):
        return isinstance(value, list) and all(conforms(entry, schema[0]) for entry in value)
    if isinstance(schema, dict):
        return isinstance(value, dict) and all(key in schema and conforms(value[key], schema[key]) for key in value)
    return (
        value in schema if isinstance(schema, set) else isinstance(value, (int, float) if schema is float else schema)
    )


def test_gradescope(command, folder, tmp_path):
    (folder / PROBLEM1 / "best_model.pth").write_bytes(b"malformed")
    baseline(0.412)(folder)
    result = command(folder, "--gradescope", tmp_path / "results.json")
    assert result.returncode == 1
    results = json.loads((tmp_path / "results.json").read_text())
    assert conforms(results, RESULT) and not conforms(results | {"points": 1}, RESULT)
    assert results["score"] == sum(test["score"] for test in results["tests"]) == 87
    assert sum(test["max_score"] for test in results["tests"]) == 100 and "Total 87 of 100" in results["output"]
    assert results["leaderboard"] == [
        {"name": "exact match", "value": 0.9985},
        {"name": "extrapolation", "value": 0.501},
    ]
    tests = {test.pop("name"): test for test in results["tests"]}
    assert tests["problem1/test-accuracy"]["status"] == "passed"
    assert "damaged" in tests["problem1/checkpoint"]["output"] and tests["problem1/checkpoint"]["status"] == "failed"
    assert "First digit given (" in tests["problem1/ablation"]["output"]
    assert tests["problem1/ablation"]["tags"] == ["problem1", "two-baselines", "first-digit-given"]


def test_the_autograder_grades_an_upload_and_runs_nothing_of_it(script, folder, tmp_path):
    """As on Gradescope: the zip in source/, the upload in submission/; a second submission inside costs all points."""
    assert script("-m", "grading.autograder", tmp_path / "autograder.zip").returncode == 0
    zipfile.ZipFile(tmp_path / "autograder.zip").extractall(tmp_path / "source")
    for name in ("grading.py", "sitecustomize.py", "torch.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'trap')!r}, 'w')\n")
    start = ["bash", str(tmp_path / "source/run_autograder")]
    for number, expected in enumerate([100, 0]):
        environment = {**os.environ, "AUTOGRADER": str(tmp_path), "PYTHON": sys.executable}
        subprocess.run(start, cwd=folder, env=environment, check=True, capture_output=True, timeout=120)
        results = json.loads((tmp_path / "results/results.json").read_text())
        assert conforms(results, RESULT) and results["score"] == expected
        if number == 0:
            shutil.copytree(folder / "problem1", folder / "again/problem1")
            shutil.move(folder / "problem1", folder / "once/problem1")
    assert "places" in results["output"] and not (tmp_path / "trap").exists()


# --- pages and classes ----------------------------------------------------------------------------------------------


def test_a_page_of_feedback(command, folder, tmp_path):
    baseline(0.412)(folder)
    (folder / PROBLEM1 / "training_curves.png").unlink()
    assert command(folder, "--html", tmp_path / "feedback.html").returncode == 1
    page = (tmp_path / "feedback.html").read_text()
    assert "89 of 100 points" in page and page.count('class="item full"') == 25
    for words in (
        "First digit given",
        "exactly 41.2%",
        "the baseline is 0.4120",
        "head_analysis/ablation_results.json",
    ):
        assert words in page
    figures = re.findall(r'src="([^"]*)"', page)  # each of theirs beside one of this repository, one is missing
    assert len(figures) == 2 * 10 - 1 and all(figure.startswith("data:image/png;base64,") for figure in figures)
    assert "http" not in page and page.count("Reference solution") == 27


def test_a_class(command, sound, tmp_path):
    submissions = {"good": None, "late": baseline(0.412), "<i>": baseline(0.5495), "empty": shutil.rmtree}
    submissions["twice"] = lambda to: (
        [shutil.copytree(to / PROBLEM1, to / x / PROBLEM1) for x in "ab"] and shutil.rmtree(to / PROBLEM1)
    )
    submissions["odd"] = lambda to: (to / PROBLEM1 / "training_log.json").write_text("[" * 10**5)
    for name, spoil in submissions.items():
        place = Path(shutil.copytree(sound, tmp_path / "class" / name))
        if spoil:
            spoil(place)
    (tmp_path / "class/empty").mkdir()
    (tmp_path / "class/notes.txt").write_text("no submission")
    result = command("--all", "class", "--csv", "grades.csv", "--html", "class.html")
    assert result.returncode == 1 and result.stderr == ""
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = {row["submission"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(submissions)
    assert float(rows["good"]["score"]) == float(rows["good"]["maximum"]) == 100
    assert rows["good"]["exact match"] == "0.9985" and rows["good"]["known_issues"] == ""
    assert rows["late"]["known_issues"] == "two-baselines first-digit-given" and float(rows["late"]["problem1"]) == 42
    assert "2 places" in rows["twice"]["error"] and rows["twice"]["score"] == ""
    assert "Nothing to grade" in rows["empty"]["error"] and 0 < float(rows["odd"]["score"]) < 90
    page = (tmp_path / "class.html").read_text()
    assert "6 submissions, 1 complete and sound" in page and "<i>" not in page
    assert re.search(r"<td>Two baselines</td><td>2</td>.*?<td>&lt;i&gt;, late</td>", page)
    (tmp_path / "sound").mkdir()
    shutil.move(tmp_path / "class/good", tmp_path / "sound/good")
    assert command("--all", tmp_path / "sound").returncode == 0


# --- where results may stand ----------------------------------------------------------------------------------------


def test_one_problem_alone(folder):
    shutil.rmtree(folder / "problem2")
    report = grade(folder, EXPECTED)
    assert report.score == report.maximum == 50 and report.not_graded == ["problem2"]
    assert not report.passed and "problem2 not graded" in report.verdict()
    assert grade(folder, EXPECTED[:1]).passed and not grade(folder, EXPECTED, required=True).passed
    assert grade(folder, EXPECTED[1:]).items == []


@pytest.mark.parametrize("inside", [PROBLEM1, "problem1", PROBLEM2, "problem2"])
def test_the_folder_of_one_problem(folder, inside):
    report = grade(folder / inside, EXPECTED)
    assert report.passed and report.maximum == 50
    assert {item.id.split("/")[0] for item in report.items} == {inside[:8]}


@pytest.mark.parametrize(
    ("moved", "places"),
    [
        ({"": "inner"}, (f"inner/{PROBLEM1}", f"inner/{PROBLEM2}")),
        ({"problem1": "part A", PROBLEM2: "sorting"}, ("part A/results", "sorting")),
    ],
)
def test_results_in_other_folders(sound, tmp_path, moved, places):
    shutil.copytree(sound, tmp_path / "submission" / moved.get("", ""))
    for old, new in moved.items():
        if old:
            (tmp_path / "submission" / old).rename(tmp_path / "submission" / new)
    report = grade(tmp_path / "submission", EXPECTED)
    assert report.passed and tuple(report.results.values()) == places


def test_what_belongs_to_another_experiment_is_not_taken_for_what_is_missing(folder):
    (folder / PROBLEM1 / "text").mkdir()
    for name in ("best_model.pth", "training_log.json"):
        (folder / PROBLEM1 / name).rename(folder / PROBLEM1 / "text" / name)
    shutil.rmtree(folder / PROBLEM2 / "sinusoidal")
    (folder / PROBLEM2 / "learned/training_log.json").rename(folder / PROBLEM2 / "training_log.json")
    found = {item.id.split("/")[1]: item.score for item in grade(folder, EXPECTED).items}
    assert found["none-log"] == 2 and found["learned-log"] == 0  # one log for all is nobody's
    for missing in ("training-log", "checkpoint", "sinusoidal-log", "sinusoidal-checkpoint"):
        assert found[missing] == 0, missing


def test_several_submissions_at_once_are_refused(refused, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "another")
    refused("-m", "grading", tmp_path, words=["2 places", "name one of them"])


def test_nothing_at_all_and_an_empty_folder_of_one_problem(command, tmp_path):
    result = command(tmp_path)
    assert result.returncode == 1 and "Nothing to grade" in result.stdout
    (tmp_path / "problem1").mkdir()
    report = grade(tmp_path, EXPECTED)
    assert report.score == 0 and report.maximum == 50
