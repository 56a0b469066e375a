"""How many heads can be removed: one at a time, and together? The two are not the same.

Heads stand in for each other. Each may be dispensable while the others are there; remove all the dispensable
ones at once and nothing is left to stand in. So heads are removed one after the other, in three orders:

greedy        always the head whose removal harms least now, given what is gone already (chosen by the loss on
              validation rows, measured on the test rows)
by_ablation   the order of single ablations, least important first: what follows if "dispensable alone" is taken
              for "dispensable"
random        any order, many draws: what removing heads costs if one does not choose

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

from lab.figures import COLOURS, LINES, MARKS, save
from lab.hooks import Intervention, split_name
from lab.statistics import proportion
from lab.training import Recipe, make_optimizer
from problem1.analysis.ablation import KINDS, SMALL, ablations
from problem1.analysis.context import Context, pick
from problem1.analysis.exhaustive import predict
from problem1.analysis.interventions import InterventionRunner
from problem1.attention import MultiHeadAttention
from problem1.dataset import Sums, random_pairs, score, swap_columns

CHOOSING_ROWS = 300  # validation rows on which greedy compares candidates by their loss
DRAWS, DRAW_ROWS = 20, 100  # random orders, and test rows for each of them
STEPS = 600  # of fine-tuning
RECIPE = Recipe(epochs=1, batch_size=128, lr=1e-3, warmup_steps=20, weight_decay=0.0)
FRESH = 50_000  # random pairs that the fine-tuned model is measured on


def greedy_order(runner: InterventionRunner, interventions: dict[str, Intervention], progress) -> list[str]:
    """All heads, the least harmful to remove first, each given those before it."""
    removed: list[str] = []
    while len(removed) < len(interventions):
        losses = {}
        # Candidates in the decoder come first, as they share the encoder's result (see InterventionRunner).
        for head in sorted(set(interventions) - set(removed), key=lambda name: (name.startswith("encoder."), name)):
            losses[head] = runner.evaluate({name: interventions[name] for name in [*removed, head]})[1]
            progress.update()
        removed.append(min(losses, key=losses.get))
    return removed


def along(runner: InterventionRunner, interventions: dict[str, Intervention], order: list[str]) -> list[dict]:
    """Exact match after each removal of `order`, from no head removed to all of them."""
    return [
        proportion(runner.evaluate({name: interventions[name] for name in order[:count]})[0].all(1))
        for count in range(len(order) + 1)
    ]


def measure(context: Context, ablation: dict) -> dict:
    heads = context.heads
    choosing = InterventionRunner(context.model, pick(context.rows["val"], slice(CHOOSING_ROWS)), context.batch_size)
    sample = InterventionRunner(context.model, pick(context.rows["test"], slice(DRAW_ROWS)), context.batch_size)
    curves = {}
    candidates = len(heads) * (len(heads) + 1) // 2
    progress = tqdm(total=2 * candidates, desc="pruning", unit="run", leave=False, disable=None)
    for kind, interventions in ablations(context).items():
        order = greedy_order(choosing, interventions, progress)
        single = sorted(heads, key=lambda head: _harm(ablation["heads"][head][kind]))
        draws = [random.Random(draw).sample(heads, len(heads)) for draw in range(DRAWS)]
        curves[kind] = {
            "greedy": {"order": order, "exact_match": along(context.test, interventions, order)},
            "by_ablation": {"order": single, "exact_match": along(context.test, interventions, single)},
            "random": [[point["share"] for point in along(sample, interventions, draw)] for draw in draws],
        }
    progress.close()
    return {
        "question": "exact match on the test rows after each removal of a head; removed heads stay removed",
        "rows": {"greedy_chooses_on_validation": len(choosing.sums), "measured_on_test": len(context.correct)},
        "random_draws": DRAWS,
        "random_rows": len(sample.sums),
        "heads": len(heads),
        "curves": curves,
        "prunable": {kind: prunable(ablation, curves[kind], kind) for kind in KINDS} if context.meaningful else None,
    }


def _harm(entry: dict) -> tuple:
    return entry["drop"], entry["loss_increase"]


def prunable(ablation: dict, curves: dict, kind: str) -> dict:
    """Two percentages side by side: heads that cost less than a point alone, and heads that do together."""
    heads, floor = len(ablation["heads"]), ablation["baseline"]["accuracy"] - SMALL
    alone = sum(entry[kind]["drop"] < SMALL for entry in ablation["heads"].values())
    greedy, by_ablation = (
        [point["share"] for point in curves[order]["exact_match"]] for order in ("greedy", "by_ablation")
    )
    together = removable(greedy, floor)
    return {
        "alone": alone,
        "alone_share": alone / heads,
        "exact_match_without_all_of_those": by_ablation[alone],
        "together": together,
        "together_share": together / heads,
        "together_by_ablation": removable(by_ablation, floor),
        "together_random_median": statistics.median(removable(draw, floor) for draw in curves["random"]),
    }


def removable(curve: list[float], floor: float) -> int:
    """How many removals come before accuracy falls below `floor` for the first time."""
    for count, share in enumerate(curve):
        if share < floor:
            return max(0, count - 1)
    return len(curve) - 1


# --- removing heads from the weights ----------------------------------------------------------------------------


@torch.no_grad()
def remove_heads(model: nn.Module, heads: list[str]) -> None:
    """Set to zero, in place, the rows of the query, key and value layers and the columns of the output layer that
    belong to `heads`.

    The value rows and the output columns of a head multiply each other's gradients, so both stay zero whatever
    training follows: the head is gone for good, and the weights still fit the same model.
    """
    modules = {module.name: module for module in model.modules() if isinstance(module, MultiHeadAttention)}
    for head in heads:
        name, number = split_name(head)
        module = modules[name]
        width = module.output.in_features // module.num_heads
        own = slice(number * width, (number + 1) * width)
        for layer in (module.query, module.key, module.value):
            layer.weight[own] = 0
            layer.bias[own] = 0
        module.output.weight[:, own] = 0


def fine_tune(model: nn.Module, train: Sums, steps: int, seed: int = 0) -> None:
    """A short training on the training rows, augmented as in train.py."""
    device = next(model.parameters()).device
    rows = (train.sources.to(device), train.targets.to(device))
    optimizer = make_optimizer(model, RECIPE)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for step in tqdm(range(steps), desc="fine-tuning", unit="step", leave=False, disable=None):
        index = torch.randint(len(train), (RECIPE.batch_size,), generator=generator).to(device)
        loss = score(model, swap_columns(tuple(part[index] for part in rows), generator))[0].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), RECIPE.clip)
        for group in optimizer.param_groups:
            group["lr"] = RECIPE.lr_at(step, steps)
        optimizer.step()
    model.eval()


def most_removable(context: Context, order: list[str]) -> int:
    """How many heads of `order` can be zero-ablated with at least 99% of the validation rows still right."""
    validation = InterventionRunner(context.model, context.rows["val"], context.batch_size)
    interventions = ablations(context)["zero"]
    for count in range(1, len(order) + 1):
        correct = validation.evaluate({head: interventions[head] for head in order[:count]})[0].all(1)
        if correct.double().mean() < 1 - SMALL:
            return count - 1
    return len(order)


def exact_match(model: nn.Module, test: Sums, fresh: Sums) -> dict:
    """On the test rows and on fresh random pairs."""
    found = {}
    for name, sums in (("test", test), ("fresh", fresh)):
        right = (predict(model, sums)[0] == sums.targets).all(1)
        found[name] = proportion(right) | {"errors": int((~right).sum())}
    return found


def remove_and_fine_tune(context: Context, order: list[str]) -> dict:
    """Remove as many heads as possible, measure, fine-tune, measure again."""
    removed = order[: most_removable(context, order)]
    remaining = [head for head in context.heads if head not in removed]
    model = copy.deepcopy(context.model)
    fresh = random_pairs(context.num_digits, FRESH, seed=3)
    remove_heads(model, removed)
    before = exact_match(model, context.rows["test"], fresh)
    fine_tune(model, context.rows["train"], STEPS)
    after = exact_match(model, context.rows["test"], fresh)
    weights = sum(parameter.numel() for parameter in model.parameters())
    zeros = sum(int((parameter == 0).sum()) for parameter in model.parameters())
    return {
        "question": "heads removed from the weights: exact match before and after a short fine-tuning",
        "chosen_on": "validation rows: the most heads, in the greedy order, that leave 99% of them right",
        "removed": removed,
        "remaining": remaining,
        "remaining_share": len(remaining) / len(context.heads),
        "zero_weights_share": zeros / weights,
        "before": before,
        "fine_tuning": {"steps": STEPS, "batch_size": RECIPE.batch_size, "lr": RECIPE.lr},
        "after": after,
    }


# --- results ------------------------------------------------------------------------------------------------------


def draw_curves(results: dict, path: Path, caption: str) -> None:
    """Accuracy by number of heads removed: three orders, two kinds of ablation."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True)
    steps = range(results["heads"] + 1)
    names = {"greedy": "greedy, chosen together", "by_ablation": "in the order of single ablations"}
    for axes, kind in zip(panels, KINDS, strict=True):
        curves = results["curves"][kind]
        for number, name in enumerate(names):
            points = curves[name]["exact_match"]
            values = 100 * np.array([point["share"] for point in points])
            low, high = 100 * np.array([point["interval_95"] for point in points]).T
            style = {"color": COLOURS[number], "linestyle": LINES[number], "marker": MARKS[number]}
            axes.plot(steps, values, label=names[name], **style)
            axes.fill_between(steps, low, high, color=COLOURS[number], alpha=0.25, linewidth=0)
        low, middle, high = np.quantile(100 * np.array(curves["random"]), [0.1, 0.5, 0.9], axis=0)
        axes.plot(steps, middle, color="#777777", linestyle=":", label="random order: median, 10 to 90%")
        axes.fill_between(steps, low, high, color="#777777", alpha=0.2, linewidth=0)
        axes.set_title(_title(results, kind), fontsize=10)
        axes.set(xlabel=f"heads removed, of {results['heads']}", xlim=(-0.5, len(steps) - 0.5), ylim=(-3, 103))
        floor = 100 * (curves["greedy"]["exact_match"][0]["share"] - SMALL)
        axes.axhline(floor, color="black", linewidth=0.7)
        axes.text(len(steps) - 1, floor - 1, "one point lost", ha="right", va="top", fontsize=8)
    panels[0].set_ylabel("exact match on test sums (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
    save(figure, path, caption)


def _title(results: dict, kind: str) -> str:
    if not results["meaningful"]:
        return f"{kind} ablation"
    counts = results["prunable"][kind]
    return (
        f"{kind} ablation\neach alone below 1 point: {counts['alone']} ({counts['alone_share']:.1%}); "
        f"together: {counts['together']} ({counts['together_share']:.1%})"
    )


def run(context: Context, ablation: dict) -> dict:
    """Write head_analysis/pruning_curve.json and .png, and pruned.json where the model can add."""
    results = context.write("head_analysis/pruning_curve.json", measure(context, ablation))
    caption = (
        "How many heads can be removed together depends on which; bands: 95% interval (random: 10 to 90% of draws)."
    )
    draw_curves(results, context.output_dir / "head_analysis/pruning_curve.png", context.caption(caption))
    (context.output_dir / "head_analysis/pruned.json").unlink(missing_ok=True)  # perhaps of another model
    if not context.meaningful:
        return results | {"pruned": None}
    numbers = remove_and_fine_tune(context, results["curves"]["zero"]["greedy"]["order"])
    return results | {"pruned": context.write("head_analysis/pruned.json", numbers)}


def findings(results: dict) -> str:
    lines = []
    for kind in KINDS:
        counts = results["prunable"][kind]
        lines.append(
            f"prunable under {kind} ablation: {counts['alone']} of {results['heads']} heads alone, "
            f"{counts['together']} together; without all {counts['alone']} at once "
            f"{counts['exact_match_without_all_of_those']:.1%} right"
        )
    pruned, steps = results["pruned"], results["pruned"]["fine_tuning"]["steps"]
    before, after = pruned["before"]["fresh"], pruned["after"]["fresh"]
    lines.append(
        f"removed from the weights: {len(pruned['removed'])} heads; {before['errors']:,} errors in {before['n']:,} "
        f"fresh sums, {after['errors']:,} after {steps} steps of fine-tuning   (pruned.json)"
    )
    return "\n".join(lines)
