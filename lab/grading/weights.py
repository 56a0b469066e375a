"""A stranger's checkpoint, described without trusting it: names, shapes, whether all is finite, what it says of itself.

It is opened with `weights_only=True`, in a process of its own that has a limit of memory and of time: whatever
the file does there, the grader goes on.
"""

import argparse
import io
import json
import multiprocessing
import pathlib
import pickle
import sys
import zipfile
from dataclasses import dataclass, field

import numpy
import torch

from lab.grading.reading import MEGABYTE, Tree, Unreadable, shown

LARGEST = 512 * MEGABYTE
MOST_MEMORY = 2048 * MEGABYTE  # beyond the file's own size
MOST_SECONDS = 60
MOST_TENSORS = 20_000
LARGEST_ANSWER = 32 * MEGABYTE


@dataclass
class Weights:
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    not_finite: list[str] = field(default_factory=list)
    plain: dict[str, float | str] = field(default_factory=dict)  # "epoch": 12, "settings.d_model": 64, …

    def parameters(self) -> int:
        total = 0
        for shape in self.shapes.values():
            size = 1
            for side in shape:
                size *= side
            total += size
        return total


def read(tree: Tree, path: str) -> Weights:
    content = tree.read(path, LARGEST)
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_describe_apart, args=(content, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        # Plain text, not pickled objects: the process that opened the file is trusted no more than the file.
        answer = json.loads(ours.recv_bytes(LARGEST_ANSWER)) if ours.poll(MOST_SECONDS) else "takes too long to open"
    except (EOFError, OSError, ValueError):
        answer = "needs more memory than its size can justify, or is damaged"
    finally:
        ours.close()
        child.kill()
        child.join()
    if isinstance(answer, str):
        raise Unreadable(answer)
    shapes, not_finite, plain = answer
    return Weights({name: tuple(shape) for name, shape in shapes.items()}, not_finite, plain)


def _describe_apart(content: bytes, out) -> None:
    """In the process apart: sends what `describe` tells, or the reason why it cannot."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        limit = now + len(content) * 2 + MOST_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, OSError, ValueError):
        pass  # not Linux: the limit of time still holds
    torch.set_num_threads(1)
    try:
        found = describe(content)
        answer = (found.shapes, found.not_finite, found.plain)
    except Unreadable as reason:
        answer = str(reason)
    except MemoryError:
        answer = "needs more memory than its size can justify"
    except BaseException as error:
        answer = f"is damaged or not a PyTorch checkpoint ({type(error).__name__})"
    out.send_bytes(json.dumps(answer).encode())


def describe(content: bytes) -> Weights:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > 2 * len(content) + MEGABYTE:
                raise Unreadable("unpacks to far more than its size, so it was not opened")
    except zipfile.BadZipFile:
        pass  # PyTorch before 1.6 wrote another format; weights_only reads it too
    try:
        with torch.serialization.safe_globals(PLAIN):
            loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "GLOBAL" in str(error) or "Unsupported" in str(error):
            raise Unreadable(
                "holds Python objects besides tensors and plain values, which could run code, so it was not opened "
                "(save the state_dict)"
            ) from None
        raise Unreadable("is damaged or not a PyTorch checkpoint (UnpicklingError)") from None
    weights = Weights()
    _collect(loaded, weights)
    if not weights.shapes:
        raise Unreadable("holds no tensor")
    return weights


def _plain_types() -> list:
    """Types that hold nothing but data and that people save beside their weights: numpy scalars, arguments, paths."""
    scalar = getattr(numpy, "_core", None) or numpy.core
    kinds = {type(numpy.dtype(code)) for code in ("f2", "f4", "f8", "i4", "i8", "u1", "?")}
    return [scalar.multiarray.scalar, numpy.dtype, *kinds, argparse.Namespace, pathlib.PosixPath, pathlib.PurePosixPath]


PLAIN = _plain_types()


def _collect(loaded, weights: Weights) -> None:
    """All tensors and plain values inside, by the keys that lead to them; the optimiser's are of no interest."""
    waiting = [("", loaded, 0)]
    seen = 0
    while waiting:
        name, value, depth = waiting.pop()
        seen += 1
        if seen > 10 * MOST_TENSORS:
            raise Unreadable("holds more entries than any model of this size")
        if isinstance(value, argparse.Namespace):
            value = vars(value)
        if isinstance(value, torch.Tensor):
            _add(name, value, weights)
        elif isinstance(value, dict) and depth < 8:
            waiting += [
                (f"{name}.{shown(key, 200)}" if name else shown(key, 200), item, depth + 1)
                for key, item in value.items()
                if not str(key).lower().startswith(("optim", "scheduler", "scaler", "rng"))
            ]
        elif isinstance(value, list | tuple) and depth < 8 and len(value) <= 1000:
            waiting += [(f"{name}.{number}", item, depth + 1) for number, item in enumerate(value)]
        elif isinstance(value, bool | int | float | str | numpy.generic) and len(weights.plain) < 1000:
            weights.plain[name] = shown(value, 100) if isinstance(value, str) else _float(value)


def _float(value) -> float:
    try:
        return float(value)
    except (OverflowError, ValueError, TypeError):
        return float("nan")


def _add(name: str, tensor: torch.Tensor, weights: Weights) -> None:
    """A tensor counts only if its memory is really there: a stride of 0 can claim any size."""
    if len(weights.shapes) >= MOST_TENSORS:
        raise Unreadable("holds more tensors than any model of this size")
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        raise Unreadable(f"holds a tensor that is not an ordinary one ({name})")
    if tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
        raise Unreadable(f"holds a tensor that claims to be larger than it is ({name})")
    weights.shapes[name] = tuple(tensor.shape)
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        weights.not_finite.append(name)
