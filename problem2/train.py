"""Train position schemes on sorted-or-not: results/NAME/best_model.pth, training_log.json, training_curves.png.

    python problem2/train.py                                # sinusoidal, learned and none, one on each core: a minute
    python problem2/train.py --encoding rope                # another scheme: 20 to 30 seconds
    python problem2/train.py --encoding all                 # every scheme
    python problem2/train.py --encoding rope --resume       # continue a run that was stopped

Data is generated if it is missing. Unsorted rows are drawn the more often, the fewer of their pairs are out of order.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

import torch

from lab import device
from lab.files import UserError, only_one
from lab.settings import LARGEST_SEED, as_plain, command, parse, run, setting
from lab.training import Recipe, Task, train
from problem2 import dataset
from problem2.checkpoint import KIND, build
from problem2.dataset import DEFAULT, Rows
from problem2.positional_encoding import HOMEWORK, SCHEMES

HERE = Path(__file__).resolve().parent
EMA_DECAY = 0.99  # of the average of the weights that is validated and kept


@dataclass(frozen=True)
class Settings:
    encoding: tuple[str, ...] = setting(
        HOMEWORK, f"{', '.join(SCHEMES)}, or all", choices=(*SCHEMES, "all"), metavar="NAME"
    )
    data_dir: Path = setting(DEFAULT, "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder that gets a folder for each scheme", metavar="DIR")
    batch_size: int = setting(128, "rows in a step", minimum=1, maximum=1_000_000)
    epochs: int = setting(34, "in each, as many rows are drawn as there are", minimum=1, maximum=100_000)
    lr: float = setting(8e-3, "highest learning rate, after the warm-up", minimum=1e-6, maximum=1)
    d_model: int = setting(32, "width of the model", minimum=1, maximum=4096)
    num_heads: int = setting(4, "attention heads in each layer", minimum=1, maximum=4096)
    num_layers: int = setting(2, "layers", minimum=1, maximum=100)
    d_ff: int = setting(64, "inner width of the feed-forward layers", minimum=1, maximum=16_384)
    dropout: float = setting(0.0, "share of activations dropped while training", minimum=0, maximum=0.9)
    weight_decay: float = setting(0.1, "weight decay of AdamW", minimum=0, maximum=100)
    max_len: int = setting(1024, "rows of a trained position table", minimum=1, maximum=1_000_000)
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")
    seed: int = setting(641, "seed of weights, order of rows and augmentation", minimum=0, maximum=LARGEST_SEED)
    resume: bool = setting(False, "continue after the last finished epoch of a run that was stopped")


def check(settings: Settings) -> None:
    """Refuse what no model can have."""
    width = settings.d_model
    heads = settings.num_heads
    if width % heads:
        raise UserError(f"--d-model {width} cannot be split among --num-heads {heads}: choose a multiple.")
    rotary = [name for name in settings.encoding if "rope" in name]
    if rotary and width // heads % 2:
        raise UserError(
            f"--encoding {rotary[0]} turns pairs of dimensions, but with --d-model {width} each of --num-heads {heads} "
            f"has {width // heads}: choose a --d-model that is a multiple of {2 * heads}."
        )


def make_task(rows: dict[str, Rows], batch_size: int) -> Task:
    """The course's rows, hard ones drawn more often, augmented, in batches of nearly one length."""

    def augment(rows: Rows, generator: torch.Generator) -> Rows:
        return dataset.batches_of_one_length(dataset.augment(rows, generator), batch_size, generator)

    return Task(
        KIND,
        train=rows["train"],
        val=rows["val"],
        test=rows["test"],
        score=dataset.score_without_padding,
        augment=augment,
        proportions=dataset.drawing_weights(rows["train"]),
    )


def make_recipe(settings: Settings) -> Recipe:
    return Recipe(
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        ema_decay=EMA_DECAY,
    )


def config_of(settings: Settings) -> dict:
    """What decides the run, as plain values for the log and the checkpoint."""
    (encoding,) = settings.encoding
    return as_plain(settings) | {"encoding": encoding, "ema_decay": EMA_DECAY}


def train_scheme(settings: Settings, rows: dict[str, Rows], device: torch.device | str = "cpu") -> dict:
    """Train the one scheme that settings.encoding names, in a folder of that name; returns the log."""
    config = config_of(settings)
    torch.manual_seed(settings.seed)
    model = build(config).to(device)
    task = make_task(rows, settings.batch_size)
    folder = settings.output_dir / config["encoding"]
    return train(model, task, make_recipe(settings), config, folder, resume=settings.resume)


def train_alone(settings: Settings) -> float:
    """`train_scheme` in a process of its own; returns the test accuracy."""
    device.start("cpu")
    return train_scheme(settings, dataset.load_or_generate(settings.data_dir))["test_acc"]


def side_by_side(settings: Settings) -> dict[str, float]:
    """Each scheme in a process of its own, one on each core."""
    each = [replace(settings, encoding=(name,)) for name in settings.encoding]
    processes = ProcessPoolExecutor(os.cpu_count(), get_context("spawn"))
    # The lock is not needed for the trainings, but so a folder that cannot be used is refused once.
    with only_one(settings.output_dir, "a training"), processes:
        try:
            accuracies = list(processes.map(train_alone, each))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "stopped by you; every finished epoch is kept in last.pth of each scheme. "
                "Run the same command with --resume to go on."
            ) from None
        except BrokenProcessPool:
            raise UserError(
                "a training was killed, perhaps because memory ran out; every finished epoch is kept in last.pth of "
                "each scheme. Run the same command with --resume to go on."
            ) from None
    return dict(zip(settings.encoding, accuracies, strict=True))


def main(settings: Settings) -> None:
    chosen = device.start(settings.device)
    if "all" in settings.encoding:
        settings = replace(settings, encoding=tuple(SCHEMES))
    check(settings)
    rows = dataset.load_or_generate(settings.data_dir)
    if len(settings.encoding) > 1 and chosen.type == "cpu":
        accuracies = side_by_side(settings)
    else:
        accuracies = {}
        for name in settings.encoding:
            log = train_scheme(replace(settings, encoding=(name,)), rows, chosen)
            accuracies[name] = log["test_acc"]
    for name, accuracy in accuracies.items():
        print(f"{name:18} {accuracy:7.2%} of the test rows correct")
    flags = {}
    if settings.output_dir != Settings.output_dir:
        flags["results_dir"] = settings.output_dir
    if settings.data_dir != Settings.data_dir:
        flags["data_dir"] = settings.data_dir
    print(f"everything is in {settings.output_dir}; next: {command(HERE / 'analyze.py', **flags)}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
