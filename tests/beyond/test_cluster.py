"""The same jobs on a Dask cluster: a scheduler and two workers on this machine. Skipped where Dask is not installed."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from beyond import jobs as engine
from beyond.jobs import Engine, finished, run
from lab.files import UserError
from tests.beyond.engine_jobs import breaks, fails, jobs, traced
from tests.beyond.test_jobs import wait_for_trace
from tests.conftest import ROOT

DASK = importlib.util.find_spec("distributed")
pytestmark = pytest.mark.skipif(DASK is None, reason="Dask is not installed: see requirements-cluster.txt")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a scheduler with two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    printed = folder / "scheduler.log"
    dask = [sys.executable, "-m", "dask"]
    quiet = ["--no-dashboard"]

    def start(*words: str, log) -> subprocess.Popen:
        return subprocess.Popen([*dask, *words, *quiet], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)

    with open(printed, "w") as log:
        started = [start("scheduler", "--host", "127.0.0.1", "--port", "0", log=log)]
        try:
            address = read_address(printed)
            more = ["--nworkers", "2", "--nthreads", "1", "--local-directory", str(folder)]
            started.append(start("worker", address, *more, log=log))
            yield address
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(timeout=30)


def read_address(printed) -> str:
    deadline = time.time() + 60
    while time.time() < deadline:
        found = re.search(r"tcp://127\.0\.0\.1:\d+", printed.read_text())
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(printed.read_text())


def test_results_and_files_travel_back_and_failures_are_named(address, tmp_path):
    mixed = [*jobs(tmp_path, [3, 1]), *jobs(tmp_path, [5], fails), *jobs(tmp_path, [6], breaks), *jobs(tmp_path, [2])]
    with pytest.raises(UserError, match="run 5 failed: 5 is no good; run 6 failed: ZeroDivisionError"):
        run(mixed, Engine(scheduler=address))
    assert [finished(job) and finished(job)["square"] for job in mixed] == [9, 1, None, None, 4]
    assert (tmp_path / "3/training_log.json").read_text() == "[3]"
    assert len({process for _, process in traced(tmp_path)}) <= 2
    assert not (tmp_path / "3/measured.log").exists()  # it worked in a folder of its own


def test_what_a_killed_worker_was_doing_is_done_by_another(address, tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), address]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    (_, worker), *_ = [line for line in wait_for_trace(tmp_path, 4) if line[0] == "0"]
    os.kill(int(worker), signal.SIGKILL)
    assert process.wait(timeout=100) == 0
    assert all(finished(job) for job in jobs(tmp_path, range(4)))
    assert sorted(number for number, _ in traced(tmp_path)) == ["0", "0", "1", "2", "3"]


PROGRAM = """
import sys
from pathlib import Path
from beyond.jobs import Engine, run
from tests.beyond.engine_jobs import jobs, waits
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run(jobs(folder, [0], waits) + jobs(folder, [1, 2, 3]), Engine(scheduler=sys.argv[2]))
"""


def test_a_scheduler_that_is_not_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "PATIENCE", 1)
    with pytest.raises(UserError, match="no Dask scheduler answers"):
        run(jobs(tmp_path, [1]), Engine(scheduler="tcp://127.0.0.1:9"))
