"""What the schemes are: tables of codes, rotations, biases; and what training did to the learned table."""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from lab import figures
from problem2.analysis.mechanism import TRAINED
from problem2.positional_encoding import (
    SCHEMES,
    PositionScheme,
    frequencies,
    get_positional_encoding,
    visualize_positional_encoding,
)

PLACES = 48


@torch.no_grad()
def picture(name: str, scheme: PositionScheme) -> dict:
    """{"kind", "values": [48 places][…]}: what a scheme does to the first 48 places, as numbers for a picture."""
    width = PLACES
    positions = scheme.positions(torch.tensor([width]), width).float().reshape(-1)
    bias, visible = scheme.bias(positions), scheme.visible(width)
    if bias is not None:
        score = bias.reshape(-1, width, width)[0]
        hidden = torch.zeros_like(score, dtype=torch.bool) if visible is None else ~visible[0]
        values = [
            [None if h else round(v, 3) for v, h in zip(*line, strict=True)]
            for line in zip(score.tolist(), hidden.tolist(), strict=True)
        ]
        return {"kind": "bias", "values": values}
    if "rope" in name:
        d_head = scheme.d_model // scheme.num_heads
        return {"kind": "rotation", "values": _rounded((positions[:, None] * frequencies(d_head)).cos())}
    if name == "none":
        return {"kind": "nothing", "values": []}
    if "randomized" in name:
        return {"kind": "codes", "values": _rounded(scheme(torch.zeros(1, width, scheme.d_model), positions)[0])}
    return {
        "kind": "codes",
        "values": _rounded(torch.from_numpy(visualize_positional_encoding(scheme, width, scheme.d_model))),
    }


def _rounded(values: Tensor) -> list:
    return [[round(x, 3) for x in line] for line in values.tolist()]


def pictures(models: dict) -> dict:
    """All schemes: as trained where there is a model, else as they start."""
    report = {}
    for name in SCHEMES:
        torch.manual_seed(0)
        scheme = models[name].scheme if name in models else get_positional_encoding(name, 64, 1024)
        report[name] = picture(name, scheme.cpu().eval()) | {"trained": name in models}
    return report


def draw_comparison(report: dict, path: Path) -> None:
    columns = 4
    figure, panels = plt.subplots(math.ceil(len(report) / columns), columns, figsize=(12.5, 9))
    for axes in panels.flat[len(report) :]:
        axes.set_axis_off()
    axis = {"codes": "dimension", "rotation": "frequency", "bias": "place looked at", "nothing": ""}
    for (name, its), axes in zip(report.items(), panels.flat, strict=False):
        axes.set_title(name + ("" if its["trained"] else " (not trained)"))
        axes.grid(False)
        if its["kind"] == "nothing":
            axes.text(0.5, 0.5, "no position\nenters anywhere", ha="center", va="center", transform=axes.transAxes)
            axes.set(xticks=[], yticks=[])
            continue
        values = np.array(its["values"], dtype=float)
        limit = np.nanmax(np.abs(values))
        image = axes.imshow(
            values, cmap=figures.DIFFERENCES, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
        )
        axes.set_facecolor("#cccccc")  # what may not be seen
        axes.set(xlabel=axis[its["kind"]], ylabel="place that looks" if its["kind"] == "bias" else "place")
        figure.colorbar(image, ax=axes)
    caption = (
        "Codes are added to the embeddings; rotations (here their cosines) turn queries and keys; biases\n"
        "(here of head 0) are added to the scores, grey may not be seen. "
        "Randomised schemes spread 48 places over 0 … 511."
    )
    figures.save(figure, path, caption)


@torch.no_grad()
def learned_table(table: Tensor, shown: int = 64) -> dict:
    """The learned table: its rows, their sizes, and the cosine of every two of them."""
    rows = table[:shown].cpu()
    unit = torch.nn.functional.normalize(table.cpu(), dim=1)
    neighbours = (unit[:-1] * unit[1:]).sum(1)
    return {
        "trained_positions": TRAINED,
        "rows": _rounded(rows),
        "norms": [round(x, 4) for x in rows.norm(dim=1).tolist()],
        "cosines": _rounded(unit[:shown] @ unit[:shown].T),
        "neighbour_cosine_trained": neighbours[: TRAINED - 1].mean().item(),
        "neighbour_cosine_untouched": neighbours[TRAINED:].mean().item(),
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
    middle.set(xlabel="length of the row", ylabel="position", title="how large they are", ylim=(len(rows) - 0.5, -0.5))
    image = right.imshow(cosines, cmap=figures.DIFFERENCES, vmin=-1, vmax=1, interpolation="nearest")
    right.axhline(border, color="black", linewidth=1.5)
    right.axvline(border, color="black", linewidth=1.5)
    right.set(xlabel="position", ylabel="position", title="cosine of two rows")
    figure.colorbar(image, ax=right)
    for axes in (left, right):
        axes.grid(False)
    figures.save(
        figure,
        path,
        f"Black line: end of training, position {report['trained_positions'] - 1}. Mean cosine of neighbouring\n"
        f"rows: trained {report['neighbour_cosine_trained']:+.2f}, untouched "
        f"{report['neighbour_cosine_untouched']:+.2f}: beyond the line the table is the noise it started as.",
    )
