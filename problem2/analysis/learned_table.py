"""What training did to the learned table: the rows of trained positions beside those that no sequence reached."""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from lab import figures
from problem2.analysis.context import Context
from problem2.positional_encoding import LearnedPositionalEncoding

QUESTION = "What did training do to the learned table?"
NEEDS = ("learned",)
FILES = (
    "learned_position_embeddings.json",
    "learned_position_embeddings.png",
    "learned_position_embeddings.pdf",
)
ROWS_DRAWN = 32


def run(context: Context) -> dict:
    table = context.models["learned"].scheme.table.detach().cpu()
    _, longest = context.trained_lengths
    results = context.write("learned_position_embeddings.json", measure(table, longest))
    draw(table, results, context.folder / "learned_position_embeddings.png")
    return results


def findings(results: dict) -> str:
    """The mean cosines of neighbouring rows, trained and untouched."""
    words = []
    for name in ("trained", "untouched"):
        cosine = results[f"neighbour_cosine_{name}"]
        words.append(f"{name} none to compare" if cosine is None else f"{name} {cosine:+.2f}")
    return f"Mean cosine of neighbouring rows: {', '.join(words)}"


@torch.no_grad()
def measure(table: Tensor, trained: int) -> dict:
    """The norms of the rows of `table` [positions, d_model], and the cosines of neighbouring ones.

    trained: the longest sequence of training. None where there are no rows, or not two neighbouring ones, to average.
    """
    cosines = cosine_similarity(table[:-1], table[1:])  # entry p: of the rows p and p + 1
    torch.manual_seed(0)
    start = LearnedPositionalEncoding(table.shape[1], len(table)).table  # as large as rows are before training
    return {
        "trained_positions": trained,
        "neighbour_cosine_trained": _mean(cosines[: trained - 1]),
        "neighbour_cosine_untouched": _mean(cosines[trained:]),
        "norm_trained": _mean(table[:trained].norm(dim=1)),
        "norm_untouched": _mean(table[trained:].norm(dim=1)),
        "norm_at_the_start": round(start.norm(dim=1).mean().item(), 2),
    }


def _mean(values: Tensor) -> float | None:
    return values.mean().item() if len(values) else None


def draw(table: Tensor, results: dict, path: Path) -> None:
    """The first rows, and the cosine of each pair of them; a black line after the last trained one."""
    last = results["trained_positions"] - 1
    figure, (left, right) = plt.subplots(1, 2, figsize=(3.5, 2.1), width_ratios=[1, 1.5])
    first = table[:ROWS_DRAWN]
    unit = normalize(first, dim=1)
    rows = first.double().round(decimals=3)
    cosines = (unit @ unit.T).double().round(decimals=3)
    limit = rows.abs().max()
    style = {"cmap": figures.DIFFERENCES, "aspect": "auto", "interpolation": "nearest"}
    left.imshow(rows, vmin=-limit, vmax=limit, **style)
    left.set(xlabel="dimension", ylabel="position", title="rows of the table")
    image = right.imshow(cosines, vmin=-1, vmax=1, **style)
    right.set(xlabel="position", ylabel="position", title="cosine of two rows")
    figure.colorbar(image, ax=right)
    for axes in (left, right):
        axes.grid(False)
        axes.axhline(last + 0.5, color="black", linewidth=1.5)
    right.axvline(last + 0.5, color="black", linewidth=1.5)
    figure.suptitle(f"Only the rows 0 to {last} are trained")
    caption = f"Black line: the last position of training, {last}.\n{findings(results)}."
    figures.save(figure, path, caption, vector=True)
