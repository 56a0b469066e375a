"""Is a one-layer window model right on every sequence there is? Its local contexts are few enough to try them all.

With one layer, a window of one position on either side and max pooling, the vote of a position depends on its value
and its two neighbours alone, and the sequence is called unsorted exactly when some position votes so. There are
100³ triples, and 100² pairs at either end. So the model is right on every sequence of two or more values, of any
length, if and only if

  (1) no position in an ordered triple or pair votes "not sorted": then every sorted sequence is accepted;
  (2) no sequence with a step down keeps all its positions quiet. Its votes form a chain of overlapping triples, each
      two neighbours a, b being a link; `least_strongest` follows all chains at once, from either end, and finds for
      each link the sequence whose strongest vote is weakest. Where that vote is not "not sorted", the sequence is a
      counterexample.

The votes are computed in float32 on one machine. Where the conditions hold, beyond/rounding/bounds.py bounds how far
the votes of any evaluation in float64 or float32, in any order of summation, can be from exact ones. With more room
than that, the statement holds for every machine that computes so (see its ASSUMPTIONS), at every position and in every
batch: a window has three keys at most wherever it stands, and all other weights are 0.
"""

import copy
import math

import torch
from torch import Tensor

from beyond.rounding.bounds import ASSUMPTIONS, UNITS, NotBounded, Rounding
from beyond.schemes.strict import MaxPooling
from problem2.dataset import LARGEST
from problem2.model import SortingClassifier
from problem2.positional_encoding import WindowPositionalEncoding

COUNT = LARGEST + 1
VALUES = torch.arange(COUNT)
A, B, C = VALUES[:, None, None], VALUES[None, :, None], VALUES  # three neighbours, in every combination


def is_local(model: SortingClassifier) -> bool:
    """Whether a vote depends on a value and its two neighbours alone, and the strongest vote decides."""
    narrow = isinstance(model.scheme, WindowPositionalEncoding) and model.scheme.REACH == 1
    return narrow and len(model.layers) == 1 and isinstance(model, MaxPooling)


@torch.no_grad()
def every_vote(model: SortingClassifier) -> tuple[Tensor, Tensor, Tensor]:
    """The vote of a position in every local context: logit of "not sorted" minus logit of "sorted".

    middle [a, b, c] for b between a and c, first [a, b] for a at the start, last [b, c] for c at the end.
    """
    device = next(model.parameters()).device

    def objections(sequences: Tensor) -> Tensor:
        votes, _ = model.votes(sequences.to(device))
        return (votes[..., 0] - votes[..., 1]).cpu()

    triples = [torch.cartesian_prod(a[None], VALUES, VALUES) for a in VALUES]
    middle = torch.stack([objections(part).view(COUNT, COUNT, 3)[..., 1] for part in triples])
    first, last = objections(torch.cartesian_prod(VALUES, VALUES)).view(COUNT, COUNT, 2).unbind(-1)
    return middle, first, last


@torch.no_grad()
def bounded_votes(model: SortingClassifier, unit: float) -> tuple[tuple[Tensor, Tensor, Tensor], float]:
    """The votes of `every_vote` in double, and how far from them any evaluation with this unit roundoff can be."""
    rules = Rounding(unit)
    (layer,) = model.layers
    attention = layer.attention
    scale = math.sqrt(model.embedding.embedding_dim)
    inexact = 0 if math.log2(scale) % 1 == 0 else rules.gamma(3)  # a product with a power of 2 is exact
    x = rules.exact(model.embedding.weight[:COUNT].double() * scale, inexact)
    normed = rules.layer_norm(x, layer.attention_norm)
    radius = 0.0
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

    sees = model.attention_mask(torch.ones(1, 4, dtype=torch.bool)).view(4, 4)  # of four positions, all real
    nothing = torch.zeros(COUNT**2, 1, dtype=torch.long)  # where no position is: masked by `out`
    out = torch.tensor([False])
    pairs = torch.cartesian_prod(VALUES, VALUES)
    middle = []
    for a in range(COUNT):
        triples = torch.cat([torch.full((COUNT**2, 1), a), pairs], 1)
        middle.append(vote(triples, sees[1, :3]).view(COUNT, COUNT))
    first = vote(torch.cat([nothing, pairs], 1), torch.cat([out, sees[0, :2]])).view(COUNT, COUNT)
    last = vote(torch.cat([pairs, nothing], 1), torch.cat([sees[3, 2:], out])).view(COUNT, COUNT)
    return (torch.stack(middle), first, last), radius


