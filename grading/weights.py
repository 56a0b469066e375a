"""Describe a checkpoint without trusting it: names and shapes of its tensors, whether all numbers are finite, and
the plain values beside them. It is opened with `weights_only=True`, so that no code in it can run."""

import argparse
import contextlib
import io
import math
import pathlib
import pickle
import warnings
import zipfile
from dataclasses import dataclass, field

import numpy
import torch

from grading.folder import MEGABYTE, Unreadable
from lab.files import shown

MAX_CHECKPOINT = 200 * MEGABYTE
MAX_PICKLE = 4 * MEGABYTE  # the names and shapes: PyTorch reads them step by step, in Python
MAX_ENTRIES = 100_000
MAX_TENSORS = 5000
MAX_PLAIN = 1000
MAX_NAME = 200
# Types that only hold data and that people save beside their weights: numpy's scalars, arguments, paths.
SCALAR = (getattr(numpy, "_core", None) or numpy.core).multiarray.scalar
DTYPES = {type(numpy.dtype(code)) for code in ("f2", "f4", "f8", "i4", "i8", "u1", "?")}
PLAIN_TYPES = [SCALAR, numpy.dtype, *DTYPES, argparse.Namespace, pathlib.PosixPath, pathlib.PurePosixPath]


TOO_LARGE = "needs more memory than one submission may take"
TOO_MANY = "holds more entries than any model of this size"


@dataclass
class Weights:
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    not_finite: list[str] = field(default_factory=list)  # tensors that hold NaN or infinity
    spread: dict[str, float] = field(default_factory=dict)  # standard deviation of each finite matrix
    plain: dict[str, float] = field(default_factory=dict)  # "epoch": 12, "settings.d_model": 64, …

    def parameters(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes.values())


def read_weights(content: bytes) -> Weights:
    try:
        return _collect(_load(content), limit=4 * len(content) + MEGABYTE)
    except Unreadable:
        raise
    except MemoryError:
        raise Unreadable(TOO_LARGE) from None
    except Exception as error:  # a damaged file can fail in any way
        if "can't allocate memory" in str(error):  # PyTorch's own
            raise Unreadable(TOO_LARGE) from None
        raise Unreadable(f"is damaged or not a PyTorch checkpoint ({type(error).__name__})") from None


def _load(content: bytes):
    # PyTorch before 1.6 wrote another format than zip, which weights_only reads as well.
    if content.count(b"PK\x01\x02") > MAX_ENTRIES:  # each entry of the archive's directory begins so
        raise Unreadable(TOO_MANY)
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > 2 * len(content) + MEGABYTE:
            raise Unreadable("unpacks to far more than its size, so it was not opened")
        if any(entry.file_size > MAX_PICKLE for entry in archive.infolist() if entry.filename.endswith(".pkl")):
            raise Unreadable(TOO_MANY)
    try:
        with torch.serialization.safe_globals(PLAIN_TYPES), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "GLOBAL" not in str(error) and "Unsupported class" not in str(error):
            raise
        raise Unreadable(
            "holds Python objects besides tensors and plain values, which could run code, so it was not opened "
            "(save model.state_dict() instead)"
        ) from None


def _collect(loaded, limit: int) -> Weights:
    """All tensors and plain numbers by the keys that lead to them; the optimizer's state is left out."""
    weights = Weights()
    entries = 0
    size = 0
    waiting = [("", loaded, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        value = vars(value) if isinstance(value, argparse.Namespace) else value
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
                raise Unreadable(f"holds a tensor of an unusual kind ({name})")
            size += value.numel() * value.element_size()
            if size > limit:  # a stride of 0 can claim any size
                raise Unreadable(f"holds tensors that claim to be larger than the file ({name})")
            weights.shapes[name] = tuple(value.shape)
            if value.is_floating_point() and not torch.isfinite(value).all():
                weights.not_finite.append(name)
            elif value.is_floating_point() and value.ndim == 2 and value.numel() > 1:
                weights.spread[name] = value.float().std().item()
        elif isinstance(value, dict | list | tuple) and depth < 8 and (isinstance(value, dict) or len(value) <= 1000):
            for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
                entries += 1
                if entries > MAX_ENTRIES or len(weights.shapes) > MAX_TENSORS:
                    raise Unreadable(TOO_MANY)
                own = shown(str(key)[:MAX_NAME])
                if not own.lower().startswith(("optim", "scheduler", "scaler", "rng")):
                    waiting.append((f"{name}.{own}"[-MAX_NAME:] if name else own, entry, depth + 1))
        elif isinstance(value, bool | int | float | numpy.generic) and len(weights.plain) < MAX_PLAIN:
            try:
                weights.plain[name] = float(value)
            except (OverflowError, ValueError, TypeError):
                weights.plain[name] = math.nan
    if not weights.shapes:
        raise Unreadable("holds no tensor")
    return weights
