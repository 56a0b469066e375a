"""Which heads are needed? Each is ablated alone, in two ways, for two different questions.

zero   The output is set to 0. All that the head contributes is gone, also what does not depend on the sum; layers
       after it meet inputs they never saw. Question: can the network do without this head being there?
mean   The output is set to its mean over the test rows, at each position. All that depends on the sum is gone,
       what depends on the position alone stays. Question: is anything this head computes from the sum needed?

Of a head that is needed under zero but not under mean, the mean is needed, and nothing that it computes from the sum.
Whole attention modules, whole layers of attention and feed-forward layers are ablated in the same two ways.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from torch import Tensor
from tqdm import tqdm

from lab.figures import COLOURS, HALF, MARKS, save
from lab.files import write_text
from lab.hooks import Intervention, feed_forward_layers, heads, replace, short_name, zero
from lab.statistics import proportion
from problem1.analysis.context import Context
from problem1.analysis.rows import CARRY_CLASSES, carry_classes, digit_names
from problem1.analysis.tables import intervals, text_table

QUESTION = "What is lost without each head and layer?"
FILES = (
    "head_analysis/ablation_results.json",
    "head_analysis/head_importance_ranking.txt",
    "head_analysis/head_importance.png",
    "head_analysis/head_importance.pdf",
)
KINDS = ("zero", "mean")
SMALL = 0.01  # a head whose ablation costs less accuracy than this is not needed alone
DRAWN = 0.001  # heads that cost less are counted in the figure, not drawn
# What a head is called, by what both say together.
NEEDED = "needed"
MEAN_SUFFICES = "its mean suffices"
NOT_NEEDED = "not needed alone"


def parts_of(model) -> dict[str, list[str]]:
    """What is removed as a whole: {"encoder.0.self": its heads, "decoder.0.attention": self and cross, …}."""
    parts = {}
    for head in heads(model):
        parts.setdefault(head.module, []).append(head.name)
        if head.side == "decoder":
            parts.setdefault(f"decoder.{head.layer}.attention", []).append(head.name)
    for layer in feed_forward_layers(model):
        parts[layer] = [layer]
    return parts


def ablations(context: Context) -> dict[str, dict[str, Intervention]]:
    """{"zero": {name: intervention}, "mean": {name: intervention}}, for every head and feed-forward layer"""
    means = context.mean_outputs
    return {"zero": dict.fromkeys(means, zero), "mean": {name: replace(mean) for name, mean in means.items()}}


def measure(context: Context, parts: dict[str, list[str]]) -> tuple[dict, dict]:
    """Each part ablated alone, in both ways: accuracy overall, by carry and by output digit. (baseline, by part)"""
    classes = carry_classes(context.rows["test"])
    correct, loss = context.test.right_and_loss()
    baseline = shares(correct, loss, classes)
    interventions = ablations(context)
    by_part = {part: {} for part in parts}
    entries = []
    lost = []  # for each entry, row by row: 1 if ablation makes the row wrong, -1 if it makes it right
    for part, names in tqdm(parts.items(), desc="ablating", leave=False, disable=None):
        for kind in KINDS:
            without, loss = context.test.right_and_loss({name: interventions[kind][name] for name in names})
            entry = shares(without, loss, classes)
            entry["drop"] = baseline["accuracy"] - entry["accuracy"]
            entry["loss_increase"] = loss - baseline["loss"]
            by_part[part][kind] = entry
            entries.append(entry)
            lost.append(correct.all(1).double() - without.all(1).double())
    for entry, interval in zip(entries, intervals(lost), strict=True):  # paired: of differences row by row
        entry["drop_interval_95"] = interval
    return baseline, by_part


def shares(correct: Tensor, loss: float, classes: Tensor) -> dict:
    """correct [N, T], classes [N] -> shares of whole answers by class of carry, and of single digits."""
    right = correct.all(1)
    overall = proportion(right)
    by_carry = {}
    for number, name in enumerate(CARRY_CLASSES):
        by_carry[name] = proportion(right[classes == number])["share"]
    return {
        "accuracy": overall["share"],
        "interval_95": overall["interval_95"],
        "loss": loss,
        "by_carry": by_carry,
        "by_digit": dict(zip(digit_names(correct.shape[1]), correct.double().mean(0).tolist(), strict=True)),
    }


def reading(entry: dict) -> str:
    """What zero and mean ablation say together."""
    if entry["mean"]["drop"] >= SMALL:
        return NEEDED
    return MEAN_SUFFICES if entry["zero"]["drop"] >= SMALL else NOT_NEEDED


def largest_drop(entry: dict) -> float:
    """Of zero and mean ablation; a head without which more is right counts, too."""
    return max(abs(entry[kind]["drop"]) for kind in KINDS)


def ranking_text(results: dict) -> str:
    """head_importance_ranking.txt"""
    lines = ["Accuracy lost without each attention head", ""]
    if not results["meaningful"]:
        lines += [f"WARNING: {results['warning']}", ""]
    lines += [
        f"Exact match of the whole model: {results['baseline']['accuracy']:.2%} of {results['rows']:,} test sums.",
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
            f"{MEAN_SUFFICES}: its mean is needed, nothing that it computes from the sum.",
            f"{NOT_NEEDED}: it does nothing, or other heads can stand in for it.",
            harmless(results),
            "How many can be removed together is another question: see pruning_curve.json.",
        ]
    return "\n".join(lines) + "\n"


def ranking_lines(results: dict, ranking: list[str]) -> list[str]:
    rows = []
    for number, head in enumerate(ranking, 1):
        entry = results["heads"][head]
        row = [f"{number:2}", short_name(head)]
        for kind in KINDS:
            low, high = entry[kind]["drop_interval_95"]
            row += [f"{100 * entry[kind]['drop']:5.2f}", f"{100 * low:.2f} to {100 * high:.2f}"]
        row.append(worst_class(entry["zero"], results["baseline"]))
        row.append(reading(entry) if results["meaningful"] else "")
        rows.append(row)
    return text_table("|head|zero|interval|mean|interval|worst class|reading", rows)


def harmless(results: dict) -> str:
    """How many heads cost next to nothing."""
    heads = results["heads"].values()
    under_zero = sum(entry["zero"]["drop"] < SMALL for entry in heads)
    under_mean = sum(entry["mean"]["drop"] < SMALL for entry in heads)
    return (
        f"Alone, {under_zero} of {len(heads)} heads cost less than one point set to zero, "
        f"{under_mean} set to their mean."
    )


def worst_class(entry: dict, baseline: dict) -> str:
    """The class of carry that loses most."""
    losses = {}
    for name, share in entry["by_carry"].items():
        if share is not None:
            losses[name] = baseline["by_carry"][name] - share
    worst = max(losses, key=losses.get)
    return worst if losses[worst] > 0 else "-"


def draw_importance(results: dict, path: Path, caption: str) -> None:
    """A dumbbell for each head, the most important on top: points lost with the output set to zero, and to its mean."""
    heads = results["heads"]
    drawn = [head for head in results["ranking"] if largest_drop(heads[head]) >= DRAWN]
    rows = np.arange(len(drawn))
    figure, axes = plt.subplots(figsize=(HALF, 1.2 + 0.15 * max(2, len(drawn))))
    drops = {kind: [100 * heads[head][kind]["drop"] for head in drawn] for kind in KINDS}
    axes.hlines(rows, *drops.values(), color="#bbbbbb", linewidth=2)
    for kind, colour, mark in zip(KINDS, COLOURS, MARKS, strict=False):
        axes.plot(drops[kind], rows, mark, color=colour, label=f"set to {kind}", clip_on=False)
    rest = len(heads) - len(drawn)
    axes.set_yticks([*rows, len(rows)], [*map(short_name, drawn), f"{rest} others"])
    axes.text(1, len(rows), f"each below {100 * DRAWN:g}", va="center", fontsize=7.5)
    axes.set_ylim(len(rows) + 0.6, -0.6)
    everywhere = [0, 5, *drops["zero"], *drops["mean"]]  # an axis that is there even if no head is drawn
    axes.set_xlim(min(everywhere), 1.05 * max(everywhere))
    axes.set_xlabel("exact match lost (points)")
    critical = sum(reading(entry) != NOT_NEEDED for entry in heads.values())
    if results["meaningful"]:
        figure.suptitle(f"{critical} of {len(heads)} heads cost a point or more")
    axes.legend(loc="lower right")
    save(figure, path, caption, vector=True)


def about_layers(context: Context) -> dict:
    """Without whole modules, layers of attention and feed-forward layers."""
    return measure(context, parts_of(context.model))[1]


def about_heads(context: Context) -> dict:
    """head_analysis/ablation_results.json"""
    baseline, heads = measure(context, {head: [head] for head in context.heads})

    def harm(head: str) -> tuple[float, float]:
        """Between heads that cost equally many sums, the loss gained decides."""
        return heads[head]["zero"]["drop"], heads[head]["zero"]["loss_increase"]

    ranking = sorted(heads, key=harm, reverse=True)
    return {
        "question": "exact match on the test rows when one head's output is set to 0, or to its mean over the test "
        "rows (at each position)",
        "baseline": baseline,
        "rows": len(context.correct),
        "heads": heads,
        "ranking": ranking,
        "layers": about_layers(context),
    }


def run(context: Context) -> dict:
    """Write head_analysis/ablation_results.json, the ranking and the figure."""
    folder = context.output_dir / "head_analysis"
    results = context.write("head_analysis/ablation_results.json", about_heads(context))
    write_text(folder / "head_importance_ranking.txt", ranking_text(results))
    caption = "Heads of this one model; 95% intervals stand in the ranking."
    draw_importance(results, folder / "head_importance.png", context.caption(caption))
    return results


def findings(results: dict) -> str:
    """Points lost without the three heads that cost most, and without each layer."""
    worst = {head: results["heads"][head] for head in results["ranking"][:3]}
    rows = []
    for part, entry in (worst | results["layers"]).items():
        lost = [f"{100 * entry[kind]['drop']:.2f}" for kind in KINDS]
        rows.append([short_name(part), *lost, reading(entry) if part in worst else ""])
    return "\n".join([*text_table("points lost without|zero|mean|", rows), harmless(results)])
