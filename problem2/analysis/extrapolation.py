"""How accurate is a model at lengths it was not trained on, class by class, and with what margins?

A share of correct answers alone deceives here: a model that says "not sorted" to everything is right on 54.6% of
the course's rows of length 32. So every number comes with both classes, and such a model is called collapsed.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab import figures
from lab.files import write_json
from lab.statistics import wilson
from problem2.analysis.context import Context, table
from problem2.dataset import Rows, load_test_set
from problem2.generate_data import TEST_ROWS
from problem2.model import SortingClassifier
from problem2.positional_encoding import SCHEMES

KINDS = {"extrapolation": "the course's negatives (L/3 swaps)", "adjacent": "one swap of two neighbours"}
COLLAPSED_AT = 0.99  # of all predictions the same
SCORES_AT_ONCE = 2**18  # attention scores of a batch, for each head: bounds memory at great lengths


@torch.no_grad()
def margins(model: SortingClassifier, sequences: Tensor, batch_size: int = 512) -> Tensor:
    """[N, T] -> [N] logit of "sorted" minus logit of "not sorted", on the CPU."""
    device = next(model.parameters()).device
    rows_at_once = max(1, min(batch_size, SCORES_AT_ONCE // sequences.shape[1] ** 2))
    logits = torch.cat([model(part.to(device)).cpu() for part in sequences.split(rows_at_once)])
    return (logits[:, 1] - logits[:, 0]).double()


def judge(margin: Tensor, labels: Tensor) -> dict:
    """Numbers of one model on one test set, from its margins [N] and the labels [N]."""
    predicted_sorted = margin > 0
    correct = predicted_sorted == labels.bool()
    share = predicted_sorted.double().mean().item()
    report = {"rows": len(labels), "accuracy": correct.double().mean().item()}
    report["interval_95"] = list(wilson(int(correct.sum()), len(correct)))
    for name, chosen in (("sorted", labels == 1), ("unsorted", labels == 0)):
        count, hits = int(chosen.sum()), int(correct[chosen].sum())
        report[name] = {
            "rows": count,
            "accuracy": hits / max(1, count),
            "interval_95": list(wilson(hits, count)),
            "margin_mean": margin[chosen].mean().item() if count else 0.0,
            "margin_sd": margin[chosen].std(correction=0).item() if count else 0.0,
        }
    report["predicted_sorted"] = share
    both = 0 < int(labels.sum()) < len(labels)
    report["collapsed"] = both and (share >= COLLAPSED_AT or share <= 1 - COLLAPSED_AT)
    return report


def measure(model: SortingClassifier, sets: dict[str, Rows], batch_size: int = 512) -> dict[str, dict]:
    """{"extrapolation/64": rows, …} -> {"extrapolation/64": numbers, …}"""
    return {name: judge(margins(model, rows.sequences, batch_size), rows.labels) for name, rows in sets.items()}


def rows_used(length: int) -> int:
    """How many rows of a test set are used by default: all of them up to length 256, then fewer."""
    return TEST_ROWS if length <= 256 else max(50, 100 * 1024 // length)


def test_sets(data_dir: Path, lengths, rows: dict[str, Rows], limit: int | None = None) -> dict[str, Rows]:
    """The in-range test rows, and both kinds of longer sets, each of at most `limit` rows (None: see rows_used)."""
    sets, longest = {"test": rows["test"]}, rows["train"].length_range()[1]
    for kind, wanted in (("extrapolation", lengths), ("adjacent", [longest, *lengths])):
        for length in dict.fromkeys(wanted):
            whole = load_test_set(data_dir, kind, length)
            sets[f"{kind}/{length}"] = whole.part(slice(limit or rows_used(length)))
    return sets


# --- figures ---------------------------------------------------------------------------------------------------


def style(name: str) -> dict:
    """One colour, line and mark for each scheme, the same in every figure."""
    number = list(SCHEMES).index(name)
    extra = number // len(figures.COLOURS)  # schemes beyond the ninth look like a relative, but hollow
    number = {0: number, 1: 1 if name == "randomized_learned" else 4}[extra]
    return {
        "color": figures.COLOURS[number],
        "linestyle": figures.LINES[number],
        "marker": figures.MARKS[number],
        "markerfacecolor": "white" if extra else figures.COLOURS[number],
    }


def sets_by_length(sets, kind: str, trained: tuple[int, int]) -> dict[float, str]:
    """{length: name of the set} of one kind; the in-range test set stands at the middle of its lengths."""
    found = {float(name.split("/")[1]): name for name in sets if name.startswith(kind)}
    if kind == "extrapolation":
        found[sum(trained) / 2] = "test"
    return dict(sorted(found.items()))


def length_axis(axes, lengths, trained: tuple[int, int]) -> None:
    """A logarithmic axis with a tick at each of `lengths`, the in-range test set's as "8–16"."""
    inside, low, high = sum(trained) / 2, *trained
    ticks = sorted(lengths)
    axes.set(xscale="log", xlabel=f"length of the sequence (trained: {low} to {high})")
    axes.set_xticks(ticks, [f"{low}–{high}" if tick == inside else f"{tick:.0f}" for tick in ticks])
    axes.minorticks_off()


