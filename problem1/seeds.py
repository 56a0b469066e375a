"""Does the recipe hold? The same training with other seeds, at another width, and for longer numbers.

    python problem1/robustness.py                        # all of it, two trainings at a time
    python problem1/robustness.py --runs seed0 digits5   # some; the others keep their last result

Each run is a train.py of its own, then put to the test on sums it has not seen: all 810,000 pairs of three-digit
operands, or 100,000 fresh random pairs of more digits. Everything is written to results/robustness.json.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.files import UserError, read_json, write_json
from lab.provenance import provenance
from lab.settings import parse, run, setting
from problem1.analysis.exhaustive import verify
from problem1.dataset import load
from problem1.train import load_model

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Run:
    """One training: what it asks, the rows it learns from and its flags."""

    question: str
    flags: tuple[str, ...] = ()
    num_digits: int = 3
    train_size: int = 10_000


RUNS = {f"seed{seed}": Run("another seed", ("--seed", str(seed))) for seed in range(5)} | {
    "bfloat16": Run("matrix products in bfloat16 while training", ("--precision", "bfloat16")),
    "handout": Run("the handout's own size", ("--d-model", "128", "--d-ff", "512")),
    "digits5": Run("five digits", ("--epochs", "48", "--weight-decay", "1"), 5, 50_000),
    "digits10": Run("ten digits", ("--epochs", "16", "--batch-size", "128", "--weight-decay", "1"), 10, 200_000),
}


@dataclass(frozen=True)
class Settings:
    runs: tuple[str, ...] = setting(tuple(RUNS), "which runs", choices=tuple(RUNS), metavar="NAME")
    output_dir: Path = setting(HERE / "results", "folder of robustness.json; models go to seeds/ in it", metavar="DIR")
    at_once: int = setting(2, "trainings at a time, one thread each", minimum=1)


def data_of(run: Run) -> Path:
    return HERE / "data" / (f"digits{run.num_digits}" if run.num_digits != 3 else "")


def perform(name: str, folder: Path) -> dict:
    """Train one run in `folder` and verify its best model."""
    this = RUNS[name]
    data = data_of(this)
    _call("train.py", *this.flags, "--data-dir", data, "--output-dir", folder, "--device", "cpu")
    model, _, _ = load_model(folder / "best_model.pth")
    log = read_json(folder / "training_log.json", "run robustness.py again.")
    checked = verify(model, load(data, "train"))
    result = {
        "question": this.question,
        "num_digits": this.num_digits,
        "train_size": this.train_size,
        "config": log["config"],
        "seconds": log["seconds"],
        "threads": log["threads"],
        "parameters": log["parameters"],
        "steps": log["config"]["epochs"] * -(-this.train_size // log["config"]["batch_size"]),
        "first_perfect_epoch": log["first_perfect_epoch"],
        "test_acc": log["test_acc"],
        **{key: checked[key] for key in ("exhaustive", "pairs", "errors", "accuracy", "interval_95")},
        **{key: checked[key] for key in ("smallest_margin", "by_longest_chain", "wrong_sums")},
    }
    errors, pairs = checked["errors"], checked["pairs"]
    print(f"{name:9} {errors:,} errors in {pairs:,} pairs; trained {log['seconds']:.0f} s", flush=True)
    return result


def _call(script: str, *flags) -> None:
    command = [sys.executable, str(HERE / script), *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise UserError(f"{script} failed: {done.stderr.strip().removeprefix('error: ')}")


def main(settings: Settings) -> None:
    path = settings.output_dir / "robustness.json"
    wanted = {data_of(RUNS[name]): RUNS[name] for name in settings.runs}
    for data, its in wanted.items():  # before, and once: runs at the same time would be in each other's way
        _call("generate_data.py", "--num-digits", its.num_digits, "--train-size", its.train_size, "--output-dir", data)
    with ThreadPoolExecutor(settings.at_once) as pool:
        finished = pool.map(lambda name: perform(name, settings.output_dir / "seeds" / name), settings.runs)
        for name, result in zip(settings.runs, finished, strict=True):
            # Read again each time: another call of this script may have finished other runs meanwhile.
            results = (read_json(path, "delete it.")["runs"] if path.exists() else {}) | {name: result}
            write_json(path, {"runs": {name: results[name] for name in RUNS if name in results}, **provenance()})


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
