"""How many heads can go: one at a time, and together? The two are not the same.

Heads stand in for each other. Each may be dispensable while the others are there; remove all the dispensable
ones at once and nothing is left to stand in. So heads are removed one after the other, and each order tells
something else:

greedy     always the head whose removal harms least now, given what is gone already (chosen by the loss on
           validation rows, measured on the test rows)
one by one the order of single ablations, least important first: what follows if "dispensable alone" is taken
           for "dispensable"
random     any order, many draws: what removing heads costs if one does not choose
"""

import random
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from tqdm import tqdm

from lab.figures import COLOURS, LINES, MARKS, save
from lab.hooks import Intervention
from problem1.analysis.ablation import KINDS, SMALL, removals
from problem1.analysis.context import Context, Trial, pick, share

CHOOSING_ROWS = 300  # validation rows on which greedy compares candidates by their loss
DRAWS, DRAW_ROWS = 20, 100  # random orders, and test rows for each of them


def greedy_order(trial: Trial, interventions: dict[str, Intervention], progress) -> list[str]:
    """All heads, the least harmful to remove first, each given those before it."""
    gone: list[str] = []
    while len(gone) < len(interventions):
        losses = {}
        # Candidates in the decoder come first, as they share the encoder's result (see Trial).
        for head in sorted(set(interventions) - set(gone), key=lambda name: (name.startswith("encoder."), name)):
            losses[head] = trial.right({name: interventions[name] for name in [*gone, head]})[1]
            progress.update()
        gone.append(min(losses, key=losses.get))
    return gone


def along(trial: Trial, interventions: dict[str, Intervention], order: list[str]) -> list[dict]:
    """Exact match after each removal of `order`, from no head removed to all of them."""
    return [
        share(trial.right({name: interventions[name] for name in order[:count]})[0].all(1))
        for count in range(len(order) + 1)
    ]


def prune(context: Context, ablation: dict) -> dict:
    heads = context.heads
    choosing = Trial(context.model, pick(context.rows["val"], slice(CHOOSING_ROWS)), context.batch_size)
    sample = Trial(context.model, pick(context.rows["test"], slice(DRAW_ROWS)), context.batch_size)
    curves = {}
    candidates = len(heads) * (len(heads) + 1) // 2
    progress = tqdm(total=2 * candidates, desc="pruning", unit="trial", leave=False, disable=None)
    for kind, interventions in removals(context).items():
        order = greedy_order(choosing, interventions, progress)
        alone = sorted(heads, key=lambda head: _harm(ablation["heads"][head][kind]))
        draws = [random.Random(draw).sample(heads, len(heads)) for draw in range(DRAWS)]
        curves[kind] = {
            "greedy": {"order": order, "exact_match": along(context.test, interventions, order)},
            "one_by_one": {"order": alone, "exact_match": along(context.test, interventions, alone)},
            "random": [[point["share"] for point in along(sample, interventions, draw)] for draw in draws],
        }
    progress.close()
    return {
        "question": "exact match on the test rows after each removal of a head; removed heads stay removed",
        "rows": {"greedy chooses on validation rows": len(choosing.sums), "measured on test rows": len(context.right)},
        "random_draws": DRAWS,
        "random_rows": len(sample.sums),
        "heads": len(heads),
        "curves": curves,
        "dispensable": {kind: dispensable(ablation, curves[kind], kind) for kind in KINDS}
        if context.meaningful
        else None,
    }


def _harm(entry: dict) -> tuple:
    return entry["drop"], entry["loss_increase"]


def dispensable(ablation: dict, curves: dict, kind: str) -> dict:
    """The two percentages side by side: heads that cost less than a point alone, and heads that do together."""
    heads, floor = len(ablation["heads"]), ablation["baseline"]["accuracy"] - SMALL
    alone = sum(entry[kind]["drop"] < SMALL for entry in ablation["heads"].values())
    together = removable(curves["greedy"]["exact_match"], floor)
    typical = np.median(np.array(curves["random"]), axis=0)
    return {
        "alone": alone,
        "alone_share": alone / heads,
        "all_those_together": curves["one_by_one"]["exact_match"][alone]["share"],
        "together": together,
        "together_share": together / heads,
        "together_in_order_of_single_ablation": removable(curves["one_by_one"]["exact_match"], floor),
        "together_in_random_order_median": removable([{"share": value} for value in typical.tolist()], floor),
    }


def removable(curve: list[dict], floor: float) -> int:
    """How many removals come before accuracy falls below `floor` for the first time."""
    for count, point in enumerate(curve):
        if point["share"] < floor:
            return max(0, count - 1)
    return len(curve) - 1


def draw_curves(results: dict, path: Path, caption: str) -> None:
    """Accuracy by number of heads removed: three orders, two kinds."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True)
    steps = range(results["heads"] + 1)
    titles = {"zero": "removed heads say nothing (zero)", "mean": "removed heads say their mean"}
    names = {"greedy": "greedy, chosen together", "one_by_one": "in order of single ablation"}
    for axes, kind in zip(panels, KINDS, strict=True):
        curves = results["curves"][kind]
        for number, name in enumerate(("greedy", "one_by_one")):
            points = curves[name]["exact_match"]
            values = 100 * np.array([point["share"] for point in points])
            low, high = 100 * np.array([point["interval_95"] for point in points]).T
            style = {"color": COLOURS[number], "linestyle": LINES[number], "marker": MARKS[number]}
            axes.plot(steps, values, label=names[name], **style)
            axes.fill_between(steps, low, high, color=COLOURS[number], alpha=0.25, linewidth=0)
        random_order = 100 * np.array(curves["random"])
        low, middle, high = np.quantile(random_order, [0.1, 0.5, 0.9], axis=0)
        axes.plot(steps, middle, color="#777777", linestyle=":", label="random order: median, 10 to 90%")
        axes.fill_between(steps, low, high, color="#777777", alpha=0.2, linewidth=0)
        axes.set_title(titles[kind] + _verdict(results, kind), fontsize=10)
        axes.set(xlabel=f"heads removed, of {results['heads']}", xlim=(-0.5, len(steps) - 0.5), ylim=(-3, 103))
        axes.axhline(99, color="black", linewidth=0.7)
        axes.text(len(steps) - 1, 98, "99%", ha="right", va="top", fontsize=8)
    panels[0].set_ylabel("exact match on test sums (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
    save(figure, path, caption)


def _verdict(results: dict, kind: str) -> str:
    """The two percentages, for a model of which they mean anything."""
    if not results["meaningful"]:
        return ""
    it = results["dispensable"][kind]
    return (
        f"\neach alone below 1 point: {it['alone']} ({it['alone_share']:.1%}); "
        f"together: {it['together']} ({it['together_share']:.1%})"
    )


def answer(context: Context, ablation: dict) -> dict:
    """Write head_analysis/pruning_curve.json and .png."""
    results = context.write("head_analysis/pruning_curve.json", prune(context, ablation))
    caption = "How many heads can go together depends on which; bands: 95% interval (random: 10 to 90% of draws)."
    draw_curves(results, context.output_dir / "head_analysis/pruning_curve.png", context.caption(caption))
    return results
