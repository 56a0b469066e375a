"""Sums that are rare among random ones and that models get wrong last: to train on, and to test on.

Random pairs of many digits hardly ever hold a long run of columns that add up to 9, through which a carry has to pass.
"""

import random

import torch
from torch import Tensor

from problem1.dataset import Sums, encode
from problem1.generate_data import make_row, to_digits

# --- to train on -------------------------------------------------------------------------------------------------


def make_hard(a: int, b: int, source: random.Random) -> tuple[int, int]:
    """The pair with a share of its columns, drawn from 0 to 1, changed into what a model gets wrong last: columns that
    add up to 9, as in 347 + 652, through which a carry has to pass; the same column again and again, as in 555 + 777,
    where digits do not tell the positions apart; or both, as in 333 + 666. Random pairs hardly ever hold long runs.
    """
    share, one = source.random(), (source.randint(0, 9), source.randint(0, 9))
    nines, repeated = source.choice([(True, False), (False, True), (True, True)])
    columns: list[tuple[int, int]] = []
    for x, y in zip(to_digits(a, 1), to_digits(b, 1), strict=True):
        top, bottom = one if repeated else (x, y)
        bottom = 9 - top if nines else bottom
        chosen = source.random() < share and (columns or top * bottom > 0)  # no leading zero
        columns.append((top, bottom) if chosen else (x, y))
    a, b = (int("".join(map(str, digits))) for digits in zip(*columns, strict=True))
    return a, b


def make_hard_rows(num_digits: int, size: int, seed: int, hard_share: float) -> list[dict]:
    """`size` different pairs, a share of them made hard."""
    low, high = 10 ** (num_digits - 1), 10**num_digits - 1
    source = random.Random(seed)
    seen = set()
    rows = []
    while len(rows) < size:
        pair = source.randint(low, high), source.randint(low, high)
        if source.random() < hard_share:
            pair = make_hard(*pair, source)
        if pair in seen:
            continue
        seen.add(pair)
        rows.append(make_row(*pair, num_digits))
    return rows


# --- to test on --------------------------------------------------------------------------------------------------


HARD = (  # kinds of hard pairs: what stands in a run of columns, all other digits being random
    "column sums of 9",  # any two digits that add up to 9
    "carries",  # any two digits that pass on a carry they get
    "one column repeated",
    "9s over 0s",  # 9s in one operand, 0s in the other
    "0s in one operand",
    "0s in both operands",
    "scattered sums of 9",  # not a run: a share of all columns, drawn from 0 to 1, adds up to 9
)


def hard_pairs(num_digits: int, count: int, seed: int) -> tuple[Sums, Tensor]:
    """`count` pairs that are rare among random ones, and the kind of each: [N], an index of HARD.

    All kinds, and all lengths of a run, are equally likely, and so are the places where a run of this length fits.
    Half of all runs get a carry from the column to the right of them, where there is one. No operand begins with 0.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=generator)

    def up_to(largest: Tensor) -> Tensor:
        """For each number n one of 0 … n."""
        return (torch.rand(largest.shape, generator=generator) * (largest + 1)).long()

    a, b = draw(0, 9, 2, count, num_digits)
    kind, column = torch.arange(count) % len(HARD), torch.arange(num_digits)
    length = draw(1, num_digits, count)
    end = (length + up_to(num_digits - length)).unsqueeze(1)
    run = (column >= end - length.unsqueeze(1)) & (column < end)
    scattered = torch.rand(count, num_digits, generator=generator) < torch.rand(count, 1, generator=generator)
    is_run = (kind < len(HARD) - 1).unsqueeze(1)
    run, right = torch.where(is_run, run, scattered), is_run & (column == end)

    zero, nine, half = torch.zeros_like(a), torch.full_like(a, 9), a.clone()
    half[:, 0].clamp_(1, 8)  # 9 + 0 cannot stand in the first column
    repeated = draw(0, 9, 2, count, 1).expand(2, count, num_digits)
    fillings = [(half, 9 - half), (a, 9 - a + up_to(a)), repeated, (nine, zero), (zero, b), (zero, zero)]
    fillings += [(half, 9 - half)]
    fill_a, fill_b = (torch.stack(part)[kind, torch.arange(count)] for part in zip(*fillings, strict=True))

    carrying = right & (draw(0, 1, count, 1) == 1)
    silent = right & ~carrying & (a + b > 9)
    a = torch.where(carrying, a.clamp(min=1), torch.where(silent, 9 - a, a))
    b = torch.where(carrying, 10 - a + up_to(a - 1), torch.where(silent, 9 - b, b))
    a, b = torch.where(run, fill_a, a), torch.where(run, fill_b, b)
    for operand in (a, b):
        operand[:, 0] = torch.where(operand[:, 0] == 0, draw(1, 9, count), operand[:, 0])
    exchange = draw(0, 1, count, 1) == 1
    return encode(torch.where(exchange, b, a), torch.where(exchange, a, b)), kind
