"""Runs side by side: each once, used again only with the same settings; failures and dead workers stop no other."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from beyond.jobs import Engine, finished, run
from lab.files import UserError
from tests.beyond.engine_jobs import breaks, fails, is_killed, jobs, traced
from tests.conftest import ROOT


def test_every_job_runs_once_and_in_order(tmp_path):
    results = run(jobs(tmp_path, [3, 1, 2]), Engine(workers=2))
    assert [result["square"] for result in results] == [9, 1, 4]
    assert sorted(number for number, _ in traced(tmp_path)) == ["1", "2", "3"]
    assert str(os.getpid()) not in {process for _, process in traced(tmp_path)}
    assert (tmp_path / "3/measured.log").read_text() == "squaring 3\n"


def test_what_is_finished_is_used_again_but_only_with_the_same_settings(tmp_path):
    run(jobs(tmp_path, [1]), Engine(workers=1))
    run(jobs(tmp_path, [1, 2]), Engine(workers=1))
    assert [number for number, _ in traced(tmp_path)] == ["1", "2"]
    job = jobs(tmp_path, [1])[0]
    changed = replace(job, settings=job.settings | {"number": 7})
    assert finished(job) and not finished(changed)
    assert run([changed], Engine(workers=1))[0]["square"] == 49
    assert finished(changed) and not finished(job)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (fails, "run 5 failed: 5 is no good"),
        (breaks, "ZeroDivisionError"),
        (is_killed, "run 5 failed: its process was"),
    ],
)
def test_what_failed_is_named_and_the_others_are_finished(tmp_path, function, words):
    mixed = jobs(tmp_path, [1]) + jobs(tmp_path, [5], function) + jobs(tmp_path, [2, 3, 4, 6])
    with pytest.raises(UserError, match=words) as told:
        run(mixed, Engine(workers=2))
    assert str(told.value).count("failed") == 1
    assert [job.name for job in mixed if finished(job) is None] == ["run 5"]
    if function is breaks:
        assert "Traceback" in (tmp_path / "5/measured.log").read_text()


def test_without_dask_a_scheduler_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match="needs Dask"):
        run(jobs(tmp_path, [1]), Engine(scheduler="tcp://127.0.0.1:9"))


def test_a_process_that_is_killed_once_costs_no_result(tmp_path):
    """As by a system that is short of memory: who was running is begun again."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    (_, victim), _ = wait_for_trace(tmp_path, 2)
    os.kill(int(victim), signal.SIGKILL)
    assert process.wait(timeout=100) == 0
    assert all(finished(job) for job in jobs(tmp_path, range(4)))


PROGRAM = """
import sys
from pathlib import Path
from beyond.jobs import Engine, run
from tests.beyond.engine_jobs import jobs, waits
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run(jobs(folder, [0, 1], waits) + jobs(folder, [2, 3]), Engine(workers=2))
"""


def wait_for_trace(folder, lines: int) -> list[tuple[str, str]]:
    deadline = time.time() + 60
    while time.time() < deadline:
        if (folder / "trace").exists() and len(traced(folder)) >= lines:
            return traced(folder)
        time.sleep(0.1)
    raise AssertionError("no job has begun")


def test_ctrl_c_stops_all_of_them_and_leaves_what_is_done(tmp_path):
    run(jobs(tmp_path / "done", [1]), Engine(workers=1))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    running = wait_for_trace(tmp_path, 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode != 0 and not list(tmp_path.glob("[0-9]/measured.json"))
    for _, worker in running:
        with pytest.raises(ProcessLookupError):
            os.kill(int(worker), 0)
