"""How accurate is a model at lengths it was not trained on?

Every trained model on every test set. extrapolation_details.json has, of each scheme, both classes of each set for
the model of results/SCHEME, and mean and range over all its seeds: grader, page, README and report read it.
extrapolation_results.json has the accuracies alone, in the course's form.
"""

import math
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt

from lab import figures
from lab.files import write_json
from lab.tables import aligned
from problem2.analysis.context import Context
from problem2.analysis.evaluation import KINDS, measure, over_seeds

QUESTION = "How accurate is each at lengths it was not trained on?"
NEEDS = ()  # schemes without which this is no question
RESULTS = "extrapolation_results.json"
DETAILS = "extrapolation_details.json"
FILES = (RESULTS, DETAILS, "extrapolation_schemes.png")
KEPT = 0.99  # accuracy of a scheme that works at a length
CAPTION = (
    "Hollow marks: the same answer to every row, so that the accuracy is only that class's share. Bands: 95% intervals."
)


def run(context: Context) -> dict:
    details = {}
    for name, by_seed in context.trained.items():
        reports = [measure(model, context.sets, context.batch_size) for model in by_seed.values()]
        together = {key: over_seeds([report[key] for report in reports]) for key in context.sets}
        details[name] = {"sets": reports[0], "over_seeds": {"seeds": [*by_seed], "sets": together}}
    results = context.write(DETAILS, {"trained_lengths": list(context.trained_lengths), "schemes": details})
    write_json(context.folder / RESULTS, in_course_form(details))
    points = {}
    for name, report in details.items():
        points[name] = {key: point_of(numbers) for key, numbers in report["sets"].items()}
    draw_grid(points, context.folder / "extrapolation_schemes.png", context.trained_lengths, CAPTION)
    return results


def in_course_form(details: dict) -> dict:
    """{"sinusoidal": {"32": 0.5, …}, …}"""
    form = {}
    for name, report in details.items():
        form[name] = {str(length): report["sets"][key]["accuracy"] for length, key in lengths_in(report["sets"])}
    return form


def lengths_in(sets: dict) -> list[tuple[int, str]]:
    """(32, "extrapolation/32"), … for each longer set of the course's kind, in the order of `sets`"""
    return [(int(key.split("/")[1]), key) for key in sets if key.startswith("extrapolation/")]


def findings(results: dict) -> str:
    """Each scheme's accuracy in range and by length; * where it has collapsed."""
    schemes = results["schemes"]
    columns = {"test": "test"}
    for length, key in lengths_in(next(iter(schemes.values()))["sets"]):
        columns[f"length {length}"] = key
    rows = [["scheme", *columns]]
    for name, report in schemes.items():
        rows.append([name, *(as_cell(report["sets"][key]) for key in columns.values())])
    note = "accuracy; * one class for every sequence: this is the share of that class"
    return "\n".join([*aligned(rows, right=True), note])


def as_cell(numbers: dict) -> str:
    """'95.0% ', with * in place of the space where the model has collapsed"""
    return f"{numbers['accuracy']:.1%}{'*' if numbers['collapsed'] else ' '}"


# --- figures ---------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """One model on one test set, as drawn."""

    accuracy: float
    low: float  # of the interval
    high: float
    collapsed: bool


Points = dict[str, dict[str, Point]]  # scheme -> name of the test set -> point


def point_of(numbers: dict) -> Point:
    low, high = numbers["interval_95"]
    return Point(numbers["accuracy"], low, high, numbers["collapsed"])


def sets_by_length(sets, kind: str, trained: tuple[int, int]) -> dict[float, str]:
    """{length: name of the set} of one kind; the in-range test set stands at the middle of its lengths."""
    by_length = {float(name.split("/")[1]): name for name in sets if name.startswith(kind)}
    if kind == "extrapolation":
        by_length[sum(trained) / 2] = "test"
    return dict(sorted(by_length.items()))


def length_axis(axes, lengths, trained: tuple[int, int]) -> None:
    """A logarithmic axis with a tick at each of `lengths`, the in-range test set's as "8–16"."""
    low, high = trained
    inside = sum(trained) / 2
    ticks = sorted(lengths)
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{low}–{high}" if tick == inside else f"{tick:.0f}" for tick in ticks])
    axes.minorticks_off()
    axes.axvspan(low, high, color="#eeeeee", zorder=0)


def draw_line(axes, sets: dict[str, Point], kind: str, trained: tuple[int, int], **style) -> list[float]:
    """Accuracy by length with its interval; a hollow mark where the answer is constant. Returns the lengths."""
    by_length = sets_by_length(sets, kind, trained)
    points = [sets[name] for name in by_length.values()]
    lengths = [*by_length]
    accuracies = [point.accuracy for point in points]
    low = [point.low for point in points]
    high = [point.high for point in points]
    axes.fill_between(lengths, low, high, alpha=0.15, linewidth=0, color=style["color"])
    axes.plot(lengths, accuracies, **style)
    for length, point in zip(lengths, points, strict=True):
        inside = "white" if point.collapsed else None
        axes.plot(length, point.accuracy, style["marker"], color=style["color"], markerfacecolor=inside)
    return lengths


def keeps(sets: dict[str, Point], kind: str, trained: tuple[int, int]) -> bool:
    """Whether a scheme works at all lengths."""
    return all(sets[name].accuracy >= KEPT for name in sets_by_length(sets, kind, trained).values())


def draw_grid(points: Points, path: Path, trained: tuple[int, int], caption: str, vector: bool = False) -> None:
    """A small panel for each scheme, with both kinds of unsorted rows."""
    columns = 4
    lines = math.ceil(len(points) / columns)
    size = (figures.WIDTH, 0.75 + 1.15 * lines)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(points) :]:
        axes.set_axis_off()
    for (name, sets), axes in zip(points.items(), grid.flat, strict=False):
        ticks = set()
        for number, (kind, words) in enumerate(KINDS.items()):
            style = {"color": figures.COLOURS[(0, 6)[number]], "marker": figures.MARKS[number], "markersize": 4}
            lengths = draw_line(axes, sets, kind, trained, label=words, **style)
            ticks.update(lengths)
        length_axis(axes, ticks - {trained[1]}, trained)
        axes.axhline(0.5, color="#999999", linewidth=1, zorder=1)
        axes.set_title(name, fontsize=9)
        axes.set(ylim=(0.4, 1.05), yticks=(0.5, 0.75, 1.0), yticklabels=("50%", "75%", "100%"))
        axes.tick_params(labelsize=7)
        axes.tick_params(axis="x", rotation=90)
    kept = {kind: sum(keeps(sets, kind, trained) for sets in points.values()) for kind in KINDS}
    title = f"At least {KEPT:.0%} right at all lengths: {kept['extrapolation']} of {len(points)} schemes; "
    title += f"with one swap: {kept['adjacent'] or 'none'}"
    style = {"title": title, "title_fontproperties": {"weight": "bold", "size": 9}, "ncols": 2, "fontsize": 8}
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", **style)
    figures.save(figure, path, caption, vector)
