"""--code: the checks of starter/check.py beside the results, in all forms of the report; without it nothing is run."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from grading.code import CAUSES, add_code
from grading.grade import grade
from grading.pages import feedback
from grading.report import HINTS
from lab.files import UserError
from tests.grading.submissions import EXPECTED, LOG, change
from tests.grading.test_gradescope import RESULT, conforms
from tests.grading.with_issues import baseline
from tests.starter.submissions import check, make

ATTENTION = "problem1/attention.py"
# The decoder reads the answer itself in place of a start token: the loss never sees the first digit.
PREDICT = "        outputs = predict(model, inputs, targets)\n"
NO_START = "        targets = targets[:, 1:]\n        outputs = model(inputs, batch['target'][:, :-1])\n"


def code(folder: Path, *names: str, changes=()) -> Path:
    """Put files of the sample solution, with changes, into a submission."""
    with tempfile.TemporaryDirectory() as place:
        whole = make(Path(place) / "code", *changes)
        for path in [path for name in names for path in whole.glob(name)]:
            target = folder / path.relative_to(whole)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return folder


def points(problem: dict, **parts: float) -> dict:
    return problem | {"code": parts}


def test_without_the_flag_nothing_is_run(command, folder, tmp_path):
    (folder / ATTENTION).write_text("raise RuntimeError('it is run')\n")
    result = command(folder, "--problem", "problem1", "--json", tmp_path / "out.json")
    assert result.returncode == 0 and "Code" not in result.stdout
    assert "code" not in json.loads((tmp_path / "out.json").read_text())
    result = command(folder, "--problem", "problem1", "--code")
    assert result.returncode == 1 and "RuntimeError: it is run (attention.py, line 1" in " ".join(result.stdout.split())
    assert "Total 50 of 50: something falls short. Code: 0 of 23 checks ok, 1 WRONG" in result.stdout


def test_sound_code(command, folder, tmp_path):
    code(folder, ATTENTION, "problem2/*.py")
    result = command(
        folder, "--code", "--problem", "problem2", "--json", "out.json", "--html", "page.html", "--gradescope", "g.json"
    )
    assert result.returncode == 0 and result.stderr == "", result.stdout
    assert "Total 50 of 50: all sound. Code: 12 of 12 checks ok." in result.stdout
    report = json.loads((tmp_path / "out.json").read_text())
    assert [(part["id"], part["score"], part["maximum"]) for part in report["code"]] == [
        ("problem2/encodings", 0, 0),
        ("problem2/sorting", 0, 0),
    ]
    assert {one["verdict"] for part in report["code"] for one in part["checks"]} == {"ok"}
    results = json.loads((tmp_path / "g.json").read_text())
    tests = {test["name"]: test for test in results["tests"]}
    assert conforms(results, RESULT)
    assert tests["problem2/code: sorting"]["status"] == "passed"
    assert tests["problem2/code: sorting"]["output"] == "6 of 6 checks ok"
    page = (tmp_path / "page.html").read_text()
    assert "Code: 12 of 12 checks ok" in page and "<li>padding changes nothing</li>" in page


@pytest.mark.parametrize("accuracy", [0.412, 0.9985])
def test_code_and_numbers_are_seen_together(folder, accuracy):
    """A loss without the first digit explains 41.2%, and contradicts 99.85%."""
    code(folder, "problem1/*.py", changes=[("problem1/train.py", PREDICT, NO_START)])
    baseline(0.412, test=accuracy)(folder)
    report = grade(folder, EXPECTED[:1])
    before = report.score
    add_code(report, folder, [points(EXPECTED[0], training=10)])
    (part,) = report.code
    assert (part.id, part.score, report.maximum, report.score) == ("problem1/training", 0, 60, before)
    assert any("training.loss is WRONG" in note and "the loss sees 3" in note for note in part.notes())
    issues = {issue.name: issue.hint for issue in report.issues}
    assert "training.loss is WRONG. Of the 4 digits of each answer the loss sees 3" in issues["first-digit-given"]
    (item,) = [item for item in report.items if item.id == "problem1/test-accuracy"]
    assert "cannot exceed 58.8% of the test sums" in item.advice
    assert ("99.85% is not the share of whole answers" in item.advice) == (accuracy > 0.588)
    page = feedback(report, report)
    assert "The code has mistakes</a> (training.loss)" in page and page.count("cannot exceed 58.8%") == 1


def test_points_for_a_part(folder):
    """All of its checks, or none of its points."""
    code(folder, ATTENTION, "problem2/positional_encoding.py")
    problems = [points(EXPECTED[0], attention=6), points(EXPECTED[1], encodings=4)]
    report = add_code(grade(folder, EXPECTED), folder, problems)
    assert (report.score, report.maximum, report.passed) == (110, 110, True)
    change_code = ("problem2/positional_encoding.py", "        return x\n", "        return 2 * x\n")
    code(folder, "problem2/positional_encoding.py", changes=[change_code])
    report = add_code(grade(folder, EXPECTED), folder, problems)
    assert (report.score, report.maximum, report.passed) == (106, 110, False)
    assert [test["score"] for test in report.gradescope()["tests"] if "code" in test["name"]] == [6, 0]
    with pytest.raises(UserError, match="'atention', which is no part of the checks: name attention, model"):
        add_code(grade(folder, EXPECTED), folder, [points(EXPECTED[0], atention=1)])


def test_a_class_sees_which_check_fails_in_how_many(command, tmp_path):
    wrong = (ATTENTION, "scores / math.sqrt(d_k)", "scores")
    code(tmp_path / "class/right", ATTENTION)
    code(tmp_path / "class/wrong", ATTENTION, changes=[wrong])
    (tmp_path / "class/wrong/<i>").mkdir()
    (tmp_path / "class/nothing").mkdir()
    result = command("--all", "class", "--code", "--problem", "problem1", "--csv", "grades.csv", "--html", "class.html")
    assert result.returncode == 1 and result.stderr == ""
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = {row["submission"]: row for row in csv.DictReader(file)}
    assert (rows["right"]["code_ok"], rows["right"]["code_wrong"]) == ("8", "")
    assert rows["wrong"]["code_wrong"].split()[0] == "attention.scores" and int(rows["wrong"]["code_ok"]) < 8
    assert (rows["nothing"]["code_ok"], rows["nothing"]["error"]) == ("0", "")
    page = (tmp_path / "class.html").read_text()
    assert re.search(r"<b>attention.scores</b>.*?</td><td>1</td><td>0</td><td>0</td>.*?<td>wrong</td>", page)


HOSTILE = """
import os
print("34 ok.")
found = []
for place in ({places}):
    for name in ("", "/grading/code.py", "/results.json"):
        try:
            found.append(len(os.listdir(place) if name == "" else open(place + name).read()))
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            pass
        try:
            open(place + name + "/won", "w")
            found.append("written")
        except OSError:
            pass
