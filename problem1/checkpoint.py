"""A trained model, from the checkpoint that train.py wrote."""

from pathlib import Path

import torch

from lab import checkpoint
from problem1.dataset import VOCAB_SIZE
from problem1.model import Seq2SeqTransformer

KIND = "problem1/digits"


def build(settings: dict) -> Seq2SeqTransformer:
    """The untrained model with these settings (those of train.py, and the digits of an operand)."""
    width, heads, layers = settings["d_model"], settings["num_heads"], settings["num_layers"]
    longest = 2 * settings["num_digits"] + 2
    shape = (width, heads, layers, layers, settings["d_ff"], settings["dropout"], longest)
    return Seq2SeqTransformer(VOCAB_SIZE, *shape)


def load_model(path: Path, device: torch.device | str = "cpu") -> tuple[Seq2SeqTransformer, dict]:
    """The model in a checkpoint, ready for evaluation, and the settings it was trained with."""
    content = checkpoint.load(path, KIND)
    model = checkpoint.rebuild(build, content, path)
    return model.to(device).eval(), content["settings"]
