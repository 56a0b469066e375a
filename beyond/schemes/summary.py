"""The runs of the study put together: for each protocol and scheme mean and spread over seeds, and the figures."""

import statistics
from pathlib import Path

import matplotlib.pyplot as plt

from beyond.schemes import distances
from beyond.schemes.mechanism import CONDITIONS
from beyond.schemes.runs import VARIANTS
from lab import figures
from lab.files import UserError
from lab.tables import aligned
from problem2.analysis.by_length import WORKS
from problem2.analysis.collapse import OverSeeds
from problem2.analysis.evaluation import KINDS, over_seeds
from problem2.analysis.extrapolation import KEPT, Point, draw_grid

# --- mean and spread over seeds --------------------------------------------------------------------------------


def sum_up(runs: list[dict]) -> dict:
    """{protocol: {scheme: {"seeds", "training", "sets": {set: spread}, "causes": {kind: {condition: spread}}, …}}}"""
    groups = {}
    for run in runs:
        schemes = groups.setdefault(protocol_of(run["settings"]), {})
        schemes.setdefault(run["settings"]["encoding"], []).append(run)
    return {
        protocol: {name: _one_scheme(schemes[name]) for name in sorted(schemes, key=VARIANTS.index)}
        for protocol, schemes in sorted(groups.items())
    }


def protocol_of(settings: dict) -> str:
    return settings["config"].get("protocol", "course")


def _one_scheme(runs: list[dict]) -> dict:
    runs = sorted(runs, key=lambda run: run["settings"]["config"]["seed"])
    _refuse_mixture([run["settings"] for run in runs])
    numbers = [name for name in runs[0]["training"] if name not in ("seed", "data")]
    return {
        "seeds": [run["settings"]["config"]["seed"] for run in runs],
        "training": {name: _numbers([run["training"][name] for run in runs]) for name in numbers},
        "sets": {name: over_seeds([run["sets"][name] for run in runs]) for name in runs[0]["sets"]},
        "causes": {
            kind: {name: over_seeds([run["mechanism"][kind][name] for run in runs]) for name in CONDITIONS}
            for kind in (KINDS if runs[0]["mechanism"] else ())
        },
        "by_length": _by_length([run["by_length"] for run in runs if "by_length" in run]),
        "distances": _distances([run["distances"] for run in runs if run.get("distances")]),
        "proof_holds": [run["proof"]["holds"] for run in runs if run["proof"]],
    }


def _by_length(reports: list[dict]) -> dict | None:
    """Numbers of `by_length.measure` for several seeds: mean and range at each length, and where each seed fails."""
    if not reports:
        return None
    at_each_length = [*zip(*(report["balanced_accuracy"] for report in reports), strict=True)]
    return {
        "lengths": reports[0]["lengths"],
        "mean": [statistics.fmean(values) for values in at_each_length],
        "min": [min(values) for values in at_each_length],
        "max": [max(values) for values in at_each_length],
        "first_failure": [report["first_failure"] for report in reports],
        "constant_from": [report["constant_from"] for report in reports],
    }


def _distances(reports: list[dict]) -> dict:
    """Numbers of `distances.measure` for several seeds: {experiment: {set of rows: numbers over seeds}}"""
    summary = {}
    for experiment, sets in (reports[0] if reports else {}).items():
        summary[experiment] = {}
        for key in sets:
            cells = [report[experiment][key] for report in reports]
            values = [cell["balanced_accuracy"] for cell in cells]
            constant = all(cell["constant"] for cell in cells)
            numbers = OverSeeds(min(values), statistics.fmean(values), max(values), constant)
            summary[experiment][key] = numbers._asdict()
    return summary


def _refuse_mixture(settings: list[dict]) -> None:
    """A mean over seeds is one only if nothing else differs."""
    first = settings[0]
    for other in settings[1:]:
        seed = {"seed": other["config"]["seed"]}
        if first | {"config": first["config"] | seed} != other:
            raise UserError(
                f"{other['encoding']}, {protocol_of(other)} protocol: seeds {first['config']['seed']} and "
                f"{seed['seed']} have different settings: run study.py again with all seeds and the same flags."
            )


def _numbers(values) -> dict:
    return {"mean": statistics.fmean(values), "min": min(values), "max": max(values)}


def as_table(schemes: dict, kind: str) -> str:
    """Mean accuracy of each scheme by length; * where all seeds have collapsed to one class."""
    names = [name for name in next(iter(schemes.values()))["sets"] if name == "test" or name.startswith(kind)]
    rows = [["scheme", "seeds", *(name.removeprefix(f"{kind}/") for name in names)]]
    for scheme, numbers in schemes.items():
        seeds = len(numbers["seeds"])
        cells = []
        for name in names:
            spread = numbers["sets"].get(name)
            if spread is None:
                cells.append("- ")
            else:
                cells.append(f"{spread['mean']:.1%}{'*' if spread['collapsed_seeds'] == seeds else ' '}")
        rows.append([scheme, str(seeds), *cells])
    return "\n".join(aligned(rows, right=True))


