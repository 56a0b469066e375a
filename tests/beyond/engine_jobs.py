"""Jobs for the tests of the engines, in a module that workers can import. Each leaves a line in the file `trace`."""

import os
import signal
import time
from pathlib import Path

from beyond.jobs import Job
from lab.files import UserError


def square(number: int, trace: str, folder: Path) -> dict:
    leave_trace(number, trace)
    print(f"squaring {number}")
    (folder / "training_log.json").write_text(f"[{number}]")
    return {"square": number * number}


def leave_trace(number: int, trace: str) -> None:
    with open(trace, "a") as file:
        file.write(f"{number} {os.getpid()}\n")


def fails(number: int, trace: str, folder: Path) -> dict:
    raise UserError(f"{number} is no good")


def breaks(number: int, trace: str, folder: Path) -> dict:
    return {"square": 1 / (number - number)}


def is_killed(number: int, trace: str, folder: Path) -> dict:
    leave_trace(number, trace)
    os.kill(os.getpid(), signal.SIGKILL)


def waits(number: int, trace: str, folder: Path) -> dict:
    """For longer than any test lasts, or until somebody kills the process and it is begun again."""
    begun = Path(trace).exists() and f"{number} " in Path(trace).read_text()
    leave_trace(number, trace)
    if not begun:
        time.sleep(60)
    return {"square": number * number}


def jobs(folder, numbers, function=square) -> list[Job]:
    trace = str(folder / "trace")
    return [Job(f"run {n}", function, {"number": n, "trace": trace}, folder / str(n)) for n in numbers]


def traced(folder) -> list[tuple[str, str]]:
    """Which numbers ran, and in which process."""
    return [tuple(line.split()) for line in (folder / "trace").read_text().splitlines()]
