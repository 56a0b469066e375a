"""Independent runs side by side: one process with one thread on each core.

    results = run([Job("seed 0", train_and_measure, {"seed": 0, …}, folder / "seed0/measured.json"), …])

A job is a function and its settings. What the function returns is written, with the settings, to the job's JSON
file. If the file is there with the same settings, the job is not run again: so a study goes on where it stopped,
and never uses a run that was made with other settings. A job that fails does not stop the others; at the end all
that failed are named. What a job prints goes to a .log file beside its result.
"""

import contextlib
import multiprocessing
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from lab import device
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
    failed = _run([job for job in jobs if finished(job) is None], workers or os.cpu_count() or 1)
    if failed:
        raise UserError("; ".join(failed))
    return [finished(job) for job in jobs]


def _run(jobs: list[Job], workers: int) -> list[str]:
    """One sentence for each job that failed."""
    failed, context = [], multiprocessing.get_context("spawn")
    processes: list = []

    def run_one(job: Job) -> str | None:
        try:
            job.result.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"{job.name} failed: {job.result.parent} cannot be written ({error.strerror})"
        process = context.Process(target=_work, args=(job,), daemon=True)
        processes.append(process)
        process.start()
        process.join()
        if process.exitcode == 0:
            return None
        log = job.result.with_suffix(".log")
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        ended = f"exit code {process.exitcode}" if process.exitcode > 0 else f"stopped by signal {-process.exitcode}"
        reason = lines[-1] if lines and process.exitcode > 0 else ended
        return f"{job.name} failed: {reason} (all it printed is in {log})"

    with ThreadPoolExecutor(workers) as pool, tqdm(total=len(jobs), unit="run", disable=None) as bar:
        futures = {pool.submit(run_one, job): job for job in jobs}
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
    return failed


def _work(job: Job) -> None:
    """In a process of its own: the function, with its output in a file, and its result."""
    device.start("cpu")
    with open(job.result.with_suffix(".log"), "w") as log, contextlib.redirect_stdout(log):
        try:
            with contextlib.redirect_stderr(log):
                write_json(job.result, {"settings": job.settings} | job.function(**job.settings, **job.paths))
        except UserError as error:
            print(error, file=log)
            sys.exit(1)
        except Exception:
            print(traceback.format_exc(), file=log)
            sys.exit(1)


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
        lines = done.stdout.strip().splitlines() or ["it printed nothing"]
        raise UserError(f"{Path(script).name} failed: {lines[-1].removeprefix('error: ')}")


def train_once(script: Path, flags: dict, folder: Path, **paths) -> dict:
    """The log of a finished run of a train.py with these flags in `folder`: trained now, or gone on with, if needed."""
    from lab import training

    if training.finished(folder, flags) is None:
        resume = training.stopped(folder, flags)
        call(script, flags | paths | {"output_dir": folder, "resume": resume, "device": "cpu"})
    return read_json(folder / "training_log.json", "delete the folder.")
