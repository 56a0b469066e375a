"""Independent runs side by side: one process with one thread on each core.

    results = run([Job("seed 0", train_and_measure, {"seed": 0, …}, folder / "seed0/measured.json"), …])

A job is a function and its settings. What the function returns is written, with the settings, to the job's JSON
file. If the file is there with the same settings, the job is not run again: so a study goes on where it stopped,
and never uses a run that was made with other settings. A job that fails does not stop the others; at the end all
that failed are named. What a job prints goes to a .log file beside its result.
"""

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from lab import device, settings
from lab.files import UserError, read_json, write_json


@dataclass(frozen=True)
class Job:
    name: str
    function: Callable[..., dict]  # of a module, so that another process can import it
    settings: dict  # plain values that decide the result: the function's keyword arguments
    result: Path  # the JSON file
    paths: dict = field(default_factory=dict)  # further keyword arguments, which do not decide the result


def finished(job: Job) -> dict | None:
    """The job's result, if it has been written with these settings."""
    if not job.result.exists():
        return None
    content = read_json(job.result, "delete it.")
    return content if isinstance(content, dict) and content.get("settings") == job.settings else None


def run(jobs: list[Job], workers: int = 0) -> list[dict]:
    """The results of all jobs, in their order; `workers` at a time (0: one for each core)."""
    todo = [job for job in jobs if finished(job) is None]
    failed, processes, context = [], [], multiprocessing.get_context("spawn")

    def run_one(job: Job) -> str | None:
        """Why the job failed, if it did."""
        log = _log(job)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.unlink(missing_ok=True)
        except OSError as error:
            return f"{job.name} failed: {log} cannot be written ({error.strerror})"
        process = context.Process(target=_work, args=(job,), daemon=True)
        processes.append(process)
        process.start()
        process.join()
        if process.exitcode == 0:
            return None
        printed = log.read_text(errors="replace") if log.exists() else ""
        reason = f"stopped by signal {-process.exitcode}" if process.exitcode < 0 else last_line(printed)
        return f"{job.name} failed: {reason} (all it printed is in {log})"

    workers = workers or os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool, tqdm(total=len(todo), unit="run", disable=None) as bar:
        futures = {pool.submit(run_one, job): job for job in todo}
        try:
            for future in as_completed(futures):
                problem = future.result()
                bar.update()
                bar.write(problem or f"{futures[future].name}: done", file=sys.stdout)
                if problem:
                    failed.append(problem)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            raise
    if failed:
        raise UserError("; ".join(failed))
    return [finished(job) for job in jobs]


def _log(job: Job) -> Path:
    return job.result.with_suffix(".log")


def _work(job: Job) -> None:
    """In a process of its own: the function, with its output in a file, and its result."""
    device.start("cpu")
    tqdm.set_lock(
        threading.RLock()
    )  # one that this process shares with no other, so that none is left if it is stopped
    sys.stdout = sys.stderr = open(_log(job), "w")  # noqa: SIM115  (open until the process ends)
    settings.run(lambda: write_json(job.result, {"settings": job.settings} | job.function(**job.settings, **job.paths)))


def last_line(printed: str) -> str:
    """Of a script that failed: its error."""
    return (printed.strip().splitlines() or ["it printed nothing"])[-1].removeprefix("error: ")


def call(script: Path, flags: dict) -> None:
    """Run a script of this project with `flags` ({"seed": 3, "resume": True}); its last line is the error, if any."""
    words = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        values = value if isinstance(value, list | tuple) else () if value is True else (value,)
        words += ["--" + name.replace("_", "-"), *map(str, values)]
    done = subprocess.run(
        [sys.executable, str(script), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(done.stdout, flush=True)
    if done.returncode:
        raise UserError(f"{Path(script).name} failed: {last_line(done.stdout)}")


def train_once(script: Path, flags: dict, folder: Path, **paths) -> dict:
    """The log of a finished run of a train.py with these flags in `folder`: trained now, or gone on with, if needed."""
    from lab import training

    if training.finished(folder, flags) is None:
        resume = training.stopped(folder, flags)
        call(script, flags | paths | {"output_dir": folder, "resume": resume, "device": "cpu"})
    return read_json(folder / "training_log.json", "delete the folder.")
