"""Speed beside what people would use instead: benchmarks/results.json, and the tables in benchmarks/README.md.

    python benchmarks/bench.py          # about ten minutes; leave the machine alone meanwhile

steps       a training step and an evaluation pass beside torch.nn, as they are and compiled
training    time to a model that is right beside the usual recipe; pairs verified in a second
cost        time against width, digits, length and operand size
"""

import os
import platform
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

from benchmarks import measure
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
    results |= {"versions": versions(), "steps": measure.steps(ROUNDS), "training": measure.training()}
    results["cost"] = measure.cost(ROUNDS // 10)
    write_json(HERE / "results.json", results)
    write_block(HERE / "README.md", BLOCK, tables(results))
    print(tables(results))


def tables(results: dict) -> str:
    names = ("ours", "torch.nn", "ours, compiled", "torch.nn, compiled")
    steps = [[what, *(timing(found.get(name)) for name in names)] for what, found in results["steps"].items()]
    trainings, costs = [], []
    for found in results["training"]:
        times = [seconds(found[name]) for name in ("to_validation", "to_exact", "seconds")]
        times[-1] += f", {found['epochs']} epochs"
        verified = f"{found['errors']:,}", f"{found['pairs_a_second']:,.0f}"
        trainings.append([f"{found['recipe']}, seed {found['seed']}", *times, *verified])
    for what, found in results["cost"].items():
        ends = [f"{point['median_ms']:,.1f} at {point['size']:,}" for point in found["points"]]
        costs.append([what, ends[0], ends[-1], f"{found['exponent']:.2f}"])
    recipe = ("100% of validation", "exact on all 810,000", "ended", "wrong of 810,000", "pairs a second")
    where = f"{results['processor']}, one thread, torch {results['versions']['torch']}"
    parts = [
        f"{where}; medians, whose spread is in results.json.",
        markdown([["milliseconds, and times as long as ours", *names], *steps]),
        markdown([["training", *recipe], *trainings]),
        markdown([["cost in milliseconds against", "smallest", "largest", "exponent"], *costs]),
    ]
    return "\n\n".join(parts)


def timing(found: dict | None) -> str:
    if found is None or "failed" in found:
        return "failed" if found else ""
    return f"{found['median_ms']:.1f}, {found['ratio']:.2f}x"


def seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f} s"


if __name__ == "__main__":
    run(main, __doc__)
