"""`python -m grading`: where results are looked for, what it prints and writes, its exit codes."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from grading.grade import grade
from tests.grading.submissions import EXPECTED, LOG, PROBLEM1, PROBLEM2, ROOT, change, slow
from tests.grading.with_issues import baseline


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


def test_a_python_without_packages_is_told_what_to_type():
    """Without the site's packages, as on a fresh machine."""
    start = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, timeout=60)
    bare = [sys.executable, "-S", "-m", "grading"]
    result = start([*bare, "--help"])
    assert result.returncode == 0 and "--gradescope" in result.stdout
    result = start(bare)
    assert result.returncode == 2 and result.stdout == "" and len(result.stderr.splitlines()) == 1
    assert "no torch, numpy, pillow" in result.stderr and ". .venv/bin/activate" in result.stderr


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


FORMULAS = ['=HYPERLINK("http:evil","x")', "=cmd|' C'!A0", "+1+1", "-2", "@SUM(1)", "'=1", "=1"]


def test_names_of_a_class_are_unique_and_no_formulas(command, tmp_path):
    """Nothing is in the folders: only their names matter."""
    alike = ["x\ny", "x\\ny", "\\udcff", os.fsdecode(b"\xff")]
    for name in [*FORMULAS, *alike]:
        (tmp_path / "class" / name).mkdir(parents=True)
    result = command("--all", "class", "--csv", "grades.csv", "--json", "grades.json")
    assert result.returncode == 1 and result.stderr == ""
    with open(tmp_path / "grades.csv", newline="") as file:
        names = [row["submission"] for row in csv.DictReader(file)]
    assert len({*names}) == len(FORMULAS + alike) == len(json.loads((tmp_path / "grades.json").read_text()))
    assert not any(name.startswith(tuple("=+-@")) for name in names) and "'+1+1" in names


def test_a_link_in_a_class_is_not_followed(command, sound, tmp_path):
    (tmp_path / "class/mine").mkdir(parents=True)
    (tmp_path / "class/theirs").symlink_to(sound)
    (tmp_path / "class/root").symlink_to("/")
    assert command("--all", "class", "--csv", "grades.csv").returncode == 1
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = {row["submission"]: row for row in csv.DictReader(file)}
    assert "is a link" in rows["theirs"]["error"] and "is a link" in rows["root"]["error"]
    assert rows["theirs"]["score"] == ""


def test_a_class_is_written_line_by_line(sound, tmp_path):
    """Whatever stops the rest leaves what is graded. The second submission takes a while."""
    shutil.copytree(sound, tmp_path / "class/a")
    shutil.copytree(sound, tmp_path / "class/b")
    slow(tmp_path / "class/b")
    start = [sys.executable, "-m", "grading", "--all", str(tmp_path / "class"), "--csv", str(tmp_path / "grades.csv")]
    with subprocess.Popen(start, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline(), process.stdout.readline()]
        written, running = (tmp_path / "grades.csv").read_text(), process.poll() is None
        process.terminate()
    assert running and lines[1].startswith("a,100.0,") and written == "".join(lines)


def test_a_problem_that_is_not_there_shows_everywhere(command, folder, tmp_path):
    (tmp_path / "class").mkdir()
    shutil.rmtree(folder / "problem2")
    shutil.move(folder, tmp_path / "class/half")
    assert command("--all", "class", "--csv", "grades.csv", "--html", "class.html").returncode == 1
    with open(tmp_path / "grades.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["problem1"], row["problem2"], row["not_graded"]) == ("50.0", "", "problem2")
    page = (tmp_path / "class.html").read_text()
    assert "0 complete and sound" in page and "problem2 not graded" in page
    result = command("class/half", "--html", "half.html")
    assert result.returncode == 1 and "problem2 not graded" in result.stdout
    assert (
        "Not graded" in (tmp_path / "half.html").read_text() and "Well done" not in (tmp_path / "half.html").read_text()
    )


def test_a_model_that_has_not_learned_is_not_praised(command, folder, tmp_path):
    change(folder, LOG, test_acc=0.0135)
    command(folder, "--html", "feedback.html")
    page = (tmp_path / "feedback.html").read_text()
    assert "<title>Feedback: submission</title>" in page and "<h1>submission: " in page
    assert "has not learned its task yet (Test accuracy)" in page and "progress" not in page
    item = re.search("<h3>Test accuracy</h3>.*?</section>", page, re.DOTALL)[0]
    assert "<p>test accuracy 1.35%</p>" in item and "twenty rows by heart" in item


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


def test_of_two_places_the_one_nearer_to_the_top_counts(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "hand in")
    (tmp_path / "hand in/backup" / PROBLEM1).mkdir(parents=True)
    report = grade(tmp_path, EXPECTED)
    assert report.passed and report.results["problem1"] == f"hand in/{PROBLEM1}"


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
