"""What the schemes are: tables of codes, rotations, biases; and what training did to the learned table."""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from lab import figures
from problem2.analysis.context import Context
from problem2.positional_encoding import SCHEMES, PositionScheme, frequencies, get_positional_encoding

POSITIONS = 48


@torch.no_grad()
def describe(name: str, scheme: PositionScheme, device: torch.device | str = "cpu") -> tuple[str, Tensor | None]:
    """What a scheme does to the first 48 positions: ("codes", "rotation", "bias" or "nothing", values [48, …]).

    device: where the scheme is. What may not be attended to is NaN.
    """
    width = POSITIONS
    positions = scheme.positions(torch.full((1,), width, device=device), width).float().reshape(-1)
    bias, visible = scheme.bias(positions), scheme.visible(width, device)
    if bias is not None:
        score = bias.reshape(-1, width, width)[0]
        return "bias", (score if visible is None else score.masked_fill(~visible[0], math.nan)).cpu()
    if "rope" in name:
        return "rotation", (positions[:, None] * frequencies(scheme.d_model // scheme.num_heads, device)).cos().cpu()
    codes = scheme(torch.zeros(1, width, scheme.d_model, device=device), positions)[0].cpu()
    return ("codes", codes) if codes.any() else ("nothing", None)


def compare(models: dict) -> dict[str, tuple[str, Tensor | None]]:
    """All schemes: as trained where there is a model, else as they start."""
    found = {}
    for name in SCHEMES:
        torch.manual_seed(0)
        if name in models:
            found[name] = describe(name, models[name].scheme, models[name].embedding.weight.device)
        else:
            found[name] = describe(name, get_positional_encoding(name, 64, 1024).eval())
    return found


def draw_comparison(found: dict[str, tuple[str, Tensor | None]], path: Path, trained) -> None:
    columns = 4
    figure, panels = plt.subplots(math.ceil(len(found) / columns), columns, figsize=(12.5, 9))
    for axes in panels.flat[len(found) :]:
        axes.set_axis_off()
    axis = {"codes": "dimension", "rotation": "frequency", "bias": "key position"}
    for (name, (kind, values)), axes in zip(found.items(), panels.flat, strict=False):
        axes.set_title(name + ("" if name in trained else " (not trained)"))
        axes.grid(False)
        if values is None:
            axes.text(0.5, 0.5, "no position\nenters anywhere", ha="center", va="center", transform=axes.transAxes)
            axes.set(xticks=[], yticks=[])
            continue
        values = values.numpy()
        limit = np.nanmax(np.abs(values))
        image = axes.imshow(
            values, cmap=figures.DIFFERENCES, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
        )
        axes.set_facecolor("#cccccc")  # what may not be attended to
        axes.set(xlabel=axis[kind], ylabel="query position" if kind == "bias" else "position")
        figure.colorbar(image, ax=axes)
    caption = (
        "Codes are added to the embeddings; rotations (here their cosines) turn queries and keys; biases\n"
        "(here of head 0) are added to the scores, grey is masked. "
        "Randomised schemes spread 48 tokens over positions 0 … 511."
    )
    figures.save(figure, path, caption)


def _rounded(values: Tensor) -> list:
    return [[round(x, 3) for x in line] for line in values.tolist()]


@torch.no_grad()
def learned_table(table: Tensor, trained: int, shown: int = 64) -> dict:
    """The learned table: its rows, their norms, and the cosine of every two of them.

    trained: the longest sequence of training. None where there are not two neighbouring rows to compare.
    """
    rows = table[:shown].cpu()
    unit = torch.nn.functional.normalize(table.cpu(), dim=1)
    neighbours = (unit[:-1] * unit[1:]).sum(1)
    mean_cosine = {
        name: part.mean().item() if len(part) else None
        for name, part in (("trained", neighbours[: trained - 1]), ("untouched", neighbours[trained:]))
    }
    return {
        "trained_positions": trained,
        "rows": _rounded(rows),
        "norms": [round(x, 4) for x in rows.norm(dim=1).tolist()],
        "cosines": _rounded(unit[:shown] @ unit[:shown].T),
        "neighbour_cosine_trained": mean_cosine["trained"],
        "neighbour_cosine_untouched": mean_cosine["untouched"],
    }


def draw_learned(report: dict, path: Path) -> None:
    border = report["trained_positions"] - 0.5
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), width_ratios=[1.1, 0.8, 1.1])
    rows, cosines = np.array(report["rows"]), np.array(report["cosines"])
    limit = np.abs(rows).max()
    image = left.imshow(rows, cmap=figures.DIFFERENCES, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    left.set(xlabel="dimension", ylabel="position", title="rows of the table")
    left.axhline(border, color="black", linewidth=1.5)
    figure.colorbar(image, ax=left)
    middle.plot(report["norms"], range(len(report["norms"])), color=figures.COLOURS[0], marker=".")
    middle.axhline(border, color="black", linewidth=1.5)
    middle.set(xlabel="norm of the row", ylabel="position", title="norms", ylim=(len(rows) - 0.5, -0.5))
    image = right.imshow(cosines, cmap=figures.DIFFERENCES, vmin=-1, vmax=1, interpolation="nearest")
    right.axhline(border, color="black", linewidth=1.5)
    right.axvline(border, color="black", linewidth=1.5)
    right.set(xlabel="position", ylabel="position", title="cosine of two rows")
    figure.colorbar(image, ax=right)
    for axes in (left, right):
        axes.grid(False)
    last = report["trained_positions"] - 1
    figures.save(figure, path, f"Black line: the last position of training, {last}. {cosines_in_words(report)}.")


def cosines_in_words(report: dict) -> str:
    cosines = (report[f"neighbour_cosine_{name}"] for name in ("trained", "untouched"))
    trained, untouched = ("none to compare" if cosine is None else f"{cosine:+.2f}" for cosine in cosines)
    return f"Mean cosine of neighbouring rows: trained {trained}, untouched {untouched}"


def run(context: Context) -> None:
    found = compare(context.models)
    draw_comparison(found, context.folder / "encoding_comparison.png", context.models)
    kinds = {}
    for name, (kind, _) in found.items():
        kinds.setdefault(kind, []).append(name)
    lines = [f"  {kind}: {', '.join(names)}" for kind, names in kinds.items()]
    context.show("\n".join(lines), "encoding_comparison.png")
    if "learned" in context.models:
        numbers = learned_table(context.models["learned"].scheme.table, context.trained[1])
        context.write("learned_position_embeddings.json", numbers)
        draw_learned(numbers, context.folder / "learned_position_embeddings.png")
        files = ("learned_position_embeddings.json", "learned_position_embeddings.png")
        context.show(f"  learned table. {cosines_in_words(numbers)}", *files)
