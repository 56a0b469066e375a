"""What all tests use: one thread, scripts as subprocesses, and what a refusal must look like."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

from lab import device
from tests import forked

ROOT = Path(__file__).resolve().parents[1]
device.start("cpu")
settings.register_profile("suite", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("suite")


def run(path: str, *arguments, cwd: Path = ROOT, env: dict | None = None) -> subprocess.CompletedProcess:
    """Run one of the repository's scripts as a user would: run("problem1/train.py", "--epochs", 1), or a package:
    run("-m", "grading")."""
    start, more = ("-m", {"PYTHONPATH": str(ROOT)}) if path == "-m" else (str(ROOT / path), {})
    command = [start, *map(str, arguments)]
    if env is None and sys.platform == "linux":
        return forked.run(command, cwd, timeout=240)
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=os.environ | more | (env or {}),
        capture_output=True,
        text=True,
        timeout=240,
    )


def works(path: str, *arguments, **keywords) -> str:
    """The same, without any error: what it prints."""
    result = run(path, *arguments, **keywords)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def script(tmp_path):
    """`run` in a folder of its own."""
    return partial(run, cwd=tmp_path)


@pytest.fixture
def refused(script):
    """The script must refuse: exit code 2, one line on stderr that holds every one of `words`, no traceback."""

    def check(path: str, *arguments, words: list[str], **keywords) -> str:
        result = script(path, *arguments, **keywords)
        assert result.returncode == 2, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr
        lines = [line for line in result.stderr.splitlines() if "error:" in line]
        assert len(lines) == 1, result.stderr
        for word in words:
            assert str(word) in lines[0], f"{word!r} is missing in: {lines[0]}"
        return lines[0]

    return check
