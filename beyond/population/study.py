"""Does the recipe hold? The same training with other seeds, at another width, and for longer numbers.

    python beyond/population/study.py                        # all of it, a training on each core
    python beyond/population/study.py --runs seed0 digits5   # some of it; the others stay as they are

Each run is a train.py of its own, evaluated on sums it has not seen: all 810,000 pairs of three-digit operands; of more
digits 1,000,000 random pairs, and 200,000 built to be hard. Runs on plain random rows show what hard rows are for. Runs
that are finished are kept. Everything is written to results/robustness.json.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

from beyond import jobs
from beyond.population import statements
from beyond.population.heads import STATEMENTS as ON_HEADS
from beyond.population.runs import Run, train_and_measure
from lab.files import versions, write_json
from lab.settings import parse, run, setting

HERE = Path(__file__).resolve().parent

# The recipe of longer numbers.
LONGER = {"batch_size": 128, "lr": 2e-3, "weight_decay": 1.0, "hard_weight": 0.0}
RUNS = {f"seed{seed}": Run("another seed", {"seed": seed}) for seed in range(10)}
RUNS["handout"] = Run("the handout's own size", {"seed": 641, "d_model": 128, "d_ff": 512})
RUNS["plain3"] = Run("all rows drawn alike", {"seed": 641, "hard_weight": 0.0})
for digits, rows, epochs in ((5, 100_000, 6), (10, 200_000, 8)):
    longer = LONGER | {"epochs": epochs}
    RUNS[f"digits{digits}"] = Run(f"{digits} digits", {"seed": 641} | longer, digits, rows, 0.75)
    for seed in (0, 1):
        RUNS[f"digits{digits}_seed{seed}"] = Run("another seed", {"seed": seed} | longer, digits, rows, 0.75)
RUNS["digits5_plain"] = Run("plain random rows", RUNS["digits5"].flags, 5, 100_000)


@dataclass(frozen=True)
class Settings(jobs.Engine):
    runs: tuple[str, ...] = setting(tuple(RUNS), "which runs", choices=tuple(RUNS), metavar="NAME")
    output_dir: Path = setting(HERE / "results", "folder of robustness.json; models go to seeds/ in it", metavar="DIR")
    data_dir: Path = setting(HERE / "data", "folder of the rows, made if they are missing", metavar="DIR")


def of_how_many(found: dict[str, dict]) -> dict:
    """Which statements on heads and programs hold for which of the seeds, and each model's program in words."""
    seeds = {name: run for name, run in found.items() if name.startswith("seed")}
    heads = {name: run["heads"] for name, run in seeds.items() if run["heads"]["meaningful"]}
    return {
        "on_heads": statements.count(heads, ON_HEADS),
        "on_programs": statements.count({name: run["program"] for name, run in seeds.items()}, statements.STATEMENTS),
        "programs": {name: statements.in_short(run["program"]) for name, run in seeds.items()},
    }


def main(settings: Settings) -> None:
    work = []
    for name, this in sorted(RUNS.items(), key=lambda item: -item[1].num_digits):  # the longest first
        folder = settings.output_dir / "seeds" / name
        work.append(jobs.Job(name, train_and_measure, vars(this), folder, {"data_dir": settings.data_dir}))
    jobs.run([job for job in work if job.name in settings.runs], settings)
    found = {job.name: jobs.finished(job) for job in work}
    found = {name: found[name] for name in RUNS if found[name] is not None}
    of_models = of_how_many(found)
    runs = {name: {key: run[key] for key in run if key not in ("heads", "program")} for name, run in found.items()}
    write_json(settings.output_dir / "robustness.json", {"runs": runs, **of_models, "versions": versions()})
    for name, result in found.items():
        for kind, part in (("", result), ("hard ", result.get("hard"))):
            if part:
                wrong = f"{part['errors']:>8,} wrong of {part['pairs']:>9,} {kind}pairs"
                print(f"{name:16}{wrong}, smallest logit margin {part['smallest_margin']:.2f}")
    print("\n".join(statements.statement_lines(of_models["on_heads"] + of_models["on_programs"])))
    print(f"everything is in {settings.output_dir / 'robustness.json'}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
