"""Is a one-layer window model right on every sequence there is? Its local contexts are few enough to try them all.

With one layer, a window of one position on either side and max pooling, the vote of a position depends on its value
and its two neighbours alone, and the sequence is called unsorted exactly when some position votes so. There are
100³ triples, and 100² pairs at either end. If

  (1) no position in an ordered triple or pair votes "not sorted", every sorted sequence is accepted;
  (2) for every step down a > b, either the position of a votes "not sorted" whatever x ≤ a precedes it, or the
      position of b does so whatever follows it, then the first step down of any unsorted sequence is always found
      (or the same from the other end: whatever precedes a, or whatever y ≥ b follows b, for the last step down),

and the model is right on every sequence of two or more values of any length, not only on those that were tried.
Where that fails, the same is checked for the sequences in which no value exceeds the one before it by more than D.

The votes are computed in float32 on one machine. Where the conditions hold, lab/rounding.py bounds how far the votes of
any evaluation in float64 or float32, in any order of summation, can be from exact ones. With more room than that, the
statement holds for every machine that computes so (see its ASSUMPTIONS), at every position and in every batch: a window
has three keys at most wherever it stands, and all other weights are 0.
"""

import copy
import math

import torch
from torch import Tensor

from lab.rounding import ASSUMPTIONS, UNITS, NotBounded, Rounding
from problem2.analysis.context import Context
from problem2.dataset import LARGEST
from problem2.model import SortingClassifier
from problem2.positional_encoding import WindowPositionalEncoding

COUNT = LARGEST + 1
VALUES = torch.arange(COUNT)
A, B, C = VALUES[:, None, None], VALUES[None, :, None], VALUES  # three neighbours, in every combination
ANY = torch.ones(COUNT, COUNT, COUNT, dtype=torch.bool)


def is_local(model: SortingClassifier) -> bool:
    """Whether a vote depends on a value and its two neighbours alone, and the strongest vote decides."""
    narrow = isinstance(model.scheme, WindowPositionalEncoding) and model.scheme.REACH == 1
    return narrow and len(model.layers) == 1 and model.pooling == "max"


@torch.no_grad()
def every_vote(model: SortingClassifier) -> tuple[Tensor, Tensor, Tensor]:
    """The vote of a position in every local context: logit of "not sorted" minus logit of "sorted".

    middle [a, b, c] for b between a and c, first [a, b] for a at the start, last [b, c] for c at the end.
    """
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))

    def objections(sequences: Tensor) -> Tensor:
        votes, _ = model.votes(sequences.to(device))
        return (votes[..., 0] - votes[..., 1]).cpu()

    values, middle = torch.arange(COUNT), torch.empty(COUNT, COUNT, COUNT)
    for a in range(COUNT):
        triples = torch.cartesian_prod(torch.tensor([a]), values, values)
        middle[a] = objections(triples).reshape(COUNT, COUNT, 3)[..., 1]
    first, last = objections(torch.cartesian_prod(values, values)).reshape(COUNT, COUNT, 2).unbind(-1)
    return middle, first, last


@torch.no_grad()
def bounded_votes(model: SortingClassifier, unit: float) -> tuple[tuple[Tensor, Tensor, Tensor], float]:
    """The votes of `every_vote` in double, and how far from them any evaluation with this unit roundoff can be."""
    rules, (layer,), scale = Rounding(unit), model.layers, math.sqrt(model.embedding.embedding_dim)
    inexact = 0 if math.log2(scale) % 1 == 0 else rules.gamma(3)
    x, attention = rules.exact(model.embedding.weight[:COUNT].double() * scale, inexact), layer.attention
    normed, votes, radius = rules.layer_norm(x, layer.attention_norm), [], 0.0
    parts = (attention.query, attention.key, attention.value)
    q, k, v = (rules.linear(normed, part, attention.num_heads) for part in parts)

    def vote(windows: Tensor, mask: Tensor) -> Tensor:
        nonlocal radius
        here = windows[:, 1]
        seen = rules.attention(q[here], k[windows], v[windows], mask, model.scheme.table.T)
        y = rules.add(x[here], rules.linear(seen, attention.output))
        y = rules.layer_norm(rules.feed_forward(y, layer.feed_forward_norm, layer.feed_forward), model.norm)
        above, moved = rules.differences(y, model.output, torch.zeros_like(here))
        radius = max(radius, float(moved[:, 1].max()))
        return above[:, 1]

    pairs, every = torch.cartesian_prod(VALUES, VALUES), torch.ones(3, dtype=torch.bool)
    for a in range(COUNT):
        votes.append(vote(torch.cat([torch.full((COUNT**2, 1), a), pairs], 1), every).view(COUNT, COUNT))
    nothing, seen = torch.zeros(COUNT**2, 1, dtype=torch.long), torch.tensor([False, True, True])
    first = vote(torch.cat([nothing, pairs], 1), seen).view(COUNT, COUNT)
    last = vote(torch.cat([pairs, nothing], 1), seen.flip(0)).view(COUNT, COUNT)
    return (torch.stack(votes), first, last), radius


