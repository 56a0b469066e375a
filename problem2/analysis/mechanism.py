"""Why does a scheme fail on longer sequences? Positions it never saw, or attention diluted over more keys?

Both come with length, so length alone cannot tell them apart. Each experiment below changes one at a time, by
wrapping the trained scheme for the length of a forward pass; no weight changes. With training up to 16 tokens:

                        positions and distances as in training     never seen in training
    keys as in training     trained length (16)                    stretched, shifted (still 16 tokens)
    many more keys          position interpolation (256)           as it is (256)

    log-n scaling     256 tokens, all scores times log 256 / log 16: undoes dilution, leaves positions as they are
    sliding window    256 tokens, each attends up to 15 positions away: no more keys, no distance beyond training's
"""

import contextlib
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab import figures
from lab.hooks import HeadHooks
from problem2.analysis.context import Context, table
from problem2.analysis.extrapolation import KINDS, SCORES_AT_ONCE, judge, length_axis, margins, sets_by_length, style
from problem2.dataset import Rows, load_test_set
from problem2.model import SortingClassifier
from problem2.positional_encoding import PositionScheme

FACTOR = 16  # causes are told apart at this many times the longest sequence of training
SHIFT = 528  # beyond every position of training; onehot repeats its codes every 64, and trains only 16 of them
ROWS = 100  # of each test set


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


class LogNScaling(Changed):
    """All scores times log n / log 16: a head keeps its share on a few keys however many others there are."""

    @property
    def factor(self) -> float:
        return math.log(FACTOR * self.trained) / math.log(self.trained)

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        return super().rotate(heads, positions) * math.sqrt(self.factor)  # queries and keys, so the factor once

    def bias(self, positions: Tensor) -> Tensor | None:
        bias = super().bias(positions)
        return None if bias is None else bias * self.factor


class SlidingWindow(Changed):
    """Each token attends to those less than a trained length away, and to no others."""

    def visible(self, width: int, device=None) -> Tensor:
        index = torch.arange(width, device=device)
        near = ((index[:, None] - index).abs() < self.trained).unsqueeze(0)
        inner = super().visible(width, device)
        return near if inner is None else near & inner


