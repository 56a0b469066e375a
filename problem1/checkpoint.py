"""A trained model, from the checkpoint that train.py wrote."""

from pathlib import Path

import torch

from lab import checkpoint
from problem1.dataset import VOCAB_SIZE
from problem1.generate_data import LONGEST
from problem1.model import Seq2SeqTransformer

KIND = "problem1/digits"


def build(settings: dict) -> Seq2SeqTransformer:
    """The untrained model with these settings (those of train.py, and the digits of an operand)."""
    if not 1 <= settings["num_digits"] <= LONGEST:  # no weight has this size, so nothing else would notice
        raise ValueError(f"operands of {settings['num_digits']} digits")
    return Seq2SeqTransformer(
        VOCAB_SIZE,
        d_model=settings["d_model"],
        num_heads=settings["num_heads"],
        num_encoder_layers=settings["num_layers"],
        num_decoder_layers=settings["num_layers"],
        d_ff=settings["d_ff"],
        dropout=settings["dropout"],
        max_len=2 * settings["num_digits"] + 1,  # the question; the answer is not longer
    )


def load_model(path: Path, device: torch.device | str = "cpu") -> tuple[Seq2SeqTransformer, dict]:
    """The model in a checkpoint, ready for evaluation, and the settings it was trained with."""
    content = checkpoint.load(path, KIND)
    model = checkpoint.rebuild(build, content, path)
    return model.to(device).eval(), content["settings"]
