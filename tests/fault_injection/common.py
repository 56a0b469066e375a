"""Counting, running scripts with a fault in them or in this process, and judging the files that they leave."""

import contextlib
import io
import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path

import torch
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).resolve().parent / "child"
LIMIT, LIMIT_HERE = 900, 60  # seconds that a process may take, and a script within this process, on a busy machine
MEMORY = 4 * 2**30  # bytes of address space that a script within this process may take; Linux alone has this bound


class Tally:
    """What was tried, counted by name, and what went wrong, in sentences."""

    def __init__(self):
        self.counts, self.failures = Counter(), []

    def check(self, fine: object, complaint: str) -> None:
        if not fine:
            self.failures.append(complaint)


def run(command: list[str], seconds: float = LIMIT, **environment) -> tuple[int, str]:
    """["problem1/train.py", …] or ["-m", "grading", …] as a process -> exit code (-9: killed), standard error.

    After `seconds` it is killed with its children. `environment` may hold a FAULT (child/sitecustomize.py).
    """
    script = command[0] if command[0] == "-m" else str(ROOT / command[0])
    paths = {"PYTHONPATH": f"{CHILD}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, script, *command[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        env=os.environ | paths | {name: str(value) for name, value in environment.items()},
        start_new_session=True,
    )
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
    return process.returncode, errors


def call(command: list[str]) -> tuple[int, str]:
    """The same within this process, as thousands of runs must be, in at most LIMIT_HERE seconds and MEMORY bytes."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    before, code, bound = (sys.argv, [*sys.path]), 0, resource.getrlimit(resource.RLIMIT_AS)
    if (statm := Path("/proc/self/statm")).exists():
        taken = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, bound[1]))
    signal.signal(signal.SIGALRM, signal.default_int_handler)  # as Ctrl-C
    signal.setitimer(signal.ITIMER_REAL, LIMIT_HERE)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            sys.argv = command[command[0] == "-m" :]
            if command[0] == "-m":
                runpy.run_module(command[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(str(ROOT / command[0]), run_name="__main__")
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        code = errors.write(traceback.format_exc()) and 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, bound)
        sys.argv, sys.path[:] = before
    errors.flush()
    return code, errors.buffer.getvalue().decode()


def bad_refusal(code: int, errors: str) -> str | None:
    """None for exit code 2 and one line that says why, else what is wrong with it."""
    lines = [line for line in errors.splitlines() if "error:" in line]
    if "Traceback" in errors:
        return f"a traceback: {errors.strip().splitlines()[-1]}"
    return None if code == 2 and len(lines) == 1 else f"exit code {code}, {len(lines)} errors: {errors[-300:]!r}"


def contents(folder: Path) -> dict[str, object]:
    """Name -> content of the files in a folder, None where a file is not whole. What differs from run to run is left
    out: files that a killed process was writing, locks, logs, seconds."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix not in (".tmp", ".log")]
    files = [path for path in files if path.name != ".lock" and not path.name.endswith("timing.json")]
    return {path.relative_to(folder).as_posix(): content(path) for path in files}


def content(path: Path) -> object:
    try:
        if path.suffix == ".pth":
            return plain(torch.load(path, weights_only=True))
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        if path.suffix == ".png":
            Image.open(path).load()
    except Exception:  # whatever a reader says of a torn file
        return None
    data, end = path.read_bytes(), {".png": b"", ".pdf": b"%%EOF"}.get(path.suffix, b"\n")
    return data if data.endswith((end, end + b"\n")) else None


def plain(value) -> object:
    """Tensors as bytes, to be compared; without seconds."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key != "seconds"}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def torn(folder: Path) -> list[str]:
    return [name for name, data in contents(folder).items() if data is None]


def differences(one: Path, other: Path) -> list[str]:
    left, right = contents(one), contents(other)
    return [name for name in sorted({*left, *right}) if left.get(name) != right.get(name)]
