"""How accurate is a model at lengths it was not trained on?"""

import math
from pathlib import Path

import matplotlib.pyplot as plt

from lab import figures
from lab.files import write_json
from problem2.analysis.context import Context, table
from problem2.analysis.evaluation import KINDS, measure

COURSE = ("sinusoidal", "learned", "none")  # the encodings of the homework
KEPT = 0.99  # accuracy of a scheme that works at a length
CAPTION = (
    "Hollow marks: the same answer to every row, so that the accuracy is only that class's share. Bands: 95% intervals."
)

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


def draw_line(axes, sets: dict, kind: str, trained: tuple[int, int], shift: float = 1.0, **style):
    """Accuracy by length with its interval; a hollow mark where the answer is constant. Returns lengths and shares."""
    found = sets_by_length(sets, kind, trained)
    shares, low, high, collapsed = zip(*(sets[key] for key in found.values()), strict=True)
    lengths = [length * shift for length in found]  # lines that coincide stand side by side
    axes.fill_between(lengths, low, high, alpha=0.15, linewidth=0, color=style["color"])
    axes.plot(lengths, shares, **style)
    for length, share, constant in zip(lengths, shares, collapsed, strict=True):
        axes.plot(length, share, style["marker"], color=style["color"], markerfacecolor="white" if constant else None)
    return lengths, shares


def draw_course(points: Points, path: Path, trained: tuple[int, int], caption: str, vector: bool = False) -> None:
    """The three encodings of the course (where there are none of them, any three), each line with its name."""
    figure, axes = plt.subplots(figsize=(figures.WIDTH, 2.6))
    names, ends = ([name for name in COURSE if name in points] or [*points])[:3], []
    for number, name in enumerate(names):
        style = {"color": figures.COLOURS[(0, 6, 2)[number]], "marker": figures.MARKS[number]}
        lengths, shares = draw_line(axes, points[name], "extrapolation", trained, shift=1.04 ** (number - 1), **style)
        ends.append((shares[-1], name, style["color"]))
    length_axis(axes, sets_by_length(points[name], "extrapolation", trained), trained)
    ends.sort()
    for height, (_, name, colour) in zip(spread([share for share, *_ in ends]), ends, strict=True):
        axes.annotate(name, (lengths[-1], height), (14, 0), textcoords="offset points", va="center", color=colour)
    axes.axhline(0.5, color="#999999", linewidth=1, zorder=1)
    axes.text(trained[0], 0.51, "chance", color="#777777", fontsize=8)
    axes.set(ylim=(0.4, 1.03), ylabel="accuracy", xlabel=f"length (shaded: {trained[0]} to {trained[1]}, trained)")
    constant = {
        name: first for name in names if (first := constant_from(points[name])) and points[name]["test"][0] > 0.9
    }
    words = ", ".join(f"{name} from length {first} on" for name, first in constant.items())
    figure.suptitle(f"One constant answer: {words}" if words else "Accuracy beyond the trained lengths")
    figures.save(figure, path, caption, vector)


def constant_from(sets: dict) -> int | None:
    """The length from which on every answer is constant."""
    constant = {int(key.split("/")[1]): point[3] for key, point in sets.items() if key.startswith("extrapolation/")}
    return min((first for first in constant if all(constant[n] for n in constant if n >= first)), default=None)


def spread(heights: list[float], gap: float = 0.045) -> list[float]:
    """Ascending heights moved apart, so that labels at them do not overlap."""
    moved = heights[:1]
    for height in heights[1:]:
        moved.append(max(height, moved[-1] + gap))
    shift = (moved[-1] - heights[-1]) / 2
    return [height - shift for height in moved]


def keeps(sets: dict, kind: str, trained: tuple[int, int]) -> bool:
    """Whether a scheme works at all lengths."""
    return all(sets[key][0] >= KEPT for key in sets_by_length(sets, kind, trained).values())


def draw_grid(points: Points, path: Path, trained: tuple[int, int], caption: str, vector: bool = False) -> None:
    """A small panel for each scheme, with both kinds of negatives."""
    columns = 4
    lines = math.ceil(len(points) / columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(figures.WIDTH, 0.75 + 1.15 * lines), squeeze=False, sharex=True, sharey=True
    )
    for axes in grid.flat[len(points) :]:
        axes.set_axis_off()
    for (name, sets), axes in zip(points.items(), grid.flat, strict=False):
        ticks = set()
        for number, (kind, words) in enumerate(KINDS.items()):
            style = {"color": figures.COLOURS[(0, 6)[number]], "marker": figures.MARKS[number], "markersize": 4}
            lengths, _ = draw_line(axes, sets, kind, trained, label=words, **style)
            ticks |= {*lengths}
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


# --- findings --------------------------------------------------------------------------------------------------


def as_table(details: dict, lengths) -> str:
    """Each scheme's accuracy in range and by length, and that of sorted and unsorted rows; * where it has collapsed."""
    sets = {"test": "test"} | {f"length {length}": f"extrapolation/{length}" for length in lengths}
    rows = [["scheme", *sets]]
    for name, report in details.items():
        cells = []
        for numbers in (report["sets"][key] for key in sets.values()):
            classes = f"{numbers['sorted']['accuracy']:.0%}/{numbers['unsorted']['accuracy']:.0%}"
            cells.append(f"{numbers['accuracy']:.1%} ({classes}){'*' if numbers['collapsed'] else ' '}")
        rows.append([name, *cells])
    return table(rows) + "\n  accuracy (sorted/unsorted rows); * collapsed: one class for every sequence"


def run(context: Context) -> None:
    details = {name: {"sets": measure(margins, context.sets)} for name, margins in context.margins.items()}
    context.write("extrapolation_details.json", {"trained_lengths": list(context.trained), "schemes": details})
    course_form = {
        name: {str(n): report["sets"][f"extrapolation/{n}"]["accuracy"] for n in context.lengths}
        for name, report in details.items()
    }
    write_json(context.folder / "extrapolation_results.json", course_form)
    points = {
        name: {key: (n["accuracy"], *n["interval_95"], n["collapsed"]) for key, n in report["sets"].items()}
        for name, report in details.items()
    }
    draw_course(points, context.folder / "extrapolation_curves.png", context.trained, CAPTION)
    draw_grid(points, context.folder / "extrapolation_schemes.png", context.trained, CAPTION)
    names = ("results.json", "details.json", "curves.png", "schemes.png")
    context.show(as_table(details, context.lengths), *(f"extrapolation_{name}" for name in names))
