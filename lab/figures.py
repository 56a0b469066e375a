"""One style for all figures: drawn at the width they are printed at, text of 7 points and more, atomic saving.

A figure is WIDTH inches wide at most (the report's column), so that its text is as large in print as it says here.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from PIL import Image

from lab.files import write_bytes
from lab.tables import percent

# Okabe & Ito (2008), which the colour-blind can distinguish; in this order also by their lightness.
COLOURS = ["#0072B2", "#E69F00", "#000000", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442"]
MARKS = ["o", "s", "^"]
SHARES = "Blues"  # 0 is white, 1 is dark: the same order in grey
DIFFERENCES = "RdBu_r"  # for signed values, always symmetric about 0
WIDTH = 6.3  # inches
HALF = 3.1  # of a figure that shares its line with another

plt.rcParams.update(
    {
        "figure.dpi": 100,
        "savefig.dpi": 150,
        "figure.constrained_layout.use": True,
        "figure.titlesize": 9,
        "figure.titleweight": "bold",
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 8,
        "xtick.labelsize": 7.5,
        "ytick.labelsize": 7.5,
        "legend.fontsize": 7.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "lines.linewidth": 1.5,
        "lines.markersize": 4,
        "pdf.fonttype": 42,
    }
)


def save(figure, path: Path, caption: str | None = None, vector: bool = False) -> None:
    """Write the figure as PNG, whole or not at all, and close it; the caption stands below the picture.

    vector: also as PDF, without the caption, for the report, which has captions of its own.
    """
    if vector:
        drawing = io.BytesIO()
        figure.savefig(drawing, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
        write_bytes(path.with_suffix(".pdf"), drawing.getvalue())
    if caption:
        figure.supxlabel(caption, fontsize=7, color="#444444", wrap=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    plt.close(figure)
    write_bytes(path, in_few_colours(buffer.getvalue()))


def in_few_colours(png: bytes) -> bytes:
    """The same picture with at most 256 colours: a third of the bytes, and no eye sees it."""
    small = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(small, format="png", optimize=True)
    return small.getvalue()


def heatmap(
    axes: Axes,
    values,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: Sequence[Sequence[str]] | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
    colours: str = SHARES,
):
    """Cells with their symbols on the axes: values [rows, columns]. Returns the mesh, for one shared colour bar.

    numbers: a table of texts, written into the cells.
    """
    style = {"cmap": colours, "vmin": scale[0], "vmax": scale[1], "edgecolors": "face", "linewidth": 0.2}
    edges = [[number - 0.5 for number in range(count + 1)] for count in (len(columns), len(rows))]
    image = axes.pcolormesh(*edges, values, **style)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for r, line in enumerate(numbers or []):
        for c, text in enumerate(line):
            red, green, blue, _ = image.cmap(image.norm(float(values[r][c])))
            ink = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else "black"
            axes.text(c, r, text, ha="center", va="center", fontsize=7, color=ink)
    return image


def draw_training_curves(log: dict, path: Path, measure: str = "accuracy") -> None:
    """Loss (logarithmic) and accuracy by epoch, from a training_log.json. measure: what accuracy is called here."""
    epochs = range(1, len(log["train_loss"]) + 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 2.6))
    for number, (name, label) in enumerate((("train", "training rows"), ("val", "validation rows"))):
        style = {"color": COLOURS[number], "linestyle": ("-", "--")[number], "label": label}
        left.plot(epochs, log[f"{name}_loss"], **style)
        right.plot(epochs, log[f"{name}_acc"], **style)
    left.set(xlabel="epoch", ylabel="loss (cross-entropy)", yscale="log")
    right.set(xlabel="epoch", ylabel=measure, ylim=(-0.02, 1.02))
    left.legend(loc="lower left")  # where a loss never is
    for axes in (left, right):
        axes.axvline(log["best_epoch"], color="#999999", linewidth=1)
        axes.xaxis.get_major_locator().set_params(integer=True)
    best = percent(log["val_acc"][log["best_epoch"] - 1])
    title = f"{best} of the validation rows are right at best"
    if log.get("first_perfect_epoch"):
        title = f"All validation rows are right for the first time after epoch {log['first_perfect_epoch']}"
    figure.suptitle(title)
    caption = f"Grey: epoch {log['best_epoch']}, whose weights are kept; test {measure}: {percent(log['test_acc'])}."
    caption += " Training rows are scored during an epoch, while the weights change, validation rows after it"
    if log["config"].get("ema_decay"):
        caption += ", with the moving average (EMA) of the weights"
    save(figure, path, caption + ".")
