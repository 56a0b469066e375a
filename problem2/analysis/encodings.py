"""What the schemes are: their codes, rotations or biases at the first positions, side by side."""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from lab import figures
from problem2.analysis.context import Context
from problem2.positional_encoding import PositionScheme, RotaryPositionalEncoding, frequencies

QUESTION = "What are the schemes?"
NEEDS = ()
FILES = ("encoding_comparison.png",)
COLUMNS = 4  # panels in a line of the figure
AXES = {"codes": "dimension", "rotation": "frequency", "bias": "key position"}  # what goes from left to right
CAPTION = (
    "Red positive, blue negative, each panel on its own scale. Codes are added to embeddings; rotations\n"
    "(their cosines) turn queries and keys; biases (of head 0) are added to scores, grey is masked.\n"
    "Randomized schemes spread 48 tokens over positions 0 to 511."
)


def run(context: Context) -> dict:
    described = {}
    for name, model in context.models.items():
        described[name] = describe(model.scheme, model.embedding.weight.device)
    draw(described, context.folder / "encoding_comparison.png")
    return {name: kind for name, (kind, _) in described.items()}


def findings(results: dict) -> str:
    by_kind = {}
    for name, kind in results.items():
        by_kind.setdefault(kind, []).append(name)
    return "\n".join(f"{kind}: {', '.join(names)}" for kind, names in by_kind.items())


@torch.no_grad()
def describe(scheme: PositionScheme, device: torch.device | str, width: int = 48) -> tuple[str, Tensor | None]:
    """What a scheme on `device` does to the first positions: "codes", "rotation", "bias" or "nothing", and their values
    [48, …]. What may not be attended to is NaN."""
    positions = scheme.positions(torch.full((1,), width, device=device), width).float().reshape(-1)
    bias = scheme.bias(positions)
    if bias is not None:
        of_head_0 = bias.reshape(-1, width, width)[0]
        visible = scheme.visible(width, device)
        if visible is not None:
            of_head_0 = of_head_0.masked_fill(~visible[0], math.nan)
        return "bias", of_head_0.cpu()
    if isinstance(scheme, RotaryPositionalEncoding):
        angles = positions[:, None] * frequencies(scheme.d_model // scheme.num_heads, device)
        return "rotation", angles.cos().cpu()
    code = scheme.code(positions)
    if code is not None:
        return "codes", code.cpu()
    return "nothing", None


def draw(described: dict[str, tuple[str, Tensor | None]], path: Path) -> None:
    """A panel for each scheme."""
    lines = math.ceil(len(described) / COLUMNS)
    figure, panels = plt.subplots(lines, COLUMNS, figsize=(6.3, 0.5 + 1.55 * lines))
    for axes in panels.flat[len(described) :]:
        axes.set_axis_off()
    for (name, (kind, values)), axes in zip(described.items(), panels.flat, strict=False):
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
        axes.set_xlabel(AXES[kind], fontsize=7.5)
        axes.set_ylabel("query position" if kind == "bias" else "position", fontsize=7.5)
    figures.save(figure, path, CAPTION)
