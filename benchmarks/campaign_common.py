"""What the parts of the campaign share: counting, running scripts, and judging what they leave on disk."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
from lab import checkpoint
from lab.files import UserError, read_json
from lab.grading.reading import Unreadable, decode

LIMIT = 240  # seconds that any one process may take
# What two runs of the same thing may differ in.
INCIDENTAL = {"seconds", "code", "versions", "machine", "device", "threads"}
KINDS = ("problem1/digits", "problem1/text", "problem2/sorting")


@dataclass
class Tally:
    """What a part of the campaign tried, counted by name, and what went wrong, in sentences."""

    counts: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def count(self, name: str, amount: float = 1) -> None:
        self.counts[name] += amount

    def check(self, fine: bool, complaint: str) -> bool:
        if not fine:
            self.failures.append(complaint)
        return fine

    def plain(self) -> dict:
        return {**dict(sorted(self.counts.items())), "failures": self.failures}


# --- processes ---------------------------------------------------------------------------------------------------


def start(command: list, output=subprocess.DEVNULL) -> subprocess.Popen:
    """["problem1/train.py", "--epochs", 1] as a process of one thread; a script's path is one from the root."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, str(ROOT / command[0]), *map(str, command[1:])],
        stdout=output,
        stderr=output,
        text=True,
        errors="backslashreplace",
        env=environment,
    )


def end_of(process: subprocess.Popen) -> tuple[int, str, str]:
    """Its exit code and what it printed; a process that hangs is stopped, and its exit code is that of the signal."""
    try:
        said, errors = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        said, errors = process.communicate()
    return process.returncode, said or "", errors or ""


def run(command: list) -> tuple[int, str, str]:
    return end_of(start(command, subprocess.PIPE))


def must_run(command: list) -> None:
    code, _, errors = run(command)
    if code:
        raise UserError(f"{command[0]}, which the campaign needs, ended with exit code {code}: {errors[-300:]}")


def one_sentence(code: int, errors: str) -> str | None:
    """None for a refusal in good form (exit code 2, one line that says why), else what is wrong with it."""
    lines = [line for line in errors.splitlines() if "error:" in line]
    if "Traceback" in errors:
        return f"a traceback: {errors.splitlines()[-1]}"
    if code != 2 or len(lines) != 1:
        return f"exit code {code} and {len(lines)} lines of error: {errors[-300:]!r}"
    return None


# --- files -------------------------------------------------------------------------------------------------------


def is_leftover(path: Path) -> bool:
    """What only a process that was killed leaves: the file it was writing beside the real one."""
    return path.name.startswith(".") and path.suffix == ".tmp"


def torn(folder: Path) -> list[str]:
    """What is wrong with the files in `folder`, leftovers aside: each must be whole, or not be there at all."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    complaints = [(path, complaint(path)) for path in found if not is_leftover(path)]
    return [f"{path.relative_to(folder)} {what}" for path, what in complaints if what]


def complaint(path: Path) -> str | None:
    try:
        content = path.read_bytes()
        if path.suffix == ".json":
            read_json(path, "")
        elif path.suffix == ".pth":
            checkpoint.load(path, torch.load(path, weights_only=True)["kind"])
        elif path.suffix == ".png":
            decode(content)
        elif path.suffix == ".pdf":
            whole = content.startswith(b"%PDF") and content.rstrip().endswith(b"%%EOF")
            return None if whole else "is not a whole PDF"
        elif path.suffix == ".txt":
            return None if content.decode().endswith("\n") else "does not end with a line"
        else:
            return "is no file that these scripts write"
    except (UserError, Unreadable) as error:
        return str(error)
    except Exception as error:  # torch.load of a torn file may fail in any way
        return f"cannot be read ({type(error).__name__}: {error})"
    return None


def differences(one: Path, other: Path) -> list[str]:
    """The files in which two folders differ, but for what differs from run to run: seconds and provenance."""
    names = {path.relative_to(top).as_posix() for top in (one, other) for path in top.rglob("*") if path.is_file()}
    names = sorted(name for name in names if not name.endswith(".lock"))
    return [name for name in names if not same_file(one / name, other / name)]


def same_file(one: Path, other: Path) -> bool:
    if not (one.is_file() and other.is_file()):
        return False
    if one.read_bytes() == other.read_bytes():
        return True
    if one.suffix == ".json":
        return same(*(json.loads(path.read_text()) for path in (one, other)))
    if one.suffix == ".pth":
        return same(*(torch.load(path, weights_only=True) for path in (one, other)))
    return False


def same(one, other) -> bool:
    """Equal to the bit, whatever it is made of; INCIDENTAL entries do not count."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = one.keys() - INCIDENTAL
        return keys == other.keys() - INCIDENTAL and all(same(one[key], other[key]) for key in keys)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other
