"""What is each head's habit? How much of its attention goes to places that mean something in an addition.

operator         to the +
itself           to its own position
same column      to the digits of the column: the one the symbol stands in (encoder), or the one whose digit is
                 written next (decoder); for an operand's own digit this is its partner in the other operand.
                 Also by operand (a, b), and in the decoder by size: to the larger and to the smaller digit
lower column     to the digits one column to the right, where the carry is born
start            to the start token
previous outputs to digits already written, the last one read (itself) not counted
spread           entropy, as a share of the most there can be: 0 one symbol, 1 all alike
stability        how alike its patterns are from sum to sum: 1 minus the distance (total variation) to its mean
                 pattern. A head of 1 looks at positions, whatever stands there; below that, at what stands there

The first digit of the answer belongs to no column of the operands and counts for neither kind of column.
Every number is a mean over the test rows with its 95% bootstrap interval. Rows of a pattern for which a measure
has no meaning (the ones have no lower column) do not count; a head for which no row has is given none.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from lab.figures import heatmap, save
from lab.statistics import bootstrap
from problem1.analysis.context import Context
from problem1.dataset import Sums

FIXED = 0.95  # stability from which on a head is called positional
MOSTLY_ONE = 0.7  # of a column's attention on one of its two digits, told apart by size
PARTS = ("same column, a", "same column, b", "larger digit", "smaller digit")  # of "same column"
MAIN = 0.4  # share of attention from which on a habit gives the head its description


def targets_of(head: str, num_digits: int) -> dict[str, Tensor]:
    """For each habit the keys that count, as a mask [Tq, Tk]; rows without any have no such habit."""
    sources, outputs, plus = 2 * num_digits + 1, num_digits + 1, num_digits
    if head.startswith("encoder."):
        columns = [key if key < plus else key - plus - 1 for key in range(sources)]
        columns[plus] = None
        query_columns, itself = columns, torch.eye(sources, dtype=torch.bool)
    else:
        # Position t of the decoder writes output t, which is the digit of operand column t - 1.
        query_columns = [t - 1 if t else None for t in range(outputs)]
        itself = torch.eye(outputs, dtype=torch.bool)
    if head.startswith("decoder.") and ".self." in head:
        earlier = torch.ones(outputs, outputs, dtype=torch.bool).tril(-1)
        start = torch.zeros(outputs, outputs, dtype=torch.bool)
        start[1:, 0] = True
        itself[0] = False  # the first position can look at nothing but itself
        return {"itself": itself, "start": start, "previous outputs": earlier & ~start}
    operator = torch.zeros(len(query_columns), sources, dtype=torch.bool)
    operator[:, plus] = True
    found = {
        "operator": operator,
        "same column": _columns(query_columns, num_digits, 0),
        "lower column": _columns(query_columns, num_digits, 1),
    }
    if head.startswith("encoder."):
        found["itself"] = itself
        found["same column"] &= ~itself  # a digit's own position is counted once, as "itself"
    first = torch.arange(sources) < plus
    return found | {
        "same column, a": found["same column"] & first,
        "same column, b": found["same column"] & ~first,
    }


def _columns(query_columns: list, num_digits: int, lower: int) -> Tensor:
    """[Tq, Tk] True at both operands' digits `lower` columns to the right of the query's."""
    mask = torch.zeros(len(query_columns), 2 * num_digits + 1, dtype=torch.bool)
    for query, column in enumerate(query_columns):
        if column is not None and 0 <= column + lower < num_digits:
            mask[query, [column + lower, num_digits + 1 + column + lower]] = True
    return mask


def by_size(pattern: Tensor, sums: Sums) -> dict[str, Tensor]:
    """Cross-attention [N, T, S] -> what of it goes to the larger and to the smaller digit of the column written next.

    Equal digits count half for each.
    """
    a, b = sums.operands()
    columns = torch.arange(sums.num_digits)
    on_a = pattern[:, columns + 1, columns]  # [N, digits]
    on_b = pattern[:, columns + 1, sums.num_digits + 1 + columns]
    even = (on_a + on_b) / 2
    larger = torch.where(a == b, even, torch.where(a > b, on_a, on_b))
    return {"larger digit": larger.mean(1), "smaller digit": (on_a + on_b - larger).mean(1)}


def habits(head: str, pattern: Tensor, sums: Sums) -> dict[str, Tensor]:
    """pattern [N, Tq, Tk] on `sums` -> one number a row, for each measure: [N]"""
    found = by_size(pattern, sums) if ".cross." in head else {}
    for name, mask in targets_of(head, sums.num_digits).items():
        rows = mask.any(1)
        if rows.any():
            found[name] = (pattern * mask)[:, rows].sum(-1).mean(1)
    keys = torch.full((pattern.shape[1],), pattern.shape[2])
    if head.startswith("decoder.") and ".self." in head:
        keys = torch.arange(1, pattern.shape[1] + 1)
    choice = keys > 1  # where there is only one symbol to look at, nothing is chosen
    seen, most = pattern[:, choice], keys[choice].log()
    found["spread"] = (-torch.xlogy(seen, seen).sum(-1) / most).mean(1)
    found["stability"] = 1 - 0.5 * (seen - seen.mean(0)).abs().sum(-1).mean(1)
    return found


MEASURES = [
    "operator",
    "itself",
    "same column",
    "same column, a",
    "same column, b",
    "larger digit",
    "smaller digit",
    "lower column",
    "start",
    "previous outputs",
    "spread",
    "stability",
]


def specialize(context: Context) -> dict:
    heads = {}
    for head, pattern in context.recorded[0].items():
        measured = habits(head, pattern.double(), context.rows["test"])
        low, high = bootstrap(torch.stack(list(measured.values()), dim=1))
        entry = {
            name: {
                "mean": values.mean().item(),
                "interval_95": [low[number].item(), high[number].item()],
                "std_between_sums": values.std().item(),
            }
            for number, (name, values) in enumerate(measured.items())
        }
        heads[head] = entry | {"description": describe(entry) if context.meaningful else None}
    return {
        "question": "mean attention over the test rows to places that mean something in an addition",
        "rows": len(context.right),
        "measures": MEASURES,
        "heads": heads,
    }


def describe(entry: dict) -> str:
    """'same column (0.97), positional': the strongest habit, and whether it depends on the sum."""
    aims = {name: entry[name]["mean"] for name in MEASURES[:-2] if name in entry and name not in PARTS}
    best = max(aims, key=aims.get)
    fixed = "positional" if entry["stability"]["mean"] >= FIXED else "content-dependent"
    if entry["spread"]["mean"] > 0.9:
        return f"spread over everything, {fixed}"
    if aims[best] < MAIN:
        return f"no single habit, {fixed}"
    for size in ("larger", "smaller"):
        part = entry.get(f"{size} digit", {"mean": 0.0})["mean"]
        if best == "same column" and part >= MOSTLY_ONE * aims[best]:
            return f"same column, mostly its {size} digit ({part:.2f} of {aims[best]:.2f}), {fixed}"
    return f"{best} ({aims[best]:.2f}), {fixed}"


def draw(results: dict, path: Path, caption: str) -> None:
    """Heads × measures, with half the interval under each number."""
    heads = list(results["heads"])
    values = np.full((len(heads), len(MEASURES)), math.nan)
    texts = [["–"] * len(MEASURES) for _ in heads]
    for row, head in enumerate(heads):
        for column, measure in enumerate(MEASURES):
            it = results["heads"][head].get(measure)
            if it is not None:
                low, high = it["interval_95"]
                values[row, column] = it["mean"]
                texts[row][column] = f"{it['mean']:.2f} ±{(high - low) / 2:.3f}"
    figure, axes = plt.subplots(figsize=(14.5, 1.9 + 0.28 * len(heads)))
    image = heatmap(
        axes, np.nan_to_num(values), heads, [name.replace(" ", "\n", 1) for name in MEASURES], numbers=texts
    )
    axes.set_aspect("auto")
    axes.xaxis.tick_top()
    axes.axvline(len(MEASURES) - 2.5, color="black", linewidth=1.2)
    axes.set_xlabel("left of the line: share of attention that goes there; right: how the attention is")
    axes.set_ylabel("head")
    figure.colorbar(image, ax=axes, label="share of attention", shrink=0.6)
    save(figure, path, caption)


def answer(context: Context) -> dict:
    """Write head_analysis/head_specialization.json and .png."""
    results = context.write("head_analysis/head_specialization.json", specialize(context))
    caption = "Mean over the test sums, ± half the 95% bootstrap interval; – has no meaning for this head."
    draw(results, context.output_dir / "head_analysis/head_specialization.png", context.caption(caption))
    return results
