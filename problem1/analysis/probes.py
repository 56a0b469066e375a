"""Where can the carry be read? Linear probes on what stands at each position after each layer.

A probe is a logistic regression from one position's vector to one carry, fitted on fresh random pairs and scored
on the test pairs. What it can read is present; whether the model uses it is another question (patching.py).

Two references belong to it. Majority: the share right when always the commoner label is predicted. Control: the
same probe on shuffled labels. On held-out pairs it can only guess; on its own training pairs it shows how much
it can memorise, its capacity.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab.figures import save
from lab.statistics import wilson
from problem1.analysis.carry_pairs import spread
from problem1.analysis.context import Context, digit_names, pick, source_labels
from problem1.analysis.figures import WIDEST, aligned, table
from problem1.dataset import Sums, carries, decoder_inputs, random_pairs, seen_in

FITTED_ON = 3_000  # fresh pairs
READABLE = 0.95  # share right from which on a carry counts as readable
STEPS, RIDGE = 10, 1e-3  # Newton's method; a little ridge keeps it finite where classes can be separated


@torch.no_grad()
def residuals(model, sums: Sums) -> dict[str, Tensor]:
    """What stands at each position after each layer: {"encoder": [L + 1, N, S, d], "decoder": [L + 1, N, T, d]}"""
    found = {"encoder": [], "decoder": []}
    handles = []
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        keep = found[side].append
        handles.append(layers[0].register_forward_pre_hook(lambda _, inputs, keep=keep: keep(inputs[0].cpu())))
        for layer in layers:
            handles.append(layer.register_forward_hook(lambda _, inputs, output, keep=keep: keep(output.cpu())))
    device = next(model.parameters()).device
    model(sums.sources.to(device), decoder_inputs(sums.targets).to(device))
    for handle in handles:
        handle.remove()
    return {side: torch.stack(layers) for side, layers in found.items()}


def fit(vectors: Tensor, labels: Tensor) -> Tensor:
    """Logistic regressions side by side: vectors [P, N, d + 1], labels [N, C] of 0 and 1 -> weights [P, d + 1, C]"""
    sites, rows, width = vectors.shape
    weights = torch.zeros(labels.shape[1], sites, width, 1)
    ridge = RIDGE * rows * torch.eye(width)
    ridge[-1, -1] = 1e-6  # the last entry is the bias
    for carry, label in enumerate(labels.T):
        for _ in range(STEPS):
            probability = torch.sigmoid(vectors @ weights[carry])  # [P, N, 1]
            gradient = vectors.transpose(1, 2) @ (probability - label.view(1, -1, 1)) + ridge @ weights[carry]
            hessian = (vectors * (probability * (1 - probability))).transpose(1, 2) @ vectors + ridge
            weights[carry] -= torch.linalg.solve(hessian, gradient)
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


def measure(context: Context) -> dict:
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

        def cells(values: Tensor, shape=(layers, positions)) -> list:
            return values.T.unflatten(1, shape).tolist()

        sides[side] = {
            "layers": ["embedding", *(f"after {side}.{number}" for number in range(layers - 1))],
            "accuracy": cells(accuracy(scored, real, labels[1])),
            "control_held_out": cells(accuracy(scored, control, shuffled[1])),
            "control_training": cells(accuracy(fitted, control, shuffled[0])),
        }
    ones = labels[1].double().mean(0)
    low, high = wilson(len(test) // 2, len(test))
    return {
        "question": "share of held-out pairs whose carry a linear probe reads off one position: "
        "accuracy[carry][layer][position]",
        "fitted_on": len(fresh),
        "scored_on": len(test),
        "largest_half_interval_95": (high - low) / 2,
        "carries": [f"out of the {digit}" for digit in digit_names(context.num_digits)],
        "majority": torch.maximum(ones, 1 - ones).tolist(),
        "positions": {
            "encoder": source_labels(context.num_digits),
            "decoder": digit_names(context.num_digits + 1),
        },
        "sides": sides,
    }


def first_readable(results: dict, side: str = "encoder") -> list[dict]:
    """For each carry the first layer after which a probe gets READABLE of the pairs right at some position."""
    found = []
    for name, majority, layers in zip(
        results["carries"], results["majority"], results["sides"][side]["accuracy"], strict=True
    ):
        best = [max(layer) for layer in layers]
        first = next((number for number, value in enumerate(best) if value >= READABLE), None)
        entry = {"carry": name, "best_by_layer": best, "majority": majority, "first_layer": None, "position": None}
        if first is not None:
            entry["first_layer"] = results["sides"][side]["layers"][first]
            entry["position"] = results["positions"][side][layers[first].index(best[first])]
        found.append(entry)
    return found


def best_control(results: dict, kind: str) -> float:
    """The highest share right of any probe on shuffled labels."""
    return torch.cat([torch.tensor(side[kind]).flatten() for side in results["sides"].values()]).max().item()


def draw(results: dict, path: Path, caption: str) -> None:
    """For each carry, layer × position; the last row is the control, its best held-out probe of any carry."""
    shown = spread(len(results["carries"]))  # of long operands not every carry
    widths = [len(results["positions"][side]) for side in ("encoder", "decoder")]
    layers = len(results["sides"]["encoder"]["layers"])
    size = (min(WIDEST, 3.4 + 0.72 * sum(widths)), 1 + (0.9 + 0.33 * layers) * (len(shown) + 1))
    figure, panels = plt.subplots(len(shown) + 1, 2, figsize=size, width_ratios=widths)
    image = None
    for column, (side, cells) in enumerate(results["sides"].items()):
        tables = [
            (f"carry {results['carries'][row]} (majority {results['majority'][row]:.2f})", cells["accuracy"][row])
            for row in shown
        ]
        control = torch.tensor(cells["control_held_out"]).amax(0).tolist()
        tables.append(("control: labels shuffled, best of any carry", control))
        for axes, (title, values) in zip(panels[:, column], tables, strict=True):
            image = table(axes, values, cells["layers"], results["positions"][side], True, scale=(0.5, 1.0))
            axes.set_title(title, fontsize=9)
            axes.tick_params(labelsize=8)
        panels[-1, column].set_xlabel("position in the source" if side == "encoder" else "position that writes")
    figure.colorbar(image, ax=panels, label="share of held-out pairs read right", shrink=0.5)
    save(figure, path, caption)


def run(context: Context) -> dict:
    """Write carry/probes.json and .png."""
    results = context.write("carry/probes.json", measure(context))
    memorised = best_control(results, "control_training")
    caption = (
        "Dark: a linear probe reads the carry off this position after this layer. Readable is not yet used. "
        f"Shuffled labels, on the probes' own training pairs: at most {memorised:.2f}."
    )
    draw(results, context.output_dir / "carry/probes.png", context.caption(caption))
    return results


def findings(results: dict) -> str:
    rows = []
    for entry in first_readable(results):
        best = ", ".join(f"{value:.1%}" for value in entry["best_by_layer"])
        where = [entry["first_layer"] or "none", entry["position"] or "-"]
        rows.append([entry["carry"], *where, best, f"{entry['majority']:.1%}"])
    return "\n".join(aligned(f"carry|first layer with {READABLE:.0%}|at|best by layer|majority", rows))
