"""The study in two pictures: accuracy by length, and what breaks each scheme."""

from pathlib import Path

import matplotlib.pyplot as plt

from lab import figures
from problem2.analysis.extrapolation import draw_panel
from problem2.analysis.mechanism import CONDITIONS, draw_condition_grid

TITLES = {
    ("course", "extrapolation"): "course protocol, the course's negatives",
    ("course", "adjacent"): "course protocol, one swap of two neighbours",
    ("strict", "extrapolation"): "strict protocol, the course's negatives",
    ("strict", "adjacent"): "strict protocol, one swap of two neighbours",
}


def draw_curves(summary: dict, path: Path) -> None:
    """One panel for each protocol and kind of negatives: mean over seeds, band from the worst seed to the best."""
    protocols = [protocol for protocol in ("course", "strict") if protocol in summary]
    figure, panels = plt.subplots(len(protocols), 2, figsize=(13, 4.6 * len(protocols)), squeeze=False)
    for protocol, line in zip(protocols, panels, strict=True):
        schemes = {name: its for name, its in summary[protocol].items() if name != "none_causal"}
        for kind, axes in zip(("extrapolation", "adjacent"), line, strict=True):
            points = {
                name: {
                    key: (n["mean"], n["min"], n["max"], n["collapsed_seeds"] == len(its["seeds"]))
                    for key, n in its["sets"].items()
                }
                for name, its in schemes.items()
            }
            draw_panel(axes, points, kind, TITLES[protocol, kind])
    seeds = max(len(its["seeds"]) for schemes in summary.values() for its in schemes.values())
    figures.save(
        figure,
        path,
        f"Mean of up to {seeds} training seeds, bands from the worst to the best; legend: mean at the longest.\n"
        "A grey cross: with every seed the model gives one answer to everything.",
    )


def draw_causes(summary: dict, path: Path) -> None:
    """Mean accuracy over seeds under each condition: the course's negatives under its protocol, mild under strict."""
    shown = [(p, k) for p, k in (("course", "extrapolation"), ("strict", "adjacent")) if p in summary]
    sizes = [2 + len(summary[protocol]) for protocol, _ in shown]  # in lines of text
    figure, panels = plt.subplots(
        len(shown), 1, figsize=(11, 0.8 + 0.44 * sum(sizes)), squeeze=False, height_ratios=sizes
    )
    for (protocol, kind), axes in zip(shown, panels[:, 0], strict=True):
        cells = {
            name: {
                c: (its["causes"][kind][c]["mean"], its["causes"][kind][c]["collapsed_seeds"] == len(its["seeds"]))
                for c in CONDITIONS
            }
            for name, its in summary[protocol].items()
        }
        draw_condition_grid(figure, axes, cells)
        axes.set_ylabel(TITLES[protocol, kind].replace(", ", "\n"))
    figures.save(
        figure, path, "Mean share of right answers over the seeds. × one answer to everything, with every seed."
    )