CONDITIONS = {  # name -> (length as a multiple of training's longest, the change, its label in figures)
    "trained length": (1, Changed, "{short} tokens"),
    "stretched": (1, Stretched, "{short} tokens,\npositions × {factor}"),
    "shifted": (1, Shifted, "{short} tokens,\npositions + {shift}"),
    "as it is": (FACTOR, Changed, "{long} tokens"),
    "position interpolation": (FACTOR, PositionInterpolation, "{long} tokens,\npositions interpolated\nin 0 … {last}"),
    "log-n scaling": (FACTOR, LogNScaling, "{long} tokens,\nscores × log n"),
    "sliding window": (FACTOR, SlidingWindow, "{long} tokens,\nwindow of ±{last}"),
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


@torch.no_grad()
def neighbour_attention(model: SortingClassifier, sets: dict[int, Rows], rows: int = 20) -> dict:
    """How much of a head's attention goes to the next token (or to the one before), at each length.

    {"lengths": […], "heads": {"encoder.0.self.head0": {"previous": […], "next": […]}}, "best": {…}}
    Means over the sorted rows of a set and over the positions that have both neighbours. "best" is the head and
    direction with the most at the shortest length: how much is left of that one as the sequence grows.
    """
    lengths = sorted(sets)
    heads = {name: {"previous": [], "next": []} for name in model.head_names()}
    device = next(model.parameters()).device
    for length in lengths:
        sequences = sets[length].sequences[sets[length].labels == 1][:rows].to(device)
        sums = {name: [0.0, 0.0] for name in heads}
        for part in sequences.split(max(1, SCORES_AT_ONCE // length**2)):
            hooks = HeadHooks()
            model(part, hooks=hooks)
            for name in heads:
                pattern = hooks.pattern(name)
                for direction, offset in enumerate((-1, 1)):
                    weights = pattern.diagonal(offset, dim1=-2, dim2=-1)
                    inner = weights[:, :-1] if offset == -1 else weights[:, 1:]  # positions 1 … T-2
                    sums[name][direction] += inner.mean(1).sum().item()
        for name, (previous, following) in sums.items():
            heads[name]["previous"].append(previous / len(sequences))
            heads[name]["next"].append(following / len(sequences))
    head, way = max(((h, w) for h in heads for w in heads[h]), key=lambda choice: heads[choice[0]][choice[1]][0])
    best = {"head": head, "direction": way, "shares": heads[head][way]}
    return {"lengths": lengths, "heads": heads, "best": best}


def test_sets(data_dir: Path, trained: int) -> dict[str, dict[int, Rows]]:
    """The first rows of the test sets that the experiments use, by kind and length."""
    lengths = {"extrapolation": (trained, FACTOR * trained), "adjacent": [trained * 2**n for n in range(5)]}
    return {
        kind: {length: load_test_set(data_dir, kind, length).part(slice(ROWS)) for length in wanted}
        for kind, wanted in lengths.items()
    }


def measure(model: SortingClassifier, sets: dict[str, dict[int, Rows]], batch_size: int = 512) -> dict:
    """Both experiments on one model, on the sets of `test_sets`: what mechanism.json holds for a scheme."""
    return {
        "causes": {kind: causes(model, by_length, batch_size) for kind, by_length in sets.items()},
        "neighbour_attention": neighbour_attention(model, sets["adjacent"]),
    }


def draw_causes(panels: dict[str, dict], path: Path, trained: int, caption: str) -> None:
    """{title: {scheme: {condition: (accuracy, whether collapsed)}}} -> a grid for each, one row a scheme."""
    words = {"short": trained, "long": FACTOR * trained, "last": trained - 1, "factor": FACTOR, "shift": SHIFT}
    labels = [label.format(**words) for _, _, label in CONDITIONS.values()]
    sizes = [2 + len(cells) for cells in panels.values()]  # in lines of text
    figure, grid = plt.subplots(
        len(panels), 1, figsize=(11, 0.8 + 0.44 * sum(sizes)), squeeze=False, height_ratios=sizes
    )
    for (title, cells), axes in zip(panels.items(), grid[:, 0], strict=True):
        values = [[cells[name][condition][0] for condition in CONDITIONS] for name in cells]
        image = figures.heatmap(axes, values, list(cells), labels, numbers=True, scale=(0.5, 1.0))
        axes.set_aspect("auto")
        axes.set_ylabel(title)
        axes.xaxis.tick_top()
        axes.tick_params(axis="x", labelsize=8.5)
        axes.axvline(2.5, color="black", linewidth=1.5)
        cross = {"color": "#D55E00", "fontsize": 13, "weight": "bold", "ha": "center", "va": "center"}
        for row, name in enumerate(cells):
            for column, condition in enumerate(CONDITIONS):
                if cells[name][condition][1]:
                    axes.text(column + 0.36, row, "×", **cross)
        figure.colorbar(image, ax=axes, label="accuracy")
    figures.save(figure, path, caption)


def draw_neighbours(report: dict, details: dict, path: Path, trained: tuple[int, int]) -> None:
    """Left: attention on a neighbour by length. Right: the gap between the classes' mean margins by length."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4))
    ticks = set()
    for name, numbers in report.items():
        near, sets = numbers["neighbour_attention"], details[name]["sets"]
        left.plot(near["lengths"], near["best"]["shares"], **style(name), label=name)
        found = sets_by_length(sets, "extrapolation", trained)
        gaps = [sets[key]["sorted"]["margin_mean"] - sets[key]["unsorted"]["margin_mean"] for key in found.values()]
        right.plot([*found], gaps, **style(name), label=name)
        ticks |= set(found)
    lengths = near["lengths"]
    left.plot(lengths, [1 / n for n in lengths], color="#999999", linewidth=1, label="uniform attention")
    length_axis(left, lengths, trained)
    length_axis(right, ticks, trained)
    left.set(yscale="log", ylabel="attention to one neighbour (best head)")
    right.set(yscale="symlog", ylabel="mean margin, sorted − unsorted rows (logits)")
    right.axhline(0, color="#999999", linewidth=1)
    right.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    caption = (
        "Left: the head that attends most to a neighbour at the shortest length. Right: at 0 the classes look alike."
    )
    figures.save(figure, path, caption)


def run(context: Context, details: dict) -> None:
    """details: from extrapolation.run"""
    longest = context.trained[1]
    sets = test_sets(context.data_dir, longest)
    report = {name: measure(model, sets, context.batch_size) for name, model in context.models.items()}
    context.write("mechanism.json", {"trained_lengths": list(context.trained), "schemes": report})
    panels = {
        words: {
            name: {c: (n["accuracy"], n["collapsed"]) for c, n in numbers["causes"][kind].items()}
            for name, numbers in report.items()
        }
        for kind, words in KINDS.items()
    }
    caption = (
        "Left of the line: as many tokens as in training, at positions it had or had not. Right: 16 times as many.\n"
        "× one class for every sequence. Where interpolation helps, new positions or distances were the cause."
    )
    draw_causes(panels, context.folder / "causes.png", longest, caption)
    draw_neighbours(report, details, context.folder / "neighbour_attention.png", context.trained)
    rows = [["accuracy", *CONDITIONS]]
    for name, numbers in report.items():
        rows.append([name, *(f"{cell['accuracy']:.0%}" for cell in numbers["causes"]["extrapolation"].values())])
    context.show(table(rows), "mechanism.json", "causes.png", "neighbour_attention.png")
