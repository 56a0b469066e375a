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
from lab.hooks import Head
from problem1.analysis.attention_maps import is_causal
from problem1.analysis.context import Context
from problem1.analysis.tables import intervals, table, text_table, whole

QUESTION = "What does each head attend to?"
FILES = (
    "head_analysis/head_specialization.json",
    "head_analysis/head_specialization.png",
    "head_analysis/head_specialization.pdf",
)
FIXED = 0.05  # variability up to which a head is called positional
UNIFORM = 0.9  # entropy from which on it is called uniform
SHAPED = 0.7  # vertical or diagonal from which on a head is called so
MAIN = 0.4  # share of attention from which on a target gives the head its description
TARGETS = ["same column", "lower column", "operator", "own position", "start token", "earlier outputs"]
SHAPES = ["vertical", "diagonal"]
MEASURES = [*TARGETS, "entropy", "variability", *SHAPES]


def target_masks(head: Head, num_digits: int) -> dict[str, Tensor]:
    """For each kind of target the keys that count, [Tq, Tk]; rows without any have no such target."""
    if is_causal(head):
        query = torch.arange(num_digits + 1).unsqueeze(1)
        key = query.T
        later = query > 0  # the first position can attend to nothing but itself
        return {
            "own position": later & (key == query),
            "start token": later & (key == 0),
            "earlier outputs": (key > 0) & (key < query),
        }
    # The column of each key and of each query: "+" is in none, nor is the first digit of the answer.
    nowhere = torch.tensor([-9])
    columns = torch.arange(num_digits)
    source = torch.cat([columns, nowhere, columns])
    query = source if head.side == "encoder" else torch.cat([nowhere, columns])
    query = query.unsqueeze(1)
    masks = {
        "operator": (source < 0).expand(len(query), -1),
        "same column": (query == source) & (query >= 0),
        "lower column": query + 1 == source,
    }
    if head.side == "encoder":
        masks["own position"] = torch.eye(len(source), dtype=torch.bool)
        masks["same column"] &= ~masks["own position"]  # a digit's own position is counted once
    return masks


def statistics(head: Head, pattern: Tensor, num_digits: int) -> dict[str, Tensor]:
    """pattern [N, Tq, Tk] of N sums -> each measure that the head has: [N]"""
    measures = {}
    for name, mask in target_masks(head, num_digits).items():
        rows = mask.any(1)
        if rows.any():
            measures[name] = (pattern * mask)[:, rows].sum(-1).mean(1)
    queries, keys = pattern.shape[1:]
    allowed = torch.full((queries,), keys)  # how many keys each query may attend to
    if is_causal(head):
        allowed = torch.arange(1, queries + 1)
    free = allowed > 1  # where there is only one key, nothing is chosen
    rows = pattern[:, free]
    most = allowed[free].log()  # the largest entropy there can be
    measures["entropy"] = (-torch.xlogy(rows, rows).sum(-1) / most).mean(1)
    measures["variability"] = 0.5 * (rows - rows.mean(0)).abs().sum(-1).mean(1)
    favourite = rows.mean((0, 1)).argmax()  # the key that gets most, over all sums and queries
    measures["vertical"] = rows.mean(1)[:, favourite]
    measures["diagonal"] = largest_diagonal(pattern, free)
    return measures


def largest_diagonal(pattern: Tensor, free: Tensor) -> Tensor:
    """[N, Tq, Tk] -> [N]: of the distances from query to key the one that gets most, as a share of all free queries.

    A diagonal may leave the pattern: queries without a key at this distance give it nothing.
    """
    queries, keys = pattern.shape[1:]
    chosen = pattern * free.unsqueeze(1)  # attention where there was a choice
    shares = [chosen.diagonal(offset, 1, 2).sum(1) / free.sum() for offset in range(1 - queries, keys)]
    return max(shares, key=lambda share: share.mean())


def measure(context: Context) -> dict:
    samples = {}  # one value for each test row
    for name, pattern in context.test.recorded.patterns.items():
        for measure_name, values in statistics(Head.parse(name), pattern.double(), context.num_digits).items():
            samples[name, measure_name] = values
    heads = {name: {} for name in context.heads}
    for ((name, measure_name), values), interval in zip(samples.items(), intervals(samples.values()), strict=True):
        heads[name][measure_name] = {"mean": values.mean().item(), "interval_95": interval}
    for entry in heads.values():
        entry |= describe(entry) if context.meaningful else {"description": None}
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
    if entry[shape]["mean"] < SHAPED:
        shape = None
    return {"main_target": main, "kind": kind, "shape": shape, "description": f"{text}, {kind}"}


def draw(results: dict, path: Path, caption: str) -> None:
    """Heads × targets, in percent of the attention; a cell without a number has no meaning for the head. Beside them
    a bar for the entropy, which is no attention."""
    heads = [Head.parse(name) for name in results["heads"]]
    cells = []
    for entry in results["heads"].values():
        cells.append([entry[name]["mean"] if name in entry else math.nan for name in TARGETS])
    size = (WIDTH, 0.7 + 0.145 * len(heads))
    figure, (axes, bars) = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=(len(TARGETS), 1))
    texts = [[whole(value) for value in line] for line in cells]
    columns = [name.replace(" ", "\n") for name in TARGETS]
    image = table(axes, cells, [head.short for head in heads], columns, texts)
    axes.xaxis.tick_top()
    entropy = [entry["entropy"]["mean"] for entry in results["heads"].values()]
    bars.barh(range(len(heads)), entropy, height=0.35, color="#aaaaaa")
    bars.set(xlim=(0, 1))
    bars.set_xticks([0, 1], ["one key", "uniform"])
    bars.set_title("entropy")
    bars.tick_params(length=0)
    bars.grid(False)
    for row in range(1, len(heads)):
        if heads[row].module != heads[row - 1].module:
            axes.axhline(row - 0.5, color="black", linewidth=0.5)
    figure.colorbar(image, ax=bars, label="attention", ticks=[0, 1], format="{x:.0%}", aspect=40)
    figure.suptitle("Where each head's attention goes, in percent")
    save(figure, path, caption, vector=True)


def run(context: Context) -> dict:
    """Write head_analysis/head_specialization.json and .png."""
    results = context.write("head_analysis/head_specialization.json", measure(context))
    widest = 0.0
    for entry in results["heads"].values():
        for name in MEASURES:
            if name in entry:
                low, high = entry[name]["interval_95"]
                widest = max(widest, (high - low) / 2)
    caption = f"Mean over {results['rows']:,} test sums; all 95% bootstrap intervals within ±{widest:.3f}."
    draw(results, context.output_dir / "head_analysis/head_specialization.png", context.caption(caption))
    return results


def findings(results: dict) -> str:
    by_target: dict[str, list[str]] = {}
    for name, entry in results["heads"].items():
        by_target.setdefault(entry["main_target"], []).append(Head.parse(name).short)
    rows = [[target, ", ".join(heads)] for target, heads in by_target.items()]
    return "\n".join(text_table("main target|heads", rows))
