"""What all tests use: one thread, scripts as subprocesses, and what a refusal must look like."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(1)
settings.register_profile("suite", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("suite")


@pytest.fixture
def script(tmp_path):
    """Run one of the repository's scripts as a user would: script("problem1/train.py", "--epochs", 1), or a package:
    script("-m", "grading")."""

    def run(path: str, *arguments, cwd: Path = tmp_path, env: dict | None = None) -> subprocess.CompletedProcess:
        start, more = ("-m", {"PYTHONPATH": str(ROOT)}) if path == "-m" else (str(ROOT / path), {})
        return subprocess.run(
            [sys.executable, start, *map(str, arguments)],
            cwd=cwd,
            env=os.environ | more | (env or {}),
            capture_output=True,
            text=True,
            timeout=240,
        )

    return run


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