def check_rounding(model: SortingClassifier, computed: tuple[Tensor, Tensor, Tensor]) -> dict:
    """For each precision: do both conditions hold with more room than rounding can take?"""
    found = {"assumptions": ASSUMPTIONS}
    for precision, unit in UNITS.items():
        try:
            votes, radius = bounded_votes(model, unit)
        except NotBounded as error:
            found[precision] = {"holds": False, "reason": f"not bounded: {error}"}
            continue
        report = check(*votes)
        reserve = min(report["ordered_margin"], report["step_down_margin"]) - radius
        found[precision] = {"holds": reserve > 0, "largest_radius": radius, "smallest_reserve": reserve}
        if precision == "float64":
            distances = (float((one - other).abs().max()) for one, other in zip(votes, computed, strict=True))
            found["float32_distance_measured"] = max(distances)
    return found


def check(middle: Tensor, first: Tensor, last: Tensor) -> dict:
    """Both conditions of the proof in every local context, with the smallest margins by which they hold (logits)."""
    in_order = (A <= B) & (B <= C)
    pair_in_order = in_order[:, :, -1]
    ordered = torch.cat([middle[in_order], first[pair_in_order], last[pair_in_order]])
    # The weakest objection to a step down by the stronger of its two positions, whatever stands beside it.
    reports = []
    for before, after in (((A <= B), ANY), (ANY, (B <= C))):  # the first step down of a sequence, or its last
        left = torch.minimum(middle.masked_fill(~before, torch.inf).amin(0), first)
        right = torch.minimum(middle.masked_fill(~after, torch.inf).amin(2), last)
        reports.append(torch.maximum(left, right)[~pair_in_order])
    found = min(reports, key=lambda report: int((report <= 0).sum()))
    false_alarms, missed = int((ordered >= 0).sum()), int((found <= 0).sum())
    return {
        "contexts": middle.numel() + first.numel() + last.numel(),
        "ordered_contexts": len(ordered),
        "false_alarms": false_alarms,
        "steps_down": len(found),
        "missed_steps_down": missed,
        "ordered_margin": -ordered.max().item(),
        "step_down_margin": found.min().item(),
        "holds": false_alarms == 0 and missed == 0,
        "holds_for_steps_up_to": largest_step_up(middle, first, last),
    }


def largest_step_up(middle: Tensor, first: Tensor, last: Tensor) -> int:
    """The largest D so that both conditions hold in sequences that never step up by more than D; 99 is no limit,
    -1 means that the conditions fail for any D."""
    in_order = (A <= B) & (B <= C)
    pair_in_order, pair_up = in_order[:, :, -1], (C - B)[0]
    alarm = torch.where(in_order & (middle >= 0), torch.maximum(B - A, C - B), COUNT).min()
    alarm_at_ends = torch.where(pair_in_order & ((first >= 0) | (last >= 0)), pair_up, COUNT).min()
    # The least step up beside a step down at which neither position objects; 0 at the ends and beside a step down.
    missed = []
    for before, after in (((A <= B), ANY), (ANY, (B <= C))):
        left = torch.where(before & (middle <= 0), (B - A).clamp(min=0), COUNT).amin(0).masked_fill(first <= 0, 0)
        right = torch.where(after & (middle <= 0), (C - B).clamp(min=0), COUNT).amin(2).masked_fill(last <= 0, 0)
        missed.append(torch.where(pair_in_order, COUNT, torch.maximum(left, right)).min())
    return int(min(alarm, alarm_at_ends, max(missed))) - 1


def prove(model: SortingClassifier) -> dict | None:
    """None where the model is not one whose local contexts can all be tried."""
    if not is_local(model):
        return None
    votes = every_vote(model.eval())
    report = check(*votes)
    return report | ({"rounding": check_rounding(copy.deepcopy(model).cpu(), votes)} if report["holds"] else {})


def in_words(report: dict) -> str:
    if report["holds"]:
        precisions = [name for name in UNITS if report["rounding"][name]["holds"]]
        where = " and ".join(precisions) or "this evaluation only"
        return (
            f"right on every sequence of any length, in {where}: all {report['contexts']:,} local contexts are; "
            f"smallest margin {report['ordered_margin']:.1f} in order, {report['step_down_margin']:.1f} at a step down"
        )
    return (
        f"right on every sequence that never steps up by more than {report['holds_for_steps_up_to']}; else "
        f"{report['false_alarms']:,} of {report['ordered_contexts']:,} ordered local contexts are refused and "
        f"{report['missed_steps_down']:,} of {report['steps_down']:,} steps down can be missed"
    )


def run(context: Context) -> None:
    proofs = {name: report for name, model in context.models.items() if (report := prove(model))}
    if not proofs:
        print("  no model here can be proven: it takes the window scheme, one layer and max pooling (strict protocol)")
        return
    context.write("proof.json", {"schemes": proofs})
    context.show("\n".join(f"  {name}: {in_words(report)}" for name, report in proofs.items()), "proof.json")
