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
from tests.fault_injection.disturb import kills, places
from tests.fault_injection.malformed import odd_names, read
from tests.fault_injection.scripts import JOBS, READERS, Inputs

PARTS = ["kills", "places", "malformed"]


def main(parts: list[str]) -> int:
    torch.set_num_threads(1)
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        work, tasks = Path(folder), []
        inputs = Inputs(work / "inputs")
        for template, count in JOBS.items() if parts != ["malformed"] else ():
            command = inputs.command(template, out="{out}")
            tasks += [(template, kills, command, count)] * ("kills" in parts)
            tasks += [(template, places, command)] * ("places" in parts and "{out}" in template)
        done = [pool.submit(counted, tally, work / str(number), *task) for number, task in enumerate(tasks)]
        for task in done:  # each starts processes of its own
            task.result()
        if "malformed" in parts:
            counted(tally, work / "names", "", odd_names, inputs)
            for name, (_, _, count, _) in READERS.items():
                counted(tally, work / name, name, read, name, count, inputs)
    if parts == PARTS:
        results = {"counts": dict(sorted(tally.counts.items())), "failures": tally.failures}
        write_json(Path(__file__).with_name("results.json"), results)
    print(*(f"FAILED: {failure}" for failure in tally.failures), f"{len(tally.failures)} failures", sep="\n")
    return 1 if tally.failures else 0


def counted(tally: Tally, work: Path, what: str, function, *arguments) -> None:
    before = len(tally.failures)
    try:
        function(*arguments, work, tally)
    except RuntimeError as error:  # a script that fails undisturbed
        tally.failures.append(f"{what}: {error}")
    print(f"{function.__name__} {what[:80]}: {len(tally.failures) - before} failures", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or PARTS))
