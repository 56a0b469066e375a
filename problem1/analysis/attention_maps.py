"""Where does each head attend, on average over the test rows?

attention_patterns/<head>.png      one head: its mean pattern, and its patterns for a few examples
attention_patterns/overview.png    all heads' mean patterns on one page
attention_patterns/patterns.json   the numbers
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from torch import Tensor
from tqdm import tqdm

from lab.figures import heatmap, save
from problem1.analysis.context import Context, digit_names, source_labels

EXAMPLES_SHOWN = 3  # beside each head's mean pattern
MOST_NUMBERS = 9  # columns up to which cells are wide enough to hold numbers


def rounded(pattern: Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in line] for line in pattern.tolist()]


def is_decoder_self(head: str) -> bool:
    return head.startswith("decoder.") and ".self." in head


def axis_labels(head: str, decoder: list[str], source: list[str]) -> tuple[list[str], list[str]]:
    """Labels of a head's rows (queries) and columns (keys)."""
    if head.startswith("encoder."):
        return source, source
    return decoder, decoder if is_decoder_self(head) else source


def position_labels(num_digits: int) -> tuple[list[str], list[str]]:
    """(decoder, source) labels by position, for patterns averaged over sums."""
    return ["<s>", *digit_names(num_digits + 1)[:-1]], source_labels(num_digits)


def draw_pattern(axes, head: str, pattern, decoder: list[str], source: list[str], numbers: bool = False):
    """One heatmap; what the causal mask hides is grey."""
    values = np.ma.array(pattern, dtype=float)
    texts = [[f"{value:.2f}".lstrip("0") if value >= 0.005 else "" for value in line] for line in pattern]
    rows, columns = axis_labels(head, decoder, source)
    image = heatmap(
        axes, values.data, rows, columns, numbers=texts if numbers and len(columns) <= MOST_NUMBERS else False
    )
    if is_decoder_self(head):
        axes.set_facecolor("#e4e4e4")
        image.set_data(np.ma.array(values, mask=np.triu(np.ones(values.shape, dtype=bool), k=1)))
    return image


def draw_head(head: str, mean: list, examples: list[dict], num_digits: int, path: Path, caption: str) -> None:
    """One head: the mean pattern by position, and a few sums with their symbols."""
    shown = examples[:EXAMPLES_SHOWN]
    height = 4.1 if head.startswith("encoder.") else 3.4
    figure, panels = plt.subplots(1, 1 + len(shown), figsize=(4.2 + 3.1 * len(shown), height), squeeze=False)
    first, *others = panels[0]
    image = draw_pattern(first, head, mean, *position_labels(num_digits), numbers=True)
    first.set(title="mean over the test sums", ylabel="query")
    first.tick_params(axis="x", rotation=60)
    for axes, example in zip(others, shown, strict=True):
        draw_pattern(axes, head, example["patterns"][head], example["decoder_inputs"], example["source"])
        axes.set_title(f"{example['sum']} = {example['prediction']}\n{example['reason']}", fontsize=9)
    for axes in panels[0]:
        axes.set_xlabel("key")
    figure.colorbar(image, ax=list(panels[0]), label="attention", shrink=0.8)
    figure.suptitle(head, fontsize=13, fontweight="bold")
    save(figure, path, caption)


def draw_all_heads(patterns: dict[str, list], labels: tuple[list, list], title: str, path: Path, caption: str) -> None:
    """Every head's pattern on one page, a row for each attention module."""
    heads = list(patterns)
    modules = list(dict.fromkeys(head.rpartition(".")[0] for head in heads))
    wide = len(heads) // len(modules)
    figure, panels = plt.subplots(
        len(modules), wide, figsize=(1.2 + 2.5 * wide, 0.8 + 2.15 * len(modules)), squeeze=False, layout="compressed"
    )
    image = None
    for axes, head in zip(panels.flat, heads, strict=True):
        image = draw_pattern(axes, head, patterns[head], *labels)
        axes.set_title(head, fontsize=9)
        axes.tick_params(labelsize=7)
        if any(len(label) > 3 for label in axis_labels(head, *labels)[1]):
            axes.tick_params(axis="x", rotation=60)
    figure.colorbar(image, ax=panels, label="attention", shrink=0.4)
    figure.suptitle(title, fontsize=13, fontweight="bold")
    save(figure, path, caption)


def run(context: Context, examples: dict) -> dict:
    """Write attention_patterns/patterns.json, a figure for each head, and the overview."""
    means = {head: rounded(pattern.double().mean(0)) for head, pattern in context.recorded.patterns.items()}
    labels = position_labels(context.num_digits)
    by_head = {head: dict(zip(("rows", "columns"), axis_labels(head, *labels), strict=True)) for head in means}
    results = context.write(
        "attention_patterns/patterns.json",
        {
            "question": "mean attention over the test rows: mean[head][row][column]",
            "rows": len(context.correct),
            "labels": by_head,
            "mean": means,
        },
    )
    folder = context.output_dir / "attention_patterns"
    for head, mean in tqdm(means.items(), desc="patterns", unit="head", leave=False, disable=None):
        caption = "Each row sums to 1."
        if head.startswith("decoder."):
            caption += " The decoder reads a row's symbol and writes the next one: <s> writes the first digit."
            caption += " Grey: hidden by the causal mask." if is_decoder_self(head) else ""
        path = folder / f"{head}.png"
        draw_head(head, mean, examples["examples"], context.num_digits, path, context.caption(caption))
    caption = context.caption("Rows are queries, columns are keys; each row sums to 1.")
    draw_all_heads(means, labels, "Mean attention of every head on the test sums", folder / "overview.png", caption)
    return results


def findings(results: dict) -> str:
    return f"mean patterns of {len(results['mean'])} heads over {results['rows']:,} test sums: overview.png"
