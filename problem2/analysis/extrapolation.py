"""How accurate is a model at lengths it was not trained on, class by class, and with what margins?

A share of correct answers alone deceives here: a model that says "not sorted" to everything is right on 54.6% of
the course's rows of length 32. So every number comes with both classes, and such a model is called collapsed.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.lines import Line2D
from torch import Tensor

from lab import figures
from lab.files import write_json
from lab.statistics import wilson
from problem2.analysis.context import Context, table
from problem2.dataset import Rows, load_test_set
from problem2.generate_data import TEST_ROWS
from problem2.model import SortingClassifier

KINDS = {"extrapolation": "the course's negatives (L/3 swaps)", "adjacent": "one swap of two neighbours"}
COURSE = ("sinusoidal", "learned", "none")  # the encodings of the homework
COLLAPSED_AT = 0.99  # of all predictions the same
CAPTION = (
    "Hollow marks: the same answer to every row, so that the accuracy is only that class's share. Bands: 95% intervals."
)
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
    report["balanced_accuracy"] = 0.0  # the mean of both classes' accuracies: 50% for a constant answer
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
    classes = (report["sorted"]["accuracy"] + report["unsorted"]["accuracy"]) / 2
    report["balanced_accuracy"] = classes if both else report["accuracy"]
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
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{low}–{high}" if tick == inside else f"{tick:.0f}" for tick in ticks])
    axes.minorticks_off()
    axes.axvspan(low, high, color="#eeeeee", zorder=0)


Points = dict[str, dict[str, tuple[float, float, float, bool]]]  # scheme -> set -> share, low, high, collapsed


def draw_line(axes, sets: dict, kind: str, trained: tuple[int, int], shift: float = 1.0, **style) -> list:
    """Accuracy by length with its interval; a hollow mark where the answer is constant. Returns the points."""
    found = sets_by_length(sets, kind, trained)
    share, low, high, collapsed = zip(*(sets[key] for key in found.values()), strict=True)
    lengths = [length * shift for length in found]  # lines that coincide stand side by side
    axes.fill_between(lengths, low, high, alpha=0.15, linewidth=0, color=style["color"])
    axes.plot(lengths, share, **style)
    for length, value, constant in zip(lengths, share, collapsed, strict=True):
        axes.plot(length, value, style["marker"], color=style["color"], markerfacecolor="white" if constant else None)
    return list(zip(lengths, share, strict=True))


def draw_course(points: Points, path: Path, trained: tuple[int, int], caption: str) -> None:
    """The three encodings of the course alone, each line with its name at its end."""
    figure, axes = plt.subplots(figsize=(6.3, 3.2))
    ends, names = [], [name for name in COURSE if name in points]
    for number, name in enumerate(names):
        style = {"color": figures.COLOURS[(0, 6, 2)[COURSE.index(name)]], "marker": figures.MARKS[COURSE.index(name)]}
        line = draw_line(axes, points[name], "extrapolation", trained, shift=1.04 ** (number - 1), **style)
        ends.append((line[-1][1], name, style["color"], line[-1][0]))
    length_axis(axes, sets_by_length(points[names[0]], "extrapolation", trained), trained)
    ends.sort()
    last = max(length for *_, length in ends)
    for height, (_, name, colour, _) in zip(spread([end[0] for end in ends]), ends, strict=True):
        axes.annotate(name, (last, height), (14, 0), textcoords="offset points", va="center", color=colour)
    axes.axhline(0.5, color="#999999", linewidth=1, zorder=1)
    axes.text(trained[0], 0.51, "chance", color="#777777", fontsize=8)
    constant = [
        name for name in names if all(points[name][key][3] for key in points[name] if key.startswith("extrapolation/"))
    ]
    title = "Accuracy beyond the trained lengths"
    if constant:
        title = f"Beyond length {trained[1]}, a constant answer from {' and '.join(constant)}"
    axes.set(ylim=(0.4, 1.03), ylabel="accuracy", xlabel=f"length (shaded: {trained[0]} to {trained[1]}, trained)")
    axes.set_title(title, loc="left")
    figures.save(figure, path, caption)


def spread(heights: list[float], gap: float = 0.045) -> list[float]:
    """Ascending heights moved apart, so that labels at them do not overlap."""
    moved = []
    for height in heights:
        moved.append(max(height, moved[-1] + gap) if moved else height)
    shift = (moved[-1] - heights[-1]) / 2 if moved else 0.0
    return [height - shift for height in moved]


def draw_grid(points: Points, path: Path, trained: tuple[int, int], caption: str) -> None:
    """A small panel for each scheme, with both kinds of negatives."""
    columns = 4
    lines = math.ceil(len(points) / columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(6.3, 0.7 + 1.35 * lines), squeeze=False, sharex=True, sharey=True
    )
    for axes in grid.flat[len(points) :]:
        axes.set_axis_off()
    for (name, sets), axes in zip(points.items(), grid.flat, strict=False):
        ticks = set()
        for number, kind in enumerate(KINDS):
            style = {"color": figures.COLOURS[(0, 6)[number]], "marker": figures.MARKS[number], "markersize": 4}
            ticks |= {length for length, _ in draw_line(axes, sets, kind, trained, **style)}
        length_axis(axes, ticks - {trained[1]}, trained)
        axes.axhline(0.5, color="#999999", linewidth=1, zorder=1)
        axes.set_title(name, fontsize=9)
        axes.set(ylim=(0.4, 1.05), yticks=(0.5, 0.75, 1.0), yticklabels=("50%", "75%", "100%"))
        axes.tick_params(labelsize=7)
        axes.tick_params(axis="x", rotation=90)
    handles = [
        Line2D([], [], color=figures.COLOURS[(0, 6)[n]], marker=figures.MARKS[n], label=words, markersize=4)
        for n, words in enumerate(KINDS.values())
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, fontsize=8)
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
    draw_course(points, context.folder / "extrapolation_curves.png", context.trained, CAPTION)
    draw_grid(points, context.folder / "extrapolation_schemes.png", context.trained, CAPTION)
    pictures = ("extrapolation_curves.png", "extrapolation_schemes.png")
    context.show(as_table(details, lengths), "extrapolation_results.json", "extrapolation_details.json", *pictures)
    return details
