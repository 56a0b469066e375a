"""make knows every position scheme, and leaves results alone when only code has changed."""

import os
import shutil
import subprocess

import pytest

from problem2.positional_encoding import SCHEMES
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def would_run(folder, target: str) -> str:
    result = subprocess.run(["make", "-n", target], cwd=folder, capture_output=True, text=True, check=True)
    return result.stdout


@pytest.fixture
def made(tmp_path):
    """A copy in which everything has been made: data first, then trainings, then analyses."""
    ignored = shutil.ignore_patterns(".git", ".venv", "data", "seeds", "previous", "__pycache__", "tests", "*.log")
    clone = shutil.copytree(ROOT, tmp_path / "clone", ignore=ignored)
    data = [clone / problem / "data/test.json" for problem in ("problem1", "problem2")]
    results = [path for path in clone.glob("**/results/**/*") if path.is_file()]
    logs = [path for path in results if path.name == "training_log.json"]
    for time, paths in enumerate([[clone / ".venv/ready"], data, logs, {*results} - {*logs}], 10**9):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            os.utime(path, (time, time))
    return clone


def test_in_a_fresh_clone_every_scheme_is_trained(made):
    for problem in ("problem1", "problem2"):
        shutil.rmtree(made / problem / "data")
    commands = would_run(made, "schemes")
    for scheme in SCHEMES:
        assert f"problem2/train.py --encoding {scheme} " in commands or f"--encoding {scheme};" in commands, scheme
    assert "problem1/analyze.py" in would_run(made, "problem1")


def test_changed_code_outdates_no_result(made):
    for folder in ("lab", "problem1", "problem2", "beyond"):
        for path in made.glob(f"{folder}/**/*.py"):
            os.utime(path)
    for target in ("problem1", "problem2", "program", "rounding", "any_length", "schemes"):
        assert ".py" not in would_run(made, target), target


def test_a_missing_training_makes_its_analysis_again_and_no_other(made):
    (made / "problem2/results/rope/training_log.json").unlink()
    assert ".py" not in would_run(made, "problem2")  # the homework's three are there
    commands = would_run(made, "schemes")
    assert "--encoding rope --resume" in commands and "--encoding alibi" not in commands
    assert "problem2/analyze.py" in commands
