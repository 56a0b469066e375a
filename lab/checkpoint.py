"""Checkpoints: a model's weights with the settings that rebuild it; opened without running what is inside."""

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from lab.files import UserError, read_bytes, shown, write_bytes

REMEDY = "run train.py first, or name another file with --model-path."
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def save(path: Path, content: dict) -> None:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_bytes(path, buffer.getvalue())


def load(path: Path, kind: str) -> dict:
    """The content of a checkpoint made for `kind` ("problem1/digits"), on the CPU; nothing else gets through.

    `weights_only=True` admits tensors and plain values only: a pickle that would run code is refused unrun.
    """
    content = read_bytes(path, REMEDY)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > 2 * len(content) + 2**20:  # torch stores tensors uncompressed
            raise UserError(f"{path} unpacks to far more than its size: not a checkpoint of this project.")
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UserError(
            f"{path} holds Python objects besides tensors and plain values, which could run code when opened, "
            f"so it was not opened: {REMEDY}"
        ) from None
    except UserError:
        raise
    except Exception:  # a stranger's file may fail in any way: truncated, rubbish, a zip of something else
        raise UserError(f"{path} is damaged or not a PyTorch checkpoint: {REMEDY}") from None
    if not isinstance(loaded, dict) or not isinstance(loaded.get("kind"), str):
        raise UserError(f"{path} is a PyTorch file but not a checkpoint of this project: {REMEDY}")
    if loaded["kind"] != kind:
        raise UserError(f"{path} is a checkpoint of {shown(loaded['kind'])}, not of {kind}: {REMEDY}")
    if not isinstance(loaded.get("settings"), dict) or not isinstance(loaded.get("model"), dict):
        raise UserError(f"{path} lacks its settings or its weights: {REMEDY}")
    if not _is_plain(loaded["settings"]):
        raise UserError(f"{path} holds settings that no script of this project writes: {REMEDY}")
    return loaded


def _is_plain(value) -> bool:
    """Whether settings are such as `as_plain` writes: few and short values, that can be compared and printed."""
    waiting, seen = [(value, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if seen > 10_000 or depth > 4:
            return False
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                return False
            waiting += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list | tuple):
            waiting += [(item, depth + 1) for item in value]
        elif not isinstance(value, bool | int | float | str | None) or (type(value) is int and abs(value) >> 1024):
            return False
    return True


def rebuild(build: Callable[[], nn.Module], weights: dict, where: Path | str) -> nn.Module:
    """The model that `build` makes, with `weights` in it, if names and shapes agree and all is finite.

    The comparison is made on a model without memory, so that a file that asks for an absurd size gets none.
    """
    with torch.device("meta"):
        expected = build().state_dict()
    odd = sorted(shown(name) for name in set(expected) ^ set(weights))
    if odd:
        raise UserError(f"{where} was made by another model: {odd[0]} stands in only one of the two; {REMEDY}")
    for name, tensor in weights.items():
        if not isinstance(tensor, torch.Tensor) or tensor.shape != expected[name].shape:
            found = tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise UserError(
                f"{where} was made by a model of another shape: {name} is {found} "
                f"instead of {tuple(expected[name].shape)}; {REMEDY}"
            )
        claimed = tensor.numel() * tensor.element_size()
        ordinary = tensor.layout == torch.strided and tensor.device.type == "cpu" and tensor.dtype in FLOATS
        if not ordinary or tensor.untyped_storage().nbytes() < claimed:
            raise UserError(f"{where}: {name} is not an ordinary tensor of floats; {REMEDY}")
        if not torch.isfinite(tensor).all():
            raise UserError(f"{where}: {name} holds numbers that are not finite; {REMEDY}")
    model = build()
    model.load_state_dict(weights)
    return model
