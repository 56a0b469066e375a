"""A script in a process of its own, without the second that importing torch and matplotlib takes.

A server imports what is not of this repository; each script runs in a fork of it (multiprocessing's forkserver).
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALLED = [folder for folder in sys.path if folder and Path(folder) != ROOT]


def run(
    command: list[str], cwd: Path, timeout: float, environment: dict | None = None, before: Path | None = None
) -> subprocess.CompletedProcess:
    """[script, …] or ["-m", module, …] as subprocess.run gives it, in a session of its own; after `timeout` seconds
    it is killed with its children, which is exit code -9.

    environment: added to that of the tests. before: a file of Python that is run first.
    """
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["torch", "torch.optim.swa_utils", "matplotlib.pyplot", "tqdm"])
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        for path in outputs:
            path.touch()
        process = server.Process(target=_script, args=(command, cwd, *outputs, environment or {}, before))
        process.start()
        process.join(timeout)
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
        texts = [path.read_text(errors="backslashreplace") for path in outputs]
        return subprocess.CompletedProcess(command, process.exitcode, *texts)


def _script(command: list[str], cwd: Path, stdout: Path, stderr: Path, environment: dict, before: Path | None) -> None:
    """In the fork."""
    os.setsid()
    os.environ.update(environment)
    for descriptor, path in ((1, stdout), (2, stderr)):
        os.dup2(os.open(path, os.O_WRONLY), descriptor)
    os.chdir(cwd)
    if before is not None:
        runpy.run_path(str(before))
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.path[:] = [str(cwd), str(ROOT), *INSTALLED]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path[:] = [str(Path(command[0]).parent), *INSTALLED]
        runpy.run_path(command[0], run_name="__main__")
