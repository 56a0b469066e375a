"""Runs side by side: each once, in a process of its own, used again only with the same settings."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from beyond.jobs import Job, finished, run
from lab.files import UserError
from tests.conftest import ROOT


def square(number: int, trace: str) -> dict:
    """Leaves a line in `trace` whenever it really runs."""
    with open(trace, "a") as file:
        file.write(f"{number} {os.getpid()}\n")
    print(f"squaring {number}")
    return {"square": number * number}


def fails(number: int, trace: str) -> dict:
    raise UserError(f"{number} is no good")


def breaks(number: int, trace: str) -> dict:
    return {"square": 1 / (number - number)}


def is_killed(number: int, trace: str) -> dict:
    os.kill(os.getpid(), signal.SIGKILL)


def waits(number: int, trace: str) -> dict:
    time.sleep(60)


def jobs(folder, numbers, function=square, **more) -> list[Job]:
    settings = {"trace": str(folder / "trace")} | more
    return [Job(f"run {n}", function, settings | {"number": n}, folder / str(n) / "result.json") for n in numbers]


def traced(folder) -> list[tuple[str, str]]:
    return [tuple(line.split()) for line in (folder / "trace").read_text().splitlines()]


def test_every_job_runs_once_in_its_own_process_and_in_order(tmp_path):
    results = run(jobs(tmp_path, [3, 1, 2]), workers=2)
    assert [result["square"] for result in results] == [9, 1, 4]
    assert len({process for _, process in traced(tmp_path)}) == 3
    assert (tmp_path / "3/result.log").read_text() == "squaring 3\n"


def test_what_is_finished_is_used_again_but_only_with_the_same_settings(tmp_path):
    run(jobs(tmp_path, [1, 2]), workers=2)
    run(jobs(tmp_path, [1, 2, 3]), workers=2)
    assert sorted(number for number, _ in traced(tmp_path)) == ["1", "2", "3"]
    job = jobs(tmp_path, [1])[0]
    changed = replace(job, settings=job.settings | {"number": 7})
    assert finished(job) and not finished(changed)
    assert run([changed], workers=1)[0]["square"] == 49
    assert finished(changed) and not finished(job)


@pytest.mark.parametrize(
    ("function", "words"),
    [(fails, "run 5 failed: 5 is no good"), (breaks, "ZeroDivisionError"), (is_killed, "stopped by signal 9")],
)
def test_what_failed_is_named_and_the_others_are_finished(tmp_path, function, words):
    mixed = jobs(tmp_path, [1]) + jobs(tmp_path, [5], function) + jobs(tmp_path, [2])
    with pytest.raises(UserError, match=words):
        run(mixed, workers=1)
    assert [finished(job) is None for job in mixed] == [False, True, False]


PROGRAM = """
import sys
from pathlib import Path
from beyond.jobs import run
from tests.lab.test_jobs import jobs, waits
if __name__ == "__main__":
    run(jobs(Path(sys.argv[1]), range(5), waits))
"""


def test_ctrl_c_stops_all_of_them(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.time() + 60
    while not list(tmp_path.glob("*/result.log")) and time.time() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode != 0 and not list(tmp_path.glob("*/result.json"))
