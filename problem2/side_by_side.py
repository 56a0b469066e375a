"""Several runs of one script side by side: each a process with one thread, as many at a time as there are cores.

Small models gain little from a second thread, but two of them on two cores take the time of one.
"""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.files import UserError


def as_flags(settings) -> list[str]:
    """A settings object as the command line that makes it."""
    flags = []
    for item in fields(settings):
        value, flag = getattr(settings, item.name), "--" + item.name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif isinstance(value, tuple):
            flags += [flag, *map(str, value)] if value else []
        elif value is not None and value is not False:
            flags += [flag, str(value)]
    return flags


def run_all(script: Path, runs: dict, workers: int) -> None:
    """One process for each settings object in `runs` (label -> settings); its lines come out under its label.

    A run that fails does not stop the others; at the end all that failed are named. Ctrl-C stops them all.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    children, lock = [], threading.Lock()
    stopped = threading.Event()

    def run_one(name: str) -> str | None:
        with lock:
            if stopped.is_set():
                return None
            child = subprocess.Popen(
                [sys.executable, str(script), *as_flags(runs[name])],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
            )
            children.append(child)
        for line in child.stdout:
            print(f"[{name}] {line}", end="", flush=True)
        return name if child.wait() else None

    with ThreadPoolExecutor(workers) as pool:
        try:
            failed = [name for name in pool.map(run_one, runs) if name]
        except KeyboardInterrupt:
            stopped.set()
            with lock:
                for child in children:
                    child.terminate()
            raise
    if failed:
        raise UserError(f"{', '.join(failed)} did not finish: the lines above that begin with its name say why.")
