"""Checkpoints: a model's weights with the settings that rebuild it."""

import io
import math
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from lab.files import UserError, read_bytes, shown, write_bytes

HINT = "run train.py first, or name another checkpoint."


def save(path: Path, content: dict) -> None:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_bytes(path, buffer.getvalue())


def load(path: Path, kind: str, hint: str = HINT) -> dict:
    """The content of a checkpoint of this kind ("problem1/digits"), on the CPU.

    `weights_only=True` admits tensors and plain values only: a file that would run code when opened is refused.
    """
    file = io.BytesIO(read_bytes(path, hint))
    try:
        content = torch.load(_checked_archive(file), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UserError(
            f"{path} holds Python objects besides tensors and plain values, which could run code when opened, "
            f"so it was not opened: {hint}"
        ) from None
    except Exception:  # torch raises many kinds for a truncated file or for something else altogether
        raise UserError(f"{path} is damaged or not a PyTorch checkpoint: {hint}") from None
    if not isinstance(content, dict) or not isinstance(content.get("kind"), str):
        raise UserError(f"{path} is a PyTorch file but not a checkpoint of this project: {hint}")
    if content["kind"] != kind:
        raise UserError(f"{path} is a checkpoint of {shown(content['kind'])}, not of {kind}: name another file.")
    if not isinstance(content.get("settings"), dict) or not isinstance(content.get("model"), dict):
        raise UserError(f"{path} lacks its settings or its weights: {hint}")
    values = [
        item for value in content["settings"].values() for item in (value if isinstance(value, list) else [value])
    ]
    if not all(isinstance(value, bool | int | str | None) or _is_finite(value) for value in values):
        raise UserError(f"{path} has settings that are no plain values: {hint}")
    return content


# An entry of what torch.save writes: the folder that all stand in, and what may stand there.
ENTRY = re.compile(r"([^/]+)/(data\.pkl|data/\d+|byteorder|version|\.data/serialization_id|\.\w+)")


def _checked_archive(file: io.BytesIO) -> io.BytesIO:
    """The same archive, written anew from what Python reads in it.

    torch looks neither at checksums nor for two entries of one name, and where a file holds two archives it may read
    another one than Python does. So nothing is left that could be read in two ways.
    """
    written = io.BytesIO()
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(written, "w") as anew:
        entries = {entry.filename: entry for entry in archive.infolist()}
        folders = {ENTRY.fullmatch(name)[1] for name in entries}  # TypeError: a foreign entry
        if len(folders) != 1 or len(entries) < len(archive.infolist()):
            raise ValueError("two folders, or two entries of one name")
        for name, entry in entries.items():
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError("torch.save compresses nothing")
            content = archive.read(name)  # BadZipFile: a byte has changed
            if name.endswith("/byteorder") and content != b"little":
                raise ValueError("from a big-endian machine")
            anew.writestr(name, content)
    written.seek(0)
    return written


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


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
        if any(tensor.dtype != torch.float32 or not tensor.isfinite().all() for tensor in weights.values()):
            raise ValueError("a weight is not finite, or is no float32")
        model = build(content["settings"])
        model.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError) as error:
        reason = shown(" ".join(str(error).split()), 200)
        raise UserError(f"{path} does not fit the model of this project ({reason}): {HINT}") from None
    return model
