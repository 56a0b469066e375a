"""Many runs summed up: for each protocol and scheme the mean and the spread over training seeds."""

import statistics

from problem2.analysis.mechanism import CONDITIONS
from problem2.positional_encoding import SCHEMES


def sum_up(runs: list[dict]) -> dict:
    """{protocol: {scheme: {"seeds", "training", "sets": {set: spread}, "causes": {kind: {condition: spread}}, …}}}"""
    summary = {}
    for run in runs:
        summary.setdefault(run["protocol"], {}).setdefault(run["encoding"], []).append(run)
    order = [*SCHEMES]
    rank = {
        name: order.index(name) if name in order else len(order) for schemes in summary.values() for name in schemes
    }
    return {
        protocol: {name: _one_scheme(schemes[name]) for name in sorted(schemes, key=rank.__getitem__)}
        for protocol, schemes in sorted(summary.items())
    }


def _one_scheme(runs: list[dict]) -> dict:
    runs = sorted(runs, key=lambda run: run["seed"])
    common = [name for name in runs[0]["sets"] if all(name in run["sets"] for run in runs)]
    sets = {name: _spread([run["sets"][name] for run in runs]) for name in common}
    causes = {
        kind: {name: _spread([run["mechanism"]["causes"][kind][name] for run in runs]) for name in CONDITIONS}
        for kind in ("extrapolation", "adjacent")
    }
    near = [run["mechanism"]["neighbour_attention"] for run in runs]
    shares = [[one["best"]["shares"][place] for one in near] for place in range(len(near[0]["lengths"]))]
    return {
        "seeds": [run["seed"] for run in runs],
        "training": {name: _numbers([run["training"][name] for run in runs]) for name in runs[0]["training"]},
        "sets": sets,
        "causes": causes,
        "neighbour_attention": {"lengths": near[0]["lengths"], "best_head": [_numbers(share) for share in shares]},
        "proof_holds": [run["proof"]["holds"] for run in runs if run["proof"]],
    }


def _numbers(values: list[float]) -> dict:
    sd = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "sd": sd, "min": min(values), "max": max(values)}


def _spread(reports: list[dict]) -> dict:
    """Numbers of `judge` for several seeds on the same rows. The interval is that of the middle seed."""
    middle = sorted(reports, key=lambda report: report["accuracy"])[len(reports) // 2]
    return _numbers([report["accuracy"] for report in reports]) | {
        "rows": reports[0]["rows"],
        "median_interval": middle["interval"],
        "sorted": statistics.fmean(report["sorted"]["accuracy"] for report in reports),
        "unsorted": statistics.fmean(report["unsorted"]["accuracy"] for report in reports),
        "collapsed_seeds": sum(report["collapsed"] for report in reports),
        "margin_gap": statistics.fmean(
            report["sorted"]["margin_mean"] - report["unsorted"]["margin_mean"] for report in reports
        ),
    }
