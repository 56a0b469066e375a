"""Speed beside what people would use instead: benchmarks/results.json, and the tables in benchmarks/README.md.

    python benchmarks/bench.py                      # everything; leave the machine alone meanwhile
    python benchmarks/bench.py --only cost          # one part, into results.json alone

steps       a training step and an evaluation pass beside torch.nn, as they are and compiled
training    time to a model that is right beside the usual recipe; pairs verified in a second
cost        time against width, digits, length and operand size
"""

import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import measure
from lab import device
from lab.files import UserError, versions, write_json, write_text
from lab.settings import parse, run, setting

HERE = Path(__file__).resolve().parent
PARTS = ("steps", "training", "cost")
BEGIN, END = "<!-- measured by make bench -->", "<!-- end of what was measured -->"


@dataclass(frozen=True)
class Settings:
    only: tuple[str, ...] = setting((), f"parts: {', '.join(PARTS)} (left out: all)", choices=PARTS, metavar="PART")
    rounds: int = setting(40, "rounds of a comparison; cost takes a tenth", minimum=2)
    seeds: tuple[int, ...] = setting((641, 0), "seeds of the trainings", minimum=0)
    usual_epochs: int = setting(50, "most epochs of the usual recipe", minimum=1)
    output: Path = setting(HERE / "results.json", "the results; a README.md beside it gets the tables", metavar="FILE")


def main(settings: Settings) -> None:
    device.start("cpu")
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    processor = named.group(1) if named else platform.processor()
    results = {"processor": processor, "cores": os.cpu_count(), "versions": versions()}
    measures = {
        "steps": lambda: measure.steps(settings.rounds),
        "training": lambda: measure.training(settings.seeds, settings.usual_epochs),
        "cost": lambda: measure.cost(max(2, settings.rounds // 10)),
    }
    for name in settings.only or PARTS:
        print(f"measuring: {name}", flush=True)
        results[name] = measures[name]()
    write_json(settings.output, results)
    print(tables(results))
    readme = settings.output.with_name("README.md")
    if readme.exists() and set(PARTS) <= set(results):
        write_text(readme, with_tables(readme.read_text(), tables(results)))


def tables(results: dict) -> str:
    """Markdown of the parts there are."""
    torch_version = results["versions"]["torch"]
    out = [f"{results['processor']}, one thread, torch {torch_version}; medians, whose spread is in results.json."]
    if "steps" in results:
        names = ("ours", "torch.nn", "ours, compiled", "torch.nn, compiled")
        rows = [[what, *(timing(found.get(name)) for name in names)] for what, found in results["steps"].items()]
        out.append(markdown("milliseconds, and times as long as ours", *names, rows=rows))
    if "training" in results:
        head = ("training", "100% of validation", "exact on all 810,000", "ended", "wrong of 810,000", "pairs a second")
        rows = [
            [
                f"{found['recipe']}, seed {found['seed']}",
                seconds(found["to_validation"]),
                seconds(found["to_exact"]),
                f"{seconds(found['seconds'])}, {found['epochs']} epochs",
                f"{found['errors']:,}",
                f"{found['pairs_a_second']:,.0f}",
            ]
            for found in results["training"]
        ]
        out.append(markdown(*head, rows=rows))
    if "cost" in results:
        rows = []
        for what, found in results["cost"].items():
            ends = [f"{point['median_ms']:,.1f} at {point['size']:,}" for point in found["points"]]
            rows.append([what, ends[0], ends[-1], f"{found['exponent']:.2f}"])
        out.append(markdown("cost in milliseconds against", "smallest", "largest", "exponent", rows=rows))
    return "\n\n".join(out)


def timing(found: dict | None) -> str:
    if found is None or "failed" in found:
        return "failed" if found else ""
    return f"{found['median_ms']:.1f}, {found['ratio']:.2f}x"


def seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f} s"


def markdown(*head: str, rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def with_tables(readme: str, text: str) -> str:
    """The README with `text` between its two marks."""
    if not 0 <= readme.find(BEGIN) < readme.find(END):
        raise UserError(f"benchmarks/README.md lacks the lines {BEGIN} and {END}: put both where the tables belong.")
    return f"{readme[: readme.find(BEGIN)]}{BEGIN}\n\n{text}\n\n{readme[readme.find(END) :]}"


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
