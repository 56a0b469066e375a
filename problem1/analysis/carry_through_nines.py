"""The hard case: a column of exactly 9, where the carry has to pass through.

9 + 0 writes 9 and carries nothing; 9 + 1 writes 0 and carries on. Every digit before it hangs on what comes from
below, and the answer is written from the front, before the columns below are reached. Two questions:

accuracy   Is the model right on such sums, and by what margin, with and without a carry arriving?
belief     The digits already written tell whether a carry came (the first digit of 1000 does). Does the model read
           it off them or find it again in the operands? Its own digits are replaced by those of the sum with the
           other carry: a 9 that becomes 0 then follows the written digits, a 9 that stays follows the operands.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab.figures import COLOURS, save
from lab.hooks import HeadHooks, replace
from problem1.analysis.carry_pairs import Group, all_groups
from problem1.analysis.context import Context, join, places, share
from problem1.analysis.exhaustive import answers
from problem1.dataset import Sums, decoder_inputs

PAIRS = 1_000  # for each group, with and without a carry


def hard_cases(context: Context) -> dict:
    groups = all_groups(context.num_digits, PAIRS, seed=1)
    return {
        "question": "sums with columns of exactly 9 between where a carry is born and where it goes",
        "groups": [
            {
                "name": group.name,
                "nines": group.nines,
                "with_carry": exactness(context, group.carrying),
                "without_carry": exactness(context, group.without),
            }
            for group in groups
        ],
        "belief": [belief(context, group) for group in groups if group.nines],
        "after_another_answer": after_another_answer(context),
    }


def exactness(context: Context, sums: Sums) -> dict:
    """Whole answers right, and the margins: the right symbol's lead over the next in logits, at the worst digit."""
    predicted, margins = answers(context.model, sums, context.batch_size)
    low, middle = margins.quantile(torch.tensor([0.0, 0.5])).tolist()
    return share((predicted == sums.targets).all(1)) | {"smallest_margin": low, "median_margin": middle}


@torch.no_grad()
def predict(context: Context, sources: Tensor, prefixes: Tensor, hooks: HeadHooks | None = None) -> Tensor:
    """[N, S], [N, T] -> the digits written [N, T]"""
    device = next(context.model.parameters()).device
    return context.model(sources.to(device), prefixes.to(device), hooks=hooks).argmax(-1).cpu()


def belief(context: Context, group: Group) -> dict:
    """The digit of the first 9-column, when operands and written digits tell of different carries.

    The digit written last is what the decoder reads at this position; it needs no attention to know it. So the
    same once more with all decoder self-attention put back to what it says after the right digits: what still
    follows the written digits has read that last one.
    """
    asked = join([group.without, group.carrying])
    told = join([group.carrying, group.without])
    place = group.target + 1
    digit = predict(context, asked.sources, decoder_inputs(told))[:, place]
    honest = HeadHooks()
    predict(context, asked.sources, decoder_inputs(asked), honest)
    selves = [head for head in context.heads if head.startswith("decoder.") and ".self." in head]
    restored = HeadHooks({head: replace(honest.output(head)) for head in selves}, record=False)
    still = predict(context, asked.sources, decoder_inputs(told), restored)[:, place]
    return {
        "name": group.name,
        "digit": places(context.num_digits + 1)[place],
        "follows_operands": share(digit == asked.targets[:, place]),
        "follows_written_digits": share(digit == told.targets[:, place]),
        "follows_written_digits_without_self_attention": share(still == told.targets[:, place]),
    }


def after_another_answer(context: Context) -> dict:
    """Is each digit still right when those before it are the digits of another test sum? {place: share}"""
    sums = context.rows["test"]
    other = torch.randperm(len(sums), generator=torch.Generator().manual_seed(0))
    right = predict(context, sums.sources, decoder_inputs(sums.targets)[other]) == sums.targets
    return {place: share(right[:, number]) for number, place in enumerate(places(right.shape[1]))}


def draw(results: dict, path: Path, caption: str) -> None:
    """Left: margins with and without a carry. Right: what is written after wrong digits."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 1.2 + 0.5 * max(len(results["groups"]), 7)))
    _draw_margins(left, results["groups"])
    _draw_belief(right, results)
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
    axes.set_xlabel("margin in logits: bar the median, stroke the smallest")
    axes.set_ylabel("where the carry goes")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8)


def _draw_belief(axes, results: dict) -> None:
    """Each row is one digit: how often it follows the operands, and how often wrong digits written before it."""
    rows = [
        (f"{place}, after the\ndigits of another sum", it, None)
        for place, it in results["after_another_answer"].items()
    ]
    for it in results["belief"]:
        label = f"{it['digit']} of 9, after the digits\nof the other carry ({it['name']})"
        rows.append((label, it["follows_operands"], it["follows_written_digits"]))
    by_operands = [100 * it["share"] for _, it, _ in rows]
    by_digits = [100 * it["share"] if it else 0.0 for _, _, it in rows]
    lows, highs = zip(*((100 * it["interval_95"][0], 100 * it["interval_95"][1]) for _, it, _ in rows), strict=True)
    errors = [
        [max(0.0, value - low) for value, low in zip(by_operands, lows, strict=True)],
        [max(0.0, high - value) for value, high in zip(by_operands, highs, strict=True)],
    ]
    style = {"height": 0.6, "edgecolor": "black", "linewidth": 0.5}
    axes.barh(range(len(rows)), by_operands, color=COLOURS[5], label="follows the operands (right)", **style)
    axes.barh(
        range(len(rows)),
        by_digits,
        left=by_operands,
        color=COLOURS[6],
        hatch="//",
        label="follows the wrong digits",
        **style,
    )
    axes.errorbar(by_operands, range(len(rows)), xerr=errors, fmt="none", ecolor="black", elinewidth=1, capsize=2)
    axes.set_yticks(range(len(rows)), [label for label, _, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="share of the digits written (%)", xlim=(0, 104))
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, fontsize=8)


def answer(context: Context) -> dict:
    """Write carry/nines.json and .png."""
    results = context.write("carry/nines.json", hard_cases(context))
    caption = "Left: right of 0 all is right. Right: is a digit found in the operands, or read off the answer so far?"
    draw(results, context.output_dir / "carry/nines.png", context.caption(caption))
    return results
