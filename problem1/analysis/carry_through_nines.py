"""The hard case: a column of exactly 9, where the carry has to pass through.

9 + 0 writes 9 and carries nothing; 9 + 1 writes 0 and passes the carry on. Every digit before it hangs on what
comes from below, and the answer is written from the front, before the columns below are reached. Three questions:

accuracy          Is the model right on such sums, and by what logit margin, with and without a carry arriving?
prefix conflict   The digits already written tell whether a carry came (the first digit of 1000 does). Does the
                  model read it off them or compute it again from the operands? They are replaced by those of the
                  sum with the other carry: the digit of the first 9-column then follows the prefix or the operands.
random prefix     Is each digit still right when those before it are the digits of another test sum?
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch

from lab.figures import COLOURS, save
from lab.hooks import replace
from lab.statistics import proportion
from problem1.analysis.carry_pairs import Group, all_groups
from problem1.analysis.context import Context, digit_names, join
from problem1.analysis.exhaustive import predict
from problem1.analysis.figures import error_bars
from problem1.analysis.interventions import InterventionRunner
from problem1.dataset import Sums, decoder_inputs

PAIRS = 1_000  # for each group, with and without a carry


def measure(context: Context) -> dict:
    groups = all_groups(context.num_digits, PAIRS, seed=1)
    return {
        "question": "sums with columns of exactly 9 between where a carry is born and where it goes",
        "groups": [
            {
                "name": group.name,
                "nines": group.nines,
                "with_carry": exact_match(context, group.carrying),
                "without_carry": exact_match(context, group.without),
            }
            for group in groups
        ],
        "prefix_conflict": [prefix_conflict(context, group) for group in groups if group.nines],
        "random_prefix": random_prefix(context),
    }


def exact_match(context: Context, sums: Sums) -> dict:
    """Whole answers right, and their logit margins at the worst digit."""
    predicted, margins = predict(context.model, sums, context.batch_size)
    low, middle = margins.quantile(torch.tensor([0.0, 0.5])).tolist()
    return proportion((predicted == sums.targets).all(1)) | {"smallest_margin": low, "median_margin": middle}


def prefix_conflict(context: Context, group: Group) -> dict:
    """The digit of the first 9-column, when operands and prefix tell of different carries.

    The decoder reads the last written digit at this very position; it needs no attention for it. So the same once
    more with all decoder self-attention frozen at its outputs after the right prefix: where the digit still follows
    the wrong prefix, it follows that last digit.
    """
    sums, others = join([group.without, group.carrying]), join([group.carrying, group.without])
    position = group.target + 1
    clean = InterventionRunner(context.model, sums, len(sums))
    conflict = InterventionRunner(context.model, sums, len(sums), prefixes=decoder_inputs(others.targets))
    self_heads = [head for head in context.heads if head.startswith("decoder.") and ".self." in head]
    freeze = {head: replace(clean.recorded.outputs[head]) for head in self_heads}
    digit = conflict.logits().argmax(-1)[:, position]
    frozen = conflict.logits(freeze).argmax(-1)[:, position]
    return {
        "name": group.name,
        "digit": digit_names(context.num_digits + 1)[position],
        "follows_operands": proportion(digit == sums.targets[:, position]),
        "follows_prefix": proportion(digit == others.targets[:, position]),
        "follows_prefix_self_attention_frozen": proportion(frozen == others.targets[:, position]),
    }


def random_prefix(context: Context) -> dict:
    """{digit: share right after the digits of another test sum}"""
    sums = context.rows["test"]
    other = torch.randperm(len(sums), generator=torch.Generator().manual_seed(0))
    runner = InterventionRunner(context.model, sums, context.batch_size, prefixes=decoder_inputs(sums.targets)[other])
    right = runner.evaluate()[0]
    return {digit: proportion(right[:, number]) for number, digit in enumerate(digit_names(right.shape[1]))}


def draw(results: dict, path: Path, caption: str) -> None:
    """Left: logit margins with and without a carry. Right: what is written after wrong prefixes."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 1.2 + 0.5 * max(len(results["groups"]), 7)))
    _draw_margins(left, results["groups"])
    _draw_prefixes(right, results)
    save(figure, path, caption)


def _draw_margins(axes, groups: list[dict]) -> None:
    for number, (key, label) in enumerate((("without_carry", "no carry comes"), ("with_carry", "a carry comes"))):
        rows = [row + (0.18 if number else -0.18) for row in range(len(groups))]
        middles = [group[key]["median_margin"] for group in groups]
        axes.barh(rows, middles, 0.36, color=COLOURS[number], edgecolor="black", linewidth=0.5, label=label)
        axes.plot([group[key]["smallest_margin"] for group in groups], rows, "k|", markersize=9)
        for row, group, middle in zip(rows, groups, middles, strict=True):
            axes.text(max(middle, 0), row, f"  {group[key]['share']:.1%} right", va="center", fontsize=7)
    axes.set_yticks(range(len(groups)), [group["name"] for group in groups])
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("logit margin: bar the median, stroke the smallest")
    axes.set_ylabel("where the carry goes")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8)


def _draw_prefixes(axes, results: dict) -> None:
    """Each row is one digit: how often it follows the operands, and how often the wrong prefix."""
    rows = [
        (f"{digit}, after the\ndigits of another sum", share, 0.0) for digit, share in results["random_prefix"].items()
    ]
    for conflict in results["prefix_conflict"]:
        label = f"{conflict['digit']} of 9, after the digits\nof the other carry ({conflict['name']})"
        rows.append((label, conflict["follows_operands"], 100 * conflict["follows_prefix"]["share"]))
    labels, operands, by_prefix = zip(*rows, strict=True)
    by_operands = [100 * share["share"] for share in operands]
    intervals = [[100 * bound for bound in share["interval_95"]] for share in operands]
    bars = range(len(rows))
    style = {"height": 0.6, "edgecolor": "black", "linewidth": 0.5}
    axes.barh(bars, by_operands, color=COLOURS[5], label="follows the operands (right)", **style)
    axes.barh(
        bars, by_prefix, left=by_operands, color=COLOURS[6], hatch="//", label="follows the wrong prefix", **style
    )
    axes.errorbar(
        by_operands, bars, xerr=error_bars(by_operands, intervals), fmt="none", ecolor="black", elinewidth=1, capsize=2
    )
    axes.set_yticks(bars, labels, fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="share of the digits written (%)", xlim=(0, 104))
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, fontsize=8)


def run(context: Context) -> dict:
    """Write carry/nines.json and .png."""
    results = context.write("carry/nines.json", measure(context))
    caption = "Left: to the right of 0 everything is right. Right: is a digit computed from the operands or read off the prefix?"
    draw(results, context.output_dir / "carry/nines.png", context.caption(caption))
    return results


def findings(results: dict) -> str:
    through = [group for group in results["groups"] if group["nines"]] or results["groups"]
    cells = [group[key] for group in through for key in ("with_carry", "without_carry")]
    lines = [
        f"lowest accuracy of a group {min(cell['share'] for cell in cells):.1%}, "
        f"smallest logit margin {min(cell['smallest_margin'] for cell in cells):.2f}"
    ]
    for conflict in results["prefix_conflict"]:
        lines.append(
            f"operands against prefix, {conflict['digit']} of 9 ({conflict['name']}): "
            f"{conflict['follows_operands']['share']:.1%} follow the operands, "
            f"{conflict['follows_prefix']['share']:.1%} the prefix"
        )
    return "\n".join(lines)
