"""The population at a glance, and how it came to be."""

from pathlib import Path

import numpy as np

from beyond.population.sources import CASES, SOURCES
from beyond.population.summary import LOOK_AHEAD, Row, effect, group, handed_on, looks_ahead
from lab.figures import COLOURS, WIDTH, plt, save

COLOUR = dict(zip(SOURCES, ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#999999", "#CC79A7"), strict=True))
BLOCKS = {"seed": "{} seeds of the recipe", "plain": "{} on rows\nequally often", "grid": "{} of\nthe grid"}
GAP = 3  # bars' widths between blocks


def draw_population(rows: list[Row], path: Path) -> None:
    """A thin bar is a model; a row is a case; colours are the sources of the carry."""
    blocks = {name: sorted(group(rows, name), key=order) for name in BLOCKS}
    blocks = {name: members for name, members in blocks.items() if members}
    seeds = blocks.get("seed", [])
    figure, panels = plt.subplots(len(CASES), 1, figsize=(WIDTH, 3.9), sharex=True)
    for axes, case in zip(panels, CASES, strict=True):
        start = 0
        for name, members in blocks.items():
            place = start + np.arange(len(members))
            bottom = np.zeros(len(members))
            for source in SOURCES:
                height = np.array([max(0.0, effect(row, case.name, source)) for row in members])
                axes.bar(place, height, width=1.0, bottom=bottom, color=COLOUR[source], linewidth=0)
                bottom += height
            if axes is panels[0]:
                label = BLOCKS[name].format(len(members))
                axes.text(start + len(members) / 2 - 0.5, 1.12, label, ha="center", va="bottom", fontsize=7.5)
            start += len(members) + GAP
        axes.set(ylim=(0, 1.05), xlim=(-1, start - GAP), yticks=[], xticks=[])
        axes.grid(False)
        axes.spines["left"].set_visible(False)
        axes.set_ylabel(
            case.name.replace(" through", "\nthrough").replace(" if", "\nif"), rotation=0, ha="right", va="center"
        )
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOUR[source]) for source in SOURCES]
    legend = dict(
        loc="upper center", bbox_to_anchor=(0.45, -0.1), ncols=len(SOURCES), handlelength=1, columnspacing=1.2
    )
    panels[-1].legend(handles, SOURCES, **legend)
    ahead = sum(map(looks_ahead, seeds))
    figure.suptitle(f"Same recipe, several algorithms: {ahead} of {len(seeds)} models look ahead")
    save(
        figure,
        path,
        "A thin bar is a model, a row a case; colours: who hands the carry on.\n"
        "Grid: 4 initial weights × 4 orders of rows, without the 4 that are seeds.",
        vector=True,
    )


def order(row: Row) -> tuple:
    """Bars are sorted by algorithm: what is handed on first, then what is read off the digit written."""
    return round(handed_on(row), 1), effect(row, "hundreds if 9", "written")


def draw_training(epochs: list[Row], path: Path) -> None:
    """Exact match on the validation rows, and the least effect of what is looked up, epoch by epoch."""
    models: dict[str, list[Row]] = {}
    for row in epochs:
        models.setdefault(row["model"], []).append(row)
    figure, (above, below) = plt.subplots(2, 1, figsize=(0.75 * WIDTH, 3.0), sharex=True)
    for rows in models.values():
        number = [int(row["epoch"]) for row in rows]
        colour = COLOURS[0] if looks_ahead(rows[-1]) else COLOURS[1]
        above.plot(number, [float(row["validation"]) for row in rows], color=colour, linewidth=0.9)
        least = [min(effect(row, case, "looked up") for case in LOOK_AHEAD) for row in rows]
        below.plot(number, least, color=colour, linewidth=0.9)
    above.set(ylabel="exact match", ylim=(-0.03, 1.03))
    below.set(ylabel="looked up,\nleast of five cases", xlabel="epoch", ylim=(-0.3, 1.05))
    ahead = sum(looks_ahead(rows[-1]) for rows in models.values())
    figure.suptitle(f"Where the carry comes from, by epoch ({len(models)} seeds)")
    save(
        figure,
        path,
        f"Blue: the {ahead} seeds that end as look-ahead adders; orange: the {len(models) - ahead} others.",
        vector=True,
    )
