"""Kills at any moment, disks that are full, and folders that cannot be used, go away or are in use."""

import json
import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import torch
from PIL import Image

from lab.files import only_one
from tests import forked

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).resolve().parent / "child"
LIMIT = 900  # seconds that a process may take, on a busy machine
KILLS_IN_A_ROW = 4  # of one run, before it may end


class Tally:
    """What was tried, counted by name, and what went wrong, in sentences."""

    def __init__(self):
        self.counts, self.failures = Counter(), []

    def check(self, fine: object, complaint: str) -> None:
        self.failures += [] if fine else [complaint]

    def check_refusal(self, what: str, code: int, errors: str) -> None:
        """A refusal is exit code 2 and one line that says why."""
        lines = [line for line in errors.splitlines() if "error:" in line]
        fine = code == 2 and len(lines) == 1 and "Traceback" not in errors
        self.check(fine, f"{what}: exit code {code}, {len(lines)} errors: {errors[-300:]!r}")


def run(command: list[str], seconds: float = LIMIT, **environment) -> tuple[int, str]:
    """["problem1/train.py", …] or ["-m", "grading", …] as a process -> exit code (-9: killed), standard error.

    After `seconds` it is killed with its children. `environment` may hold a FAULT (child/sitecustomize.py).
    """
    script = command[0] if command[0] == "-m" else str(ROOT / command[0])
    paths = {"PYTHONPATH": f"{CHILD}{os.pathsep}{ROOT}"}  # of processes that the script starts
    environment = paths | {name: str(value) for name, value in environment.items()}
    ended = forked.run([script, *command[1:]], Path.cwd(), seconds, environment, CHILD / "sitecustomize.py")
    return ended.returncode, ended.stderr


class Script:
    """A command with "{out}" for its output folder, and a run of it that nobody disturbs."""

    def __init__(self, command: list[str], work: Path):
        self.command, self.undisturbed, marks = command, work / "undisturbed", work / "writes"
        self.name = " ".join(command[:2]) if command[0] == "-m" else "/".join(Path(command[0]).parts[-3:])
        self.undisturbed.mkdir(parents=True)
        forked.run([str(ROOT / "lab/__init__.py")], ROOT, LIMIT)  # the server has started then
        started = time.perf_counter()
        self.code, errors = self.run(self.undisturbed, FAULT="count 0", FAULT_PATH=marks)
        self.seconds = time.perf_counter() - started
        self.writes = marks.stat().st_size if marks.exists() else 0
        if self.code not in (0, 1) or torn(self.undisturbed):
            raise RuntimeError(f"{self.name} fails undisturbed, {torn(self.undisturbed)}: {errors[-500:]}")

    def run(self, out: Path, resume: bool = False, **faults) -> tuple[int, str]:
        more = ["--resume"] if resume and self.name.endswith("train.py") else []
        return run([word.replace("{out}", str(out)) for word in self.command] + more, **faults)


def kills(command: list[str], count: int, work: Path, tally: Tally) -> None:
    """Kill the script `count` times, up to KILLS_IN_A_ROW times in one folder, each time going on where it was.

    Half of the kills come at any moment, the others in the middle of a write. After each, every file is whole or
    absent; when the script may end, it leaves the same bits as one that nobody disturbed.
    """
    script, folder = Script(command, work), work / "run"
    source, done, in_a_row = random.Random(script.name), 0, 0
    while done < count:
        if done % 2 and script.writes:
            fault = {"FAULT": f"kill {source.randint(1, max(1, script.writes // (1 + in_a_row)))}"}
        else:
            fault = {"seconds": source.uniform(0.3, 0.95) * script.seconds}
        code, errors = script.run(folder, in_a_row > 0, **fault)
        if code == -9:
            done, in_a_row = done + 1, in_a_row + 1
            tally.counts.update(["kills", f"kills: {script.name}"])
            tally.counts.update(["kills within a write"] * any(folder.rglob(".*.tmp")))
            tally.check(not torn(folder), f"{script.name}: a kill left {torn(folder)}")
            if in_a_row < KILLS_IN_A_ROW and done < count:
                continue
            code, errors = script.run(folder, True)
        tally.check(code == script.code, f"{script.name}: exit code {code} after {in_a_row} kills: {errors[-300:]}")
        other = differences(script.undisturbed, folder)
        tally.counts.update(["finished bit-identical"] * (not other))
        tally.check(not other, f"{script.name}: {other} after {in_a_row} kills are not those of an undisturbed run")
        shutil.rmtree(folder, ignore_errors=True)
        in_a_row = 0
    shutil.rmtree(work)


