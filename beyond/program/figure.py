"""What each column tells each digit, as a grid: a row for each digit written, a column for each column read."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from beyond.program.variables import EDGE_VARIABLES, EVERYTHING, NOTHING
from lab.figures import COLOURS, WIDTH, save

OWN, CARRY = COLOURS[5], COLOURS[1]  # the digit's own column, and those that send it a carry


def draw(results: dict, names: list[str], path: Path) -> None:
    """`names` are those of the digits, most significant first."""
    edges = results["edges"]
    figure, axes = plt.subplots(figsize=(0.75 * WIDTH, 2.3))
    axes.axis("off")
    for t, line in enumerate(edges):
        y = len(edges) - 1 - t
        axes.text(-0.06, y + 0.5, f"writes the {names[t]}", ha="right", va="center")
        for k, edge in enumerate(line):
            name = edge["variable"]
            nothing = name == NOTHING
            colour = "white" if nothing else OWN if k == t - 1 else CARRY
            axes.add_patch(Rectangle((k, y), 0.96, 0.92, facecolor=colour, edgecolor="#bbbbbb", alpha=0.55))
            axes.text(k + 0.48, y + 0.46, text(name), ha="center", va="center", color="#777777" if nothing else "black")
    for k, name in enumerate(names[1:]):
        axes.text(k + 0.48, len(edges) + 0.1, f"reads the {name}", ha="center", va="bottom")
    axes.set(xlim=(-0.75, len(edges[0])), ylim=(0, len(edges) + 0.4))
    figure.suptitle("What each column tells each digit")
    save(figure, path, "Blue: the digit's own column. Orange: a carry. —: may come from any sum.", vector=True)


def text(variable: str) -> str:
    if variable == NOTHING:
        return "—"
    if variable == EVERYTHING:
        return "more"
    return EDGE_VARIABLES[variable].short
