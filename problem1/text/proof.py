"""A proof, not samples: the model adds right at every length, because it can meet only finitely many situations.

Decoder position t reads six symbols and nothing else: both operands' digits at place t and at place t-1, and the
last two symbols of the answer. So its logits are a function of that situation. Here every situation that can occur
in the sum of two whole numbers is enumerated, the model is run on a short sum that contains it, and its answer there
is compared with the right one. Exactness at every length follows by induction over places; see ARGUMENT.

What is left is arithmetic in 32 bits: how far logits of one situation move with place, company and way of computing
is measured, and compared with the smallest margin between the right symbol and the next.
"""

import sys
from collections import deque
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab.files import UserError
from problem1.text.dataset import BLANK, END, PAD, START, SYMBOLS, Pairs, encode, random_pairs, written_before
from problem1.text.places import PlacesTransformer

ABSENT = PAD  # stands for "there is nothing": below the first place, before the first symbol

ARGUMENT = [
    "Locality: by construction the logits at place t depend on six symbols only: the two at place t, the two at "
    "place t-1 and the last two of the answer. Tested: changing all other symbols changes no bit of them.",
    "Completeness: a situation is followed by one that depends on it and on the two symbols of the next place alone. "
    "Starting from the first place, all that can follow are enumerated until nothing new appears.",
    "Coverage: for each situation the model is run on a short sum that contains it; there the right symbol has the "
    "largest logit, by at least the smallest margin.",
    "Induction: the situation of the first place holds no written symbol and is covered, so the first symbol is right. "
    "If all symbols below place t are right, the situation at place t is one of those enumerated, so its symbol is "
    "right too. The answer ends where the right answer ends, because the end is one of the symbols.",
    "Finite precision: the same situation at different places is computed by the same operations on the same numbers; "
    "only the order in which a library adds up may differ. The largest movement seen is smaller than half the "
    "smallest margin by the factor given, and two movements of that size are what a wrong choice would take.",
]


class Situation(NamedTuple):
    """All that decoder position t sees, as tokens."""

    a: int  # at place t: a digit, or BLANK where the operand has ended
    b: int
    a_below: int  # at place t-1: ABSENT where t is the first place
    b_below: int
    last: int  # the symbol at place t-1 of the answer, START at the first place
    before_last: int  # and at place t-2: START at the second place, ABSENT at the first

    @property
    def kind(self) -> str:
        if self.last == START:
            return "first place"
        if self.before_last == START:
            return "second place"
        blanks = (self.a == BLANK) + (self.b == BLANK)
        return ("both operands go on", "one operand has ended", "both operands have ended")[blanks]

    def __str__(self) -> str:
        a, b, a_below, b_below, last, before = ("nothing" if s == ABSENT else SYMBOLS[s] for s in self)
        return f"at its place [{a}] and [{b}], below [{a_below}] and [{b_below}], written [{last}] after [{before}]"


KINDS = ("first place", "second place", "both operands go on", "one operand has ended", "both operands have ended")


class Place(NamedTuple):
    """One place of a sum, with what of the places below decides how it goes on."""

    a: int
    b: int
    last: int  # symbol of the answer at the place below
    carry: int  # that comes in

    def symbol(self) -> tuple[int, int]:
        """The right symbol here, and the carry that goes out."""
        if self.a == self.b == BLANK:
            return (self.carry, 0) if self.carry else (END, 0)
        total = self.carry + sum(digit for digit in (self.a, self.b) if digit != BLANK)
        return total % 10, total // 10

    def above(self, digit: int) -> list[int]:
        """What may stand above `digit` of an operand: a number ends for good, and begins with 0 only if it is 0."""
        if digit == BLANK:
            return [BLANK]
        may_end = digit != 0 or self.last == START
        return [*range(10), BLANK] if may_end else [*range(10)]


@lru_cache(maxsize=1)
def every_situation() -> dict[Situation, tuple[str, str]]:
    """Each situation that can occur, with a shortest sum that contains it."""
    found: dict[Situation, tuple[str, str]] = {}
    below: dict[Place, Place | None] = {}  # how a place was first reached
    queue: deque[Place] = deque()

    def reach(place: Place, situation: Situation, parent: Place | None) -> None:
        if situation not in found:
            found[situation] = _sum_with(place, parent, below)
        if place not in below and place.symbol()[0] != END:
            below[place] = parent
            queue.append(place)

    for a in range(10):
        for b in range(10):
            reach(Place(a, b, START, 0), Situation(a, b, ABSENT, ABSENT, START, ABSENT), None)
    while queue:
        place = queue.popleft()
        symbol, carry = place.symbol()
        for a in place.above(place.a):
            for b in place.above(place.b):
                here = Place(a, b, symbol, carry)
                reach(here, Situation(a, b, place.a, place.b, symbol, place.last), place)
    return found


