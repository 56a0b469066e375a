"""A trained model of the text task, from the checkpoint that train.py wrote."""

from pathlib import Path

import torch
from torch import nn

from lab import checkpoint
from lab.fast import accelerate
from problem1.text.model import ClassicTransformer
from problem1.text.place_value import PlaceValueTransformer

KIND = "problem1/text"
ORDERS = ("reversed", "plain")  # of the answer's digits
MODEL = Path(__file__).resolve().parents[1] / "results" / "text" / "best_model.pth"  # the default train.py's


def build(settings: dict) -> nn.Module:
    """The untrained model with these settings (those of train.py)."""
    if settings["order"] not in ORDERS:
        raise ValueError(f"order {settings['order']!r}")
    shape = {name: settings[name] for name in ("d_model", "num_heads", "d_ff", "dropout")}
    if settings["scheme"] == "place_value":
        return PlaceValueTransformer(**shape)
    return ClassicTransformer(settings["scheme"], num_layers=settings["num_layers"], **shape)


def load_model(path: Path, device: torch.device | str = "cpu") -> tuple[nn.Module, dict]:
    """The model in a checkpoint, ready for evaluation, and the settings it was trained with."""
    content = checkpoint.load(path, KIND)
    model = checkpoint.rebuild(build, content, path)
    return accelerate(model).to(device).eval(), content["settings"]
