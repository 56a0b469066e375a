"""What does each head attend to? The share of its attention that goes to positions with a meaning in an addition.

operator         to the +
own position     to the query's own position
same column      to the digits of the column: the one the query stands in (encoder), or the one whose digit is
                 written next (decoder); for an operand's own digit this is its partner in the other operand.
                 In the decoder also by size: to the larger and to the smaller digit
lower column     to the digits one column to the right, where the carry is born
start token      to the start token
earlier outputs  to digits already written, the last one read (own position) not counted
entropy          of a pattern's rows, as a share of the most there can be: 0 one key, 1 uniform
variability      how far its patterns are (total variation) from its mean pattern, on average. A head of 0 attends
                 by position, whatever stands there; above that, it depends on what stands there

The first digit of the answer belongs to no column of the operands and counts for neither kind of column.
Every number is a mean over the test rows with its 95% bootstrap interval. Rows of a pattern for which a measure
has no meaning (the ones have no lower column) do not count; a head for which no row has is given none.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab.figures import save
from lab.statistics import bootstrap
from problem1.analysis.attention_maps import is_decoder_self
from problem1.analysis.context import Context
from problem1.analysis.figures import aligned, table
from problem1.dataset import Sums

FIXED = 0.05  # variability up to which a head is called positional
UNIFORM = 0.9  # entropy from which on it is called uniform
MOSTLY_ONE = 0.7  # of a column's attention on one of its two digits
MAIN = 0.4  # share of attention from which on a target gives the head its description
PARTS = ["larger digit", "smaller digit"]  # of "same column"
TARGETS = ["operator", "own position", "same column", *PARTS, "lower column", "start token", "earlier outputs"]
MEASURES = [*TARGETS, "entropy", "variability"]


def target_masks(head: str, num_digits: int) -> dict[str, Tensor]:
    """For each kind of target the keys that count, [Tq, Tk]; rows without any have no such target."""
    sources, outputs, plus = 2 * num_digits + 1, num_digits + 1, num_digits
    if is_decoder_self(head):
        own = torch.eye(outputs, dtype=torch.bool)
        own[0] = False  # the first position can attend to nothing else
        start = torch.zeros(outputs, outputs, dtype=torch.bool)
        start[1:, 0] = True
        earlier = torch.ones(outputs, outputs, dtype=torch.bool).tril(-1)
        return {"own position": own, "start token": start, "earlier outputs": earlier & ~start}
    own = None
    if head.startswith("encoder."):
        own = torch.eye(sources, dtype=torch.bool)
        columns = [key if key < plus else key - plus - 1 for key in range(sources)]
        columns[plus] = None
    else:  # position t of the decoder writes output t, which is the digit of operand column t - 1
        columns = [None, *range(num_digits)]
    operator = torch.zeros(len(columns), sources, dtype=torch.bool)
    operator[:, plus] = True
    masks = {"operator": operator, "same column": _digits(columns, num_digits, 0)}
    masks["lower column"] = _digits(columns, num_digits, 1)
    if own is not None:
        masks["own position"] = own
        masks["same column"] &= ~own  # a digit's own position is counted once
    return masks


def _digits(columns: list, num_digits: int, lower: int) -> Tensor:
    """[Tq, Tk] True at both operands' digits `lower` columns to the right of the query's."""
    mask = torch.zeros(len(columns), 2 * num_digits + 1, dtype=torch.bool)
    for query, column in enumerate(columns):
        if column is not None and column + lower < num_digits:
            mask[query, [column + lower, num_digits + 1 + column + lower]] = True
    return mask


def by_size(pattern: Tensor, sums: Sums) -> dict[str, Tensor]:
    """Cross-attention [N, T, S] -> its share on the larger and on the smaller digit of the column written next.

    Equal digits count half for each.
    """
    a, b = sums.operands()
    columns = torch.arange(sums.num_digits)
    on_a = pattern[:, columns + 1, columns]  # [N, digits]
    on_b = pattern[:, columns + 1, sums.num_digits + 1 + columns]
    even = (on_a + on_b) / 2
    larger = torch.where(a == b, even, torch.where(a > b, on_a, on_b))
    return {"larger digit": larger.mean(1), "smaller digit": (on_a + on_b - larger).mean(1)}


def statistics(head: str, pattern: Tensor, sums: Sums) -> dict[str, Tensor]:
    """pattern [N, Tq, Tk] on `sums` -> each measure that the head has: [N]"""
    found = by_size(pattern, sums) if ".cross." in head else {}
    for name, mask in target_masks(head, sums.num_digits).items():
        rows = mask.any(1)
        if rows.any():
            found[name] = (pattern * mask)[:, rows].sum(-1).mean(1)
    keys = torch.full((pattern.shape[1],), pattern.shape[2])
    if is_decoder_self(head):
        keys = torch.arange(1, pattern.shape[1] + 1)
    free = keys > 1  # where there is only one key, nothing is chosen
    rows, most = pattern[:, free], keys[free].log()
    found["entropy"] = (-torch.xlogy(rows, rows).sum(-1) / most).mean(1)
    found["variability"] = 0.5 * (rows - rows.mean(0)).abs().sum(-1).mean(1)
    return found


def measure(context: Context) -> dict:
    heads = {}
    for head, pattern in context.recorded.patterns.items():
        measured = statistics(head, pattern.double(), context.rows["test"])
        low, high = bootstrap(torch.stack(list(measured.values()), dim=1))
        entry = {
            name: {
                "mean": values.mean().item(),
                "interval_95": [low[number].item(), high[number].item()],
            }
            for number, (name, values) in enumerate(measured.items())
        }
        heads[head] = entry | (describe(entry) if context.meaningful else {"description": None})
    return {
        "question": "mean attention over the test rows to positions with a meaning in an addition",
        "rows": len(context.correct),
        "measures": MEASURES,
        "heads": heads,
    }


def describe(entry: dict) -> dict:
    """The main target, whether the pattern depends on the sum, and both in words: 'same column (0.97), positional'."""
    targets = {name: entry[name]["mean"] for name in TARGETS if name in entry and name not in PARTS}
    main = max(targets, key=targets.get)
    kind = "positional" if entry["variability"]["mean"] <= FIXED else "content-dependent"
    text = f"{main} ({targets[main]:.2f})"
    for part in PARTS:
        share = entry.get(part, {"mean": 0.0})["mean"]
        if main == "same column" and share >= MOSTLY_ONE * targets[main]:
            text = f"same column, mostly its {part} ({share:.2f} of {targets[main]:.2f})"
    if entry["entropy"]["mean"] > UNIFORM:
        main = text = "uniform"
    elif targets[main] < MAIN:
        main = text = "no main target"
    return {"main_target": main, "kind": kind, "description": f"{text}, {kind}"}


def draw(results: dict, path: Path, caption: str) -> None:
    """Heads × measures."""
    heads = results["heads"]
    cells = [[heads[head].get(measure, {"mean": math.nan})["mean"] for measure in MEASURES] for head in heads]
    texts = [["–" if math.isnan(value) else f"{value:.2f}" for value in line] for line in cells]
    figure, axes = plt.subplots(figsize=(11, 1.9 + 0.28 * len(heads)))
    image = table(axes, cells, list(heads), [name.replace(" ", "\n", 1) for name in MEASURES], texts)
    axes.xaxis.tick_top()
    axes.axvline(len(TARGETS) - 0.5, color="black", linewidth=1.2)
    axes.set_xlabel("left of the line: share of the attention; right of it: properties of the pattern")
    figure.colorbar(image, ax=axes, label="share", shrink=0.6)
    save(figure, path, caption)


def widest_interval(results: dict) -> float:
    """Half of the widest 95% interval of all measures."""
    entries = [entry[name] for entry in results["heads"].values() for name in MEASURES if name in entry]
    return max((high - low) / 2 for low, high in (entry["interval_95"] for entry in entries))


def run(context: Context) -> dict:
    """Write head_analysis/head_specialization.json and .png."""
    results = context.write("head_analysis/head_specialization.json", measure(context))
    caption = (
        f"Mean over {results['rows']:,} test sums; all 95% bootstrap intervals within ±{widest_interval(results):.3f}. "
        "– has no meaning for this head."
    )
    draw(results, context.output_dir / "head_analysis/head_specialization.png", context.caption(caption))
    return results


def findings(results: dict) -> str:
    by_target: dict[str, list[str]] = {}
    for head, entry in results["heads"].items():
        by_target.setdefault(entry["main_target"], []).append(head)
    return "\n".join(aligned("main target|heads", [[target, ", ".join(heads)] for target, heads in by_target.items()]))
