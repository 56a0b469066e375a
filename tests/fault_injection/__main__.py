"""The long form: every fault for every script, about a quarter of an hour on two idle cores.

    python -m tests.fault_injection                     # writes tests/fault_injection/results.json
    python -m tests.fault_injection kills malformed     # some of kills, places, malformed; writes nothing

Exit code 1 if anything went wrong; each failure is one sentence. The test suite runs the same in small.
"""

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from lab.files import write_json
from tests.fault_injection.common import Tally
from tests.fault_injection.disturb import kills, places, several_writers
from tests.fault_injection.malformed import odd_names, read
from tests.fault_injection.scripts import JOBS, READERS, Inputs

PARTS = ("kills", "places", "malformed")


def main(parts: list[str]) -> int:
    torch.set_num_threads(1)
    total, tasks = Tally(), []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        inputs = Inputs(work / "inputs")
        for template, count in JOBS.items() if {"kills", "places"} & {*parts} else ():
            command = inputs.command(template, out="{out}")
            if "kills" in parts:
                tasks.append((f"kills: {template}", kills, command, count))
            if "places" in parts and "{out}" in template:
                tasks.append((f"places: {template}", places, command))
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # the scripts are processes of their own
            tallies = [pool.submit(counted, *task, work / str(number)) for number, task in enumerate(tasks)]
            for tally in tallies:
                total.add(tally.result())
        if "places" in parts:
            total.add(counted("several writers", several_writers, work / "writers"))
        for name, (_, _, count, _) in READERS.items() if "malformed" in parts else ():
            total.add(counted(f"malformed files: {name}", read, name, count, inputs, work / name))
        if "malformed" in parts:
            total.add(counted("odd names", odd_names, inputs, work / "names"))
    if set(parts) == set(PARTS):
        results = {"counts": dict(sorted(total.counts.items())), "failures": total.failures}
        write_json(Path(__file__).with_name("results.json"), results)
    print(*(f"FAILED: {failure}" for failure in total.failures), f"{len(total.failures)} failures", sep="\n")
    return 1 if total.failures else 0


def counted(what: str, function, *arguments) -> Tally:
    tally = Tally()
    try:
        function(*arguments, tally)
    except RuntimeError as error:  # a script that fails undisturbed
        tally.failures.append(f"{what}: {error}")
    print(f"{what[:70]}: {len(tally.failures)} failures", flush=True)
    return tally


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*PARTS]))
