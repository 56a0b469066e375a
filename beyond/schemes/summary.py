"""The runs of the study put together: for each protocol and scheme mean and spread over seeds, and two figures."""

import statistics
from pathlib import Path

from beyond.schemes.mechanism import CONDITIONS
from beyond.schemes.runs import VARIANTS
from lab.files import UserError
from lab.tables import aligned
from problem2.analysis.evaluation import KINDS
from problem2.analysis.extrapolation import KEPT, Point, draw_course, draw_grid

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
        "sets": {name: _spread([run["sets"][name] for run in runs]) for name in runs[0]["sets"]},
        "causes": {
            kind: {name: _spread([run["mechanism"][kind][name] for run in runs]) for name in CONDITIONS}
            for kind in (KINDS if runs[0]["mechanism"] else ())
        },
        "proof_holds": [run["proof"]["holds"] for run in runs if run["proof"]],
    }


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
    sd = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "sd": sd, "min": min(values), "max": max(values)}


def _spread(reports: list[dict]) -> dict:
    """Numbers of `judge` for several seeds on the same rows."""
    middle = sorted(reports, key=lambda report: report["accuracy"])[len(reports) // 2]
    return _numbers([report["accuracy"] for report in reports]) | {
        "rows": reports[0]["rows"],
        "balanced": statistics.fmean(report["balanced_accuracy"] for report in reports),
        "median_interval_95": middle["interval_95"],
        "sorted": statistics.fmean(report["sorted"]["accuracy"] for report in reports),
        "unsorted": statistics.fmean(report["unsorted"]["accuracy"] for report in reports),
        "collapsed_seeds": sum(report["collapsed"] for report in reports),
    }


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


def draw_curves(summary: dict, folder: Path, trained: tuple[int, int]) -> None:
    """study_course.png, the homework's encodings, and study_PROTOCOL_schemes.png, a small panel for each scheme.

    Mean over seeds, band from the worst seed to the best; a hollow mark where all seeds give a constant answer."""
    for protocol, schemes in summary.items():
        points = {}
        for name, numbers in schemes.items():
            points[name] = {key: point_of(spread, len(numbers["seeds"])) for key, spread in numbers["sets"].items()}
        seeds = max(len(numbers["seeds"]) for numbers in schemes.values())
        caption = (
            f"Mean of {seeds} trained models, bands from the worst to the best.\n"
            "Hollow marks: every model gives the same answer to every row."
        )
        if protocol == "course":
            draw_course(points, folder / "study_course.png", trained, caption, vector=True)
        draw_grid(points, folder / f"study_{protocol}_schemes.png", trained, caption, vector=protocol == "course")


def point_of(spread: dict, seeds: int) -> Point:
    return Point(spread["mean"], spread["min"], spread["max"], spread["collapsed_seeds"] == seeds)
