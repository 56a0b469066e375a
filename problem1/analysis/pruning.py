"""How many heads can be removed: one at a time, and together? The two are not the same.

Heads stand in for each other. Each may be dispensable while the others are there; remove all the dispensable
ones at once and nothing is left to stand in. So heads are zero-ablated one after the other, in two orders:

greedy        always the head whose removal harms least now, given what is gone already (chosen by the loss on
              validation rows, measured on the test rows)
random        only the heads that cost less than a point alone, in any order, many draws: what choosing them
              together is worth. All of them at once: what follows if "dispensable alone" is taken for "dispensable"

At last as many heads as possible are removed from the weights, and the model is fine-tuned for a little while.
"""

import copy
import random
import statistics
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from lab.figures import COLOURS, HALF, save
from lab.hooks import Head, attention_modules, columns, short_name, zero
from lab.statistics import proportion
from lab.training import Recipe, make_optimizer
from problem1.analysis.ablation import SMALL
from problem1.analysis.context import Context
from problem1.analysis.exhaustive import predict
from problem1.analysis.interventions import InterventionRunner
from problem1.dataset import Sums, random_pairs, score, swap_columns

QUESTION = "How many heads can be removed?"
FILES = (
    "head_analysis/pruning_curve.json",
    "head_analysis/pruning_curve.png",
    "head_analysis/pruning_curve.pdf",
    "head_analysis/pruned.json",
)
CHOOSING_ROWS = 200  # validation rows on which greedy compares candidates by their loss
DRAWS = 10  # random orders
DRAW_ROWS = 200  # test rows for each of them
THRESHOLDS = {"one_point": SMALL, "tenth_of_a_point": SMALL / 10, "no_error": 0.0}  # accuracy that may be lost
STEPS = 400  # of fine-tuning
RECIPE = Recipe(epochs=1, batch_size=128, lr=1e-3, warmup_steps=20, weight_decay=0.0)
FRESH = 20_000  # random pairs that the fine-tuned model is measured on


def greedy_order(runner: InterventionRunner, heads: list[str]) -> list[str]:
    """All heads, the least harmful to remove first, each given those before it."""
    removed: list[str] = []
    for _ in tqdm(heads, desc="pruning", unit="head", leave=False, disable=None):
        # By name, so "decoder…" comes first: these candidates share the encoder's result (see InterventionRunner).
        left = sorted(set(heads) - set(removed))
        losses = {head: runner.right_and_loss(dict.fromkeys([*removed, head], zero))[1] for head in left}
        removed.append(min(losses, key=losses.get))
    return removed


def along(runner: InterventionRunner, order: list[str]) -> list[dict]:
    """Exact match after each removal of `order`, from no head removed to all of them."""
    counts = range(len(order) + 1)
    return [proportion(runner.right_and_loss(dict.fromkeys(order[:count], zero))[0].all(1)) for count in counts]


def measure(context: Context, ablation: dict) -> dict:
    heads = context.heads
    entries = {head: entry["zero"] for head, entry in ablation["heads"].items()}
    choosing = InterventionRunner(context.model, context.rows["val"][:CHOOSING_ROWS], context.batch_size)
    sample = InterventionRunner(context.model, context.rows["test"][:DRAW_ROWS], context.batch_size)
    harmless = [head for head in heads if entries[head]["drop"] < SMALL]
    draws = [random.Random(draw).sample(harmless, len(harmless)) for draw in range(DRAWS)]
    order = greedy_order(choosing, heads)
    curves = {
        "greedy": {"order": order, "exact_match": along(context.test, order)},
        "all_harmless": proportion(context.test.right_and_loss(dict.fromkeys(harmless, zero))[0].all(1)),
        "random": [[point["share"] for point in along(sample, draw)] for draw in draws],
    }
    return {
        "question": "exact match on the test rows after each removal of a head; removed heads stay removed",
        "heads": len(heads),
        "curves": curves,
        "prunable": prunable(entries, curves),
    }


def prunable(entries: dict, curves: dict) -> dict:
    """Heads that cost less than a point alone, and heads that do together: chosen together, or at random among
    the first; and at stricter thresholds."""
    greedy = [point["share"] for point in curves["greedy"]["exact_match"]]

    def at(lost: float) -> dict:
        drops = [entry["drop"] for entry in entries.values()]
        return {
            "alone": sum(within(drop, lost) for drop in drops),
            "together": removable(greedy, lost),
            "random_harmless_median": statistics.median(removable(draw, lost) for draw in curves["random"]),
        }

    counts = at(SMALL)
    return {
        "alone": counts["alone"],
        "alone_share": counts["alone"] / len(entries),
        "exact_match_without_all_of_those": curves["all_harmless"]["share"],
        "together": counts["together"],
        "together_share": counts["together"] / len(entries),
        "together_random_harmless_median": counts["random_harmless_median"],
        "by_threshold": {name: at(lost) for name, lost in THRESHOLDS.items()},
    }


def within(drop: float, lost: float) -> bool:
    """Whether less than `lost` is lost; if nothing may be lost, whether nothing is."""
    return drop < lost or drop <= 0


def removable(curve: list[float], lost: float) -> int:
    """How many removals come before too much accuracy is lost for the first time."""
    for count, share in enumerate(curve):
        if not within(curve[0] - share, lost):
            return count - 1
    return len(curve) - 1


# --- removing heads from the weights ----------------------------------------------------------------------------


