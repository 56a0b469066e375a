"""Why does a scheme fail on longer sequences? Positions it never saw, or attention diluted over more keys?

Both come with length, so length alone cannot tell them apart. Each experiment below changes one at a time, by
putting another scheme in the place of the trained one for the length of a forward pass; no weight changes:

                        positions and distances as in training     never seen in training
    keys as in training     trained length (16)                    stretched, shifted (still 16 tokens)
    many more keys          squeezed (256 tokens)                  as it is (256 tokens)

    sharper    at 256 tokens, all scores times log 256 / log 16: undoes dilution, leaves positions as they are
    narrow     at 256 tokens, each sees only those within 15 places: no more keys, no distance beyond training's
"""

import contextlib
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab import figures
from lab.hooks import HeadHooks
from problem2.analysis.extrapolation import IN_RANGE, SCORES_AT_ONCE, judge, margins, style
from problem2.dataset import Rows, load_test_set
from problem2.model import SortingClassifier
from problem2.positional_encoding import PositionScheme

LENGTHS = (16, 32, 64, 128, 256)
TRAINED, LONG = (
    LENGTHS[0],
    LENGTHS[-1],
)  # the longest sequence of training, and the length at which causes are told apart
SHIFT = 512  # beyond every position of training, also of the randomised schemes


