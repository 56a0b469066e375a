"""What Gradescope reads, and the autograder that writes it."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from tests.grading.submissions import PROBLEM1, ROOT
from tests.grading.with_issues import baseline

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


@pytest.fixture
def autograder(script, tmp_path):
    """What Gradescope does with an upload: the zip in source/, run_autograder, results.json."""

    def graded(upload: Path, build: dict | None = None, **environment) -> dict:
        assert script("-m", "grading.autograder", tmp_path / "autograder.zip", env=build).returncode == 0
        zipfile.ZipFile(tmp_path / "autograder.zip").extractall(tmp_path / "source")
        environment = {**os.environ, "AUTOGRADER": str(tmp_path), "PYTHON": sys.executable} | environment
        start = ["bash", str(tmp_path / "source/run_autograder")]
        subprocess.run(start, cwd=upload, env=environment, check=True, capture_output=True, timeout=120)
        results = json.loads((tmp_path / "results/results.json").read_text())
        assert conforms(results, RESULT)
        return results

    return graded


def test_the_autograder_grades_an_upload_and_runs_nothing_of_it(autograder, folder, tmp_path):
    """`folder` is submission/; a second submission inside costs all points."""
    for name in ("grading.py", "sitecustomize.py", "torch.py", "json.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'trap')!r}, 'w')\n")
    assert autograder(folder)["score"] == 100
    shutil.copytree(folder / "problem1", folder / "again/problem1")
    shutil.move(folder / "problem1", folder / "once/problem1")
    results = autograder(folder)
    assert results["score"] == 0 and "places" in results["output"] and not (tmp_path / "trap").exists()


def test_the_autograder_grades_the_problem_that_is_chosen(autograder, folder):
    shutil.rmtree(folder / "problem2")
    both = autograder(folder)
    assert both["score"] == 50 and "falls short" in both["output"]
    for one in (autograder(folder, {"PROBLEM": "problem1"}), autograder(folder, PROBLEM="problem1")):
        assert one["score"] == sum(test["max_score"] for test in one["tests"]) == 50 and "all sound" in one["output"]


def test_an_autograder_that_is_stopped_leaves_no_points_and_a_reason(autograder, folder):
    results = autograder(folder, PYTHON="false")
    assert results["score"] == 0 and "did not finish" in results["output"]


def test_the_autograder_installs_pinned_packages_and_no_cuda():
    lines = (ROOT / "grading/autograder/requirements.txt").read_text().splitlines()
    packages = [line for line in lines if "==" in line]
    assert {line.split("==")[0] for line in packages} == {"torch", "numpy", "pillow", "tqdm"}
    pinned = (ROOT / "requirements.txt").read_text()
    assert all(re.split("[;+]", line)[0] in pinned for line in packages if not line.startswith("pillow"))
    assert "+cpu" in next(line for line in packages if line.startswith("torch"))


def test_help_of_the_autograder_is_only_help(script, refused, tmp_path):
    assert "PROBLEM=problem1" in script("-m", "grading.autograder", "--help").stdout
    refused(
        "-m", "grading.autograder", "x.zip", words=["problem9", "problem1 or problem2"], env={"PROBLEM": "problem9"}
    )
    refused("-m", "grading.autograder", "x.zip", words=["CODE is 'yes'", "set it to 1"], env={"CODE": "yes"})
    refused("-m", "grading.autograder", tmp_path, words=["cannot be written"])
    assert list(tmp_path.iterdir()) == []


def test_what_gradescope_shows_is_text(command, folder, tmp_path):
    """Names in a submission cannot become formatting of the page that shows them."""
    torch.save({"<script>alert(1)</script>": torch.full((3,), math.nan)}, folder / PROBLEM1 / "best_model.pth")
    command(folder, "--gradescope", "results.json")
    results = json.loads((tmp_path / "results.json").read_text())
    assert "<script>" in json.dumps(results)
    assert {part["output_format"] for part in [results, *results["tests"]]} == {"text"}
    assert not any("name_format" in test for test in results["tests"])
