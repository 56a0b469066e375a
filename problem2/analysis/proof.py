"""Is a one-layer window model right on every sequence there is? All its situations are few enough to be tried.

With one layer, a window of one place on either side and max pooling, the vote of a place depends on its value and
its two neighbours alone, and the sequence is called unsorted exactly when some place votes so. There are 100³
triples, and 100² pairs at either end. If

  (1) no place in an ordered triple or pair votes "not sorted", no sorted sequence is ever refused;
  (2) for every step down a > b, either the place of a votes "not sorted" whatever x ≤ a precedes it, or the place
      of b does so whatever follows it, then the first step down of any unsorted sequence is always found
      (or the same from the other end: whatever precedes a, or whatever y ≥ b follows b, for the last step down),

and the model is right on every sequence of two or more values of any length, not only on those that were tried.
Where that fails, the same is asked of the sequences in which no value exceeds the one before it by more than D.
"""

import torch
from torch import Tensor

from problem2.dataset import LARGEST
from problem2.model import SortingClassifier
from problem2.positional_encoding import WindowPositionalEncoding

COUNT = LARGEST + 1
VALUES = torch.arange(COUNT)
A, B, C = VALUES[:, None, None], VALUES[None, :, None], VALUES  # three neighbours, in every combination
ANY = torch.ones(COUNT, COUNT, COUNT, dtype=torch.bool)


def can_be_tried(model: SortingClassifier) -> bool:
    its_window = isinstance(model.scheme, WindowPositionalEncoding) and model.scheme.REACH == 1
    return its_window and len(model.layers) == 1 and model.pooling == "max"


@torch.no_grad()
def every_vote(model: SortingClassifier, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    """How far "not sorted" is ahead in the vote of a place, in every situation:

    middle [a, b, c] for b between a and c, first [a, b] for a at the start, last [b, c] for c at the end.
    """
    values = torch.arange(COUNT)
    middle = torch.empty(COUNT, COUNT, COUNT)
    for a in range(COUNT):
        triples = torch.cartesian_prod(torch.tensor([a]), values, values)
        votes, _ = model.votes(triples.to(device))
        ahead = (votes[..., 0] - votes[..., 1]).reshape(COUNT, COUNT, 3).cpu()
        middle[a] = ahead[..., 1]
    votes, _ = model.votes(torch.cartesian_prod(values, values).to(device))
    first, last = (votes[..., 0] - votes[..., 1]).reshape(COUNT, COUNT, 2).cpu().unbind(-1)
    return middle, first, last


def check(middle: Tensor, first: Tensor, last: Tensor) -> dict:
    """Both conditions of the proof on every situation, with the margins by which they hold (logits)."""
    in_order = (A <= B) & (B <= C)
    pair_in_order = in_order[:, :, -1]
    quiet = torch.cat([middle[in_order], first[pair_in_order], last[pair_in_order]])
    # How loudly either place of a step down b > c or a > b objects at the least, whatever stands beside it.
    reports = []
    for before, after in (((A <= B), ANY), (ANY, (B <= C))):  # the first step down of a sequence, or its last
        left = torch.minimum(middle.masked_fill(~before, torch.inf).amin(0), first)
        right = torch.minimum(middle.masked_fill(~after, torch.inf).amin(2), last)
        reports.append(torch.maximum(left, right)[~pair_in_order])
    found = min(reports, key=lambda report: int((report <= 0).sum()))
    false_alarms, missed = int((quiet >= 0).sum()), int((found <= 0).sum())
    return {
        "situations": middle.numel() + first.numel() + last.numel(),
        "ordered_situations": len(quiet),
        "false_alarms": false_alarms,
        "steps_down": len(found),
        "missed_steps_down": missed,
        "margin_of_silence": -quiet.max().item(),
        "margin_of_alarm": found.min().item(),
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
    # The least step up beside a step down with which its places are silent; 0 at the ends and beside a step down.
    missed = []
    for before, after in (((A <= B), ANY), (ANY, (B <= C))):
        left = torch.where(before & (middle <= 0), (B - A).clamp(min=0), COUNT).amin(0).masked_fill(first <= 0, 0)
        right = torch.where(after & (middle <= 0), (C - B).clamp(min=0), COUNT).amin(2).masked_fill(last <= 0, 0)
        missed.append(torch.where(pair_in_order, COUNT, torch.maximum(left, right)).min())
    return int(min(alarm, alarm_at_ends, max(missed))) - 1


def prove(model: SortingClassifier, device: torch.device | str = "cpu") -> dict | None:
    """None where the model is not one whose situations can all be tried."""
    return check(*every_vote(model.eval(), device)) if can_be_tried(model) else None


def as_sentence(report: dict) -> str:
    if report["holds"]:
        return (
            f"right on every sequence of any length: all {report['situations']:,} situations of a place were tried; "
            f"silence by at least {report['margin_of_silence']:.1f} and alarm by {report['margin_of_alarm']:.1f} logits"
        )
    return (
        f"right on every sequence that never steps up by more than {report['holds_for_steps_up_to']}; "
        f"else {report['false_alarms']:,} of {report['ordered_situations']:,} ordered situations raise an alarm and "
        f"{report['missed_steps_down']:,} of {report['steps_down']:,} steps down can be missed"
    )
