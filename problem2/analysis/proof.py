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
"""

import torch
from torch import Tensor

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
    return check(*every_vote(model.eval())) if is_local(model) else None


def in_words(report: dict) -> str:
    if report["holds"]:
        return (
            f"right on every sequence of any length: all {report['contexts']:,} local contexts are; smallest margin "
            f"{report['ordered_margin']:.1f} in order, {report['step_down_margin']:.1f} at a step down (logits)"
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
