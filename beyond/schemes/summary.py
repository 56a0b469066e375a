"""The runs of the study put together: for each protocol and scheme mean and spread over seeds, and two figures."""

import statistics
from pathlib import Path

from beyond.schemes.mechanism import CONDITIONS
from beyond.schemes.runs import VARIANTS
from lab.files import UserError
from lab.tables import aligned
from problem2.analysis.evaluation import KINDS
from problem2.analysis.extrapolation import Point, draw_course, draw_grid

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
        count, cells = len(numbers["seeds"]), [numbers["sets"].get(name) for name in names]
        marks = ["*" if cell and cell["collapsed_seeds"] == count else " " for cell in cells]
        means = [f"{cell['mean']:.1%}{mark}" if cell else "- " for cell, mark in zip(cells, marks, strict=True)]
        rows.append([scheme, str(count), *means])
    return "\n".join(aligned(rows, right=True))


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
