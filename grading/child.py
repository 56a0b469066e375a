"""Grade a submission in a process of its own: whatever its files hold, it takes no more time and memory than this."""

import contextlib
import math
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import torch

from grading.folder import MEGABYTE
from grading.grade import grade
from grading.report import BEYOND, Report
from lab.files import UserError, shown

SECONDS = 20
MEMORY = 1024 * MEGABYTE
# A copy of this process has imported everything; only on Linux is it safe to copy one that has.
CONTEXT = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def grade_apart(
    root: Path, problems: list[dict], required: bool = False, pictures: bool = False, seconds=SECONDS, memory=MEMORY
) -> Report:
    """As `grade`; a report of why it could not be read, if it takes more than `seconds` or kills the process.

    A UserError of `grade` is raised here.
    """
    receiver, sender = CONTEXT.Pipe(duplex=False)
    child = CONTEXT.Process(target=_work, args=(sender, seconds, memory, root, problems, required, pictures))
    child.start()
    sender.close()
    try:
        receiver.recv()  # it has started: only now does its time begin
        if not receiver.poll(seconds):
            return _unread(root, f"it takes more than {seconds:g} seconds")
        answer = receiver.recv()
    except EOFError:
        return _unread(root, f"it ended the grading process, perhaps by more than {memory // MEGABYTE} MB of memory")
    finally:
        child.kill()
        child.join()
    if isinstance(answer, UserError):
        raise answer
    return answer


def _unread(root: Path, reason: str) -> Report:
    return Report(shown(root), error=f"could not be read, because {reason}: please look at it yourself")


def _work(sender, seconds: float, memory: int, root: Path, *how) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    torch.set_num_threads(1)
    _limit(seconds, memory)
    sender.send("started")
    try:
        answer = grade(root, *how)
    except UserError as reason:
        answer = reason
    except MemoryError:
        answer = _unread(root, f"it takes more than {memory // MEGABYTE} MB of memory")
    except Exception as error:  # a mistake of the grader itself
        answer = Report(shown(root), error=f"{BEYOND} ({type(error).__name__})")
    sender.send(answer)


def _limit(seconds: float, memory: int) -> None:
    """On Linux: no more than `memory` in all, further requests end in a MemoryError; and no more processor time than
    `seconds`, should the parent be gone."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        import resource

        reserved, used = (int(pages) * os.sysconf("SC_PAGESIZE") for pages in statm.read_text().split()[:2])
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        with contextlib.suppress(ValueError):  # the system allows less than that already
            resource.setrlimit(resource.RLIMIT_AS, (reserved - used + memory, hard))
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds) + 1,) * 2)
