"""Speed beside what people would use instead: benchmarks/results.json, results.png and the table in README.md.

    python benchmarks/bench.py                      # all parts; leave the machine alone meanwhile
    python benchmarks/bench.py --only steps         # one part; the others keep their last result
    python benchmarks/bench.py --only-write         # figure and table from the results there are: all rows are printed

Candidates run in turns (ours, theirs, ours, theirs, …), so that a busy moment meets both; ratios are medians over
such pairs. Parts: steps (a training step, an evaluation pass, the share of the machine's peak), answering (cached
decoding, verification, ablation), loops (time to a model that is right), scaling (cost by size), make (everything
from an empty clone of the last commit).
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import answering, from_nothing, loops, picture, scaling, steps
from lab.files import UserError, read_json, write_json
from lab.provenance import provenance
from lab.settings import parse, run, setting

HERE = Path(__file__).resolve().parent
PARTS = ("steps", "answering", "loops", "scaling", "make")


@dataclass(frozen=True)
class Settings:
    only: tuple[str, ...] = setting((), f"parts: {', '.join(PARTS)} (left out: all)", choices=PARTS, metavar="PART")
    only_write: bool = setting(False, "measure nothing: figure and table from the results there are")
    repetitions: int = setting(60, "turns of each comparison", minimum=4)
    seeds: tuple[int, ...] = setting((641,), "seeds of the loops' trainings", minimum=0)
    output: Path = setting(HERE / "results.json", "file of the results; the figure goes beside it", metavar="FILE")
    readme: Path = setting(HERE.parent / "README.md", "file that holds the table", metavar="FILE")


def measure(part: str, settings: Settings) -> dict:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    match part:
        case "steps":
            return steps.measure(settings.repetitions, sorted({1, cores}))
        case "answering":
            return answering.measure(settings.repetitions)
        case "loops":
            return loops.measure(list(settings.seeds))
        case "scaling":
            return scaling.measure()
        case _:
            return from_nothing.measure()


def main(settings: Settings) -> None:
    parts = {}
    if settings.output.exists():
        known = read_json(settings.output, "delete it and run bench.py again.")
        parts = known.get("parts", {}) if isinstance(known, dict) else {}
    elif settings.only_write:
        raise UserError(f"{settings.output} is not there: run bench.py without --only-write.")
    for part in () if settings.only_write else settings.only or PARTS:
        print(f"measuring: {part}", flush=True)
        found = measure(part, settings)
        origin = provenance() | {"processor": scaling.cpu_name(), "cores": os.cpu_count()}
        parts[part] = json.loads(json.dumps(found)) | {"measured_with": origin}
        write_json(settings.output, {"parts": parts})
    picture.draw(parts, settings.output.with_suffix(".png"))
    print(picture.table(parts))
    picture.write_table(picture.table(parts, brief=True), settings.readme)


if __name__ == "__main__":
    torch.set_num_interop_threads(1)
    run(lambda: main(parse(Settings, __doc__)))
