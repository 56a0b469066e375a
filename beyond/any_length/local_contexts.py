"""All that one step of a sum can look like to the place-value model: every local context, with a sum that contains it.

Sums are grown from the units upwards. How a sum goes on depends on its highest digits, the symbol written last and the
carry alone, so all local contexts are soon found.
"""

from collections import deque
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from beyond.any_length.dataset import BLANK, END, PAD, START, SYMBOLS, decoder_inputs

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


@lru_cache(maxsize=2)
def every_local_context(digits: tuple[int, ...] = DIGITS) -> dict[LocalContext, tuple[str, str]]:
    """Each local context of sums of numbers with these digits (1 must be one), with a shortest sum that has it."""
    found: dict[LocalContext, tuple[str, str]] = {}
    seen = set()
    nothing = (ABSENT, ABSENT, START, ABSENT)
    queue = deque((LocalContext(a, b, *nothing), 0, ("", "")) for a in digits for b in digits)
    while queue:
        context, carry, below = queue.popleft()  # the carry that comes in, and both numbers so far
        a, b, _, _, last, _ = context
        numbers = [text if digit == BLANK else f"{digit}{text}" for digit, text in zip((a, b), below, strict=True)]
        if context not in found:  # with a 1 on top of what would be a leading zero
            found[context] = tuple("1" + text if len(text) > 1 and text[0] == "0" else text for text in numbers)
        ended = a == b == BLANK and carry == 0
        if ended or (a, b, last, carry) in seen:
            continue
        seen.add((a, b, last, carry))
        carry, symbol = divmod(carry + sum(digit for digit in (a, b) if digit != BLANK), 10)
        # A number ends for good, and begins with 0 only if it is 0.
        above = [(BLANK,) if d == BLANK else (*digits, BLANK) if d or last == START else digits for d in (a, b)]
        for pair in product(*above):
            queue.append((LocalContext(*pair, a, b, symbol, last), carry, numbers))
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
