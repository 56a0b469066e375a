"""A trained model, from the checkpoint that train.py wrote."""

from pathlib import Path

import torch

from lab import checkpoint
from problem2.model import SortingClassifier, create_model

KIND = "problem2/sorting"


# What the two ways of training differ in, besides their rows; most are defaults of flags. MORE is apart so that
# results keep the order of their keys.
PROTOCOLS = {
    "course": {"pooling": "mean", "num_layers": 2, "epochs": 34, "batch_size": 128, "ema_decay": 0.99},
    "strict": {"pooling": "max", "num_layers": 1, "epochs": 64, "batch_size": 128, "ema_decay": 0.0},
}
MORE = {"course": {"lr": 8e-3, "d_model": 32, "d_ff": 64}, "strict": {"lr": 3e-3, "d_model": 64, "d_ff": 128}}


def build(settings: dict) -> SortingClassifier:
    """The untrained model with these settings (those of train.py)."""
    names = ("d_model", "num_heads", "num_layers", "d_ff", "dropout", "max_len", "causal")
    chosen = {name: settings[name] for name in names}
    return create_model(settings["encoding"], pooling=PROTOCOLS[settings["protocol"]]["pooling"], **chosen)


def load_model(path: Path, device: torch.device | str = "cpu") -> tuple[SortingClassifier, dict]:
    """The model in a checkpoint, ready for evaluation, and the settings it was trained with."""
    content = checkpoint.load(path, KIND)
    model = checkpoint.rebuild(build, content, path)
    return model.to(device).eval(), content["settings"]
