"""Checkpoints: a model's weights with the settings that rebuild it; opened without running what is inside."""

import io
import math
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
    if "optimizer" in loaded and not _goes_on(loaded["optimizer"], loaded["model"]):
        raise UserError(f"{path} holds no state that training could go on from: start anew without --resume.")
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


def _goes_on(optimizer, weights: dict) -> bool:
    """Whether this is the state of the training loop's AdamW for these weights: first matrices, then vectors."""
    ours = torch.optim.AdamW([torch.zeros(1)], fused=True).state_dict()["param_groups"][0]
    try:
        weights = sorted(weights.values(), key=lambda tensor: tensor.ndim < 2)
        matrices, vectors = groups = [dict(group.items()) for group in optimizer["param_groups"]]
        if [*matrices["params"], *vectors["params"]] != [*range(len(weights))]:
            return False
        for group in groups:
            numbers = [group["lr"], group["weight_decay"], *group["betas"]]
            fixed = ours.keys() - {"params", "lr", "weight_decay", "betas"}
            if not all(type(number) is float and 0 <= number < math.inf for number in numbers) or len(numbers) != 4:
                return False
            if any(type(group[name]) is not type(ours[name]) or group[name] != ours[name] for name in fixed):
                return False
        for number, entry in optimizer["state"].items():
            steps, means, squares = entry["step"], entry["exp_avg"], entry["exp_avg_sq"]
            if len(entry) != 3 or type(number) is not int or not all(map(_is_ordinary, (steps, means, squares))):
                return False
            if steps.ndim or steps < 1 or not means.shape == squares.shape == weights[number].shape:
                return False
            if (squares < 0).any():
                return False
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
        return False
    return True


def _is_ordinary(tensor) -> bool:
    """Whether this is a tensor of finite floats that has the memory it claims."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.device.type != "cpu":
        return False
    held = tensor.dtype in FLOATS and tensor.untyped_storage().nbytes() >= tensor.numel() * tensor.element_size()
    return held and bool(torch.isfinite(tensor).all())


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
        if not _is_ordinary(tensor):
            raise UserError(f"{where}: {name} is not an ordinary tensor of finite floats; {REMEDY}")
    model = build()
    model.load_state_dict(weights)
    return model
