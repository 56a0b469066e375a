"""Train the transformer on addition: results/best_model.pth, training_log.json, training_curves.png.

    python problem1/train.py                                # data is generated if missing; half a minute
    python problem1/train.py --epochs 5 --output-dir try    # a short run in another folder
    python problem1/train.py --resume                       # continue a run that was stopped

Accuracy is exact match: the whole answer right, first digit included.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

import torch

from lab import device
from lab.files import UserError
from lab.settings import LARGEST_SEED, as_plain, command, parse, run, setting
from lab.training import Recipe, Task, evaluate, train
from problem1.checkpoint import KIND, build
from problem1.dataset import Sums, load_or_generate, sampling_weights, score, seen_in, swap_columns

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Settings:
    data_dir: Path = setting(HERE / "data", "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder for checkpoints, log and curves", metavar="DIR")
    batch_size: int = setting(64, "rows in a step", minimum=1, maximum=1_000_000)
    epochs: int = setting(
        16, "times that as many rows as there are training rows are drawn", minimum=1, maximum=100_000
    )
    lr: float = setting(2e-3, "highest learning rate, after the warm-up", minimum=1e-6, maximum=1)
    d_model: int = setting(64, "width of the model", minimum=1, maximum=4096)
    num_heads: int = setting(4, "heads of each attention module", minimum=1, maximum=4096)
    num_layers: int = setting(2, "layers of the encoder, and of the decoder", minimum=1, maximum=100)
    d_ff: int = setting(256, "inner width of the feed-forward layers", minimum=1, maximum=16_384)
    dropout: float = setting(0.0, "share of activations dropped while training", minimum=0, maximum=0.9)
    weight_decay: float = setting(0.5, "weight decay of AdamW", minimum=0, maximum=100)
    hard_weight: float = setting(
        3.0,
        "a row is drawn 1 + this times as often for each column that adds up to 9 or 10 (0: all alike)",
        minimum=0,
        maximum=1000,
    )
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")
    seed: int = setting(641, "seed of weights, order of rows and augmentation", minimum=0, maximum=LARGEST_SEED)
    resume: bool = setting(False, "continue after the last finished epoch of a run that was stopped")


def check(settings: Settings) -> None:
    """Refuse what no model can have."""
    if settings.d_model % settings.num_heads:
        raise UserError(
            f"--d-model {settings.d_model} cannot be split among --num-heads {settings.num_heads}: choose a multiple."
        )


def make_task(rows: dict[str, Sums], hard_weight: float) -> Task:
    """The course's rows, those with columns that add up to 9 or 10 drawn more often, digits swapped within columns."""
    parts = {name: (sums.sources, sums.targets) for name, sums in rows.items()}
    weights = sampling_weights(rows["train"], hard_weight)
    if not weights.sum().isfinite():
        raise UserError(f"--hard-weight {hard_weight:g} is too large for {rows['train'].num_digits} digits: lower it.")
    return Task(KIND, **parts, score=score, augment=swap_columns, proportions=weights, measure="exact match")


def make_recipe(settings: Settings) -> Recipe:
    return Recipe(settings.epochs, settings.batch_size, settings.lr, weight_decay=settings.weight_decay)


def config_of(settings: Settings, rows: dict[str, Sums]) -> dict:
    """What decides the run, as plain values for the log and the checkpoint."""
    return as_plain(settings) | {"num_digits": rows["train"].num_digits}


def main(settings: Settings) -> None:
    chosen = device.start(settings.device)
    check(settings)
    rows = load_or_generate(settings.data_dir)
    config = config_of(settings, rows)
    torch.manual_seed(settings.seed)
    model = build(config).to(chosen)
    task = make_task(rows, settings.hard_weight)
    log = train(model, task, make_recipe(settings), config, settings.output_dir, resume=settings.resume)
    print(f"test: {log['test_acc']:.2%} of {len(rows['test']):,} sums right")
    new = rows["test"][~seen_in(rows["test"], rows["train"])]
    if len(new):
        _, accuracy = evaluate(model, (new.sources, new.targets), score)
        unseen = "that are no training sum, nor one with digits swapped within columns"
        print(f"      {accuracy:.2%} of the {len(new):,} {unseen}")
    print(f"everything is in {settings.output_dir}; next: {analysis(settings)}")


def analysis(settings: Settings) -> str:
    """The command that analyses what was trained."""
    flags = {}
    if settings.output_dir != Settings.output_dir:
        flags = {"model_path": settings.output_dir / "best_model.pth", "output_dir": settings.output_dir}
    if settings.data_dir != Settings.data_dir:
        flags["data_dir"] = settings.data_dir
    return command(HERE / "analyze.py", **flags)


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
