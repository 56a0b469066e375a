"""make knows every position scheme, leaves results alone when only code has changed, and sets up what fits."""

import os
import re
import shutil
import subprocess
import sys

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
    ignored = shutil.ignore_patterns(".git", ".venv", "data", "previous", "__pycache__", "tests", "*.log", "last.pth")
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


def test_help_lists_every_target_and_begins_with_those_for_everybody():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^  make (\S*) +\S", said, re.MULTILINE)
    assert listed[:4] == [".venv/ready", "", "beyond", "studies"]
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert sorted(listed) == sorted({*phony, ".venv/ready", ""} - {"all"})


def test_at_its_end_make_says_what_is_there_and_which_committed_files_differ(made):
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], cwd=made, check=True)

    for path in (made / ".venv/ready", made / "report/report.pdf"):  # newer than what they are made of
        path.touch()
    git("init", "--quiet")
    git("add", "README.md")
    git("commit", "--quiet", "--message=one file")
    for text, words in (("", "No committed file has changed"), ("more", "files that differ now:\n M README.md")):
        (made / "README.md").write_text((made / "README.md").read_text() + text)
        said = subprocess.run(["make"], cwd=made, capture_output=True, text=True, check=True).stdout
        assert "problem2/results (sorted or not)" in said and "Look first at report/report.pdf" in said
        assert words in said, said


# --- setting up --------------------------------------------------------------------------------------------------


@pytest.fixture
def make_ready(tmp_path):
    """make .venv/ready in a folder that asks for nothing but pip."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements.txt", "requirements-dev.txt"):
        (tmp_path / name).write_text("pip\n")

    def call(python: str) -> subprocess.CompletedProcess:
        command = ["make", ".venv/ready", f"PYTHON={python}"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return call


def program(path, script: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("version", [(3, 9), (3, 15)])
def test_a_python_of_another_version_is_refused_before_anything_is_made(make_ready, tmp_path, version):
    pretends = f'exec {sys.executable} -c "import sys; sys.version_info = {version}\n$2"'
    result = make_ready(program(tmp_path / "other", pretends))
    assert result.returncode != 0 and "3.10 to 3.14 is needed" in result.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_venv_of_another_python_is_made_anew_and_one_that_fits_stays(make_ready, tmp_path):
    program(tmp_path / ".venv/bin/python", 'echo "(3, 9)"')
    result = make_ready(sys.executable)
    assert result.returncode == 0, result.stderr
    assert "Requirement already satisfied: pip" in result.stdout  # what pip does is shown
    assert (
        "Python 3"
        in subprocess.run([tmp_path / ".venv/bin/python", "--version"], capture_output=True, text=True).stdout
    )
    (tmp_path / ".venv/own").touch()
    (tmp_path / ".venv/ready").unlink()
    assert make_ready(sys.executable).returncode == 0
    assert (tmp_path / ".venv/own").exists()
