"""Where does each head attend, on average over the test rows?

attention_patterns/<head>.png      one head: its mean pattern, and its patterns for a few examples
attention_patterns/overview.png    all heads' mean patterns on one page
"""

import textwrap
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from torch import Tensor
from tqdm import tqdm

from lab.figures import WIDTH, heatmap, save
from lab.hooks import Head
from problem1.analysis.context import Context
from problem1.analysis.rows import powers_of_ten, source_labels

QUESTION = "Where does each head attend?"
FILES = ("attention_patterns/overview.png", "attention_patterns/overview.pdf", "attention_patterns/*.head*.png")
EXAMPLES_SHOWN = 2  # beside each head's mean pattern
MOST_NUMBERS = 7  # columns up to which cells are wide enough to hold numbers
MOST_LABELS = 11  # keys that find room below a panel; for longer operands the page grows


def rounded(pattern: Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in line] for line in pattern.tolist()]


def mean_patterns(context: Context) -> dict[str, list[list[float]]]:
    """Each head's mean over the test rows."""
    return {head: rounded(pattern.double().mean(0)) for head, pattern in context.test.recorded.patterns.items()}


def is_causal(head: Head) -> bool:
    """Whether a mask hides what comes later from the head: in the decoder's self-attention."""
    return (head.side, head.kind) == ("decoder", "self")


class Labels(NamedTuple):
    """What the positions of a sum are called on axes."""

    written: list[str]  # by the decoder there
    read: list[str]  # by the decoder there: what was written before
    source: list[str]

    def of(self, head: Head) -> tuple[list[str], list[str]]:
        """Of a head's rows (queries) and columns (keys)."""
        queries = self.source if head.side == "encoder" else self.written
        keys = self.read if is_causal(head) else self.source
        return queries, keys


def position_labels(num_digits: int) -> Labels:
    """By position, for patterns averaged over sums."""
    powers = [f"{power}s" for power in powers_of_ten(num_digits + 1)]
    return Labels([f"writes {power}" for power in powers], ["<s>", *powers[:-1]], source_labels(num_digits))


def symbol_labels(example: dict) -> Labels:
    """By the symbols of one sum."""
    return Labels([f"writes {digit}" for digit in example["prediction"]], example["decoder_inputs"], example["source"])


def page_width(keys: int) -> float:
    return WIDTH * max(1.0, keys / MOST_LABELS)


def in_cell(weight: float) -> str:
    """.98, or 1, or nothing below a tenth, which the shade shows well enough"""
    return f"{weight:.2f}".lstrip("0").replace("1.00", "1") if weight >= 0.1 else ""


def draw_pattern(axes, head: Head, pattern, labels: Labels, numbers: bool = False):
    """One heatmap; what the causal mask hides is grey."""
    values = np.asarray(pattern, dtype=float).copy()
    rows, columns = labels.of(head)
    if is_causal(head):
        axes.set_facecolor("#e4e4e4")
        values[np.triu_indices_from(values, k=1)] = np.nan
    texts = None
    if numbers and len(columns) <= MOST_NUMBERS:
        texts = [[in_cell(value) for value in line] for line in values]
    image = heatmap(axes, values, rows, columns, numbers=texts)
    axes.set_anchor("NW")
    axes.tick_params(pad=1, labelsize=7)
    if any(len(label) > 1 for label in columns):
        axes.tick_params(axis="x", rotation=90)
    return image


def page(
    rows: list[tuple[int, int]], width: float, keys: int, wide: int, above: float, below: float, bottom: float = 0
):
    """Axes for patterns whose cells are all squares of one size, without the cost of a layout that is solved for.

    rows: for each row of panels its queries, and whether (0 or 1) keys are named below it. Inches: `width` of the page
    for `wide` panels of `keys` keys; `above` and `below` each panel; `bottom` for a caption.
    """
    left = 0.78  # of the first panel
    between = 0.24  # neighbouring panels
    title = 0.35
    cell = (width - left - 0.1 - between * (wide - 1)) / wide / keys
    height = title + sum(above + queries * cell + named * below for queries, named in rows) + bottom
    figure = plt.figure(figsize=(width, height))
    figure.set_layout_engine("none")
    lines = []
    y = height - title
    for queries, named in rows:
        y -= above + queries * cell
        line = []
        for number in range(wide):
            x = left + number * (keys * cell + between)
            # As shares of the page: left, bottom, width, height.
            box = [x / width, y / height, keys * cell / width, queries * cell / height]
            line.append(figure.add_axes(box))
        lines.append(line)
        y -= named * below
    return figure, lines


def draw_head_line(figure, title: str, image) -> None:
    """A page's title, and what the shades mean in its upper right corner."""
    width, height = figure.get_size_inches()
    figure.suptitle(title, x=0.1 / width, y=1 - 0.06 / height, ha="left")
    axes = figure.add_axes([1 - 0.65 / width, 1 - 0.22 / height, 0.5 / width, 0.08 / height])
    bar = figure.colorbar(image, cax=axes, orientation="horizontal", ticks=[0, 1])
    bar.ax.tick_params(labelsize=7, length=0, pad=1)
    axes.text(-0.1, 0.5, "attention", transform=axes.transAxes, ha="right", va="center", fontsize=7)


