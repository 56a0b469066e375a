"""Pairs of sums that differ in nothing but one carry: the material of causal questions.

Into the tens, straight from the ones:       342+136 = 0478 and 349+136 = 0485
Into the hundreds, through a 9 in the tens:  342+256 = 0598 and 348+256 = 0604

Only one digit of `a` changes, in the column where the carry is born ("source"). Between it and the digit it goes
into ("target", a position of the answer) stand `nines` columns that add up to exactly 9 and pass the carry on.
In all columns above no carry changes, so that up to the target both answers, and what the decoder reads, agree.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from problem1.analysis.rows import digit_names, join
from problem1.dataset import Sums, carries, encode

MOST_NINES = 2  # longer chains of 9s exist for long operands, but are too rare to matter
MOST_TARGETS = 6  # for long operands not every digit is studied


@dataclass(frozen=True)
class Group:
    """Pairs with one target and one number of nines. Row i of `without` and `carrying` belong together."""

    target: int  # position of the answer the carry goes into; 0 is its first digit
    nines: int
    digit: str  # the target's name: "tens"
    without: Sums
    carrying: Sums
    control: Sums  # like `without`, the same digit changed to another, but no carry changes

    @property
    def name(self) -> str:
        way = {0: "straight", 1: "through one 9", 2: "through two 9s"}.get(self.nines, f"through {self.nines} 9s")
        return f"{self.digit}, {way}"

    def clean_and_corrupted(self) -> tuple[Sums, Sums]:
        """In half of the pairs the corrupted sum has the carry, in the other half the clean one."""
        half = len(self.without) // 2
        clean = join([self.without[:half], self.carrying[half:]])
        corrupted = join([self.carrying[:half], self.without[half:]])
        return clean, corrupted


def all_groups(num_digits: int, count: int) -> list[Group]:
    """For the digits of the answer that a carry can go into, pairs straight and through nines."""
    groups = []
    for nines in range(min(MOST_NINES, num_digits - 1) + 1):
        for target in spread(num_digits - nines):
            groups.append(make_group(num_digits, target, nines, count))
    return groups


def spread(count: int) -> list[int]:
    """0 … count - 1, or MOST_TARGETS of them, evenly spread"""
    return sorted({round(number * (count - 1) / (MOST_TARGETS - 1)) for number in range(MOST_TARGETS)})


def make_group(num_digits: int, target: int, nines: int, count: int, seed: int = 0) -> Group:
    """`count` pairs, drawn at random and kept where exactly the wanted carries differ.

    A pair may be drawn twice: of short operands there are only few, and drawing must come to an end.
    """
    generator = torch.Generator().manual_seed(seed * 1_000 + target * 10 + nines)
    # Column c carries into position c of the answer, which has a first digit more. So a carry that is born in column
    # `source` and handed on by `nines` columns above it arrives at position `target`.
    source = target + nines
    wanted = torch.zeros(num_digits, dtype=torch.bool)
    wanted[target : source + 1] = True
    lowest = int(source == 0)  # a first digit is never 0
    kept: list[tuple[Sums, Sums, Sums]] = []  # without, carrying, control
    while sum(len(without) for without, _, _ in kept) < count:
        a, b = _operands(num_digits, target, source, 60 * count, generator)
        changed = a.clone()
        changed[:, source] = torch.randint(lowest, 10, (len(a),), generator=generator)
        unchanged = a.clone()  # as to carries
        unchanged[:, source] = torch.randint(lowest, 10, (len(a),), generator=generator)
        without = encode(a, b)
        carrying = encode(changed, b)
        control = encode(unchanged, b)
        carry = carries(without)
        keep = ((carries(carrying) != carry) == wanted).all(1) & ~carry[:, target]
        keep &= (carries(control) == carry).all(1) & (unchanged != a).any(1)
        kept.append((without[keep], carrying[keep], control[keep]))
    without, carrying, control = (join([*parts])[:count] for parts in zip(*kept, strict=True))
    return Group(target, nines, digit_names(num_digits + 1)[target], without, carrying, control)


def _operands(num_digits: int, first: int, source: int, count: int, generator) -> tuple[Tensor, Tensor]:
    """Random digits [count, num_digits] twice, columns first … source - 1 adding up to 9."""
    a, b = torch.randint(0, 10, (2, count, num_digits), generator=generator)
    a[:, 0], b[:, 0] = torch.randint(1, 10, (2, count), generator=generator)
    if source > first == 0:
        a[:, 0] = a[:, 0].clamp(max=8)  # 9 = 9 + 0 would make a first digit 0
    b[:, first:source] = 9 - a[:, first:source]
    return a, b
