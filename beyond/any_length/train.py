"""Train on addition as text: results/best_model.pth, training_log.json, training_curves.png.

    python beyond/any_length/train.py                          # about 20 seconds
    python beyond/any_length/train.py --resume                 # continue a run that was stopped

Sums of numbers of 1 to 13 digits, "123 + 4567 = " -> "4690". An epoch is --epoch-rows rows drawn from the 100,000,
so that progress shows. Accuracy is exact match: every symbol of the answer right, its end included.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

import torch

from beyond.any_length.checkpoint import KIND, MODEL, build
from beyond.any_length.dataset import DEFAULT, Pairs, encode, load_or_generate, score
from lab import device
from lab.files import UserError
from lab.settings import LARGEST_SEED, as_plain, command, parse, run, setting
from lab.training import Recipe, Task, train


@dataclass(frozen=True)
class Settings:
    data_dir: Path = setting(DEFAULT, "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(MODEL.parent, "folder for checkpoints, log and curves", metavar="DIR")
    batch_size: int = setting(64, "rows in a step", minimum=1, maximum=1_000_000)
    epochs: int = setting(32, "times that --epoch-rows rows are drawn and trained on", minimum=1, maximum=100_000)
    epoch_rows: int = setting(6_400, "rows drawn from the training rows for an epoch", minimum=1, maximum=100_000_000)
    lr: float = setting(5e-3, "highest learning rate, after the warm-up", minimum=1e-6, maximum=1)
    d_model: int = setting(16, "width of the model", minimum=1, maximum=4096)
    num_heads: int = setting(2, "heads of each attention module", minimum=1, maximum=4096)
    d_ff: int = setting(32, "inner width of the feed-forward layers", minimum=1, maximum=16_384)
    dropout: float = setting(0.0, "share of activations dropped while training", minimum=0, maximum=0.9)
    weight_decay: float = setting(0.5, "weight decay of AdamW", minimum=0, maximum=100)
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")
    seed: int = setting(
        641, "seed of weights and order of rows (the rows themselves never change)", minimum=0, maximum=LARGEST_SEED
    )
    resume: bool = setting(False, "continue after the last finished epoch of a run that was stopped")


def check(settings: Settings) -> None:
    """Refuse what no model can have."""
    if settings.d_model % settings.num_heads:
        raise UserError(
            f"--d-model {settings.d_model} cannot be split among --num-heads {settings.num_heads}: choose a multiple."
        )


def make_task(rows: dict[str, Pairs]) -> Task:
    return Task(KIND, **{name: encode(pairs) for name, pairs in rows.items()}, score=score)


def make_recipe(settings: Settings) -> Recipe:
    return Recipe(
        settings.epochs,
        settings.batch_size,
        settings.lr,
        weight_decay=settings.weight_decay,
        epoch_rows=settings.epoch_rows,
    )


def main(settings: Settings) -> None:
    check(settings)
    chosen = device.start(settings.device)
    rows = load_or_generate(settings.data_dir)
    config = as_plain(settings)
    torch.manual_seed(settings.seed)
    model = build(config).to(chosen)
    task, recipe = make_task(rows), make_recipe(settings)
    log = train(model, task, recipe, config, settings.output_dir, resume=settings.resume)
    print(f"test: {log['test_acc']:.2%} of {len(rows['test']):,} sums right, none of them a training sum")
    flags = {}
    if settings.output_dir != Settings.output_dir:
        flags = {"model_path": settings.output_dir / "best_model.pth", "output_dir": settings.output_dir}
    analysis = command(Path(__file__).with_name("analyze.py"), **flags)
    print(f"everything is in {settings.output_dir}; next: {analysis}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
