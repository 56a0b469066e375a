"""Train on addition as text: results/text/best_model.pth, training_log.json, training_curves.png.

    python problem1/train.py --task text                                     # `places`: about a minute
    python problem1/train.py --task text --scheme sinusoidal --output-dir try
    python problem1/train.py --task text --resume                            # go on where a stopped run was
    torchrun --nproc_per_node=2 problem1/train.py --task text

Sums of numbers of 1 to 13 digits, "123 + 4567 = " -> "4690". An epoch is --epoch-rows rows drawn from the 100,000,
so that progress shows. Accuracy is exact match: every symbol of the answer right, its end included.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab import checkpoint, parallel
from lab.files import UserError
from lab.settings import as_plain, from_plain, parse, run, setting
from lab.training import Recipe, Task, train
from problem1.text.dataset import encode, load_or_generate, score
from problem1.text.model import SCHEMES, build

PROBLEM = Path(__file__).resolve().parents[1]
KIND = "problem1/text"


@dataclass(frozen=True)
class Settings:
    task: str = setting("text", "text: this one; digits: three-digit operands", choices=("text",))
    scheme: str = setting("places", "how positions are told", choices=SCHEMES)
    order: str = setting(
        "reversed",
        "the answer's first digit: reversed, the units; plain, the highest (not for places)",
        choices=("reversed", "plain"),
    )
    data_dir: Path = setting(PROBLEM / "data" / "text", "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(PROBLEM / "results" / "text", "folder for checkpoints, log and curves", metavar="DIR")
    batch_size: int = setting(128, "rows in a step", minimum=1)
    epochs: int = setting(16, "times that --epoch-rows rows are drawn and trained on", minimum=1)
    epoch_rows: int = setting(12_800, "rows drawn from the training rows for an epoch", minimum=1)
    lr: float = setting(2e-3, "highest learning rate, after the warm-up", minimum=0)
    d_model: int = setting(64, "width of the model", minimum=1, maximum=8192)
    num_heads: int = setting(4, "attention heads in each attention", minimum=1, maximum=8192)
    num_layers: int = setting(1, "layers of the encoder, and of the decoder", minimum=1, maximum=64)
    d_ff: int = setting(256, "inner width of the feed-forward layers", minimum=1, maximum=65536)
    dropout: float = setting(0.0, "share of activations dropped while training", minimum=0, maximum=0.9)
    weight_decay: float = setting(0.5, "AdamW's pull of the weights towards zero", minimum=0)
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")
    seed: int = setting(641, "seed of weights and order of rows (the rows themselves never change)", minimum=0)
    resume: bool = setting(False, "go on after the last finished epoch of an interrupted run")


def load_model(path: Path, device: torch.device | str = "cpu") -> tuple[nn.Module, Settings]:
    """A checkpoint's model, ready to be asked, and its settings."""
    loaded = checkpoint.load(path, KIND)
    settings = from_plain(Settings, loaded["settings"], str(path))
    if settings.d_model % settings.num_heads:
        raise UserError(f"{path} has settings of which no model can be built: {checkpoint.REMEDY}")
    model = checkpoint.rebuild(lambda: build(settings), loaded["model"], path)
    return model.to(device).eval(), settings


def main(settings: Settings) -> None:
    if settings.d_model % settings.num_heads:
        raise UserError(
            f"--d-model {settings.d_model} cannot be shared among --num-heads {settings.num_heads} heads: "
            "choose a multiple."
        )
    if settings.scheme == "places" and settings.order == "plain":
        raise UserError("--scheme places writes the units first: leave out --order plain, or choose another scheme.")
    device = parallel.start(settings.device)
    with parallel.lead_first():
        parts = load_or_generate(settings.data_dir)
    torch.manual_seed(settings.seed)
    model = build(settings).to(device)
    task = Task(KIND, *(encode(pairs, settings.scheme, settings.order) for pairs in parts.values()), score)
    recipe = Recipe(
        settings.epochs,
        settings.batch_size,
        settings.lr,
        weight_decay=settings.weight_decay,
        epoch_rows=settings.epoch_rows,
    )
    log = train(model, task, recipe, as_plain(settings), settings.output_dir, settings.seed, settings.resume)
    if parallel.rank() == 0:
        print(
            f"test: {log['test_acc']:.2%} of {len(parts['test']):,} sums right, none of them a training sum; "
            f"{log['seconds']:.0f} s; everything is in {settings.output_dir}"
        )
    parallel.stop()


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
