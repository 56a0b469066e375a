"""The hard case: a column of exactly 9, where the carry has to pass through.

9 + 0 writes 9 and carries nothing; 9 + 1 writes 0 and passes the carry on. Every digit before it hangs on what
comes from below, and the answer is written from the front, before the columns below are reached. Three questions:

accuracy          Is the model right on such sums, and by what logit margin, with and without a carry arriving?
prefix conflict   The digits already written show whether a carry came (the first digit of 1000 does). Does the
                  model read it off them or compute it again from the operands? They are replaced by those of the
                  sum with the other carry: the digit of the first 9-column then follows the prefix or the operands.
random prefix     Is each digit still right when those before it are the digits of another test sum?
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from lab.figures import save
from lab.hooks import replace
from lab.statistics import proportion
from problem1.analysis.carry_pairs import Group, all_groups
from problem1.analysis.context import Context, digit_names, join
from problem1.analysis.exhaustive import predict
from problem1.analysis.figures import table
from problem1.analysis.interventions import InterventionRunner
from problem1.dataset import Sums, decoder_inputs

PAIRS = 1_000  # for each group, with and without a carry
FOLLOWS = ("follows_operands", "follows_prefix", "follows_prefix_self_attention_frozen")


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
    """The digit of the first 9-column, when operands and prefix imply different carries.

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
    shares = (
        proportion(digit == sums.targets[:, position]),
        proportion(digit == others.targets[:, position]),
        proportion(frozen == others.targets[:, position]),
    )
    names = {"name": group.name, "digit": digit_names(context.num_digits + 1)[position]}
    return names | dict(zip(FOLLOWS, shares, strict=True))


def random_prefix(context: Context) -> dict:
    """{digit: share right after the digits of another test sum}"""
    sums = context.rows["test"]
    other = torch.randperm(len(sums), generator=torch.Generator().manual_seed(0))
    runner = InterventionRunner(context.model, sums, context.batch_size, prefixes=decoder_inputs(sums.targets)[other])
    right = runner.evaluate()[0]
    return {digit: proportion(right[:, number]) for number, digit in enumerate(digit_names(right.shape[1]))}


def draw(results: dict, path: Path, caption: str) -> None:
    """Left: accuracy and logit margins with and without a carry. Right: what is written after wrong prefixes."""
    groups, conflicts = results["groups"], results["prefix_conflict"]
    height = 1.6 + 0.5 * max(len(groups), len(results["random_prefix"]) + len(conflicts))
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, height), width_ratios=[2, 3])
    cells = [[group["without_carry"], group["with_carry"]] for group in groups]
    texts = [[f"{cell['share']:.1%}, {cell['smallest_margin']:.1f}" for cell in line] for line in cells]
    values = [[cell["share"] for cell in line] for line in cells]
    columns = ["no carry comes", "a carry comes"]
    table(left, values, [group["name"] for group in groups], columns, texts)
    left.set_title("sums right, and smallest logit margin")
    left.set_ylabel("where the carry goes")

    rows = [(f"{digit}: digits of another sum", share, None, None) for digit, share in results["random_prefix"].items()]
    rows += [
        (f"{conflict['digit']} of 9: the other carry\n({conflict['name']})", *(conflict[key] for key in FOLLOWS))
        for conflict in conflicts
    ]
    labels, *columns = zip(*rows, strict=True)
    values = [[share["share"] if share else math.nan for share in line] for line in zip(*columns, strict=True)]
    texts = [[_percent(share) for share in line] for line in zip(*columns, strict=True)]
    names = ["follow the\noperands (right)", "follow the\nprefix (wrong)", "follow the prefix,\nself-attention frozen"]
    image = table(right, values, labels, names, texts)
    right.set_title("digits written after a wrong prefix (%)")
    figure.colorbar(image, ax=right, label="share", shrink=0.8)
    save(figure, path, caption)


def _percent(share: dict | None) -> str:
    if share is None:
        return "–"
    low, high = share["interval_95"]
    return f"{100 * share['share']:.1f} ±{50 * (high - low):.1f}"


def run(context: Context) -> dict:
    """Write carry/nines.json and .png."""
    results = context.write("carry/nines.json", measure(context))
    caption = "Right: is a digit computed from the operands or read off the prefix? ± half the 95% interval."
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
