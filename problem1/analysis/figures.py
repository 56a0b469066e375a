"""Small pieces that the figures and the text tables of the analyses share."""

from collections.abc import Sequence

import numpy as np

from lab.figures import heatmap

SMALL = 0.005  # a number below it is drawn as a dot
WIDEST = 60  # inches, for long operands


def table(axes, values, rows: Sequence[str], columns: Sequence[str], texts=False, **options):
    """A heatmap with rectangular cells; a cell without a value (NaN) is empty."""
    image = heatmap(axes, np.nan_to_num(np.asarray(values, dtype=float)), rows, columns, numbers=texts, **options)
    axes.set_aspect("auto")
    return image


def with_interval(value: float, interval: Sequence[float], decimals: int = 2, scale: int = 1) -> str:
    """'0.45 ±0.04', with half of the 95% interval; a dot where the value is below SMALL."""
    if abs(value) < SMALL:
        return "·"
    low, high = interval
    return f"{scale * value:.{decimals}f} ±{scale * (high - low) / 2:.{decimals}f}"


def error_bars(values: Sequence[float], intervals: Sequence[Sequence[float]]) -> list[list[float]]:
    """What matplotlib's xerr takes: how far each interval reaches below and above the value."""
    below = [max(0.0, value - low) for value, (low, _) in zip(values, intervals, strict=True)]
    above = [max(0.0, high - value) for value, (_, high) in zip(values, intervals, strict=True)]
    return [below, above]


def group_labels(groups: list[dict]) -> list[str]:
    """'thousands, through one 9' on two lines"""
    return [group["name"].replace(", ", "\n") for group in groups]


def aligned(header: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a text table; `header` has its columns set apart by |."""
    rows = [header.split("|"), *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
