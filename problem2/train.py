"""Train position schemes on sorted-or-not: results/NAME/best_model.pth, training_log.json, training_curves.png.

    python problem2/train.py                                # all schemes, one on each core; data is made if missing
    python problem2/train.py --encoding rope                # one scheme (or several names), about a minute each
    python problem2/train.py --encoding sinusoidal learned none      # the three that the course asks for
    python problem2/train.py --encoding window --protocol strict --output-dir problem2/results/strict
    python problem2/train.py --resume                       # go on where a stopped run was; what is done stays
    torchrun --nproc_per_node=2 problem2/train.py           # several processes, each a share of every batch

Protocols: "course" takes the 10,000 rows of train.json and pools by the mean. "strict" draws rows afresh, half of
the unsorted ones with a single swap of two neighbours, pools by the maximum and has a single layer.
"""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import checkpoint, parallel
from lab.files import UserError
from lab.settings import as_plain, from_plain, parse, run, setting
from lab.training import Recipe, Task, train
from problem2.dataset import Rows, draw, draw_instead, load_or_generate, score, vary
from problem2.model import SortingClassifier, create_model
from problem2.positional_encoding import SCHEMES
from problem2.side_by_side import run_all

HERE = Path(__file__).resolve().parent
KIND = "problem2/sorting"


@dataclass(frozen=True)
class Protocol:
    """What the two ways of training differ in, besides their rows."""

    pooling: str
    num_layers: int
    epochs: int


PROTOCOLS = {"course": Protocol("mean", 2, 24), "strict": Protocol("max", 1, 64)}


@dataclass(frozen=True)
class Settings:
    encoding: tuple[str, ...] = setting(
        (), f"{', '.join(SCHEMES)} (left out: all)", choices=(*SCHEMES,), metavar="NAME"
    )
    protocol: str = setting("course", "where rows come from and how places are pooled", choices=(*PROTOCOLS,))
    data_dir: Path = setting(HERE / "data", "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder that gets a folder for each scheme", metavar="DIR")
    batch_size: int = setting(128, "rows in a step", minimum=1)
    epochs: int | None = setting(None, "passes over the training rows (course: 24, strict: 64)", minimum=1)
    lr: float = setting(3e-3, "highest learning rate, after the warm-up", minimum=0)
    d_model: int = setting(64, "width of the model", minimum=1, maximum=8192)
    num_heads: int = setting(4, "attention heads in each layer", minimum=1, maximum=8192)
    num_layers: int | None = setting(None, "layers (course: 2, strict: 1)", minimum=1, maximum=64)
    d_ff: int = setting(128, "inner width of the feed-forward layers", minimum=1, maximum=65536)
    dropout: float = setting(0.0, "share of activations dropped while training", minimum=0, maximum=0.9)
    weight_decay: float = setting(0.1, "AdamW's pull of the weights towards zero", minimum=0)
    max_len: int = setting(1024, "rows of a trained position table", minimum=1, maximum=1_000_000)
    causal: bool = setting(False, "let every place see only itself and what comes before")
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")
    seed: int = setting(641, "seed of weights, order of rows and augmentation", minimum=0)
    resume: bool = setting(False, "go on after the last finished epoch of an interrupted run")


def with_defaults(settings: Settings) -> Settings:
    """The settings with what the protocol decides filled in where nothing else was asked for."""
    usual = PROTOCOLS[settings.protocol]
    return replace(settings, num_layers=settings.num_layers or usual.num_layers, epochs=settings.epochs or usual.epochs)


def build(settings: Settings) -> SortingClassifier:
    (encoding,) = settings.encoding
    return create_model(
        encoding,
        d_model=settings.d_model,
        num_heads=settings.num_heads,
        num_layers=settings.num_layers,
        d_ff=settings.d_ff,
        dropout=settings.dropout,
        max_len=settings.max_len,
        pooling=PROTOCOLS[settings.protocol].pooling,
        causal=settings.causal,
    )


def load_trained(path: Path, device: torch.device | str = "cpu") -> SortingClassifier:
    """The model in a checkpoint, rebuilt from the settings beside its weights, ready to be asked."""
    content = checkpoint.load(path, KIND)
    settings = with_defaults(from_plain(Settings, content["settings"], str(path)))
    odd = [name for name in settings.encoding if name not in SCHEMES]
    if odd or len(settings.encoding) != 1 or settings.d_model % settings.num_heads:
        raise UserError(f"{path} has settings that no model can have: {checkpoint.REMEDY}")
    return checkpoint.rebuild(lambda: build(settings), content["model"], path).to(device).eval()


def make_task(settings: Settings, rows: dict[str, Rows]) -> Task:
    """The course's rows; under the strict protocol fresh ones take their place, batch by batch."""
    augment = vary
    if settings.protocol == "strict":
        lengths = rows["train"].lengths()
        generator = torch.Generator().manual_seed(settings.seed + 1)
        limits = int(lengths.min()), int(lengths.max())
        rows = rows | {name: draw(len(rows[name]), *limits, generator) for name in ("val", "test")}
        augment = draw_instead
    return Task(KIND, *((part.sequences, part.labels) for part in rows.values()), score, augment)


def train_one(settings: Settings, device: torch.device) -> dict:
    """Train the one scheme that settings.encoding names; returns its log."""
    settings = with_defaults(settings)
    with parallel.lead_first():
        rows = load_or_generate(settings.data_dir)
    torch.manual_seed(settings.seed)
    model = build(settings).to(device)
    recipe = Recipe(settings.epochs, settings.batch_size, settings.lr, weight_decay=settings.weight_decay)
    (name,) = settings.encoding
    folder = settings.output_dir / name
    log = train(model, make_task(settings, rows), recipe, as_plain(settings), folder, settings.seed, settings.resume)
    if parallel.rank() == 0:
        print(
            f"{name}: test {log['test_acc']:.2%} of {len(rows['test']):,} sequences right; "
            f"{log['seconds']:.0f} s; everything is in {folder}"
        )
    return log


def main(settings: Settings) -> None:
    if settings.d_model % settings.num_heads:
        raise UserError(
            f"--d-model {settings.d_model} cannot be shared among --num-heads {settings.num_heads} heads: "
            "choose a multiple."
        )
    names = settings.encoding or tuple(SCHEMES)
    device = parallel.start(settings.device)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if len(names) > 1 and parallel.world() == 1 and device.type == "cpu" and cores > 1:
        load_or_generate(settings.data_dir)  # once, before several processes would
        run_all(Path(__file__), {name: replace(settings, encoding=(name,)) for name in names}, cores)
    else:
        for name in names:
            train_one(replace(settings, encoding=(name,)), device)
    parallel.stop()


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