def restarts(command: list[str], work: Path, tally: Tally, step: int = 1) -> None:
    """Run train.py again, without --resume, in the folder of a finished run; cut it off before each change of a file,
    or fill the disk at each write; then go on with --resume. What is left is what an undisturbed second run leaves."""
    script, twice, folder, marks = Script(command, work), work / "twice", work / "run", work / "changes"
    shutil.copytree(script.undisturbed, twice)
    script.run(twice, FAULT="between 0", FAULT_PATH=marks)
    log = json.loads((twice / "training_log.json").read_text())
    if log["best_epoch"] < len(log["val_acc"]):
        raise RuntimeError("its first epochs are as good as its last, so a mixture would not be noticed")
    faults = [f"between {number}" for number in range(1, marks.stat().st_size + 1, step)]
    faults += [f"full {number}" for number in range(2, script.writes + 1, step)]
    for fault in faults:
        shutil.copytree(script.undisturbed, folder)
        code, errors = script.run(folder, FAULT=fault)
        tally.counts.update(["restarts cut off", f"restarts cut off: {script.name}"])
        tally.check(code in (-9, 2), f"{script.name}, restarted with fault {fault}: exit code {code}: {errors[-300:]}")
        begun = differences(script.undisturbed, folder)
        code, errors = script.run(folder, resume=bool(begun))
        tally.check(code == 0, f"{script.name}, resumed after fault {fault}: exit code {code}: {errors[-300:]}")
        other = differences(twice, folder)
        tally.check(not other, f"{script.name}: {other} after fault {fault} are not those of an undisturbed second run")
        shutil.rmtree(folder)
    shutil.rmtree(work)


def places(command: list[str], work: Path, tally: Tally) -> None:
    """Folders that cannot be used and disks that are full: one sentence and exit code 2, and no torn file."""
    script = Script(command, work)
    middle = random.Random(script.name).randint(1, max(1, script.writes))  # not reached where children write

    def refused(what: str, folder: Path, may_end_well: bool = False, **faults) -> None:
        code, errors = script.run(folder, **faults)
        if not (may_end_well and code == script.code):
            tally.counts.update(["refusals", f"refusals: {script.name}"])
            tally.check_refusal(f"{script.name}, {what}", code, errors)
        tally.check(not os.path.isdir(folder) or not torn(folder), f"{script.name}, {what}: leaves torn files")

    (work / "file").write_text("in the way")
    refused("a file in its way", work / "file" / "out")
    refused("a device in its way", Path("/dev/null/out"))
    refused("a name too long", work / ("x" * 300))
    refused("a full disk", work / "full", FAULT="full 1")
    refused(f"a disk that is full at write {middle}", work / "filled", True, FAULT=f"full {middle}")
    refused("a disk for small files", work / "small", True, FAULT="small 20000")
    refused("its folder deleted", work / "deleted", True, FAULT=f"delete {middle}", FAULT_PATH=work / "deleted")
    if script.name.endswith(("train.py", "generate_data.py")):
        folder = work / "used" / ("learned" if "learned" in command else "")
        with only_one(folder, "a test"):
            refused("its folder in use", work / "used")
        tally.check(not [*folder.glob("*.json")], f"{script.name} wrote into a folder in use")
    shutil.rmtree(work)


# --- the files that a script leaves ----------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, object]:
    """Name -> content of the files in a folder, None where a file is not whole. What differs from run to run is left
    out: files that a killed process was writing, locks, logs, seconds."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    volatile = (".tmp", ".log", ".lock", "timing.json")
    return {str(path.relative_to(folder)): content(path) for path in files if not path.name.endswith(volatile)}


def content(path: Path) -> object:
    try:
        if path.suffix == ".pth":
            return plain(torch.load(path, weights_only=True))
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        if path.suffix == ".png":
            Image.open(path).load()
    except Exception:  # whatever a reader says of a torn file
        return None
    data, end = path.read_bytes(), {".png": b"", ".pdf": b"%%EOF"}.get(path.suffix, b"\n")
    return data if data.endswith((end, end + b"\n")) else None


def plain(value) -> object:
    """Tensors as bytes, to be compared; without seconds."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key != "seconds"}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def torn(folder: Path) -> list[str]:
    return [name for name, data in contents(folder).items() if data is None]


def differences(one: Path, other: Path) -> list[str]:
    left, right = contents(one), contents(other)
    return [name for name in sorted({*left, *right}) if left.get(name) != right.get(name)]