def _sum_with(top: Place, parent: Place | None, below: dict[Place, Place | None]) -> tuple[str, str]:
    """The operands whose highest places are `top`; a 1 on top of what would be a leading zero."""
    chain = [top]
    while parent is not None:
        chain.append(parent)
        parent = below[parent]
    operands = []
    for side in (0, 1):
        digits = "".join(str(place[side]) for place in chain if place[side] != BLANK)
        operands.append("1" + digits if digits[0] == "0" and len(digits) > 1 else digits)
    return operands[0], operands[1]


# --- situations in tensors ---------------------------------------------------------------------------------------


def codes(situations: Tensor) -> Tensor:
    """[…, 6] -> one number for each situation […]"""
    return (situations * 16 ** torch.arange(6)).sum(-1)


def situations_in(columns: Tensor, targets: Tensor) -> Tensor:
    """What stands in the window of each decoder position: [N, P, 2] and [N, P] -> [N, P, 6]"""
    written = written_before(targets)
    absent = torch.full_like(columns[:, :1], ABSENT)
    return torch.cat(
        [
            columns,
            torch.cat([absent, columns[:, :-1]], 1),
            written.unsqueeze(2),
            torch.cat([absent[:, :, 0], written[:, :-1]], 1).unsqueeze(2),
        ],
        2,
    )


def margins(logits: Tensor, targets: Tensor) -> Tensor:
    """How far the right symbol is ahead of the best wrong one: [N, T, V], [N, T] -> [N, T]"""
    safe = targets.unsqueeze(-1)
    right = logits.gather(-1, safe).squeeze(-1)
    return right - logits.scatter(-1, safe, -torch.inf).max(-1).values


@torch.inference_mode()
def run_on(model: PlacesTransformer, pairs: Pairs, batch: int = 4096) -> tuple[Tensor, Tensor, Tensor]:
    """Every step of these sums: codes of the situations [M], margins [M], logits [M, V]."""
    columns, targets = encode(pairs, "places", "reversed")
    dtype, parts = model.output.weight.dtype, []
    for start in range(0, len(pairs), batch):
        rows = slice(start, start + batch)
        logits = model(columns[rows], written_before(targets[rows]))
        steps = targets[rows] != PAD
        there = codes(situations_in(columns[rows], targets[rows]))[steps]
        parts.append((there, margins(logits, targets[rows])[steps], logits[steps]))
    found, ahead, logits = (torch.cat(part) for part in zip(*parts, strict=True))
    return found, ahead, logits.to(dtype)


# --- the proof ---------------------------------------------------------------------------------------------------


def prove(model: PlacesTransformer) -> dict:
    """All that results/text/proof.json says of this model."""
    if len(model.decoder) != 1:
        raise UserError(
            f"this model has {len(model.decoder)} decoder layers, and each after the first widens the window: "
            "the proof enumerates the situations of one. Train it with --num-layers 1."
        )
    model.eval()
    expected = every_situation()
    order = list(expected)
    names = codes(torch.tensor(order))
    found, ahead, logits = run_on(model, list(expected.values()))

    sorted_names, position = names.sort()
    where = torch.searchsorted(sorted_names, found).clamp(max=len(names) - 1)
    known = sorted_names[where] == found
    index = position[where[known]]  # of each step, which situation it was
    lowest = torch.full((len(order),), torch.inf).scatter_reduce(0, index, ahead[known].float(), "amin")
    covered = torch.zeros(len(order), dtype=torch.bool).index_fill_(0, index, True)
    movement = _spread(logits[known], index, len(order))
    kinds = [situation.kind for situation in order]
    worst = int(lowest.argmin())
    smallest = float(lowest[worst])
    precision = {"same_situation_in_other_sums": movement, **measure_precision(model)}
    largest = max(precision.values())
    locality = measure_locality(model)
    proven = bool(covered.all() and known.all() and (ahead > 0).all() and smallest > 2 * largest)
    return {
        "proven": proven and locality["changed_from_outside"] == 0,
        "situations": len(order),
        "covered": int(covered.sum()),
        "steps_in_a_situation_not_enumerated": int((~known).sum()),
        "sums": len(expected),
        "longest_operand": max(len(number) for pair in expected.values() for number in pair),
        "steps": len(found),
        "failures": int((lowest <= 0).sum()),
        "smallest_margin": smallest,
        "smallest_margin_at": {"situation": str(order[worst]), "sum": " + ".join(expected[order[worst]])},
        "by_kind": {
            kind: {"situations": kinds.count(kind), **_summary(lowest[[k == kind for k in kinds]])} for kind in KINDS
        },
        "precision": precision,
        "largest_movement": largest,
        "smallest_margin_over_twice_the_movement": smallest / (2 * largest) if largest else None,
        "locality": locality,
        "argument": ARGUMENT,
        "margin_histogram": _histogram(lowest, kinds),
    }


