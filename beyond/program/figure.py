"""The extracted program as one figure: which column tells which digit what."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from beyond.program.variables import EDGE_VARIABLES, NOTHING
from lab.figures import COLOURS, WIDTH, save

UNKNOWN = "more than a\nvariable tried"
TOP, BOTTOM = 2.6, 0.0
COLUMN, CARRY, WRITTEN = COLOURS[0], COLOURS[6], COLOURS[3]  # the digit's own column, carries, the decoder itself


def draw(results: dict, names: list[str], path: Path) -> None:
    """`names` are those of the digits, most significant first."""
    edges = results["edges"]
    rules = results["program"]
    width = 2.2 * (len(names) - 1)
    figure, axes = plt.subplots(figsize=(WIDTH, 2.8))
    axes.axis("off")
    carrying = sum(edge["variable"] != NOTHING for line in edges for edge in line)
    total = sum(map(len, edges))
    figure.suptitle(f"{carrying} of {total} edges from a column to a digit carry something")

    def at(position: int) -> float:
        return 2.2 * position

    for k, name in enumerate(names[1:], 1):
        box(axes, at(k), TOP, f"{name}\na + b", COLUMN)
    for t, name in enumerate(names):
        box(axes, at(t), BOTTOM, f"writes the\n{name}", "#444444")
    for t, line in enumerate(edges):
        for k, edge in enumerate(line):
            if edge["variable"] != NOTHING:
                variable = EDGE_VARIABLES.get(edge["variable"])  # none where no variable suffices
                own = k == t - 1
                colour = COLUMN if own else CARRY
                start, end = (at(k + 1) - 0.12 * (k + 1 - t), TOP - 0.3), (at(t) + 0.18 * (k + 1 - t), BOTTOM + 0.3)
                text = f"{variable.short}\n{edge['values']} values" if variable else UNKNOWN
                arrow(axes, start, end, colour, text, 0.87 if own else (0.52, 0.3, 0.36)[k - t], side=own)
    bottom, top = BOTTOM - 0.33, TOP + 0.33
    with_carry = [name for name, variable in EDGE_VARIABLES.items() if variable.carry]
    for k in sorted({k for line in edges for k, edge in enumerate(line) if edge["variable"] in with_carry}):
        if k + 1 < len(edges[0]):  # some digit reads there what came from the columns below
            top = TOP + 0.62
            ends = (at(k + 2) - 0.57, TOP + 0.1), (at(k + 1) + 0.57, TOP + 0.1)
            arrow(axes, *ends, CARRY, "encoder hands\nthe carry on", 0.5, curve=0.3, lift=0.32)
    for t, line in enumerate(rules):
        passed: dict[int, list[str]] = {}  # what an earlier position of the decoder passes on, and the digit it wrote
        for source in (rule["source"] for rule in line):
            if source["kind"] == "written":
                passed.setdefault(t - 1, []).append("the digit it wrote")
            elif source["kind"] == "columns" and source["seen_by"] != t:
                passed.setdefault(source["seen_by"], []).append("its carry, by\nself-attention")
        for start, texts in passed.items():
            bottom = BOTTOM - 0.75
            ends = (at(start) + 0.57, BOTTOM - 0.12), (at(t) - 0.57, BOTTOM - 0.12)
            text = ";\n".join(dict.fromkeys(texts))
            arrow(axes, *ends, WRITTEN, text, 0.5, curve=0.3, lift=-0.24 - 0.09 * text.count("\n") - 0.06)
    axes.set(xlim=(-0.65, width + 0.65), ylim=(bottom, top))
    save(figure, path, vector=True)


def box(axes, x: float, y: float, text: str, colour: str) -> None:
    shape = FancyBboxPatch((x - 0.55, y - 0.28), 1.1, 0.56, boxstyle="round,pad=0.02", fc="white", ec=colour, lw=1.4)
    axes.add_patch(shape)
    axes.text(x, y, text, ha="center", va="center", fontsize=8)


def arrow(
    axes, start, end, colour: str, text: str, where: float, curve: float = 0.0, lift: float = 0.0, side: bool = False
) -> None:
    """An arrow with its label on it (or at its side), the share `where` of the way from its end."""
    style = f"arc3,rad={curve}"
    axes.add_patch(
        FancyArrowPatch(start, end, connectionstyle=style, arrowstyle="-|>", mutation_scale=11, color=colour, lw=1.4)
    )
    x, y = (e + where * (s - e) for s, e in zip(start, end, strict=True))
    background = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    x += 0.06 * side
    axes.text(
        x, y + lift, text, ha="left" if side else "center", va="center", fontsize=7, color=colour, bbox=background
    )
