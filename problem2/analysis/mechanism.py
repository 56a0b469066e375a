"""Why does a scheme fail on longer sequences? Positions or distances it never saw, or attention diluted over more keys?

All three come with length, so length alone cannot tell them apart. Each experiment below changes one at a time, by
wrapping the trained scheme for the length of a forward pass; no weight changes. With training up to 16 tokens:

                        positions and distances as in training     never seen in training
    keys as in training     trained length (16)                    shifted: positions; stretched: distances as well
    many more keys          position interpolation (256)           as it is (256)

Shifting changes no distance, so the relative schemes cannot notice it: their 100% there is an identity, no finding.
Interpolation needs positions between two integers; a table (learned, onehot) rounds them down, so that about 17
neighbours share one row. "clamped" gives every token beyond the trained length the last trained position, which is
what a table that is looked up with a clamped index does.
"""

import contextlib
from pathlib import Path

import matplotlib.pyplot as plt
from torch import Tensor

from lab import figures
from problem2.analysis.context import Context, table
from problem2.analysis.extrapolation import KINDS, judge, margins
from problem2.dataset import Rows, load_test_set
from problem2.model import SortingClassifier
from problem2.positional_encoding import PositionScheme

FACTOR = 16  # causes are told apart at this many times the longest sequence of training
SHIFT = 528  # beyond every position of training; a multiple of 64 would give onehot its own codes again
CAPTION = (  # of figures
    "Mean accuracy on sorted and on unsorted rows, {rows} rows a cell.\n"
    "Constant: the same answer to every row. Left of the line as many tokens as in training."
)


class Changed(PositionScheme):
    """A trained scheme with one thing changed; this one changes nothing. trained: its longest sequence."""

    def __init__(self, inner: PositionScheme, trained: int = 16):
        super().__init__(inner.d_model, inner.max_len, inner.num_heads)
        self.inner, self.trained = inner, trained

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        return self.inner.positions(lengths, width)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return self.inner(x, positions)

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        return self.inner.rotate(heads, positions)

    def bias(self, positions: Tensor) -> Tensor | None:
        return self.inner.bias(positions)

    def visible(self, width: int, device=None) -> Tensor | None:
        return self.inner.visible(width, device)


class Stretched(Changed):
    """Sixteen times farther apart: positions (but the first) and distances that training did not have."""

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        return super().positions(lengths, width) * FACTOR


class Shifted(Changed):
    """As far apart as ever, but far from the start: positions never seen, distances as in training."""

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        return super().positions(lengths, width) + SHIFT


class PositionInterpolation(Changed):
    """A long sequence at fractions between the positions of training: many keys, no position beyond training's."""

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        positions = super().positions(lengths, width)
        return positions * ((self.trained - 1) / positions.amax(-1, keepdim=True))


class Clamped(Changed):
    """Every token beyond the trained length at the last position of training."""

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        return super().positions(lengths, width).clamp(max=self.trained - 1)


CONDITIONS = {  # name -> (length as a multiple of training's longest, the change, its label in figures)
    "trained length": (1, Changed, "{short} tokens"),
    "shifted": (1, Shifted, "{short} tokens,\npositions + {shift}"),
    "stretched": (1, Stretched, "{short} tokens,\npositions × {factor}"),
    "as it is": (FACTOR, Changed, "{long} tokens"),
    "position interpolation": (FACTOR, PositionInterpolation, "{long} tokens\nin 0 … {last}"),
    "clamped": (FACTOR, Clamped, "{long} tokens,\nfrom {short} on at {last}"),
}


@contextlib.contextmanager
def changed(model: SortingClassifier, change: type[Changed], trained: int = 16):
    """The model with `change` around its scheme, and as before when the block ends."""
    inner = model.scheme
    model.scheme = change(inner, trained).train(inner.training)
    try:
        yield model
    finally:
        model.scheme = inner


def causes(model: SortingClassifier, sets: dict[int, Rows], batch_size: int = 512) -> dict[str, dict]:
    """{condition: numbers of `judge`}; `sets` by length, from the longest of training to FACTOR times as long."""
    report, trained = {}, min(sets)
    for name, (multiple, change, _) in CONDITIONS.items():
        rows = sets[trained * multiple]
        with changed(model, change, trained):
            margin = margins(model, rows.sequences, batch_size)
        report[name] = judge(margin, rows.labels)
    return report


def test_sets(data_dir: Path, trained: int) -> dict[str, dict[int, Rows]]:
    """The test sets that the experiments use, by kind and length."""
    lengths = (trained, FACTOR * trained)
    return {kind: {length: load_test_set(data_dir, kind, length) for length in lengths} for kind in KINDS}


def measure(model: SortingClassifier, sets: dict[str, dict[int, Rows]], batch_size: int = 512) -> dict:
    """The experiments on one model, on the sets of `test_sets`: {kind: {condition: numbers of `judge`}}"""
    return {kind: causes(model, by_length, batch_size) for kind, by_length in sets.items()}


def draw(panels: dict[str, dict], path: Path, trained: int, caption: str) -> None:
    """{title: {scheme: {condition: (balanced accuracy, whether collapsed)}}} -> a grid for each, one row a scheme."""
    words = {"short": trained, "long": FACTOR * trained, "last": trained - 1, "factor": FACTOR, "shift": SHIFT}
    labels = [label.format(**words) for _, _, label in CONDITIONS.values()]
    sizes = [3 + len(cells) for cells in panels.values()]  # in lines of text
    figure, grid = plt.subplots(
        len(panels), 1, figsize=(6.3, 0.4 + 0.24 * sum(sizes)), squeeze=False, height_ratios=sizes
    )
    for (title, cells), axes in zip(panels.items(), grid[:, 0], strict=True):
        values = [[cells[name][condition][0] for condition in CONDITIONS] for name in cells]
        texts = [
            ["constant" if cells[name][c][1] else f"{cells[name][c][0]:.0%}" for c in CONDITIONS] for name in cells
        ]
        figures.heatmap(axes, values, list(cells), labels, numbers=texts, scale=(0.5, 1.0))
        axes.set_aspect("auto")
        axes.set_title(title, loc="left")
        axes.xaxis.tick_top()
        axes.tick_params(labelsize=7.5)
        axes.axvline(2.5, color="black", linewidth=1.5)
    figures.save(figure, path, caption)


def run(context: Context) -> None:
    longest = context.trained[1]
    sets = test_sets(context.data_dir, longest)
    report = {name: measure(model, sets, context.batch_size) for name, model in context.models.items()}
    context.write("mechanism.json", {"trained_lengths": list(context.trained), "schemes": report})
    panels = {
        words: {
            name: {c: (n["balanced_accuracy"], n["collapsed"]) for c, n in numbers[kind].items()}
            for name, numbers in report.items()
        }
        for kind, words in KINDS.items()
    }
    rows = min(len(rows) for by_length in sets.values() for rows in by_length.values())
    draw(panels, context.folder / "causes.png", longest, CAPTION.format(rows=rows))
    lines = [["accuracy, mean of both classes", *CONDITIONS]]
    for name, numbers in report.items():
        cells = numbers["extrapolation"].values()
        lines.append([name, *("constant" if c["collapsed"] else f"{c['balanced_accuracy']:.0%}" for c in cells)])
    context.show(table(lines), "mechanism.json", "causes.png")
