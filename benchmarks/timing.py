"""Timing side by side: every repetition runs all candidates in turn, so that a busy moment meets all of them.

The order is drawn anew each time, so that none has always the same one before it, whose memory it finds in the cache.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterable

import torch

PEAK_SIZE = 1024  # a square product of this size is as fast per operation as any on the CPUs tried


def interleaved(candidates: dict[str, Callable[[], object]], repetitions: int) -> dict[str, list[float]]:
    """{"ours": f, "torch": g} -> the seconds of each repetition: f g, g f, f g, …, after three unmeasured rounds."""
    for _ in range(3):
        for candidate in candidates.values():
            candidate()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    turns = random.Random(0)
    for _ in range(repetitions):
        for name in turns.sample(list(candidates), len(candidates)):
            started = time.perf_counter()
            candidates[name]()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def summary(seconds: Iterable[float]) -> dict[str, float]:
    """Median and the middle half of the repetitions, in milliseconds."""
    seconds = list(seconds)
    low, _, high = statistics.quantiles(seconds, n=4)
    return {
        "median_ms": statistics.median(seconds) * 1e3,
        "quartiles_ms": [low * 1e3, high * 1e3],
        "repetitions": len(seconds),
    }


def ratio(rival: list[float], ours: list[float]) -> float:
    """How many times as long the rival takes: the median over repetitions, each pair of the same one."""
    return statistics.median(theirs / mine for theirs, mine in zip(rival, ours, strict=True))


def compare(candidates: dict[str, Callable[[], object]], repetitions: int, ours: str = "ours") -> dict:
    """{"ours": {"median_ms", …}, "torch": {…, "ratio": times as long as ours}}"""
    seconds = interleaved(candidates, repetitions)
    return {
        name: summary(values) | ({} if name == ours else {"ratio": ratio(values, seconds[ours])})
        for name, values in seconds.items()
    }


def matrix_product(size: int = PEAK_SIZE, dtype: torch.dtype = torch.float32) -> Callable[[], object]:
    """A large product to measure the machine's peak with: 2·size³ operations a call."""
    left, right = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
    return lambda: left @ right


def onednn_product(size: int = PEAK_SIZE) -> Callable[[], object]:
    """The same in float32 by oneDNN, which PyTorch leaves to convolutions and smaller number formats."""
    left, right = torch.randn(size, size), torch.randn(size, size)
    return lambda: torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