raise RuntimeError("found " + str(found) + " as user " + str(os.getuid()))
"""


def test_hostile_code_has_a_verdict(command, folder, tmp_path):
    """It ends its process, prints a verdict, and writes what is to be its grade."""
    results = tmp_path / "results.json"
    (folder / ATTENTION).write_text(
        f"import os\nprint('34 ok.')\ntry:\n    open({str(results)!r}, 'w').write('100')\nfinally:\n    os._exit(0)\n"
    )
    result = command(folder, "--code", "--problem", "problem1", "--gradescope", results)
    assert result.returncode == 1 and result.stderr == ""
    assert "attention.scores is WRONG: While attention.py was imported: The process with your code" in " ".join(
        result.stdout.split()
    )
    content = json.loads(results.read_text())
    assert content["score"] == 50 and "Code: 0 of 23 checks ok" in content["output"]


def reachable_by_nobody() -> bool:
    """Whether this test may start processes as another user, and that user may start this Python."""
    try:
        tried = subprocess.run([sys.executable, "-c", "import torch"], user="nobody", group=65534, extra_groups=[])
    except (OSError, KeyError, ValueError, LookupError):
        return False
    return tried.returncode == 0


@pytest.fixture
def autograder(script):
    """The autograder as its container has it, in a folder that everybody may enter."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)

    def graded(submission: Path, **environment) -> dict:
        made = script("-m", "grading.autograder", place / "autograder.zip", env={"CODE": "1", "PROBLEM": "problem1"})
        assert made.returncode == 0
        shutil.unpack_archive(place / "autograder.zip", place / "source")
        shutil.copytree(submission, place / "submission", dirs_exist_ok=True)
        environment = os.environ | {"AUTOGRADER": str(place), "PYTHON": sys.executable} | environment
        subprocess.run(["bash", place / "source/run_autograder"], env=environment, capture_output=True, timeout=120)
        return json.loads((place / "results/results.json").read_text())

    graded.place = place
    yield graded
    shutil.rmtree(place)


