"""The program that the model is said to run, and its rivals.

To write a digit, add up its own column and the carry from below. A column that sums to more than 9 sends a carry, one
below 9 does not, and of one that sums to 9 the column below decides: carry look-ahead. All of it by the columns that
this digit sees itself. A rival is the same program with one digit that takes its carry from elsewhere.

Every one of these programs adds real sums. They differ where each digit sees columns of its own, from unrelated sums.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from problem1.dataset import START


@dataclass(frozen=True)
class Source:
    """Where a digit takes its carry from: from the columns that position `seen_by` of the decoder sees, looking through
    at most `look_ahead` columns that sum to 9; after them counts the carry that the memory of the last one holds."""

    seen_by: int
    look_ahead: int


Program = tuple[Source, ...]  # for each digit but the last, the highest first


def look_ahead(columns: int) -> Program:
    """Each digit looks through all columns below it, as it sees them itself."""
    return tuple(Source(t, columns - t) for t in range(columns))


def rivals(columns: int) -> dict[str, Program]:
    """All programs that differ from look-ahead in one digit."""
    right = look_ahead(columns)
    found = {}
    for t in range(columns):
        for seen_by in range(t + 1):
            for depth in range(columns - t):
                source = Source(seen_by, depth if depth < columns - t - 1 else columns - t)
                if source != right[t]:
                    handed = "" if source.look_ahead > depth else f", handed on after {depth}"
                    found[f"digit {t} as position {seen_by} sees it{handed}"] = (*right[:t], source, *right[t + 1 :])
    return found


def carry_out(sums: Tensor, column: int, carry_in: Tensor | None = None, look_ahead: int | None = None) -> Tensor:
    """The carry out of a column, from the sums [N, columns] of it and of those below; where it looks through only
    `look_ahead` columns of 9, the carry that came into the next one [N, columns] counts."""
    last = sums.shape[1] if look_ahead is None else min(sums.shape[1], column + look_ahead + 1)
    carry = torch.zeros_like(sums[:, 0]) if last == sums.shape[1] else carry_in[:, last - 1]
    for k in range(last - 1, column - 1, -1):
        carry = torch.where(sums[:, k] == 9, carry, (sums[:, k] > 9).long())
    return carry


def write(sums: Tensor, carry_in: Tensor, program: Program | None = None) -> Tensor:
    """sums, carry_in [N, T, columns]: what each digit sees of each column -> the answer [N, T]"""
    columns = sums.shape[2]
    digits = []
    for t, source in enumerate(program or look_ahead(columns)):
        carry = carry_out(sums[:, source.seen_by], t, carry_in[:, source.seen_by], source.look_ahead)
        digits.append((sums[:, t, t - 1] + carry) % 10 if t else carry)
    digits.append(sums[:, columns, columns - 1] % 10)
    return torch.stack(digits, 1)


def own_prefix(sums: Tensor, shown: Tensor | None = None) -> Tensor:
    """[N, T] what the decoder reads so that no position meets a contradiction: before each digit the one that this
    position would have written there, from the columns that it sees itself.

    shown [N, T]: where a digit's own column sums to 9, the digit before it shows this carry instead.
    """
    tokens = [torch.full_like(sums[:, 0, 0], START)]
    for t in range(1, sums.shape[1]):
        carry = carry_out(sums[:, t], t - 1)
        if shown is not None:
            carry = torch.where(sums[:, t, t - 1] == 9, shown[:, t], carry)
        before = sums[:, t, t - 2] if t > 1 else 0
        tokens.append((before + carry) % 10)
    return torch.stack(tokens, 1)