def draw_head(head: Head, mean: list, examples: list[dict], num_digits: int, path: Path, caption: str) -> None:
    """One head: the mean pattern by position, and a few sums with their symbols."""
    keys = 2 * num_digits + 1
    figure, lines = page([(len(mean), 1)], page_width(keys), keys, 1 + EXAMPLES_SHOWN, 0.2, 0.5, bottom=0.3)
    draw_mean_and_examples(lines[0], head, mean, examples, position_labels(num_digits))
    lines[0][0].set_title("mean, test sums")
    draw_head_line(figure, f"{head.short}: where it attends", lines[0][0].collections[0])
    save(figure, path, caption)


def draw_mean_and_examples(panels: list, head: Head, mean: list, examples: list[dict], labels: Labels) -> None:
    """The mean pattern, by position, in the first panel; beside it a few sums, with their symbols."""
    draw_pattern(panels[0], head, mean, labels, numbers=True)
    shown = examples[:EXAMPLES_SHOWN]
    for axes, example in zip(panels[1:], shown, strict=False):
        symbols = symbol_labels(example)._replace(written=[*example["prediction"]])  # there is room for one symbol
        draw_pattern(axes, head, example["patterns"][head.name], symbols)
        axes.set_title(f"{example['sum']} = {example['prediction']}")
    for axes in panels[1 + len(shown) :]:
        axes.axis("off")


def draw_all_heads(
    patterns: dict[str, list], labels: Labels, title: str, path: Path, caption: str, vector: bool = False
) -> None:
    """Every head's pattern on one page, a row for each attention module; keys are named below the last of a kind."""
    # The encoder's modules, then the decoder's self-attention, then its cross-attention.
    modules: dict[str, list[Head]] = {}
    for head in sorted(map(Head.parse, patterns), key=lambda head: (head.side == "decoder", head.kind == "cross")):
        modules.setdefault(head.module, []).append(head)
    lines_of_heads = [*modules.values()]
    kinds = [(heads[0].side, heads[0].kind) for heads in lines_of_heads]
    last = [kind not in kinds[number + 1 :] for number, kind in enumerate(kinds)]
    rows = [(len(patterns[heads[0].name]), int(end)) for heads, end in zip(lines_of_heads, last, strict=True)]
    keys = len(labels.source)
    wide = max(map(len, lines_of_heads))
    figure, lines = page(rows, page_width(keys), keys, wide, 0.2, 0.38, bottom=0.2)
    for line, heads, end in zip(lines, lines_of_heads, last, strict=True):
        for axes, head in zip(line, heads, strict=True):
            image = draw_pattern(axes, head, patterns[head.name], labels)
            axes.set_title(head.short, pad=2)
            if head.number > 0:
                axes.set_yticklabels([])
            if not end:
                axes.set_xticklabels([])
    draw_head_line(figure, title, image)
    save(figure, path, caption, vector)


def draw_in_detail(chosen: dict[str, str], means: dict, examples: list[dict], num_digits: int, path: Path) -> None:
    """A few heads: the mean pattern, two sums, and in words what each does: {head: text}."""
    keys = 2 * num_digits + 1
    rows = [(len(means[name]), 1) for name in chosen]
    figure, lines = page(rows, page_width(keys), keys, 4, 0.2, 0.42)
    for line, (name, text) in zip(lines, chosen.items(), strict=True):
        head = Head.parse(name)
        draw_mean_and_examples(line, head, means[name], examples, position_labels(num_digits))
        line[0].set_title(f"{head.short}, mean", fontweight="bold")
        text = textwrap.fill(text, 17)
        line[-1].text(0, 1, text, va="top", fontsize=9, linespacing=1.3, transform=line[-1].transAxes)
    title = f"{len(chosen)} heads of this model: where each looks, and what for"
    draw_head_line(figure, title, lines[0][0].collections[0])
    save(figure, path, None, vector=True)


def run(context: Context) -> dict:
    """Draw a figure for each head, and the overview; returns the mean patterns."""
    means = mean_patterns(context)
    examples = context.results["examples"]["examples"]
    folder = context.output_dir / "attention_patterns"
    for name, mean in tqdm(means.items(), desc="patterns", unit="head", leave=False, disable=None):
        head = Head.parse(name)
        caption = "Each row sums to 1."
        if head.side == "decoder":
            caption += " Rows: the digit that the decoder writes there."
        if is_causal(head):
            caption += " Grey: hidden by the causal mask."
        draw_head(head, mean, examples, context.num_digits, folder / f"{name}.png", context.caption(caption))
    caption = context.caption("Rows are queries, columns keys; each row sums to 1. Grey: hidden by the causal mask.")
    title = f"Where the {len(means)} heads attend: mean over the test sums"
    labels = position_labels(context.num_digits)
    draw_all_heads(means, labels, title, folder / "overview.png", caption, vector=True)
    return means


def findings(means: dict) -> str:
    return f"mean patterns of {len(means)} heads over the test sums: overview.png"