def _summary(lowest: Tensor) -> dict:
    return {
        "failures": int((lowest <= 0).sum()),
        "smallest_margin": float(lowest.min()),
        "median": float(lowest.median()),
    }


def _spread(logits: Tensor, index: Tensor, count: int) -> float:
    """The most that any logit of one situation differs between the sums that contain it: [M, V], [M]"""
    rows = index.unsqueeze(1).expand_as(logits)
    high = torch.full((count, logits.shape[1]), -torch.inf).scatter_reduce(0, rows, logits, "amax")
    low = torch.full((count, logits.shape[1]), torch.inf).scatter_reduce(0, rows, logits, "amin")
    return float((high - low).max())


def _histogram(lowest: Tensor, kinds: list[str]) -> dict:
    """How many situations of each kind have which margin, in steps of half a logit, for the figure."""
    top = float(lowest.max().ceil()) + 0.5
    bottom = min(0.0, float(lowest.min().floor()))
    bins = int((top - bottom) / 0.5)
    counts = {
        kind: torch.histc(lowest[[k == kind for k in kinds]], bins, bottom, bottom + bins * 0.5).int().tolist()
        for kind in KINDS
    }
    return {"edges": [bottom + 0.5 * number for number in range(bins + 1)], "counts": counts}


@torch.inference_mode()
def measure_precision(model: PlacesTransformer, digits: int = 200, low: int = 5, high: int = 9000) -> dict[str, float]:
    """How far logits move when the same digits stand at place 5 and at place 9,000, and when they are computed
    one symbol at a time, as in greedy decoding, instead of all at once: largest difference of any logit."""
    pairs = random_pairs(digits, 20, seed=9)
    far_apart = step_by_step = 0.0
    for a, b in pairs:
        near, far = (_logits(model, (a + "0" * place, b + "0" * place)) for place in (low, high))
        far_apart = max(far_apart, float((near[low:] - far[high:]).abs().max()))
    for a, b in pairs[:3]:
        pair = (a + "0" * high, b + "0" * high)
        columns, _ = encode([pair], "places", "reversed")
        greedy = model.generate(columns)[1][0]
        step_by_step = max(step_by_step, float((greedy - _logits(model, pair)[: len(greedy)]).abs().max()))
    return {f"place_{low}_against_place_{high}": far_apart, "step_by_step_against_all_at_once": step_by_step}


def _logits(model: PlacesTransformer, pair: tuple[str, str]) -> Tensor:
    """Logits of every step of one sum, its end included: [T, V]"""
    columns, targets = encode([pair], "places", "reversed")
    return model(columns, written_before(targets))[0, : int((targets != PAD).sum())]


@torch.inference_mode()
def measure_locality(model: PlacesTransformer, trials: int = 200, digits: int = 60) -> dict:
    """Change every symbol outside the window of one position: no bit of its logits may change. As a check of the
    check, change one symbol inside the window: bits must change, whichever of the six it is."""
    generator = torch.Generator().manual_seed(0)
    columns, targets = encode(random_pairs(digits, trials, seed=1), "places", "reversed")
    written = written_before(targets)
    place = torch.randint(2, digits, (trials,), generator=generator)
    rows, at = torch.arange(trials), torch.arange(columns.shape[1])
    logits = model(columns, written)[rows, place]
    # Position t is fed the symbol of place t-1, so its windows are t-1 and t in both sequences.
    inside = (at == place[:, None]) | (at == place[:, None] - 1)

    noise = (columns + torch.randint(1, 10, columns.shape, generator=generator)) % 10
    noisy_written = (written + torch.randint(1, 10, written.shape, generator=generator)) % 10
    outside = model(torch.where(inside.unsqueeze(2), columns, noise), torch.where(inside, written, noisy_written))[
        rows, place
    ]
    changed_inside = []
    for offset in (0, 1):
        for side in (0, 1):
            changed = columns.clone()
            changed[rows, place - offset, side] = noise[rows, place - offset, side]
            changed_inside.append(model(changed, written)[rows, place])
        changed = written.clone()
        changed[rows, place - offset] = noisy_written[rows, place - offset]
        changed_inside.append(model(columns, changed)[rows, place])
    return {
        "trials": trials,
        "symbols_changed_outside_in_each": 3 * (columns.shape[1] - 2),
        "changed_from_outside": int((outside != logits).any(1).sum()),
        "changed_from_inside_least": min(int((other != logits).any(1).sum()) for other in changed_inside),
    }
