"""Checkpoints: a model's weights with the settings that rebuild it."""

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from lab.files import UserError, read_bytes, shown, write_bytes

HINT = "run train.py first, or name another file with --model-path."


def save(path: Path, content: dict) -> None:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_bytes(path, buffer.getvalue())


def load(path: Path, kind: str) -> dict:
    """The content of a checkpoint made for `kind` ("problem1/digits"), on the CPU.

    `weights_only=True` admits tensors and plain values only: a file that would run code when opened is refused.
    """
    file = io.BytesIO(read_bytes(path, HINT))
    try:
        if not zipfile.is_zipfile(file):
            raise ValueError("torch.save writes zip archives")
        file.seek(0)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UserError(
            f"{path} holds Python objects besides tensors and plain values, which could run code when opened, "
            f"so it was not opened: {HINT}"
        ) from None
    except Exception:  # torch raises many kinds for a truncated file or for something else altogether
        raise UserError(f"{path} is damaged or not a PyTorch checkpoint: {HINT}") from None
    if not isinstance(content, dict) or not isinstance(content.get("kind"), str):
        raise UserError(f"{path} is a PyTorch file but not a checkpoint of this project: {HINT}")
    if content["kind"] != kind:
        raise UserError(f"{path} is a checkpoint of {shown(content['kind'])}, not of {kind}: {HINT}")
    if not isinstance(content.get("settings"), dict) or not isinstance(content.get("model"), dict):
        raise UserError(f"{path} lacks its settings or its weights: {HINT}")
    values = [
        item for value in content["settings"].values() for item in (value if isinstance(value, list) else [value])
    ]
    if not all(isinstance(value, bool | int | float | str | None) for value in values):
        raise UserError(f"{path} has settings that are no plain values: {HINT}")
    return content


def rebuild(build: Callable[[dict], nn.Module], content: dict, path: Path) -> nn.Module:
    """The model that `build` makes from the checkpoint's settings, with its weights in it.

    Names and shapes are compared on a model without memory first, so that absurd settings cost nothing.
    """
    weights = content["model"]
    try:
        if content["settings"].get("num_layers", 0) > len(weights):
            raise ValueError("more layers than weights")
        with torch.device("meta"):
            build(content["settings"]).load_state_dict(weights, assign=True)
        if not all(tensor.isfinite().all() for tensor in weights.values()):
            raise ValueError("a weight is not finite")
        model = build(content["settings"])
        model.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError) as error:
        reason = shown(" ".join(str(error).split()), 200)
        raise UserError(f"{path} does not fit the model of this project ({reason}): {HINT}") from None
    return model
