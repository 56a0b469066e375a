"""Models of problem 2: built from settings, and loaded from the checkpoint that train.py wrote."""

from pathlib import Path

import torch

from lab import checkpoint
from lab.files import UserError
from problem2.model import SortingClassifier, create_model

KIND = "problem2/sorting"


def build(settings: dict) -> SortingClassifier:
    """The untrained model with these settings (those of train.py)."""
    sizes = ("d_model", "num_heads", "num_layers", "d_ff", "dropout", "max_len")
    return create_model(settings["encoding"], **{name: settings[name] for name in sizes})


def load_model(path: Path, device: torch.device | str = "cpu") -> tuple[SortingClassifier, dict]:
    """The model in a checkpoint, ready for evaluation, and the settings it was trained with."""
    content = checkpoint.load(path, KIND)
    settings = content["settings"]
    if settings.get("pooling", "mean") != "mean" or settings.get("causal"):
        raise UserError(f"{path} holds a model of beyond/schemes, which is built otherwise: load it there.")
    if not isinstance(settings.get("seed"), int):
        raise UserError(f"{path} does not say which seed it was trained with: {checkpoint.HINT}")
    model = checkpoint.rebuild(build, content, path)
    return model.to(device).eval(), settings
