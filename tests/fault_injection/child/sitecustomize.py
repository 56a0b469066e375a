"""On PYTHONPATH, this makes every Python process fail at a write of a file: FAULT="kill 3" at its third.

lab/files.py calls os.fsync when a new file is whole, just before it takes the place of the old one.

    count    nothing; a byte for each write goes to the file $FAULT_PATH
    kill     the new file loses its second half, then SIGKILL for the process and its children
    between  SIGKILL just before the third change: a new file that is whole, one that takes the place of another, one
             that is removed. Counted, a byte for each, in $FAULT_PATH
    full     "no space left on device", for this write and all later ones
    delete   the folder $FAULT_PATH is deleted

FAULT="small 20000" lets no file grow beyond 20,000 bytes.
"""

import errno
import os
import resource
import shutil
import signal

kind, _, number = os.environ.get("FAULT", "").partition(" ")
fsync, writes = os.fsync, 0


def faulty(descriptor: int) -> None:
    global writes
    writes += 1
    if kind == "count":
        with open(os.environ["FAULT_PATH"], "ab") as file:
            file.write(b".")
    if kind == "kill" and writes == int(number):
        os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
        os.killpg(0, signal.SIGKILL)
    if kind == "full" and writes >= int(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if kind == "delete" and writes == int(number):
        shutil.rmtree(os.environ["FAULT_PATH"], ignore_errors=True)
    fsync(descriptor)


changes = 0


def deadly(function):
    """`function`, that changes a file; killed before the change with the given number."""

    def change(*arguments, **keywords):
        global changes
        changes += 1
        if changes == int(number):
            os.killpg(0, signal.SIGKILL)
        if "FAULT_PATH" in os.environ:
            with open(os.environ["FAULT_PATH"], "ab") as file:
                file.write(b".")
        return function(*arguments, **keywords)

    return change


if kind == "small":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(number), int(number)))
elif kind == "between":
    os.fsync, os.replace, os.unlink = map(deadly, (os.fsync, os.replace, os.unlink))
elif kind:
    os.fsync = faulty
