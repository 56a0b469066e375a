"""The runs of a study, side by side: on the cores of this machine, or on a Dask cluster.

    run([Job("seed 0", train_and_measure, {"seed": 0, …}, folder), …], Engine())

A job is a function and its settings. What the function returns is written, with the settings, to measured.json in the
job's folder. If that file is there with the same settings, the job is not run again: so a study goes on where it
stopped, and never uses a run that was made with other settings. A job that fails stops no other; at the end all that
failed are named. Workers need this repository and no shared folder: results travel back, and this process writes them.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path

from tqdm import tqdm

from lab import device
from lab.files import UserError, read_json, write_bytes, write_json
from lab.settings import setting

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 10  # seconds until a scheduler must have answered


@dataclass(frozen=True)
class Engine:
    """The flags that every study has: where its runs are made."""

    workers: int = setting(0, "runs at a time, one thread each (0: one for each core)", minimum=0, maximum=1024)
    scheduler: str | None = setting(
        None, "a Dask scheduler that runs them on other machines, as in tcp://HOST:8786", metavar="ADDRESS"
    )


@dataclass(frozen=True)
class Job:
    name: str
    function: Callable[..., dict]  # of a module, so that another process can import it
    settings: dict  # plain values that decide the result: keyword arguments of the function, which also gets `folder`
    folder: Path  # gets measured.json
    paths: dict = field(default_factory=dict)  # further keyword arguments; inside the repository: of the worker's own
    files: tuple[str, ...] = ("training_log.json",)  # what else is kept of what the function writes to its folder

    @property
    def result(self) -> Path:
        return self.folder / "measured.json"


def finished(job: Job) -> dict | None:
    """The job's result, if it has been written with these settings."""
    if not job.result.exists():
        return None
    content = read_json(job.result, "delete it.")
    return content if isinstance(content, dict) and content.get("settings") == job.settings else None


def run(jobs: list[Job], engine: Engine) -> list[dict]:
    """The results of all jobs, in their order."""
    todo = [job for job in jobs if finished(job) is None]
    failed = []
    with tqdm(total=len(todo), unit="run", disable=None) as bar:

        def ended(job: Job, future: Future) -> None:
            """Write what a job has given, or note why it failed."""
            try:
                result, files = future.result()
                for name, content in files.items():
                    write_bytes(job.folder / name, content)
                write_json(job.result, {"settings": job.settings} | result)
                bar.write(f"{job.name}: done", file=sys.stdout)
            except Exception as error:
                failed.append(f"{job.name} failed: {_reason(error)}")
                bar.write(failed[-1], file=sys.stdout)
            bar.update()

        if engine.scheduler:
            _on_a_cluster(todo, engine.scheduler, ended)
        else:
            _on_this_machine(todo, engine.workers or os.cpu_count() or 1, ended)
    if failed:
        raise UserError("; ".join(failed))
    return [finished(job) for job in jobs]


def _reason(error: Exception) -> str:
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, BrokenProcessPool):
        return "its process was killed, or ran out of memory"
    return f"{type(error).__name__}: {error}"


# --- in a worker -------------------------------------------------------------------------------------------------


def work(job: Job, folder: Path | None) -> tuple[dict, dict[str, bytes]]:
    """What the job's function returns, and the files to keep. On this machine it works in the job's folder, where a
    stopped training is found again; elsewhere in one that is then removed. What it prints goes to measured.log."""
    device.start("cpu")
    paths = {name: ROOT / path for name, path in job.paths.items()}  # an absolute one stays what it is
    with tempfile.TemporaryDirectory() as scratch:
        here = folder or Path(scratch)
        here.mkdir(parents=True, exist_ok=True)
        with open(here / "measured.log", "w", buffering=1) as log, redirect_stdout(log), redirect_stderr(log):
            try:
                result = job.function(**job.settings, **paths, folder=here)
            except Exception:
                traceback.print_exc()
                raise
        kept = [here / name for name in job.files if folder is None and (here / name).exists()]
        return result, {path.name: path.read_bytes() for path in kept}


@contextmanager
def one_at_a_time():
    """For rows that are generated where they are missing: no two workers of a machine do so at once."""
    import filelock  # comes with torch

    with filelock.FileLock(ROOT / "beyond/.lock"):
        yield


def _start_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one stops the others
    tqdm.set_lock(threading.RLock())  # its default is shared between processes, and left over when one is stopped


# --- two engines with the interface of concurrent.futures --------------------------------------------------------


def _on_this_machine(jobs: list[Job], workers: int, ended: Callable[[Job, Future], None]) -> None:
    """In a pool of processes. One that dies breaks the pool, and all that were running are lost with it: each of those
    is run again in a pool of its own, which shows who it was; all others go on in a new pool."""
    while jobs:
        lost = _in_pools([jobs], workers, ended)
        suspects = lost[:workers]  # jobs are begun in their order
        _in_pools([[job] for job in suspects], 1, ended, last=True)
        jobs = lost[workers:]


def _in_pools(groups: list[list[Job]], workers: int, ended, last: bool = False) -> list[Job]:
    """Run each group in a pool of its own. Returns what broken pools have lost; the `last` time that has failed."""
    lost = []
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        futures = {}
        for group in groups:
            pool = stack.enter_context(ProcessPoolExecutor(workers, context, _start_process))
            futures |= {pool.submit(work, _portable(job), job.folder.absolute()): job for job in group}
        try:
            for future in as_completed(futures):
                if isinstance(future.exception(), BrokenProcessPool) and not last:
                    lost.append(future)
                else:
                    ended(futures[future], future)
        except BaseException:  # Ctrl-C
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    return [job for future, job in futures.items() if future in lost]


def _portable(job: Job) -> Job:
    """The same job for a worker whose repository may be in another place."""

    def inside(path: Path) -> Path:
        whole = Path(path).absolute()
        return whole.relative_to(ROOT) if whole.is_relative_to(ROOT) else whole

    return replace(job, paths={name: inside(path) for name, path in job.paths.items()})


def _on_a_cluster(jobs: list[Job], address: str, ended: Callable[[Job, Future], None]) -> None:
    """On the workers of a Dask scheduler, which gives what a dead worker was doing to another one."""
    try:
        from distributed import Client
    except ImportError:
        raise UserError("--scheduler needs Dask: pip install -r requirements-cluster.txt") from None
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise UserError(f"--scheduler {address}: no Dask scheduler answers there ({error}).") from None
    with client:  # when it closes, the cluster drops what is not done
        pool = client.get_executor()
        futures = {pool.submit(work, _portable(job), None): job for job in jobs}
        for future in as_completed(futures):
            ended(futures[future], future)