Points = dict[str, dict[str, tuple[float, float, float, bool]]]  # scheme -> set -> share, low, high, collapsed


def draw_panel(axes, points: Points, kind: str, title: str, trained: tuple[int, int]) -> None:
    """Accuracy by length for one kind of negatives; a grey cross where a scheme has collapsed to one class."""
    ticks = set()
    for name, sets in points.items():
        found = sets_by_length(sets, kind, trained)
        share, low, high, collapsed = zip(*(sets[key] for key in found.values()), strict=True)
        axes.plot([*found], share, **style(name), label=f"{name} ({share[-1]:.0%})")
        axes.fill_between([*found], low, high, alpha=0.12, color=style(name)["color"], linewidth=0)
        crosses = [(length, s) for length, s, c in zip(found, share, collapsed, strict=True) if c]
        if crosses:
            axes.scatter(*zip(*crosses, strict=True), marker="x", s=90, color="#555555", zorder=5)
        ticks |= set(found)
    axes.axhline(0.5, color="#999999", linewidth=1)
    length_axis(axes, ticks, trained)
    axes.set(title=title, ylim=(0.4, 1.02), ylabel="accuracy")
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, title=f"(at {max(ticks):.0f})", title_fontsize=8
    )


def draw_curves(panels: dict[str, Points], path: Path, trained: tuple[int, int], caption: str) -> None:
    """{protocol: points} -> a row for each, the course's negatives to the left, mild ones to the right."""
    figure, grid = plt.subplots(len(panels), 2, figsize=(13.5, 4.7 * len(panels)), squeeze=False)
    for (title, points), line in zip(panels.items(), grid, strict=True):
        for (kind, words), axes in zip(KINDS.items(), line, strict=True):
            draw_panel(axes, points, kind, f"{title}, {words}" if title else words, trained)
    figures.save(figure, path, caption)


# --- findings --------------------------------------------------------------------------------------------------


def as_table(details: dict, lengths) -> str:
    """Each scheme's accuracy by length, and that of sorted and unsorted rows; * where it has collapsed."""
    rows = [["scheme", *(f"length {length}" for length in lengths)]]
    for name, report in details.items():
        cells = []
        for numbers in (report["sets"][f"extrapolation/{length}"] for length in lengths):
            classes = f"{numbers['sorted']['accuracy']:.0%}/{numbers['unsorted']['accuracy']:.0%}"
            cells.append(f"{numbers['accuracy']:.1%} ({classes}){'*' if numbers['collapsed'] else ' '}")
        rows.append([name, *cells])
    return table(rows) + "\n  accuracy (sorted/unsorted rows); * collapsed: one class for every sequence"


def run(context: Context, sets: dict[str, Rows]) -> dict:
    """Returns {scheme: {"sets": {set: numbers}}}, as in extrapolation_details.json."""
    details, lengths = {}, context.lengths
    for name, model in context.models.items():
        details[name] = {"sets": measure(model, sets, context.batch_size)}
    context.write("extrapolation_details.json", {"trained_lengths": list(context.trained), "schemes": details})
    course_form = {
        name: {str(n): report["sets"][f"extrapolation/{n}"]["accuracy"] for n in lengths}
        for name, report in details.items()
    }
    write_json(context.folder / "extrapolation_results.json", course_form)
    points = {
        name: {key: (n["accuracy"], *n["interval_95"], n["collapsed"]) for key, n in report["sets"].items()}
        for name, report in details.items()
    }
    caption = "Bands: 95% intervals. A grey cross: one class for every sequence, so that the accuracy is its share."
    draw_curves({"": points}, context.folder / "extrapolation_curves.png", context.trained, caption)
    files = ("extrapolation_results.json", "extrapolation_details.json", "extrapolation_curves.png")
    context.show(as_table(details, lengths), *files)
    return details
