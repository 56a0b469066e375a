"""A Python without the packages, or too old, gets one sentence with the command to type, from every script."""

import ast
import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PLACES = ("problem1", "problem2", "beyond", "report", "explorer", "benchmarks")
SCRIPTS = sorted(
    path.relative_to(ROOT).as_posix()
    for place in PLACES
    for path in (ROOT / place).rglob("*.py")
    if 'if __name__ == "__main__":' in path.read_text()
)
OLD = """import runpy, sys
sys.version_info = (3, 9, 18)
sys.argv = sys.argv[1:]
sys.path[0] = sys.argv[0].rpartition("/")[0]
runpy.run_path(sys.argv[0], run_name="__main__")"""


def sentence(*command) -> str:
    """What a script says that is refused in one line with exit code 2."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(command, cwd=ROOT / "tests", env=env, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and result.stdout == "", result
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("error: "), result.stderr
    return result.stderr


def test_there_are_scripts():
    assert {"problem1/train.py", "problem2/analyze.py", "beyond/any_length/check_proof.py"} <= set(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_without_packages(script):
    for arguments in ([], ["--help"]):
        said = sentence(sys.executable, "-S", str(ROOT / script), *arguments)  # -S: without site-packages
        if script.endswith("check_proof.py"):
            assert "pip install numpy" in said
        else:
            assert "torch is not installed" in said and ". .venv/bin/activate" in said
            assert "pip install -r requirements.txt" in said


@pytest.mark.parametrize("script", SCRIPTS)
def test_with_an_old_python(script):
    assert "3.10" in sentence(sys.executable, "-c", OLD, str(ROOT / script))
    for file in (script, "lab/__init__.py", "lab/installed.py"):
        ast.parse((ROOT / file).read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("version", ["3.8", "3.9"])
def test_with_a_real_old_python(version):
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "--version"], capture_output=True).returncode:
        pytest.skip(f"Python {version} is not installed")
    for script in SCRIPTS:
        assert "3.10" in sentence(python, str(ROOT / script))