def check_rounding(model: SortingClassifier, computed: tuple[Tensor, Tensor, Tensor]) -> dict:
    """For each precision: do both conditions hold with more room than rounding can take? And do the computed votes,
    in float32, lie as near to the bounded ones as they must, so that both are of the same model?"""
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
    compared = "float32_distance_measured" in found and "largest_radius" in found["float32"]
    if not compared or found["float32_distance_measured"] > found["float32"]["largest_radius"]:
        for precision in UNITS:
            found[precision]["holds"] = False
    return found


def least_strongest(first: Tensor, middle: Tensor) -> tuple[Tensor, Tensor]:
    """For each link a, b: the strongest vote up to that of a, in the beginning … a, b where it is weakest [a, b]; and
    the value that stands before a there, -1 at the start."""
    votes = first
    before = torch.full_like(first, -1, dtype=torch.long)
    while True:
        longer, value = torch.maximum(votes.unsqueeze(2), middle).min(0)  # x, a, b for each x
        better = longer < votes
        if not better.any():
            return votes, before
        votes = torch.where(better, longer, votes)
        before = torch.where(better, value, before)


def quietest_unsorted(middle: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, list[int]]:
    """For each a, b: the strongest vote of the sequence with … a, b … where it is weakest [a, b]; and the sequence of
    all with a step down where it is weakest."""
    begin, before = least_strongest(first, middle)
    end, after = least_strongest(last.T, middle.permute(2, 1, 0))
    votes = torch.maximum(begin, end.T)
    in_order = torch.ones_like(votes, dtype=torch.bool).triu()
    sequence = [*divmod(int(votes.masked_fill(in_order, torch.inf).argmin()), len(votes))]
    while before[sequence[0], sequence[1]] >= 0:
        sequence.insert(0, int(before[sequence[0], sequence[1]]))
    while after[sequence[-1], sequence[-2]] >= 0:
        sequence.append(int(after[sequence[-1], sequence[-2]]))
    return votes, sequence


def check(middle: Tensor, first: Tensor, last: Tensor) -> dict:
    """Both conditions of the proof, with the smallest margins by which they hold (logits)."""
    in_order = (A <= B) & (B <= C)
    pair_in_order = in_order[:, :, -1]
    ordered = torch.cat([middle[in_order], first[pair_in_order], last[pair_in_order]])
    votes, sequence = quietest_unsorted(middle, first, last)
    down = votes[~pair_in_order]
    false_alarms = int((ordered >= 0).sum())
    missed = int((down <= 0).sum())
    return {
        "contexts": middle.numel() + first.numel() + last.numel(),
        "ordered_contexts": len(ordered),
        "false_alarms": false_alarms,
        "steps_down": len(down),
        "missed_steps_down": missed,
        "ordered_margin": -ordered.max().item(),
        "step_down_margin": down.min().item(),
        "quietest_unsorted": sequence,
        "holds": false_alarms == 0 and missed == 0,
    }


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
    wrong = f"{report['false_alarms']:,} of {report['ordered_contexts']:,} ordered local contexts are refused"
    if report["missed_steps_down"]:
        wrong = f"it calls {', '.join(map(str, report['quietest_unsorted']))} sorted; {wrong}"
    return f"not right on every sequence: {wrong}"
