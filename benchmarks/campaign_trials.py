"""Trials of readers: one piece of rubbish after the other, each within bounds of time and memory."""

import contextlib
import io
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

ROOT = Path(__file__).resolve().parents[1]
from benchmarks.campaign_common import Tally
from lab.files import UserError

SECONDS = 20  # for any one file
MEMORY = 4 * 2**30  # bytes of address space beyond what there is


class TooLong(BaseException):
    """Not an Exception, so that no reader can take it for a damaged file."""


@contextlib.contextmanager
def within(seconds: float):
    def stop(number, frame):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def bounded(tally: Tally):
    """At most MEMORY more than now; what was really used at the most is counted."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        tally.counts["peak of memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def draw(strategy, count: int, attempt: Callable) -> None:
    """`attempt` on `count` examples, the same ones every time."""

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def each(example):
        attempt(example)

    each()


def read(tally: Tally, kind: str, what: object, reader: Callable) -> None:
    """Call a reader on one piece of rubbish: a value or a UserError in time, and nothing else."""
    tally.count("tried")
    tally.count(f"{kind}: tried")
    try:
        with within(SECONDS), contextlib.redirect_stdout(io.StringIO()):
            reader()
        tally.count(f"{kind}: made sense of")
    except UserError:
        pass
    except TooLong:
        tally.check(False, f"{kind}, {what}: not read in {SECONDS} seconds")
    except Exception as error:
        tally.check(False, f"{kind}, {what}: {type(error).__name__}: {str(error)[:200]}")


def remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)
