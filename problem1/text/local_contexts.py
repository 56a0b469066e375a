"""All that one step of a sum can look like to the place-value model: every local context, with a sum that contains it.

Sums are grown from the units upwards. How a sum goes on depends on its last position and the carry alone, so all
positions that can occur are soon found, and with them all local contexts: a position, and what stands above it.
"""

from collections import deque
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from problem1.text.dataset import BLANK, END, PAD, START, SYMBOLS, decoder_inputs

ABSENT = PAD  # stands for "there is nothing": below the first position, before the first symbol
DIGITS = tuple(range(10))


class LocalContext(NamedTuple):
    """All that decoder position t sees, as tokens."""

    a: int  # at position t: a digit, or BLANK where the operand has ended
    b: int
    a_below: int  # at position t-1: ABSENT where t is the first
    b_below: int
    last: int  # the answer's symbol at position t-1, START at the first position
    before_last: int  # and at position t-2: START at the second position, ABSENT at the first

    def __str__(self) -> str:
        a, b, a_below, b_below, last, before = ("nothing" if s == ABSENT else SYMBOLS[s] for s in self)
        return f"digits [{a}] and [{b}], below these [{a_below}] and [{b_below}], written last [{before}] [{last}]"


class Position(NamedTuple):
    """One position of a sum, with what decides how the sum goes on."""

    a: int
    b: int
    last: int  # symbol of the answer one position below
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
def every_local_context(digits: tuple[int, ...] = DIGITS) -> dict[LocalContext, tuple[str, str]]:
    """Each local context of sums of numbers with these digits (1 must be one), with a shortest sum that has it."""
    found: dict[LocalContext, tuple[str, str]] = {}
    seen: set[Position] = set()
    nothing = (ABSENT, ABSENT, START, ABSENT)
    queue = deque((Position(a, b, START, 0), LocalContext(a, b, *nothing), ("", "")) for a in digits for b in digits)
    while queue:
        position, context, below = queue.popleft()
        sides = zip(position[:2], below, strict=True)
        numbers = [text if digit == BLANK else f"{digit}{text}" for digit, text in sides]
        if context not in found:  # with a 1 on top of what would be a leading zero
            found[context] = tuple("1" + text if len(text) > 1 and text[0] == "0" else text for text in numbers)
        symbol, carry = position.symbol()
        if symbol == END or position in seen:
            continue
        seen.add(position)
        for a in position.above(position.a, digits):
            for b in position.above(position.b, digits):
                context = LocalContext(a, b, position.a, position.b, symbol, position.last)
                queue.append((Position(a, b, symbol, carry), context, numbers))
    return found


# --- local contexts in tensors -----------------------------------------------------------------------------------


def codes(contexts: Tensor) -> Tensor:
    """[…, 6] -> one number for each local context […]"""
    return (contexts * 16 ** torch.arange(6)).sum(-1)


def right_symbols(contexts: Tensor) -> Tensor:
    """[C, 6] -> [C]: what comes next. The symbol written last tells the carry that came in below."""
    a, b, a_below, b_below, last, _ = contexts.unbind(-1)
    here, below = (sum(torch.where(digit < 10, digit, 0) for digit in pair) for pair in ((a, b), (a_below, b_below)))
    carry = torch.where(last == START, 0, (below + (last - below) % 10) // 10)
    return torch.where((a == BLANK) & (b == BLANK) & (carry == 0), END, (here + carry) % 10)


def local_contexts_in(columns: Tensor, targets: Tensor) -> Tensor:
    """What stands in the window of each decoder position: [N, P, 2] and [N, P] -> [N, P, 6]"""
    read = decoder_inputs(targets)
    absent = torch.full_like(columns[:, :1], ABSENT)
    below = torch.cat([absent, columns[:, :-1]], 1)
    read_before = torch.cat([absent[:, :, 0], read[:, :-1]], 1)
    return torch.cat([columns, below, read.unsqueeze(2), read_before.unsqueeze(2)], 2)
