"""Kills at any moment, disks that are full, and folders that cannot be used, go away or are in use."""

import os
import random
import shutil
import time
from pathlib import Path

from lab.files import only_one
from tests.fault_injection.common import Tally, bad_refusal, differences, run, torn

KILLS_IN_A_ROW = 4  # of one run, before it may end


class Script:
    """A command with "{out}" for its output folder, and a run of it that nobody disturbs."""

    def __init__(self, command: list[str], work: Path):
        self.command, self.undisturbed, marks = command, work / "undisturbed", work / "writes"
        self.name = " ".join(command[:2]) if command[0] == "-m" else "/".join(Path(command[0]).parts[-3:])
        self.undisturbed.mkdir(parents=True)
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
    script = Script(command, work)
    source, done = random.Random(script.name), 0
    while done < count:
        folder, in_a_row, killed = work / "run", 0, True
        folder.mkdir()
        while killed and in_a_row < KILLS_IN_A_ROW and done < count:
            if done % 2 and script.writes:
                fault = {"FAULT": f"kill {source.randint(1, max(1, script.writes // (1 + in_a_row)))}"}
            else:
                fault = {"seconds": source.uniform(0.3, 0.95) * script.seconds}
            code, _ = script.run(folder, in_a_row > 0, **fault)
            killed = code == -9
            if killed:
                in_a_row, done = in_a_row + 1, done + 1
                tally.counts.update(["kills", f"kills: {script.name}"])
                tally.counts.update(["kills within a write"] * any(folder.rglob(".*.tmp")))
                tally.check(not torn(folder), f"{script.name}: a kill left {torn(folder)}")
        code, errors = script.run(folder, True)
        tally.check(code == script.code, f"{script.name}: exit code {code} after {in_a_row} kills: {errors[-300:]}")
        other = differences(script.undisturbed, folder)
        tally.counts.update(["finished bit-identical"] * (not other))
        tally.check(not other, f"{script.name}: {other} after {in_a_row} kills are not those of an undisturbed run")
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
            wrong = bad_refusal(code, errors)
            tally.check(wrong is None, f"{script.name}, {what}: {wrong}")
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
