"""Places: folders that cannot be written, disks that are full, folders that go away or are in use.

Every script must end in one sentence with exit code 2, without a traceback and without a torn file; where a folder
was deleted under a training, it may as well make it anew and finish.
"""

import contextlib
import shutil
import subprocess
import sys
import time
from multiprocessing import Process
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
from benchmarks.campaign_common import Tally, end_of, one_sentence, run, start, torn
from benchmarks.campaign_kills import JOBS
from lab.files import write_bytes

FULL = (4, 96)  # KiB of a disk: one that takes nothing, one that takes the first files only
# In a mount of its own, that no other process sees and that goes with it; what was left is copied out.
MOUNTED = """
in=$2; out=$3
mount -t tmpfs -o "$1" tmpfs "$in" && shift 3 && "$@"
code=$?
cp -r "$in/." "$out"
exit $code
"""


def campaign(work: Path, names=tuple(JOBS), tell=print) -> Tally:
    tally, inputs = Tally(), work / "inputs"
    jobs = {name: JOBS[name][0](inputs) for name in names}
    for name, job in jobs.items():
        no_folder(name, job, work / "nowhere", tally)
        if can_mount():
            mounted(name, job, work / "mounted", tally)
        else:
            tally.count("mounts that are not permitted here")
        tell(f"  {name}: done")
    for name in [name for name in names if jobs[name].again]:
        deleted(name, jobs[name], work / "deleted", tally)
        in_use(name, jobs[name], work / "used", tally)
    several_writers(work / "writers", tally)
    return tally


def refused(what: str, ended: tuple[int, str, str], tally: Tally) -> None:
    tally.count("refusals")
    wrong = one_sentence(ended[0], ended[2])
    tally.check(wrong is None, f"{what}: {wrong}")


def no_folder(name: str, job, place: Path, tally: Tally) -> None:
    """A file where a folder should be, a place where the system allows none, a name that is too long."""
    place.write_text("in the way")
    for folder in (place / "out", Path("/proc/none/out"), place.with_name("x" * 300)):
        refused(f"{name} into {folder.name[:20]} in {folder.parent.name}", run(job.started(folder)), tally)
    tally.check(place.read_text() == "in the way", f"{name}: changed a file in its way")
    place.unlink()


def can_mount() -> bool:
    try:
        return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def mounted(name: str, job, place: Path, tally: Tally) -> None:
    """A disk that is read-only, and small ones that are full sooner or later."""
    place.mkdir(exist_ok=True)
    for options in ("ro", *(f"size={size}k" for size in FULL)):
        left = place.with_name("left")
        left.mkdir()
        command = [sys.executable, str(ROOT / job.command[0]), *map(str, job.started(place)[1:])]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", options, place, left, *command],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "OMP_NUM_THREADS": "1", "HOME": str(place.parent)},
        )
        if done.returncode == 0 and options == f"size={FULL[-1]}k":
            tally.count("outputs that a full disk had room for")
        else:
            refused(f"{name} on a disk with {options}", (done.returncode, done.stdout, done.stderr), tally)
        tally.check(not torn(left), f"{name} on a disk with {options} leaves {torn(left)}")
        shutil.rmtree(left)


def at_work(job, folder: Path, file: str) -> subprocess.Popen:
    """The job, started, when it has written `file`."""
    process = start(job.started(folder), subprocess.PIPE)
    while process.poll() is None and not (folder / file).exists() and not list(folder.rglob(file)):
        time.sleep(0.005)
    return process


def deleted(name: str, job, folder: Path, tally: Tally) -> None:
    """The folder goes away in the middle of a training."""
    process = at_work(job, folder, "last.pth")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(folder.with_name("gone"))  # at once, whatever is being written there
    shutil.rmtree(folder.with_name("gone"), ignore_errors=True)
    code, said, errors = end_of(process)
    tally.count("folders deleted")
    if code == 0:
        tally.count("folders made anew")
    else:
        refused(f"{name}, its folder deleted", (code, said, errors), tally)
    tally.check(not folder.exists() or not torn(folder), f"{name}, its folder deleted: torn files")
    shutil.rmtree(folder, ignore_errors=True)


def in_use(name: str, job, folder: Path, tally: Tally) -> None:
    """A second one is refused while the first runs; when that is killed, its lock is in nobody's way."""
    first = at_work(job, folder, "last.pth")
    second = run(job.started(folder))
    if tally.check(first.poll() is None, f"{name}: the first training ended before the second was refused"):
        refused(f"{name}, a second one in its folder", second, tally)
        tally.check("in use" in second[2], f"{name}: the second one does not say that the folder is in use")
    first.kill()
    end_of(first)
    code, _, errors = run(job.started(folder, *job.again))
    tally.count("locks left by a kill")
    tally.check(code == 0, f"{name}: a lock that a kill left is in the way: {errors[-300:]}")
    shutil.rmtree(folder)


# --- one file, several writers -----------------------------------------------------------------------------------


SIZE = 4_000_000  # bytes: long enough in the writing to be caught at it


def write_often(path: Path, letter: bytes, times: int) -> None:
    for _ in range(times):
        write_bytes(path, letter * SIZE)


def several_writers(folder: Path, tally: Tally, times: int = 40) -> None:
    """Three processes write the same file over and over: none fails, and whoever looks sees what one wrote, whole."""
    folder.mkdir()
    path = folder / "results.json"
    write_often(path, b"a", 1)
    writers = [Process(target=write_often, args=(path, letter, times)) for letter in (b"a", b"b", b"c")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        content = path.read_bytes()
        tally.count("looks at a file with three writers")
        whole = len(content) == SIZE and content.count(content[:1]) == SIZE
        tally.check(whole, "a file with three writers was torn")
    for writer in writers:
        writer.join()
        tally.check(writer.exitcode == 0, "one of three writers of a file could not write it")
    tally.check([path.name] == [item.name for item in folder.iterdir()], "three writers left something behind")
