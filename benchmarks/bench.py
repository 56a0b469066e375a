"""Speed beside what people would use instead: benchmarks/results.json, and the tables in benchmarks/README.md.

    python benchmarks/bench.py          # a few minutes; leave the machine alone meanwhile

steps       a training step and an evaluation pass beside torch.nn, as they are and compiled, and beside JAX
training    time to a model that is right, beside the usual recipe; pairs verified in a second
"""

import os
import platform
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

from benchmarks import jax_step, measure
from lab import device
from lab.files import versions, write_block, write_json
from lab.settings import run
from lab.tables import markdown

HERE = Path(__file__).resolve().parent
BLOCK = "measured: make bench"  # of benchmarks/README.md
ROUNDS = 40  # of a comparison


def main() -> None:
    device.start("cpu")
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    results = {"processor": named[1] if named else platform.processor(), "cores": os.cpu_count()}
    if not jax_step.INSTALLED:
        print("JAX is not installed, so its training step is left out: see benchmarks/README.md.")
    results |= {"versions": versions(), "steps": measure.steps(ROUNDS), "training": measure.training()}
    write_json(HERE / "results.json", results)
    write_block(HERE / "README.md", BLOCK, tables(results))
    print(tables(results))


def tables(results: dict) -> str:
    names = list(dict.fromkeys(name for timed in results["steps"].values() for name in timed))
    steps = [[what, *(timing(timed.get(name)) for name in names)] for what, timed in results["steps"].items()]
    trainings = []
    for training in results["training"]:
        times = [seconds(training[name]) for name in ("to_validation", "to_exact", "seconds")]
        times[-1] += f", {training['epochs']} epochs"
        verified = f"{training['errors']:,}", f"{training['pairs_a_second']:,.0f}"
        trainings.append([f"{training['recipe']}, seed {training['seed']}", *times, *verified])
    recipe = ("100% of validation", "exact on all 810,000", "ended", "wrong of 810,000", "pairs a second")
    where = f"{results['processor']}, one thread, torch {results['versions']['torch']}"
    parts = [
        f"{where}; medians, whose spread is in results.json.",
        markdown([["milliseconds, and times as long as ours", *names], *steps]),
        markdown([["training", *recipe], *trainings]),
    ]
    return "\n\n".join(parts)


def timing(timed: dict | None) -> str:
    if timed is None:
        return ""
    return "failed" if "failed" in timed else f"{timed['median_ms']:.1f}, {timed['ratio']:.2f}x"


def seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f} s"


if __name__ == "__main__":
    run(main, __doc__)
