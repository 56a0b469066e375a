"""One run of the study: a model trained with these flags of train.py, and its proof."""

from pathlib import Path

import torch

from beyond import jobs
from beyond.any_length import proof
from beyond.any_length.checkpoint import build, load_model
from beyond.any_length.dataset import DEFAULT, load_or_generate
from beyond.any_length.train import Settings, make_recipe, make_task
from lab.fast import Fast
from lab.settings import as_plain
from lab.training import train_or_reuse

EXP_STEP = 4096  # every 4,096th exp is tried here; analyze.py tries them all, once


def train_and_prove(flags: dict, folder: Path, data_dir: Path = DEFAULT) -> dict:
    """What measured.json holds."""
    with jobs.one_at_a_time():
        rows = load_or_generate(data_dir)
    settings = Settings(**flags)
    config = as_plain(settings)
    torch.manual_seed(settings.seed)
    log = train_or_reuse(build(config), make_task(rows), make_recipe(settings), config, folder)
    model, _ = load_model(folder / "best_model.pth")
    measured = {name: log[name] for name in ("parameters", "first_perfect_epoch", "test_loss", "test_acc")}
    with Fast():
        return measured | {"proof": single_numbers(proof.run(model, exp_step=EXP_STEP))}


def single_numbers(found: dict) -> dict:
    """Numbers that stand alone, and what rounding can do."""
    return {name: value for name, value in found.items() if name == "rounding" or not isinstance(value, list | dict)}
