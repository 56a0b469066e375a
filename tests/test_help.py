"""--help helps, and does nothing else."""

import subprocess
import sys

from tests.conftest import ROOT

SCRIPTS = [
    path
    for folder in ("problem1", "problem2", "beyond", "report", "explorer", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if 'if __name__ == "__main__"' in path.read_text()
]
PROGRAM = """
import runpy, sys
for script in sys.argv[1:]:
    sys.argv = [script, "--help"]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        print("ended with", ended.code)
"""


def test_help_of_every_script_has_no_effect_but_help(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, SCRIPTS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert done.returncode == 0 and len(SCRIPTS) > 15, done.stderr
    assert done.stdout.count("usage:") == done.stdout.count("ended with 0") == len(SCRIPTS), done.stdout
    assert not [*tmp_path.iterdir()]