def hostile(folder: Path, place: Path) -> Path:
    places = f"{str(place / 'source')!r}, {str(place / 'results')!r}"
    (folder / ATTENTION).write_text(HOSTILE.format(places=places))
    return folder


def test_the_autograder_checks_code(autograder, folder):
    """Here it may be without another user: what only root can do is the next test's."""
    results = autograder(hostile(folder, autograder.place), CHECK_USER="")
    tests = {test["name"]: test for test in results["tests"]}
    assert results["score"] == 50 and "RuntimeError: found [" in tests["problem1/code: attention"]["output"]
    assert "written" not in tests["problem1/code: attention"]["output"]
    assert tests["problem1/code: attention"]["status"] == "failed"
    for name in ("source", "results"):
        assert (autograder.place / name).stat().st_mode & 0o077 == 0, name


@pytest.mark.skipif(not reachable_by_nobody(), reason="needs root, and a Python that the user nobody can start")
def test_in_the_autograder_code_reads_neither_grader_nor_results(autograder, folder):
    results = autograder(code(folder, ATTENTION), CHECK_USER="nobody")
    (test,) = [test for test in results["tests"] if test["name"] == "problem1/code: attention"]
    assert test["output"].startswith("8 of 8 checks ok")
    results = autograder(hostile(folder, autograder.place), CHECK_USER="nobody")
    (test,) = [test for test in results["tests"] if test["name"] == "problem1/code: attention"]
    assert "RuntimeError: found [] as user 65534" in test["output"]


def test_an_unknown_user_is_no_user_at_all(autograder, folder):
    """The code is not run as anybody else instead."""
    results = autograder(hostile(folder, autograder.place), CHECK_USER="no-such-user")
    assert "not checked" in results["output"] and "'no-such-user', and there is no such user" in results["output"]
    assert "RuntimeError" not in json.dumps(results)


def test_causes_are_of_checks_issues_and_items_that_exist():
    items = {f"{one['problem']}/{item['id']}" for one in EXPECTED for item in one["items"]}
    issues = {*HINTS, *(known["name"] for known in EXPECTED[0]["known_values"])}
    for name, checks in CAUSES.items():
        assert name in items | issues and {*checks} <= {*check.CHECKS}, name
    assert [part for one in EXPECTED for part in one["code"]] == [*check.PARTS]


def test_a_problem_without_code_or_results_is_left_out(folder):
    shutil.rmtree(folder / "problem2")
    code(folder, ATTENTION)
    change(folder, LOG, test_acc=0.5)
    report = add_code(grade(folder, EXPECTED), folder, EXPECTED)
    assert [part.id for part in report.code] == ["problem1/attention", "problem1/model", "problem1/training"]
    assert report.code[1].ok == 0 and "there is no model.py" in report.code[1].notes()[0]
