"""Sentences on results: bounds that are rounded outwards, and claims that say when they do not hold."""

import math
import textwrap

WIDTH = 120


def down(share: float, decimals: int = 1) -> str:
    """A lower bound: never rounded up."""
    return _bound(share, decimals, math.floor)


def up(share: float, decimals: int = 1) -> str:
    """An upper bound: never rounded down."""
    return _bound(share, decimals, math.ceil)


def _bound(share: float, decimals: int, rounded) -> str:
    scale = 10**decimals
    return f"{rounded(round(100 * share * scale, 6)) / scale:g}%"


def claim(holds: bool, sentence: str) -> str:
    return sentence if holds else f"(not reproduced in this run: {sentence})"


def paragraph(*sentences: str) -> str:
    return textwrap.fill(" ".join(sentences), WIDTH, break_on_hyphens=False)


def span(numbers: list[int]) -> str:
    low = min(numbers)
    high = max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def at_least(share: float) -> str:
    return down(share) if share == 1 else f"at least {down(share)}"


def at_most(share: float) -> str:
    return f"at most {up(share)}" if share else "none"
