"""The long form: every fault for every script, a quarter of an hour on two idle cores -> results.json beside this file.

Exit code 1 if anything went wrong; each failure is one sentence. The test suite runs the same in small.
"""

import sys
import tempfile
from pathlib import Path

import lab.installed

import torch

from lab.files import write_json
from lab.settings import run
from tests.fault_injection.disturb import Tally, kills, places, restarts
from tests.fault_injection.malformed import read
from tests.fault_injection.scripts import JOBS, READERS, RESTARTED, Inputs


def main() -> None:
    torch.set_num_threads(1)
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        inputs, tasks = Inputs(work / "inputs"), []
        for template, count in JOBS.items():
            command = inputs.command(template, out="{out}")
            tasks.append((kills, command, count, work / "kills"))
            tasks += [(places, command, work / "places")] * ("{out}" in template)
        restarted = inputs.command(RESTARTED, out="{out}")
        tasks.append((restarts, restarted, work / "restarts"))
        tasks += [(read, name, count, inputs, work / name) for name, (_, _, count, _) in READERS.items()]
        for function, what, *arguments in tasks:
            before = len(tally.failures)
            try:
                function(what, *arguments, tally)
            except RuntimeError as error:  # a script that fails undisturbed
                tally.failures.append(f"{what}: {error}")
            print(f"{function.__name__} {str(what)[:80]}: {len(tally.failures) - before} failures", flush=True)
    counts = dict(sorted(tally.counts.items()))
    write_json(Path(__file__).with_name("results.json"), {"counts": counts, "failures": tally.failures})
    print(*(f"FAILED: {failure}" for failure in tally.failures), f"{len(tally.failures)} failures", sep="\n")
    sys.exit(1 if tally.failures else 0)


if __name__ == "__main__":
    run(main, __doc__)