@torch.no_grad()
def remove_heads(model: nn.Module, heads: list[str]) -> None:
    """Set to zero, in place, the rows of the query, key and value layers and the columns of the output layer that
    belong to `heads`.

    The value rows and the output columns of a head multiply each other's gradients, so both stay zero whatever
    training follows: the head is gone for good, and the weights still fit the same model.
    """
    modules = attention_modules(model)
    for name in heads:
        head = Head.parse(name)
        module = modules[head.module]
        own = columns(module, head.number)
        for layer in (module.query, module.key, module.value):
            layer.weight[own] = layer.bias[own] = 0
        module.output.weight[:, own] = 0


def fine_tune(model: nn.Module, train: Sums, steps: int) -> None:
    """A short training on the training rows, augmented as in train.py."""
    device = next(model.parameters()).device
    rows = (train.sources.to(device), train.targets.to(device))
    optimizer = make_optimizer(model, RECIPE)
    generator = torch.Generator().manual_seed(0)
    model.train()
    for step in tqdm(range(steps), desc="fine-tuning", unit="step", leave=False, disable=None):
        index = torch.randint(len(train), (RECIPE.batch_size,), generator=generator).to(device)
        batch = swap_columns(tuple(part[index] for part in rows), generator)
        loss = score(model, batch)[0].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), RECIPE.clip)
        for group in optimizer.param_groups:
            group["lr"] = RECIPE.lr_at(step, steps)
        optimizer.step()
    model.eval()


def exact_match(model: nn.Module, sums: Sums) -> dict:
    right = (predict(model, sums)[0] == sums.targets).all(1)
    return proportion(right) | {"errors": int((~right).sum())}


def remove_and_fine_tune(context: Context, order: list[str]) -> dict:
    """Remove the most heads that cost less than a point of the validation rows, measure, fine-tune, measure again."""
    validation = InterventionRunner(context.model, context.rows["val"], context.batch_size)
    curve = [point["share"] for point in along(validation, order)]
    removed = order[: removable(curve, SMALL)]
    model = copy.deepcopy(context.model)
    fresh = random_pairs(context.num_digits, FRESH, seed=3)
    remove_heads(model, removed)
    before = exact_match(model, fresh)
    fine_tune(model, context.rows["train"], STEPS)
    return {
        "question": "heads removed from the weights: exact match before and after a short fine-tuning",
        "removed": removed,
        "remaining": [head for head in context.heads if head not in removed],
        "before": before,
        "steps": STEPS,
        "after": exact_match(model, fresh),
    }


# --- results ------------------------------------------------------------------------------------------------------


def draw_curves(results: dict, path: Path, caption: str) -> None:
    """Exact match by number of heads removed."""
    figure, axes = plt.subplots(figsize=(HALF, 2.6))
    curves = results["curves"]
    points = 100 * np.array([point["share"] for point in curves["greedy"]["exact_match"]])
    low, high = 100 * np.array([point["interval_95"] for point in curves["greedy"]["exact_match"]]).T
    axes.plot(points, color=COLOURS[0], marker="o", markersize=3)
    axes.fill_between(range(len(points)), low, high, color=COLOURS[0], alpha=0.25, linewidth=0)
    axes.text(len(points) - 1, points[-1] + 6, "greedy\norder", color=COLOURS[0], ha="right")
    if len(curves["random"][0]) > 1:
        low, middle, high = np.quantile(100 * np.array(curves["random"]), [0.1, 0.5, 0.9], axis=0)
        axes.plot(middle, color=COLOURS[6], linestyle="--")
        axes.fill_between(range(len(middle)), low, high, color=COLOURS[6], alpha=0.2, linewidth=0)
        axes.text(len(middle) - 1.6, middle[-1] - 1, "random order", color=COLOURS[6], ha="right", va="top")
    least = points[0] - 100 * SMALL
    axes.axhline(least, color="#777777", linewidth=0.8, linestyle=":")
    axes.text(len(points) - 1, least - 1, f"{least:.0f}% line", fontsize=7.5, ha="right", va="top", color="#555555")
    alone = results["prunable"]["alone"]
    together = results["prunable"]["together"]
    figure.suptitle(f"{alone} of {results['heads']} heads can go alone, {together} together")
    axes.set(xlabel=f"heads removed, of {results['heads']}", ylabel="exact match on test sums (%)", ylim=(-3, 103))
    save(figure, path, caption, vector=True)


def run(context: Context) -> dict:
    """Write head_analysis/pruning_curve.json and .png, and pruned.json."""
    results = context.write("head_analysis/pruning_curve.json", measure(context, context.results["ablation"]))
    caption = "Random orders are of the heads that can go alone. Bands: 95% interval; 10 to 90% of the draws."
    draw_curves(results, context.output_dir / "head_analysis/pruning_curve.png", caption)
    numbers = remove_and_fine_tune(context, results["curves"]["greedy"]["order"])
    return results | {"pruned": context.write("head_analysis/pruned.json", numbers)}


def findings(results: dict) -> str:
    counts = results["prunable"]
    heads = results["heads"]
    pruned = results["pruned"]
    before = pruned["before"]
    after = pruned["after"]
    strict = counts["by_threshold"]
    lines = [
        f"losing less than a point: {counts['alone']} of {heads} heads one at a time, {counts['together']} together",
        f"losing less than 0.1 point: {strict['tenth_of_a_point']['together']} together, without an error: "
        f"{strict['no_error']['together']}; taken at random among the {counts['alone']}: "
        f"{counts['together_random_harmless_median']:g}",
        f"without all {counts['alone']} at once {counts['exact_match_without_all_of_those']:.1%} of the sums are right",
        f"{len(pruned['removed'])} heads removed from the weights: {before['errors']:,} errors in {before['n']:,} new "
        f"sums, {after['errors']:,} after {pruned['steps']} more steps of training (pruned.json)",
        f"left then: {', '.join(map(short_name, pruned['remaining']))}",
    ]
    return "\n".join(lines)
