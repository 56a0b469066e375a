"""One training run of one position scheme: its settings, its rows, its recipe."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from lab.settings import LARGEST_SEED, as_plain, setting
from lab.training import Batch, Recipe, Task, train
from problem2 import dataset
from problem2.dataset import DEFAULT, Rows
from problem2.positional_encoding import SCHEMES
from problem2.trained import KIND, MORE, PROTOCOLS, build

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Settings:
    encoding: tuple[str, ...] = setting(
        (), f"{', '.join(SCHEMES)} (left out: all)", choices=(*SCHEMES,), metavar="NAME"
    )
    protocol: str = setting("course", "where rows come from and how votes are pooled", choices=(*PROTOCOLS,))
    data_dir: Path = setting(DEFAULT, "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder that gets a folder for each scheme", metavar="DIR")
    batch_size: int | None = setting(None, "rows in a step (128)", minimum=1, maximum=1_000_000)
    epochs: int | None = setting(
        None, "passes over the training rows (course: 34, strict: 64)", minimum=1, maximum=100_000
    )
    lr: float | None = setting(None, "highest learning rate (course: 0.008, strict: 0.003)", minimum=1e-6, maximum=1)
    d_model: int | None = setting(None, "width of the model (course: 32, strict: 64)", minimum=1, maximum=4096)
    num_heads: int = setting(4, "attention heads in each layer", minimum=1, maximum=4096)
    num_layers: int | None = setting(None, "layers (course: 2, strict: 1)", minimum=1, maximum=100)
    d_ff: int | None = setting(
        None, "inner width of the feed-forward layers (course: 64, strict: 128)", minimum=1, maximum=16_384
    )
    dropout: float = setting(0.0, "share of activations dropped while training", minimum=0, maximum=0.9)
    weight_decay: float = setting(0.1, "weight decay of AdamW", minimum=0, maximum=100)
    max_len: int = setting(1024, "rows of a trained position table", minimum=1, maximum=1_000_000)
    causal: bool = setting(False, "let each position attend only to itself and to earlier ones")
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")
    seed: int = setting(641, "seed of weights, order of rows and augmentation", minimum=0, maximum=LARGEST_SEED)
    resume: bool = setting(False, "continue after the last finished epoch of a run that was stopped")


def config_of(settings: Settings) -> dict:
    """What decides the run, as plain values: one scheme, with the protocol's defaults filled in."""
    (encoding,) = settings.encoding
    chosen = as_plain(settings)
    chosen |= {name: value for name, value in MORE[settings.protocol].items() if chosen[name] is None}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    return PROTOCOLS[settings.protocol] | chosen | {"encoding": encoding}


def make_task(config: dict, rows: dict[str, Rows]) -> Task:
    """The course's rows, hard ones drawn more often, augmented, in batches of nearly one length. Under the strict
    protocol each epoch has fresh rows."""
    score, weights = dataset.score_without_padding, dataset.drawing_weights(rows["train"])

    def augment(batch: Batch, generator: torch.Generator) -> Batch:
        return dataset.by_length(dataset.augment(batch, generator), config["batch_size"], generator)

    if config["protocol"] == "strict":
        limits = rows["train"].length_range()
        generator = torch.Generator().manual_seed(config["seed"] + 1)
        rows = rows | {name: dataset.sample_rows(len(rows[name]), *limits, generator) for name in ("val", "test")}
        score, augment, weights = dataset.score, dataset.resample, None
    parts = {name: (part.sequences, part.labels) for name, part in rows.items()}
    return Task(KIND, **parts, score=score, augment=augment, weights=weights)


def make_recipe(config: dict) -> Recipe:
    return Recipe(**{name: config[name] for name in ("epochs", "batch_size", "lr", "weight_decay", "ema_decay")})


def train_scheme(settings: Settings, rows: dict[str, Rows], device: torch.device | str = "cpu") -> dict:
    """Train the one scheme that settings.encoding names, in a folder of that name; returns the log."""
    config = config_of(settings)
    torch.manual_seed(settings.seed)
    model = build(config).to(device)
    folder = settings.output_dir / config["encoding"]
    return train(model, make_task(config, rows), make_recipe(config), config, folder, settings.seed, settings.resume)


def train_alone(name: str, settings: Settings) -> dict:
    """The same in a process of its own (lab/jobs.py); returns what train.py prints."""
    log = train_scheme(replace(settings, encoding=(name,)), dataset.load_or_generate(settings.data_dir))
    return {"test_acc": log["test_acc"]}
