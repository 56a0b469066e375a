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
from beyond.population.hard_sums import make_hard_rows, verify_hard
from beyond.population.heads import STATEMENTS as ON_HEADS
from beyond.population.heads import measure as measure_heads
from beyond.program import analyze as program
from lab.fast import Fast
from lab.files import versions, write_json
from lab.settings import parse, run, setting
from problem1.analysis.exhaustive import EXHAUSTIVE_DIGITS, verify
from problem1.checkpoint import load_model
from problem1.dataset import load
from problem1.generate_data import make_rows, write_rows

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
DATA_SEED = 641
TRAIN = HERE.parents[1] / "problem1/train.py"
PROGRAM_SUMS = 100_000  # on which the program of a model is tested


@dataclass(frozen=True)
class Run:
    """One training: what it varies, its flags, and the rows it learns from."""

    varied: str
    flags: dict
    num_digits: int = 3
    train_size: int = 10_000
    hard_share: float = 0.0  # of the training rows
    samples: int = 1_000_000  # random pairs of more than three digits; and a fifth as many hard ones


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
class Settings:
    runs: tuple[str, ...] = setting(tuple(RUNS), "which runs", choices=tuple(RUNS), metavar="NAME")
    output_dir: Path = setting(HERE / "results", "folder of robustness.json; models go to seeds/ in it", metavar="DIR")
    workers: int = setting(0, "trainings at a time, one thread each (0: one for each core)", minimum=0)


def data_of(this: Run) -> Path:
    return DATA / f"{this.num_digits}-digits-{this.train_size}-rows-{this.hard_share:g}-hard"


def generate(this: Run) -> None:
    """The rows of a run, if they are not there. They stand apart from problem1/data, which is the user's."""
    folder = data_of(this)
    if (folder / "test.json").exists():
        return
    for number, (name, size) in enumerate((("train", this.train_size), ("val", 2_000), ("test", 2_000))):
        seed = DATA_SEED + number
        if name == "train" and this.hard_share:
            rows = make_hard_rows(this.num_digits, size, seed, this.hard_share)
        else:
            rows = make_rows(this.num_digits, size, seed)
        write_rows(folder / f"{name}.json", rows)


def train_and_verify(data: Path, folder: Path, **settings) -> dict:
    """One run, whose fields are `settings`: the rows are in `data`, the model goes to `folder`."""
    this = Run(**settings)
    log = jobs.train_once(TRAIN, this.flags, folder, data_dir=data)
    model, _ = load_model(folder / "best_model.pth")
    with Fast():
        return measure(this, log, model, data)


def measure(this: Run, log: dict, model, data: Path) -> dict:
    seen = load(data, "train")
    checked = verify(model, seen, samples=this.samples)
    if not checked["exhaustive"]:
        checked["hard"] = verify_hard(model, seen, this.samples // 5)
    print(f"{checked['errors']:,} errors in {checked['pairs']:,} pairs")
    heads = {}
    if this.num_digits == EXHAUSTIVE_DIGITS:  # what heads are for, and the program of the model
        rows = {name: load(data, name) for name in ("train", "val", "test")}
        heads = {"heads": measure_heads(model, rows), "program": program.measure(model, sums=PROGRAM_SUMS)}
    kept = ("exhaustive", "pairs", "errors", "accuracy", "interval_95", "smallest_margin", "by_longest_chain")
    return {
        "config": log["config"],
        "parameters": log["parameters"],
        "steps": log["config"]["epochs"] * -(-this.train_size // log["config"]["batch_size"]),
        "first_perfect_epoch": log["first_perfect_epoch"],
        "test_acc": log["test_acc"],
        **{name: checked[name] for name in (*kept, "wrong_sums", "hard") if name in checked},
        **heads,
    }


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
    for name in settings.runs:
        generate(RUNS[name])
    work = []
    for name, this in sorted(RUNS.items(), key=lambda item: -item[1].num_digits):  # the longest first
        folder = settings.output_dir / "seeds" / name
        paths = {"data": data_of(this), "folder": folder}
        work.append(jobs.Job(name, train_and_verify, vars(this), folder / "measured.json", paths))
    jobs.run([job for job in work if job.name in settings.runs], settings.workers)
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
