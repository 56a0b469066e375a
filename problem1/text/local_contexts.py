"""What one place of a sum can look like to the places model: every local situation, each with a sum that contains it.

Sums are grown from the first place upwards. How a sum goes on depends on its last place and the carry alone, so
the places that can occur are soon all found, and with them all situations: a place, and what stands above it.
"""

from collections import deque
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from problem1.text.dataset import BLANK, END, PAD, START, SYMBOLS, written_before

ABSENT = PAD  # stands for "there is nothing": below the first place, before the first symbol
DIGITS = tuple(range(10))


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

    def above(self, digit: int, digits: tuple[int, ...]) -> tuple[int, ...]:
        """What may stand above `digit` of an operand: a number ends for good, and begins with 0 only if it is 0."""
        if digit == BLANK:
            return (BLANK,)
        may_end = digit != 0 or self.last == START
        return (*digits, BLANK) if may_end else digits


@lru_cache(maxsize=2)
def every_situation(digits: tuple[int, ...] = DIGITS) -> dict[Situation, tuple[str, str]]:
    """Each situation that can occur in sums of numbers with these digits (1 must be one), with a shortest such sum."""
    found: dict[Situation, tuple[str, str]] = {}
    below: dict[Place, Place | None] = {}  # how a place was first reached
    queue: deque[Place] = deque()

    def reach(place: Place, situation: Situation, parent: Place | None) -> None:
        if situation not in found:
            found[situation] = _sum_with(place, parent, below)
        if place not in below and place.symbol()[0] != END:
            below[place] = parent
            queue.append(place)

    for a in digits:
        for b in digits:
            reach(Place(a, b, START, 0), Situation(a, b, ABSENT, ABSENT, START, ABSENT), None)
    while queue:
        place = queue.popleft()
        symbol, carry = place.symbol()
        for a in place.above(place.a, digits):
            for b in place.above(place.b, digits):
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
