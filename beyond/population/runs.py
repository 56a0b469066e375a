"""One run of the study: a training of problem 1 with its flags and rows, and what is measured of the model."""

from dataclasses import dataclass
from pathlib import Path

import torch

from beyond import jobs
from beyond.population.hard_sums import make_hard_rows, verify_hard
from beyond.population.heads import measure as measure_heads
from beyond.program import analyze as program
from lab.fast import Fast
from lab.training import train_or_reuse
from problem1.analysis.exhaustive import EXHAUSTIVE_DIGITS, verify
from problem1.checkpoint import build, load_model
from problem1.dataset import Sums, load
from problem1.generate_data import make_rows, write_rows
from problem1.train import Settings, config_of, make_recipe, make_task

DATA_SEED = 641
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


def rows_of(this: Run, data_dir: Path) -> dict[str, Sums]:
    """Train, val and test, made if they are missing. They stand apart from problem1/data, which is the user's."""
    folder = data_dir / f"{this.num_digits}-digits-{this.train_size}-rows-{this.hard_share:g}-hard"
    with jobs.one_at_a_time():
        if not (folder / "test.json").exists():
            generate(this, folder)
    return {name: load(folder, name) for name in ("train", "val", "test")}


def generate(this: Run, folder: Path) -> None:
    for number, (name, size) in enumerate((("train", this.train_size), ("val", 2_000), ("test", 2_000))):
        seed = DATA_SEED + number
        if name == "train" and this.hard_share:
            rows = make_hard_rows(this.num_digits, size, seed, this.hard_share)
        else:
            rows = make_rows(this.num_digits, size, seed)
        write_rows(folder / f"{name}.json", rows)


def train_and_measure(data_dir: Path, folder: Path, **fields) -> dict:
    """What measured.json holds of the Run with these fields."""
    this = Run(**fields)
    rows = rows_of(this, data_dir)
    settings = Settings(**this.flags)
    config = config_of(settings, rows)
    torch.manual_seed(settings.seed)
    task = make_task(rows, settings.hard_weight)
    log = train_or_reuse(build(config), task, make_recipe(settings), config, folder)
    model, _ = load_model(folder / "best_model.pth")
    with Fast():
        return measure(this, log, model, rows)


def measure(this: Run, log: dict, model, rows: dict[str, Sums]) -> dict:
    checked = verify(model, rows["train"], samples=this.samples)
    if not checked["exhaustive"]:
        checked["hard"] = verify_hard(model, rows["train"], this.samples // 5)
    print(f"{checked['errors']:,} errors in {checked['pairs']:,} pairs")
    more = {}
    if this.num_digits == EXHAUSTIVE_DIGITS:  # what heads are for, and the program of the model
        more = {"heads": measure_heads(model, rows), "program": program.measure(model, sums=PROGRAM_SUMS)}
    kept = ("exhaustive", "pairs", "errors", "accuracy", "interval_95", "smallest_margin", "by_longest_chain")
    return {
        "config": log["config"],
        "parameters": log["parameters"],
        "steps": log["config"]["epochs"] * -(-this.train_size // log["config"]["batch_size"]),
        "first_perfect_epoch": log["first_perfect_epoch"],
        "test_acc": log["test_acc"],
        **{name: checked[name] for name in (*kept, "wrong_sums", "hard") if name in checked},
        **more,
    }
