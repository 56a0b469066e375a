"""Small pieces that the numbers, figures and text tables of the analyses share."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from lab import tables
from lab.figures import heatmap
from lab.statistics import bootstrap


def intervals(samples: Iterable[Tensor]) -> list[list[float]]:
    """Of each measure, [N] on the same N rows, the 95% bootstrap interval of its mean."""
    return torch.stack(bootstrap(torch.stack(list(samples), dim=1)), dim=1).tolist()


def table(axes, values, rows: Sequence[str], columns: Sequence[str], texts=None, **options):
    """A heatmap with rectangular cells; a cell without a value (NaN) is empty."""
    image = heatmap(axes, np.nan_to_num(np.asarray(values, dtype=float)), rows, columns, numbers=texts, **options)
    axes.set_aspect("auto")
    return image


def whole(share: float | None) -> str:
    """A share as a whole percentage, never 100 for less than all; a dot near 0, nothing where there is none."""
    if share is None or math.isnan(share):
        return ""
    if share < 1:
        share = min(share, 0.99)
    return f"{100 * share:.0f}" if abs(share) >= 0.005 else "·"


def text_table(header: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a text table; `header` has its columns set apart by |."""
    return tables.aligned([header.split("|"), *rows])
