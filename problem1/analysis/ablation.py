"""Which heads are needed? Each is ablated alone, in two ways, for two different questions.

zero   The output is set to 0. All that the head contributes is gone, also what does not depend on the sum; layers
       after it meet inputs they never saw. Question: can the network do without this head being there?
mean   The output is set to its mean over the test rows, at each position. All that depends on the sum is gone,
       what depends on the position alone stays. Question: is anything this head computes from the sum needed?

A head that is needed under zero but not under mean does not compute from the sum: it gives a constant or
encodes the position.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from tqdm import tqdm

from lab.figures import COLOURS, save
from lab.files import write_text
from lab.hooks import Intervention, replace, zero
from lab.statistics import bootstrap, proportion
from problem1.analysis.context import CARRY_CLASSES, Context, carry_classes, digit_names
from problem1.analysis.figures import aligned, error_bars, table

KINDS = ("zero", "mean")
SMALL = 0.01  # a head whose ablation costs less accuracy than this is not needed alone
NEEDED, MEAN_SUFFICES, NOT_NEEDED = "needed", "its mean suffices", "not needed alone"


def ablations(context: Context) -> dict[str, dict[str, Intervention]]:
    """{"zero": {head: intervention}, "mean": {head: intervention}}"""
    means = context.mean_outputs
    return {
        "zero": dict.fromkeys(context.heads, zero),
        "mean": {head: replace(means[head]) for head in context.heads},
    }


def measure(context: Context) -> dict:
    """Every head ablated alone, in both ways: accuracy overall, by carry and by output digit."""
    classes = carry_classes(context.rows["test"])
    correct, loss = context.test.evaluate()
    baseline = shares(correct, loss, classes)
    heads, lost = {head: {} for head in context.heads}, []
    interventions = ablations(context)
    for head in tqdm(context.heads, desc="ablating", unit="head", leave=False, disable=None):
        for kind in KINDS:
            without, loss = context.test.evaluate({head: interventions[kind][head]})
            entry = shares(without, loss, classes)
            entry["drop"] = baseline["accuracy"] - entry["accuracy"]
            entry["loss_increase"] = loss - baseline["loss"]
            heads[head][kind] = entry
            lost.append(correct.all(1).double() - without.all(1).double())
    low, high = bootstrap(torch.stack(lost, dim=1))  # of the differences row by row: paired
    for number, (head, kind) in enumerate((head, kind) for head in heads for kind in KINDS):
        heads[head][kind]["drop_interval_95"] = [low[number].item(), high[number].item()]
    return {
        "question": "exact match on the test rows when one head's output is set to 0, or to its mean over the test "
        "rows (at each position)",
        "baseline": baseline,
        "rows_by_carry": {name: int((classes == number).sum()) for number, name in enumerate(CARRY_CLASSES)},
        "heads": heads,
        "ranking": sorted(heads, key=lambda head: rank_key(heads[head])),
        "harmless_alone": {
            kind: [head for head in heads if heads[head][kind]["drop"] < SMALL] if context.meaningful else None
            for kind in KINDS
        },
    }


def shares(correct: Tensor, loss: float, classes: Tensor) -> dict:
    """correct [N, T], classes [N] -> shares of whole answers by class of carry, and of single digits."""
    whole = correct.all(1)
    overall = proportion(whole)
    return {
        "accuracy": overall["share"],
        "interval_95": overall["interval_95"],
        "loss": loss,
        "by_carry": {name: proportion(whole[classes == number])["share"] for number, name in enumerate(CARRY_CLASSES)},
        "by_digit": dict(zip(digit_names(correct.shape[1]), correct.double().mean(0).tolist(), strict=True)),
    }


def rank_key(entry: dict) -> tuple:
    """Most important first: the accuracy lost under zero ablation; between equals, the loss gained."""
    return (-entry["zero"]["drop"], -entry["zero"]["loss_increase"])


def reading(entry: dict) -> str:
    """What zero and mean ablation say together."""
    if entry["mean"]["drop"] >= SMALL:
        return NEEDED
    return MEAN_SUFFICES if entry["zero"]["drop"] >= SMALL else NOT_NEEDED


def ranking_text(results: dict) -> str:
    """head_importance_ranking.txt"""
    lines = ["Accuracy lost without each attention head", ""]
    if not results["meaningful"]:
        lines += [f"WARNING: {results['warning']}", ""]
    baseline, rows = results["baseline"], sum(results["rows_by_carry"].values())
    lines += [
        f"Exact match of the whole model: {baseline['accuracy']:.2%} of {rows:,} test sums.",
        "zero: output set to 0.  mean: output set to its mean over the test sums, at each position.",
        "Percentage points lost, with the 95% interval (paired bootstrap).",
        "worst class: the class of carry that loses most under zero ablation.",
        "",
        *ranking_lines(results, results["ranking"]),
    ]
    if results["meaningful"]:
        lines += [
            "",
            f"{NEEDED}: what it computes from the sum is needed.",
            f"{MEAN_SUFFICES}: it gives a constant, or encodes the position.",
            f"{NOT_NEEDED}: it does nothing, or other heads can stand in for it.",
            harmless(results),
            "How many can be removed together is another question: see pruning_curve.json.",
        ]
    return "\n".join(lines) + "\n"


def ranking_lines(results: dict, ranking: list[str]) -> list[str]:
    rows = []
    for number, head in enumerate(ranking, 1):
        entry, cells = results["heads"][head], []
        for kind in KINDS:
            low, high = entry[kind]["drop_interval_95"]
            cells += [f"{100 * entry[kind]['drop']:5.2f}", f"{100 * low:.2f} to {100 * high:.2f}"]
        meaning = reading(entry) if results["meaningful"] else ""
        rows.append([f"{number:2}", head, *cells, worst_class(entry["zero"], results["baseline"]), meaning])
    return aligned("|head|zero|interval|mean|interval|worst class|reading", rows)


def harmless(results: dict) -> str:
    alone = results["harmless_alone"]
    return (
        f"Alone, {len(alone['zero'])} of {len(results['heads'])} heads cost less than one point under zero ablation, "
        f"{len(alone['mean'])} under mean ablation."
    )


def worst_class(entry: dict, baseline: dict) -> str:
    """The class of carry that loses most."""
    losses = {
        name: baseline["by_carry"][name] - share for name, share in entry["by_carry"].items() if share is not None
    }
    worst = max(losses, key=losses.get)
    return worst if losses[worst] > 0 else "-"


def draw_importance(results: dict, path: Path, caption: str) -> None:
    """Points lost by head, both kinds, with their intervals."""
    heads = list(results["heads"])[::-1]
    figure, axes = plt.subplots(figsize=(8, 1.6 + 0.27 * len(heads)))
    for kind, colour, offset in zip(KINDS, COLOURS, (0.2, -0.2), strict=False):
        entries = [results["heads"][head][kind] for head in heads]
        drops = [100 * entry["drop"] for entry in entries]
        intervals = [[100 * bound for bound in entry["drop_interval_95"]] for entry in entries]
        axes.barh(
            [row + offset for row in range(len(heads))],
            drops,
            0.4,
            xerr=error_bars(drops, intervals),
            color=colour,
            edgecolor="black",
            linewidth=0.5,
            error_kw={"elinewidth": 0.9, "capsize": 1.5},
            label={"zero": "zero ablation", "mean": "mean ablation"}[kind],
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
    for axes, (kind, key) in zip(
        panels, ((kind, key) for kind in KINDS for key in ("by_carry", "by_digit")), strict=True
    ):
        baseline = {name: value for name, value in results["baseline"][key].items() if value is not None}
        values = [[baseline[name] - results["heads"][head][kind][key][name] for name in baseline] for head in heads]
        texts = [[f"{value:.2f}" if abs(value) >= 0.005 else "·" for value in line] for line in values]
        image = table(axes, values, heads, [name.replace(" ", "\n") for name in baseline], texts)
        axes.tick_params(axis="x", labelsize=8)
        axes.set_title(f"{kind} ablation: {'whole sums' if key == 'by_carry' else 'single digits'}")
        axes.set_xlabel("carries in the sum" if key == "by_carry" else "digit of the answer")
    panels[0].set_ylabel("head ablated")
    figure.colorbar(image, ax=panels, label="share right that is lost", shrink=0.6)
    save(figure, path, caption)


def run(context: Context) -> dict:
    """Write head_analysis/ablation_results.json, the ranking and both figures."""
    folder = context.output_dir / "head_analysis"
    results = context.write("head_analysis/ablation_results.json", measure(context))
    write_text(folder / "head_importance_ranking.txt", ranking_text(results))
    caption = "Bars: points lost when one head is ablated; lines: 95% intervals (paired bootstrap)."
    draw_importance(results, folder / "head_importance.png", context.caption(caption))
    caption = "Share right with all heads less share right without this one (· below 0.005)."
    draw_by_class(results, folder / "ablation_by_class.png", context.caption(caption))
    return results


def findings(results: dict) -> str:
    return "\n".join([*ranking_lines(results, results["ranking"][:3]), harmless(results)])
