"""The variables of an addition: what a column, a head of the encoder or a position of the decoder may tell."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from problem1.dataset import Sums, carries


@dataclass(frozen=True)
class Columns:
    """Digits of a and b and the carry that comes in, each [N, columns], most significant first; or of one column."""

    a: Tensor
    b: Tensor
    carry_in: Tensor

    @classmethod
    def of(cls, sums: Sums) -> "Columns":
        out = carries(sums).long()
        return cls(*sums.operands(), torch.cat([out[:, 1:], torch.zeros_like(out[:, :1])], 1))

    def column(self, k: int) -> "Columns":
        return Columns(self.a[:, k], self.b[:, k], self.carry_in[:, k])

    @property
    def sum(self) -> Tensor:
        return self.a + self.b


def class_of(total: Tensor) -> Tensor:
    """0 below 9, 1 for 9, 2 above"""
    return (total >= 9).long() + (total > 9)


@dataclass(frozen=True)
class Variable:
    """What a part of the model may tell. Results hold the name: with another name they have to be made again."""

    name: str
    of: Callable[..., Tensor]  # its values, [N]
    short: str = ""  # as it fits into the figure
    carry: bool = False  # it tells something of the carry that comes in
    partner: bool = False  # it tells something of the other operand's digit


NOTHING = "nothing"
EVERYTHING = "everything"  # where no variable suffices


def by_name(*variables: Variable) -> dict[str, Variable]:
    return {variable.name: variable for variable in variables}


# What a column may tell a digit of the answer, the fewest values first.
EDGE_VARIABLES = by_name(
    Variable(NOTHING, lambda it: 0 * it.sum),
    Variable("sum > 9", lambda it: (it.sum > 9).long(), "sum > 9?"),
    Variable("carry out", lambda it: (it.sum + it.carry_in) // 10, "carry out", carry=True),
    Variable("sum < 9, = 9, > 9", lambda it: class_of(it.sum), "< 9, 9, > 9"),
    Variable(
        "sum < 9, = 9, > 9; if 9, carry in",
        lambda it: class_of(it.sum) + (it.sum > 9) + (it.sum == 9) * it.carry_in,
        "< 9, 9, > 9\nif 9, carry",
        carry=True,
    ),
    Variable("last digit of sum", lambda it: it.sum % 10, "last digit"),
    Variable(
        "last digit of sum + carry in", lambda it: (it.sum + it.carry_in) % 10, "last digit\nwith carry", carry=True
    ),
    Variable(
        "last digit of sum; if 9, carry in",
        lambda it: it.sum % 10 + (it.sum == 9) * it.carry_in,
        "last digit\nif 9, carry",
        carry=True,
    ),
    Variable("sum", lambda it: it.sum, "sum"),
    Variable("last digit of sum, carry in", lambda it: it.sum % 10 * 2 + it.carry_in, "last digit,\ncarry", carry=True),
    Variable("sum, carry in", lambda it: it.sum * 2 + it.carry_in, "sum, carry", carry=True),
)

# What a head of the encoder may tell the place of a digit.
ENCODER_VARIABLES = by_name(
    Variable(NOTHING, lambda own, partner, carry, below: 0 * own),
    Variable("partner's digit", lambda own, partner, carry, below: partner, partner=True),
    Variable("own digit, carry in", lambda own, partner, carry, below: own * 2 + carry, carry=True),
    Variable("both digits", lambda own, partner, carry, below: own * 10 + partner, partner=True),
    Variable("own digit, sum below", lambda own, partner, carry, below: own * 19 + below, carry=True),
    Variable(
        "both digits, carry in",
        lambda own, partner, carry, below: (own * 10 + partner) * 2 + carry,
        carry=True,
        partner=True,
    ),
)

# What the decoder's self-attention may tell a position. `it`: the column whose digit is written there (the highest one
# for the answer's first digit).
SELF_VARIABLES = by_name(
    Variable("own token", lambda token, it: token),
    Variable("own token, carry in", lambda token, it: token * 2 + it.carry_in, carry=True),
    Variable("own token, sum < 9, = 9, > 9", lambda token, it: token * 3 + class_of(it.sum)),
    Variable(
        "own token, sum < 9, = 9, > 9, carry in",
        lambda token, it: (token * 3 + class_of(it.sum)) * 2 + it.carry_in,
        carry=True,
    ),
    Variable("own token, sum, carry in", lambda token, it: (token * 19 + it.sum) * 2 + it.carry_in, carry=True),
)
