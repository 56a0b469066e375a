"""The run before: a finished run that a new one replaces is kept in previous/ beside it."""

import os
import shutil
from pathlib import Path

from lab.files import UserError, read_json

FINISHED = ("training_log.json", "best_model.pth", "training_curves.png", "timing.json")  # of a run


def make_room(folder: Path) -> None:
    """Make room for a new run. A finished run goes to previous/, unless the one there is better; both are said.

    Whatever moment the process is killed at, no checkpoint is left beside the state or the log of another run: the
    old state goes first, and a finished run is copied whole before its log, and then the rest of it, is removed.
    """
    (folder / "last.pth").unlink(missing_ok=True)
    if not (folder / "training_log.json").exists():
        return
    previous = folder / "previous"
    copied = folder / ".previous.tmp"
    accuracy, what = _of_finished(folder)
    accuracy_before, what_before = _of_finished(previous)
    if accuracy_before > accuracy:
        where = f"it is replaced, because {previous} holds a better one, {what_before}"
    else:
        shutil.rmtree(copied, ignore_errors=True)  # of a process that was killed here
        copied.mkdir()
        for name in FINISHED:
            if (folder / name).is_file():  # a device would be copied for ever
                shutil.copy(folder / name, copied / name)
        shutil.rmtree(previous, ignore_errors=True)
        os.replace(copied, previous)
        where = f"it is now in {previous}"
    for name in FINISHED:
        (folder / name).unlink(missing_ok=True)
    print(f"{folder} held {what}: {where}. What was analysed of it stays until it is analysed again.", flush=True)


def _of_finished(folder: Path) -> tuple[float, str]:
    """The test accuracy of the finished run in `folder` (below 0 if there is none), and the run in words."""
    try:
        log = read_json(folder / "training_log.json", "")
        epochs = len(log["val_acc"])
        what = f"a run of {epochs} epoch{'s' * (epochs != 1)}, {log['test_acc']:.2%} of the test rows correct"
        has_model = (folder / "best_model.pth").exists()
        return (log["test_acc"] if has_model else -1.0), what
    except (UserError, KeyError, TypeError, ValueError):
        return -1.0, "an earlier run"
