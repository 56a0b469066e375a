"""What does each head attend to? The share of its attention that goes to positions with a meaning in an addition.

operator         to the +
own position     to the query's own position
same column      to the digits of the column: the one the query stands in (encoder), or the one whose digit is
                 written next (decoder); for an operand's own digit this is its partner in the other operand
lower column     to the digits one column to the right, where the carry is born
start token      to the start token
earlier outputs  to digits already written, the last one read (own position) not counted
entropy          of a pattern's rows, as a share of the most there can be: 0 one key, 1 uniform
variability      how far its patterns are (total variation) from its mean pattern, on average. A head of 0 attends
                 by position, whatever stands there; above that, it depends on what stands there
vertical         how much its most attended key gets, averaged over the queries: 1 if all look at the same key
diagonal         how much one and the same distance from query to key gets, averaged over the queries

The first digit of the answer belongs to no column of the operands and counts for neither kind of column.
Every number is a mean over the test rows with its 95% bootstrap interval. Rows of a pattern for which a measure
has no meaning (the ones have no lower column) do not count; a head for which no row has is given none.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab.figures import WIDTH, save
from lab.hooks import short_name
from problem1.analysis.attention_maps import is_decoder_self
from problem1.analysis.context import Context
from problem1.analysis.tables import aligned, intervals, table, whole
from problem1.dataset import Sums

FIXED = 0.05  # variability up to which a head is called positional
UNIFORM = 0.9  # entropy from which on it is called uniform
SHAPED = 0.7  # vertical or diagonal from which on a head is called so
MAIN = 0.4  # share of attention from which on a target gives the head its description
TARGETS = ["same column", "lower column", "operator", "own position", "start token", "earlier outputs"]
SHAPES = ["vertical", "diagonal"]
MEASURES = [*TARGETS, "entropy", "variability", *SHAPES]


def target_masks(head: str, num_digits: int) -> dict[str, Tensor]:
    """For each kind of target the keys that count, [Tq, Tk]; rows without any have no such target."""
    if is_decoder_self(head):
        query = torch.arange(num_digits + 1).unsqueeze(1)
        key, later = query.T, query > 0  # the first position can attend to nothing but itself
        return {
            "own position": later & (key == query),
            "start token": later & (key == 0),
            "earlier outputs": (key > 0) & (key < query),
        }
    # The column of each key and of each query: "+" is in none, nor is the first digit of the answer.
    nowhere, columns = torch.tensor([-9]), torch.arange(num_digits)
    source = torch.cat([columns, nowhere, columns])
    encoder = head.startswith("encoder.")
    query = (source if encoder else torch.cat([nowhere, columns])).unsqueeze(1)
    masks = {"operator": (source < 0).expand(len(query), -1), "same column": (query == source) & (query >= 0)}
    masks["lower column"] = query + 1 == source
    if encoder:
        masks["own position"] = torch.eye(len(source), dtype=torch.bool)
        masks["same column"] &= ~masks["own position"]  # a digit's own position is counted once
    return masks


def statistics(head: str, pattern: Tensor, sums: Sums) -> dict[str, Tensor]:
    """pattern [N, Tq, Tk] on `sums` -> each measure that the head has: [N]"""
    found = {}
    for name, mask in target_masks(head, sums.num_digits).items():
        rows = mask.any(1)
        if rows.any():
            found[name] = (pattern * mask)[:, rows].sum(-1).mean(1)
    queries, keys = pattern.shape[1:]
    allowed = torch.full((queries,), keys)
    if is_decoder_self(head):
        allowed = torch.arange(1, queries + 1)
    free = allowed > 1  # where there is only one key, nothing is chosen
    rows, most = pattern[:, free], allowed[free].log()
    found["entropy"] = (-torch.xlogy(rows, rows).sum(-1) / most).mean(1)
    found["variability"] = 0.5 * (rows - rows.mean(0)).abs().sum(-1).mean(1)
    found["vertical"] = rows.mean(1)[:, rows.mean((0, 1)).argmax()]
    # Of the queries that have a key at this distance: a diagonal may leave the pattern.
    offsets = [
        pattern.diagonal(offset, 1, 2)[:, int(is_decoder_self(head) and offset == 0) :]
        for offset in range(1 - queries, keys)
    ]
    offsets = [diagonal.sum(1) / free.sum() for diagonal in offsets]
    found["diagonal"] = max(offsets, key=lambda shares: shares.mean())
    return found


def measure(context: Context) -> dict:
    found = {
        head: statistics(head, pattern.double(), context.rows["test"])
        for head, pattern in context.test.recorded.patterns.items()
    }
    interval, heads = iter(intervals(values for measured in found.values() for values in measured.values())), {}
    for head, measured in found.items():
        entry = {
            name: {"mean": values.mean().item(), "interval_95": next(interval)} for name, values in measured.items()
        }
        heads[head] = entry | (describe(entry) if context.meaningful else {"description": None})
    return {
        "question": "mean attention over the test rows to positions with a meaning in an addition",
        "rows": len(context.correct),
        "heads": heads,
    }


def describe(entry: dict) -> dict:
    """The main target, whether the pattern depends on the sum, and both in words: 'same column (0.97), positional'."""
    targets = {name: entry[name]["mean"] for name in TARGETS if name in entry}
    main = max(targets, key=targets.get)
    kind = "positional" if entry["variability"]["mean"] <= FIXED else "content-dependent"
    text = f"{main} ({targets[main]:.2f})"
    if entry["entropy"]["mean"] > UNIFORM:
        main = text = "uniform"
    elif targets[main] < MAIN:
        main = text = "no main target"
    shape = max(SHAPES, key=lambda name: entry[name]["mean"])
    shape = shape if entry[shape]["mean"] >= SHAPED else None
    return {"main_target": main, "kind": kind, "shape": shape, "description": f"{text}, {kind}"}


def draw(results: dict, path: Path, caption: str) -> None:
    """Heads × targets, in percent of the attention; a cell without a number has no meaning for the head."""
    heads = results["heads"]
    columns = [*TARGETS, "entropy"]
    cells = [[heads[head].get(name, {"mean": math.nan})["mean"] for name in columns] for head in heads]
    figure, axes = plt.subplots(figsize=(WIDTH, 0.7 + 0.145 * len(heads)))
    texts = [[whole(value) for value in line] for line in cells]
    table(axes, cells, [short_name(head) for head in heads], [name.replace(" ", "\n") for name in columns], texts)
    axes.xaxis.tick_top()
    axes.axvline(len(TARGETS) - 0.5, color="black", linewidth=0.8)
    for row in range(1, len(heads)):
        if list(heads)[row].rpartition(".")[0] != list(heads)[row - 1].rpartition(".")[0]:
            axes.axhline(row - 0.5, color="black", linewidth=0.5)
    figure.suptitle("Where each head's attention goes, in percent")
    save(figure, path, caption, vector=True)


def run(context: Context) -> dict:
    """Write head_analysis/head_specialization.json and .png."""
    results = context.write("head_analysis/head_specialization.json", measure(context))
    entries = [entry[name] for entry in results["heads"].values() for name in MEASURES if name in entry]
    widest = max((high - low) / 2 for low, high in (entry["interval_95"] for entry in entries))
    caption = f"Mean over {results['rows']:,} test sums; all 95% bootstrap intervals within ±{widest:.3f}."
    draw(results, context.output_dir / "head_analysis/head_specialization.png", context.caption(caption))
    return results


def findings(results: dict) -> str:
    by_target: dict[str, list[str]] = {}
    for head, entry in results["heads"].items():
        by_target.setdefault(entry["main_target"], []).append(short_name(head))
    return "\n".join(aligned("main target|heads", [[target, ", ".join(heads)] for target, heads in by_target.items()]))
