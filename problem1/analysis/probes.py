"""Where can the carry be read? Linear probes on what stands at each position after each layer.

A probe is a logistic regression from one position's vector to one carry, fitted on fresh random pairs and scored
on the test pairs. What it can read is present; that says nothing on whether the model uses it (patching.py does).

Two references keep it honest. Majority: the share right when always the commoner answer is given. Control: the
same probe on shuffled labels. On held-out pairs it can only guess; on its own training pairs it shows how much
it can learn by heart, its capacity.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab.figures import heatmap, save
from lab.statistics import wilson
from problem1.analysis.context import Context, pick, places, source_places
from problem1.analysis.exhaustive import random_pairs
from problem1.dataset import Sums, carries, decoder_inputs, seen_in

FITTED_ON = 3_000  # fresh pairs
STEPS, RIDGE = 10, 1e-3  # Newton's method; a little ridge keeps it finite where classes can be separated


@torch.no_grad()
def residuals(model, sums: Sums) -> dict[str, Tensor]:
    """What stands at each position after each layer: {"encoder": [L + 1, N, S, d], "decoder": [L + 1, N, T, d]}"""
    device = next(model.parameters()).device
    sources, prefixes = sums.sources.to(device), decoder_inputs(sums.targets).to(device)
    mask = torch.ones(prefixes.shape[1], prefixes.shape[1], device=device).tril()
    read, written = [model.embed(sources)], [model.embed(prefixes)]
    for layer in model.encoder:
        read.append(layer(read[-1]))
    memory = model.encoder_norm(read[-1])
    for layer in model.decoder:
        written.append(layer(written[-1], memory, None, mask))
    return {"encoder": torch.stack(read).cpu(), "decoder": torch.stack(written).cpu()}


def fit(vectors: Tensor, labels: Tensor) -> Tensor:
    """Logistic regressions side by side: vectors [P, N, d + 1], labels [N, C] of 0 and 1 -> weights [P, d + 1, C]"""
    sites, rows, width = vectors.shape
    weights = torch.zeros(labels.shape[1], sites, width, 1)
    ridge = RIDGE * rows * torch.eye(width)
    ridge[-1, -1] = 1e-6  # the last entry is the constant: not held down
    for carry, wanted in enumerate(labels.T):
        for _ in range(STEPS):
            chance = torch.sigmoid(vectors @ weights[carry])  # [P, N, 1]
            slope = vectors.transpose(1, 2) @ (chance - wanted.view(1, -1, 1)) + ridge @ weights[carry]
            curvature = (vectors * (chance * (1 - chance))).transpose(1, 2) @ vectors + ridge
            weights[carry] -= torch.linalg.solve(curvature, slope)
    return weights.squeeze(-1).permute(1, 2, 0)


def prepare(fitted: Tensor, scored: Tensor) -> tuple[Tensor, Tensor]:
    """[L, N, T, d] -> [L·T, N, d + 1]: each position's vectors, each number on one scale, and a constant 1."""
    pair = [part.transpose(1, 2).flatten(0, 1) for part in (fitted, scored)]
    mean, std = pair[0].mean(1, keepdim=True), pair[0].std(1, keepdim=True).clamp(min=1e-6)
    return tuple(torch.cat([(part - mean) / std, torch.ones(*part.shape[:2], 1)], -1) for part in pair)


def accuracy(vectors: Tensor, weights: Tensor, labels: Tensor) -> Tensor:
    """[P, C] share of right answers of each probe"""
    return ((vectors @ weights > 0) == labels.bool()).double().mean(1)


def held_out_pairs(test: Sums) -> tuple[Sums, Sums]:
    """Pairs to fit on, none of which is a test pair, and the test pairs; where every pair there is stands among
    those, half of them each."""
    fresh = random_pairs(test.num_digits, FITTED_ON, seed=2)
    fresh = pick(fresh, ~seen_in(fresh, test))
    if len(fresh) > 1:
        return fresh, test
    return pick(test, slice(0, None, 2)), pick(test, slice(1, None, 2))


def probe(context: Context) -> dict:
    fresh, test = held_out_pairs(context.rows["test"])
    labels = [carries(sums).float() for sums in (fresh, test)]
    generator = torch.Generator().manual_seed(0)
    shuffled = [part[torch.randperm(len(part), generator=generator)] for part in labels]
    vectors = [residuals(context.model, sums) for sums in (fresh, test)]
    sides = {}
    for side in ("encoder", "decoder"):
        layers, _, positions, _ = vectors[0][side].shape
        fitted, scored = prepare(vectors[0][side], vectors[1][side])
        real, control = fit(fitted, labels[0]), fit(fitted, shuffled[0])

        def table(values: Tensor, shape=(layers, positions)) -> list:
            return values.T.unflatten(1, shape).tolist()

        sides[side] = {
            "layers": ["embedding", *(f"after {side}.{number}" for number in range(layers - 1))],
            "accuracy": table(accuracy(scored, real, labels[1])),
            "control_held_out": table(accuracy(scored, control, shuffled[1])),
            "control_training": table(accuracy(fitted, control, shuffled[0])),
        }
    share_of_ones = labels[1].double().mean(0)
    half = int(len(test) / 2)
    return {
        "question": "share of held-out pairs whose carry a linear probe reads off one position: "
        "accuracy[carry][layer][position]",
        "fitted_on": len(fresh),
        "scored_on": len(test),
        "largest_half_interval_95": (wilson(half, len(test))[1] - wilson(half, len(test))[0]) / 2,
        "carries": [f"out of the {place}" for place in places(context.num_digits)],
        "majority": torch.maximum(share_of_ones, 1 - share_of_ones).tolist(),
        "positions": {
            "encoder": source_places(context.num_digits),
            "decoder": places(context.num_digits + 1),
        },
        "sides": sides,
    }


def draw(results: dict, path: Path, caption: str) -> None:
    """For each carry, layer × position; the last row is the control, its best held-out probe of any carry."""
    names = [*results["carries"], "control: labels shuffled"]
    wide = [len(results["positions"][side]) for side in ("encoder", "decoder")]
    tall = len(results["sides"]["encoder"]["layers"])
    figure, panels = plt.subplots(
        len(names), 2, figsize=(3.4 + 0.72 * sum(wide), 1 + (0.9 + 0.33 * tall) * len(names)), width_ratios=wide
    )
    image = None
    for row, name in enumerate(names):
        for column, side in enumerate(("encoder", "decoder")):
            it, axes = results["sides"][side], panels[row, column]
            if row < len(results["carries"]):
                values, title = it["accuracy"][row], f"carry {name} (majority {results['majority'][row]:.2f})"
            else:
                values = torch.tensor(it["control_held_out"]).amax(0).tolist()
                title = f"{name}, best of any carry"
            image = heatmap(axes, values, it["layers"], results["positions"][side], numbers=True, scale=(0.5, 1.0))
            axes.set_aspect("auto")
            axes.set_title(title, fontsize=9)
            axes.tick_params(labelsize=8)
            if row == len(names) - 1:
                axes.set_xlabel("position in the source" if side == "encoder" else "position that writes")
    figure.colorbar(image, ax=panels, label="share of held-out pairs read right", shrink=0.5)
    save(figure, path, caption)


def answer(context: Context) -> dict:
    """Write carry/probes.json and .png."""
    results = context.write("carry/probes.json", probe(context))
    caption = "Dark: a linear probe reads the carry off this position after this layer. Readable is not yet used."
    draw(results, context.output_dir / "carry/probes.png", context.caption(caption))
    return results
