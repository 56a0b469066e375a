"""Which heads are needed? Take each one's voice away, in two ways that ask two different questions.

zero   The head says nothing. Everything it contributed is gone, also what it says whatever the sum is; layers
       after it meet inputs they never saw. Asks: can the network do without this head being there?
mean   At each position the head says what it says on average over the test rows. All that depends on this sum
       is gone, the constant part stays. Asks: is anything this head finds out about this sum needed?

A head that matters under zero but not under mean is a constant: a bias, not a computation.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from torch import Tensor
from tqdm import tqdm

from lab.figures import COLOURS, heatmap, save
from lab.files import write_text
from lab.hooks import Intervention, replace, zero
from problem1.analysis.context import CLASSES, Context, carry_classes, places, share

KINDS = ("zero", "mean")
SMALL = 0.01  # a head whose loss of accuracy is below this "can go alone"


def removals(context: Context) -> dict[str, dict[str, Intervention]]:
    """{"zero": {head: edit}, "mean": {head: edit}}"""
    means = context.mean_outputs
    return {
        "zero": dict.fromkeys(context.heads, zero),
        "mean": {head: replace(means[head]) for head in context.heads},
    }


def ablate_each(context: Context) -> dict:
    """Every head removed alone, in both ways: accuracy overall, by carry and by output digit."""
    classes = carry_classes(context.rows["test"])
    baseline = describe(*context.test.right(), classes)
    heads = {}
    for head in tqdm(context.heads, desc="ablating", unit="head", leave=False, disable=None):
        heads[head] = {}
        for kind, interventions in removals(context).items():
            it = describe(*context.test.right({head: interventions[head]}), classes)
            low, high = it["interval_95"]
            it["drop"] = baseline["accuracy"] - it["accuracy"]
            it["drop_interval_95"] = [baseline["accuracy"] - high, baseline["accuracy"] - low]
            it["loss_increase"] = it["loss"] - baseline["loss"]
            heads[head][kind] = it
    return {
        "question": "exact match on the test rows when one head's output is replaced by zeros, or by its mean "
        "over the test rows (at each position)",
        "baseline": baseline,
        "rows_by_carry": {name: int((classes == number).sum()) for number, name in enumerate(CLASSES)},
        "heads": heads,
        "ranking": sorted(heads, key=lambda head: rank_key(heads[head])),
        "harmless_alone": {
            kind: [head for head in heads if heads[head][kind]["drop"] < SMALL] if context.meaningful else None
            for kind in KINDS
        },
    }


def describe(right: Tensor, loss: float, classes: Tensor) -> dict:
    """right [N, T], classes [N] -> shares of whole answers by class of carry, and of single digits by place."""
    whole = right.all(1)
    overall = share(whole)
    return {
        "accuracy": overall["share"],
        "interval_95": overall["interval_95"],
        "loss": loss,
        "by_carry": {name: share(whole[classes == number])["share"] for number, name in enumerate(CLASSES)},
        "by_digit": dict(zip(places(right.shape[1]), right.double().mean(0).tolist(), strict=True)),
    }


def rank_key(entry: dict) -> tuple:
    """Most important first: the loss of accuracy without the head; between equals, how much worse the loss gets."""
    return (-entry["zero"]["drop"], -entry["zero"]["loss_increase"])


def ranking_text(results: dict) -> str:
    """The table that a person reads."""
    lines = ["How much accuracy is lost without each attention head", ""]
    if not results["meaningful"]:
        lines += [f"WARNING: {results['warning']}", ""]
    baseline, rows = results["baseline"], sum(results["rows_by_carry"].values())
    lines += [
        f"Exact match of the whole model: {baseline['accuracy']:.2%} of {rows:,} test sums.",
        "zero: the head says nothing.  mean: it says at each position what it says on average.",
        "Points lost (with 95% interval); worst class is the class of carry that suffers most under zero.",
        "",
        f"{'':>4} {'head':<24}{'zero':>7} {'interval':>14}{'mean':>8} {'interval':>14}   {'worst class':<18}reading",
    ]
    for number, head in enumerate(results["ranking"], 1):
        entry = results["heads"][head]
        cells = "".join(
            f"{100 * entry[kind]['drop']:8.2f} {interval(entry[kind]['drop_interval_95']):>14}" for kind in KINDS
        )
        worst = worst_class(entry["zero"], baseline)
        reading = "" if not results["meaningful"] else verdict(entry)
        lines.append(f"{number:>4} {head:<23}{cells}   {worst:<18}{reading}".rstrip())
    if results["meaningful"]:
        alone = {kind: len(results["harmless_alone"][kind]) for kind in KINDS}
        lines += [
            "",
            "computes: what it says of this sum is needed.  constant: only what it says whatever the sum is needed.",
            "not needed alone: it does nothing, or others can stand in for it.",
            f"Alone, {alone['zero']} of {len(results['heads'])} heads cost less than one point under zero, "
            f"{alone['mean']} under mean. How many can go together is another question: see pruning_curve.json.",
        ]
    return "\n".join(lines) + "\n"


def interval(bounds: list[float]) -> str:
    return f"{100 * bounds[0]:.2f} to {100 * bounds[1]:.2f}"


def worst_class(entry: dict, baseline: dict) -> str:
    losses = {
        name: baseline["by_carry"][name] - accuracy
        for name, accuracy in entry["by_carry"].items()
        if accuracy is not None
    }
    worst = max(losses, key=losses.get)
    return worst if losses[worst] > 0 else "-"


def verdict(entry: dict) -> str:
    """One word for what zero and mean say together."""
    zeroed, averaged = entry["zero"]["drop"] >= SMALL, entry["mean"]["drop"] >= SMALL
    if averaged:
        return "computes"
    return "constant: only its average is needed" if zeroed else "not needed alone"


def draw_importance(results: dict, path: Path, caption: str) -> None:
    """Points lost by head, both kinds, with their intervals."""
    heads = list(results["heads"])[::-1]
    figure, axes = plt.subplots(figsize=(8, 1.6 + 0.27 * len(heads)))
    for number, kind in enumerate(KINDS):
        entries = [results["heads"][head][kind] for head in heads]
        drops = [100 * entry["drop"] for entry in entries]
        errors = [
            [max(0.0, drop - 100 * entry["drop_interval_95"][0]) for drop, entry in zip(drops, entries, strict=True)],
            [max(0.0, 100 * entry["drop_interval_95"][1] - drop) for drop, entry in zip(drops, entries, strict=True)],
        ]
        axes.barh(
            [row + (0.2 if kind == "zero" else -0.2) for row in range(len(heads))],
            drops,
            0.4,
            xerr=errors,
            color=COLOURS[number],
            edgecolor="black",
            linewidth=0.5,
            error_kw={"elinewidth": 0.9, "capsize": 1.5},
            label={"zero": "output set to zero", "mean": "output set to its mean"}[kind],
        )
    axes.set_yticks(range(len(heads)), heads)
    axes.set_ylim(-0.6, len(heads) - 0.4)
    axes.set_xlabel("exact match lost on the test sums (percentage points)")
    axes.set_title("What is lost without each attention head")
    axes.legend(loc="best")
    save(figure, path, caption)


def draw_by_class(results: dict, path: Path, caption: str) -> None:
    """What is lost without each head, by class of carry and by output digit, for both kinds."""
    heads = list(results["heads"])
    figure, panels = plt.subplots(1, 4, figsize=(14, 1.8 + 0.25 * len(heads)), sharey=True)
    image = None
    for number, (kind, key) in enumerate((kind, key) for kind in KINDS for key in ("by_carry", "by_digit")):
        baseline = {name: value for name, value in results["baseline"][key].items() if value is not None}
        values = [[baseline[name] - results["heads"][head][kind][key][name] for name in baseline] for head in heads]
        texts = [[f"{value:.2f}" if abs(value) >= 0.005 else "·" for value in line] for line in values]
        columns = [name.replace(" ", "\n") for name in baseline]
        image = heatmap(panels[number], values, heads, columns, numbers=texts)
        panels[number].set_aspect("auto")
        panels[number].tick_params(axis="x", labelsize=8)
        panels[number].set_title(f"{kind}: {'whole sums' if key == 'by_carry' else 'single digits'}")
        panels[number].set_xlabel("carries in the sum" if key == "by_carry" else "digit of the answer")
    panels[0].set_ylabel("head removed")
    figure.colorbar(image, ax=panels, label="share right that is lost", shrink=0.6)
    save(figure, path, caption)


def answer(context: Context) -> dict:
    """Write head_analysis/ablation_results.json, the ranking and both figures."""
    folder = context.output_dir / "head_analysis"
    results = context.write("head_analysis/ablation_results.json", ablate_each(context))
    write_text(folder / "head_importance_ranking.txt", ranking_text(results))
    draw_importance(
        results,
        folder / "head_importance.png",
        context.caption("Bars: points lost when one head is removed; lines: 95% intervals (Wilson)."),
    )
    draw_by_class(
        results,
        folder / "ablation_by_class.png",
        context.caption(
            "Dark: right with all heads, wrong without this one (· below 0.005). Single digits: after right ones."
        ),
    )
    return results