class Changed(PositionScheme):
    """A trained scheme with one thing changed; this one changes nothing."""

    def __init__(self, inner: PositionScheme):
        super().__init__(inner.d_model, inner.max_len, inner.num_heads)
        self.inner = inner

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
        return super().positions(lengths, width) * (LONG // TRAINED)


class Shifted(Changed):
    """As far apart as ever, but far from the start: positions never seen, distances as in training."""

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        return super().positions(lengths, width) + SHIFT


class Squeezed(Changed):
    """A long sequence at fractions between the positions of training: many keys, nothing beyond what was seen."""

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        positions = super().positions(lengths, width)
        return positions * ((TRAINED - 1) / positions.amax(-1, keepdim=True))


class Sharper(Changed):
    """All scores times log n / log 16: a head keeps its share on a few keys however many others there are."""

    factor = math.log(LONG) / math.log(TRAINED)

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        return super().rotate(heads, positions) * math.sqrt(self.factor)  # queries and keys, so the factor once

    def bias(self, positions: Tensor) -> Tensor | None:
        bias = super().bias(positions)
        return None if bias is None else bias * self.factor


class Narrow(Changed):
    """Each place sees those within 15 places of it, as in a sequence of training, and no others."""

    def visible(self, width: int, device=None) -> Tensor:
        places = torch.arange(width, device=device)
        near = ((places[:, None] - places).abs() < TRAINED).unsqueeze(0)
        inner = super().visible(width, device)
        return near if inner is None else near & inner


CONDITIONS = {  # name -> (length, what is put in the scheme's place, what it is for people)
    "trained length": (TRAINED, Changed, "16 tokens"),
    "stretched": (TRAINED, Stretched, "16 tokens,\npositions × 16"),
    "shifted": (TRAINED, Shifted, f"16 tokens,\npositions + {SHIFT}"),
    "as it is": (LONG, Changed, "256 tokens"),
    "squeezed": (LONG, Squeezed, "256 tokens,\nsqueezed into\npositions 0 … 15"),
    "sharper": (LONG, Sharper, "256 tokens,\nscores × log n"),
    "narrow": (LONG, Narrow, "256 tokens,\n15 places seen"),
}


@contextlib.contextmanager
def changed(model: SortingClassifier, change: type[Changed]):
    """The model with `change` around its scheme, and as before when the block ends."""
    inner = model.scheme
    model.scheme = change(inner).train(inner.training)
    try:
        yield model
    finally:
        model.scheme = inner


def causes(model: SortingClassifier, sets: dict[int, Rows], batch_size: int = 512) -> dict[str, dict]:
    """{condition: numbers of `judge`}; sets[16] and sets[256] are test sets of those lengths."""
    report = {}
    for name, (length, change, _) in CONDITIONS.items():
        with changed(model, change):
            margin = margins(model, sets[length].sequences, batch_size)
        report[name] = judge(margin, sets[length].labels)
    return report


@torch.no_grad()
def neighbour_attention(model: SortingClassifier, sets: dict[int, Rows], rows: int = 20) -> dict:
    """How much of a head's attention goes to the next place (or to the one before), at each length.

    {"lengths": […], "heads": {"encoder.0.self.head0": {"previous": […], "next": […]}}, "best": {…}}
    Means over the sorted rows of a set and over the places that have both neighbours. "best" is the head and
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
                for way, offset in enumerate((-1, 1)):
                    seen = pattern.diagonal(offset, dim1=-2, dim2=-1)
                    inner = seen[:, :-1] if offset == -1 else seen[:, 1:]  # places 1 … T-2
                    sums[name][way] += inner.mean(1).sum().item()
        for name, (previous, following) in sums.items():
            heads[name]["previous"].append(previous / len(sequences))
            heads[name]["next"].append(following / len(sequences))
    head, way = max(((h, w) for h in heads for w in heads[h]), key=lambda choice: heads[choice[0]][choice[1]][0])
    best = {"head": head, "direction": way, "shares": heads[head][way]}
    return {"lengths": lengths, "heads": heads, "best": best}


def test_sets(data_dir: Path, rows: int = 100) -> dict[str, dict[int, Rows]]:
    """The first rows of the test sets that the experiments use, by kind and length."""
    return {
        kind: {length: load_test_set(data_dir, kind, length).part(slice(rows)) for length in lengths}
        for kind, lengths in (("extrapolation", (TRAINED, LONG)), ("adjacent", LENGTHS))
    }


def measure(model: SortingClassifier, data_dir: Path, batch_size: int = 512, rows: int = 100) -> dict:
    """Both experiments on one model: what mechanism.json holds for a scheme."""
    sets = test_sets(data_dir, rows)
    return {
        "causes": {kind: causes(model, its, batch_size) for kind, its in sets.items()},
        "neighbour_attention": neighbour_attention(model, sets["adjacent"]),
    }


def draw_condition_grid(figure, axes, cells: dict[str, dict[str, tuple[float, bool]]]) -> None:
    """{scheme: {condition: (accuracy, whether collapsed)}} as a grid, one row a scheme."""
    values = [[cells[name][condition][0] for condition in CONDITIONS] for name in cells]
    labels = [text for _, _, text in CONDITIONS.values()]
    image = figures.heatmap(axes, values, list(cells), labels, numbers=True, scale=(0.5, 1.0))
    axes.set_aspect("auto")
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", labelsize=8.5)
    axes.axvline(2.5, color="black", linewidth=1.5)
    for row, name in enumerate(cells):
        for column, condition in enumerate(CONDITIONS):
            if cells[name][condition][1]:
                axes.text(
                    column + 0.36, row, "×", ha="center", va="center", color="#D55E00", fontsize=13, weight="bold"
                )
    figure.colorbar(image, ax=axes, label="share of right answers")


def draw_causes(mechanism: dict, path: Path, kind: str = "extrapolation") -> None:
    """Accuracy under each condition, one row a scheme; a cross where the model answers one class for all."""
    cells = {
        name: {c: (n["accuracy"], n["collapsed"]) for c, n in report["causes"][kind].items()}
        for name, report in mechanism.items()
    }
    figure, axes = plt.subplots(figsize=(11, 1.9 + 0.42 * len(cells)))
    draw_condition_grid(figure, axes, cells)
    figures.save(
        figure,
        path,
        "Left of the line: as many tokens as in training, at positions it had or had not. Right: 16 times as many.\n"
        "× marks one answer to everything. A scheme that recovers when only positions are put back was broken by them.",
    )


def draw_neighbours(mechanism: dict, details: dict, path: Path, kind: str = "extrapolation") -> None:
    """Left: attention on a neighbour by length. Right: the gap between the classes' mean margins by length."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4))
    for name, report in mechanism.items():
        near = report["neighbour_attention"]
        left.plot(near["lengths"], near["best"]["shares"], **style(name), label=name)
        sets = details[name]["sets"]
        places = {int(key.split("/")[1]): key for key in sets if key.startswith(kind)} | {IN_RANGE: "test"}
        lengths = sorted(places)
        gaps = [sets[places[n]]["sorted"]["margin_mean"] - sets[places[n]]["unsorted"]["margin_mean"] for n in lengths]
        right.plot(lengths, gaps, **style(name), label=name)
    lengths = mechanism[next(iter(mechanism))]["neighbour_attention"]["lengths"]
    left.plot(lengths, [1 / n for n in lengths], color="#999999", linewidth=1, label="evenly over all")
    left.set(
        xscale="log", yscale="log", xlabel="length of the sequence", ylabel="attention on one neighbour (best head)"
    )
    right.set(
        xscale="log",
        yscale="symlog",
        xlabel="length of the sequence",
        ylabel="mean margin, sorted − unsorted rows (logits)",
    )
    right.axhline(0, color="#999999", linewidth=1)
    left.set_xticks(lengths, [str(n) for n in lengths])
    ticks = sorted({IN_RANGE, *lengths} - {TRAINED})
    right.set_xticks(ticks, ["8–16" if n == IN_RANGE else str(n) for n in ticks])
    for axes in (left, right):
        axes.minorticks_off()
    right.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    figures.save(
        figure,
        path,
        "Left: the head that looks most at a neighbour at the shortest length. Right: at 0 both classes look alike.",
    )