def answer(summary: dict) -> str:
    """What the study found, in a line for each protocol: which schemes work at all lengths, with every seed."""
    lines = []
    for protocol, schemes in summary.items():
        lengths = {int(name.split("/")[1]) for numbers in schemes.values() for name in numbers["sets"] if "/" in name}
        of_course = [name for name, numbers in schemes.items() if _works(numbers["sets"], "extrapolation")]
        one_swap = [name for name, numbers in schemes.items() if _works(numbers["sets"], "adjacent")]
        proven = [name for name, numbers in schemes.items() if numbers["proof_holds"] and all(numbers["proof_holds"])]
        lines.append(
            f"- *{protocol}* to length {max(lengths):,}: {_count(of_course, len(schemes))}; where one swap of "
            f"neighbours is all that is wrong, {_count(one_swap, len(schemes))}; "
            f"proven right at every length: {', '.join(proven) or 'none'}."
        )
    return "\n".join(lines)


def _count(names: list[str], of: int) -> str:
    return f"{len(names)} of {of} ({', '.join(names)})" if names else f"none of {of}"


def _works(sets: dict, kind: str) -> bool:
    """Whether the worst seed is right on the trained lengths and at every longer one of this kind."""
    return all(spread["min"] >= KEPT for name, spread in sets.items() if name == "test" or name.startswith(kind))


# --- figures ---------------------------------------------------------------------------------------------------


def draw_all(summary: dict, folder: Path, trained: tuple[int, int]) -> None:
    """study_PROTOCOL_schemes.png, a small panel for each scheme, mean over seeds, band from the worst seed to the best;
    and of the course's protocol where each scheme fails, and what distances do to RoPE and T5."""
    for protocol, schemes in summary.items():
        points = {}
        for name, numbers in schemes.items():
            points[name] = {key: point_of(spread, len(numbers["seeds"])) for key, spread in numbers["sets"].items()}
        seeds = max(len(numbers["seeds"]) for numbers in schemes.values())
        caption = (
            f"Mean of {seeds} trained models, bands from the worst to the best.\n"
            "Hollow marks: every model gives the same answer to every row."
        )
        draw_grid(points, folder / f"study_{protocol}_schemes.png", trained, caption, vector=protocol == "course")
    course = summary.get("course", {})
    if any(numbers["by_length"] for numbers in course.values()):
        draw_failures(course, folder / "study_course_by_length.png", trained)
    found = {}
    for name, numbers in course.items():
        if numbers["distances"]:
            found[name] = {
                experiment: {key: OverSeeds(**cell) for key, cell in sets.items()}
                for experiment, sets in numbers["distances"].items()
            }
    if {"rope", "t5"} <= found.keys():
        distances.draw(found, folder / "study_course_distances.png", len(course["rope"]["seeds"]))


def draw_failures(schemes: dict, path: Path, trained: tuple[int, int]) -> None:
    """The first length at which each seed of each scheme fails, as a dot; at the right edge those that never do."""
    last = next(iter(schemes.values()))["by_length"]["lengths"][-1]
    never = last * 1.35  # where such a dot stands
    places = {}
    for name, numbers in schemes.items():
        places[name] = sorted(first or never for first in numbers["by_length"]["first_failure"])
    names = sorted(places, key=lambda name: statistics.fmean(places[name]))
    figure, axes = plt.subplots(figsize=(figures.WIDTH, 0.9 + 0.19 * len(names)))
    axes.axvspan(*trained, color="#eeeeee", zorder=0)
    for row, name in enumerate(names):
        holds = [place == never for place in places[name]]
        colour = figures.COLOURS[0] if all(holds) else figures.COLOURS[6]
        axes.plot([trained[0], max(places[name])], [row, row], color=colour, linewidth=1, alpha=0.5)
        for number, place in enumerate(places[name]):
            lift = 0.18 * (
                number - places[name].index(place)
            )  # seeds that fail at the same length stand one on another
            axes.plot(
                place, row + lift, "o", color=colour, markersize=4, markerfacecolor="white" if holds[number] else None
            )
    axes.set_xscale("log")
    ticks = [tick for tick in (8, 16, 24, 32, 48, 64, 128, 256) if tick <= last]
    axes.set_xticks([*ticks, never], [*map(str, ticks), f"> {last}"])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"first length below {WORKS:.0%} balanced accuracy (shaded: trained)")
    kept = sum(min(places[name]) == never for name in names)
    figure.suptitle(f"{kept} of {len(names)} schemes never fail up to length {last}")
    caption = (
        "A dot for each seed. Tested: as many sorted as unsorted rows of every length to 64, of 96, 128, 192 and 256."
    )
    figures.save(figure, path, caption, vector=True)


def point_of(spread: dict, seeds: int) -> Point:
    return Point(spread["mean"], spread["min"], spread["max"], spread["collapsed_seeds"] == seeds)
