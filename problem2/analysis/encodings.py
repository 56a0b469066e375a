"""What the schemes are: tables of codes, rotations, biases; and what training did to the learned table."""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from lab import figures
from problem2.analysis.context import Context
from problem2.positional_encoding import (
    LearnedPositionalEncoding,
    PositionScheme,
    RotaryPositionalEncoding,
    frequencies,
)


@torch.no_grad()
def describe(scheme: PositionScheme, device: torch.device | str, width: int = 48) -> tuple[str, Tensor | None]:
    """What a scheme on `device` does to the first positions: "codes", "rotation", "bias" or "nothing", and their values
    [48, …]. What may not be attended to is NaN."""
    positions = scheme.positions(torch.full((1,), width, device=device), width).float().reshape(-1)
    code, bias, visible = scheme.code(positions), scheme.bias(positions), scheme.visible(width, device)
    if bias is not None:
        score = bias.reshape(-1, width, width)[0]
        return "bias", (score if visible is None else score.masked_fill(~visible[0], math.nan)).cpu()
    if isinstance(scheme, RotaryPositionalEncoding):
        return "rotation", (positions[:, None] * frequencies(scheme.d_model // scheme.num_heads, device)).cos().cpu()
    return ("nothing", None) if code is None else ("codes", code.cpu())


def draw_comparison(found: dict[str, tuple[str, Tensor | None]], path: Path) -> None:
    columns = 4
    lines = math.ceil(len(found) / columns)
    figure, panels = plt.subplots(lines, columns, figsize=(6.3, 0.5 + 1.55 * lines))
    for axes in panels.flat[len(found) :]:
        axes.set_axis_off()
    axis = {"codes": "dimension", "rotation": "frequency", "bias": "key position"}
    for (name, (kind, values)), axes in zip(found.items(), panels.flat, strict=False):
        axes.set_title(name, fontsize=8.5)
        axes.tick_params(labelsize=7)
        axes.grid(False)
        if values is None:
            axes.text(0.5, 0.5, "no position\nenters", ha="center", va="center", transform=axes.transAxes, fontsize=8)
            axes.set(xticks=[], yticks=[])
            continue
        values = values.numpy()
        limit = np.nanmax(np.abs(values))
        axes.imshow(values, cmap=figures.DIFFERENCES, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        axes.set_facecolor("#cccccc")  # what may not be attended to
        axes.set_xlabel(axis[kind], fontsize=7.5)
        axes.set_ylabel("query position" if kind == "bias" else "position", fontsize=7.5)
    caption = (
        "Red positive, blue negative, each panel on its own scale. Codes are added to embeddings; rotations\n"
        "(their cosines) turn queries and keys; biases (of head 0) are added to scores, grey is masked.\n"
        "Randomized schemes spread 48 tokens over positions 0 to 511."
    )
    figures.save(figure, path, caption)


@torch.no_grad()
def describe_table(table: Tensor, trained: int) -> dict:
    """The learned table: the norms of its rows, and the cosines of neighbouring ones.

    trained: the longest sequence of training. None where there are no rows, or not two neighbouring ones, to average.
    """
    neighbours = torch.nn.functional.cosine_similarity(table[:-1], table[1:])
    start = LearnedPositionalEncoding(table.shape[1], len(table)).table  # as large as rows are before training
    return {
        "trained_positions": trained,
        "neighbour_cosine_trained": _mean(neighbours[: trained - 1]),
        "neighbour_cosine_untouched": _mean(neighbours[trained:]),
        "norm_trained": _mean(table[:trained].norm(dim=1)),
        "norm_untouched": _mean(table[trained:].norm(dim=1)),
        "norm_at_the_start": round(start.norm(dim=1).mean().item(), 2),
    }


def _mean(values: Tensor) -> float | None:
    return values.mean().item() if len(values) else None


@torch.no_grad()
def draw_table(table: Tensor, report: dict, path: Path) -> None:
    last = report["trained_positions"] - 1
    figure, (left, right) = plt.subplots(1, 2, figsize=(3.5, 2.1), width_ratios=[1, 1.5])
    unit = torch.nn.functional.normalize(table[:32], dim=1)
    rows, cosines = (values.double().round(decimals=3) for values in (table[:32], unit @ unit.T))
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
    figures.save(
        figure, path, f"Black line: the last position of training, {last}.\n{cosines_in_words(report)}.", vector=True
    )


def cosines_in_words(report: dict) -> str:
    cosines = (report[f"neighbour_cosine_{name}"] for name in ("trained", "untouched"))
    trained, untouched = ("none to compare" if cosine is None else f"{cosine:+.2f}" for cosine in cosines)
    return f"Mean cosine of neighbouring rows: trained {trained}, untouched {untouched}"


def run(context: Context) -> None:
    found = {name: describe(model.scheme, model.embedding.weight.device) for name, model in context.models.items()}
    draw_comparison(found, context.folder / "encoding_comparison.png")
    kinds = {}
    for name, (kind, _) in found.items():
        kinds.setdefault(kind, []).append(name)
    lines = [f"  {kind}: {', '.join(names)}" for kind, names in kinds.items()]
    context.show("\n".join(lines), "encoding_comparison.png")
    if "learned" in context.models:
        torch.manual_seed(0)
        table = context.models["learned"].scheme.table.detach().cpu()
        numbers = describe_table(table, context.trained[1])
        context.write("learned_position_embeddings.json", numbers)
        draw_table(table, numbers, context.folder / "learned_position_embeddings.png")
        files = ("learned_position_embeddings.json", "learned_position_embeddings.png")
        context.show(f"  learned table. {cosines_in_words(numbers)}", *files)
