"""Where can the carry be read? Linear probes on what stands at each source position after each encoder layer.

A probe is a logistic regression from one position's vector to one carry, fitted on fresh random pairs and scored
on the test pairs. What it can read is present; whether the model uses it is another question (patching.py).

Two references belong to it:

one digit   the share right when the carry is guessed from one digit of the source, the best one
control     the same probe on a fixed random labelling of the column's 100 digit pairs (Hewitt and Liang 2019), scored
            on the test pairs too. What it gets right it has memorised: this is the probe's own capacity
"""

import torch
from torch import Tensor

from problem1.analysis.context import Context
from problem1.analysis.rows import digit_names, source_labels
from problem1.analysis.tables import aligned
from problem1.dataset import Sums, carries, random_pairs, seen_in

FITTED_ON = 3_000  # fresh pairs
READABLE = 0.95  # share right from which on a carry counts as readable
STEPS, RIDGE = 8, 1e-3  # Newton's method; a little ridge keeps it finite where classes can be separated


@torch.no_grad()
def residuals(model, sums: Sums) -> Tensor:
    """What stands at each source position before and after each encoder layer: [L + 1, N, S, d]"""
    found = []
    handles = [model.encoder[0].register_forward_pre_hook(lambda _, inputs: found.append(inputs[0].cpu()))]
    for layer in model.encoder:
        handles.append(layer.register_forward_hook(lambda _, inputs, output: found.append(output.cpu())))
    model.encode(sums.sources.to(next(model.parameters()).device))
    for handle in handles:
        handle.remove()
    return torch.stack(found)


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
    fresh = fresh[~seen_in(fresh, test)]
    if len(fresh) > 1:
        return fresh, test
    return test[::2], test[1::2]


def random_labels(sums: Sums) -> Tensor:
    """[N, columns] a fixed random bit for each pair of digits that a column can hold"""
    bits = torch.randint(2, (sums.num_digits, 10, 10), generator=torch.Generator().manual_seed(0)).float()
    a, b = sums.operands()
    return bits[torch.arange(sums.num_digits), a, b]


def guess_from_one_digit(fresh: Sums, test: Sums) -> list[float]:
    """For each carry the share of the test pairs right that the best digit of the source gives away."""
    best = []
    for known, wanted in zip(carries(fresh).T, carries(test).T, strict=True):
        shares = []
        for seen, shown in zip(fresh.sources.T, test.sources.T, strict=True):
            counts = torch.zeros(11, 2).index_put_((seen, known.long()), torch.ones(1), accumulate=True)
            shares.append((counts.argmax(1)[shown] == wanted).double().mean().item())
        best.append(max(shares))
    return best


def measure(context: Context) -> list[dict]:
    """For each carry what the best position tells after each encoder layer, and where it is readable first."""
    fresh, test = held_out_pairs(context.rows["test"])
    labels = [torch.cat([carries(sums).float(), random_labels(sums)], 1) for sums in (fresh, test)]
    vectors = [residuals(context.model, sums) for sums in (fresh, test)]
    layers, _, positions, _ = vectors[0].shape
    fitted, scored = prepare(*vectors)
    right = accuracy(scored, fit(fitted, labels[0]), labels[1]).T.unflatten(1, (layers, positions))
    names, references = digit_names(context.num_digits), guess_from_one_digit(fresh, test)
    return [
        {
            "carry": f"out of the {name}",
            **first_readable(real, context.num_digits),
            "control_by_layer": control.amax(1).tolist(),
            "one_digit": one_digit,
        }
        for name, real, control, one_digit in zip(names, *right.split(context.num_digits), references, strict=True)
    ]


def first_readable(right: Tensor, num_digits: int) -> dict:
    """Shares [layer, position] -> the first layer after which some position tells READABLE of the pairs' carries."""
    best, positions = right.max(1)
    layers = ["embedding", *(f"after encoder.{number}" for number in range(len(best) - 1))]
    first = next((layer for layer, share in enumerate(best) if share >= READABLE), None)
    return {
        "first_layer": None if first is None else layers[first],
        "position": None if first is None else source_labels(num_digits)[positions[first]],
        "best_by_layer": best.tolist(),
    }


def findings(probed: list[dict]) -> str:
    rows = []
    for entry in probed:
        best, control = (
            ", ".join(f"{100 * value:.1f}" for value in entry[f"{k}_by_layer"]) for k in ("best", "control")
        )
        where = [entry["first_layer"] or "none", entry["position"] or "-"]
        rows.append([entry["carry"], *where, best, control, f"{100 * entry['one_digit']:.1f}"])
    header = f"carry|first layer with {READABLE:.0%}|at|% right by layer|random labels|from one digit"
    return "\n".join(aligned(header, rows))
