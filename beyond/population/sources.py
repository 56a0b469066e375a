"""Who hands each carry on? Every possible source of it is set at random, and the carry used is regressed on them all.

To write a digit a model needs the carry from the column below. In a real sum it could take it from many places,
since all of them agree:

looked up    the columns below, as this position of the decoder sees them: the first that does not sum to 9 decides
handed on    the memory of a column below that sums to 9, into which the encoder may have put the carry that came in
added        the memory of the digit's own column, likewise
plus         the memory of '+'
position     what an earlier position of the decoder sees of the columns below, passed on by self-attention
written      the digit just written: where the digit's own column sums to 9, it shows the carry

Here none of them agree. Each position of the decoder sees columns of its own, each from an unrelated sum, and the digit
just written is made to fit a carry drawn at random. The coefficients of a least-squares fit are then average causal
effects: 1 if the carry used always follows this source, 0 if it never does, whatever all others say.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from beyond.program.interchange import any_rows, seen
from beyond.program.program import carry_out, own_prefix
from beyond.program.scrub import Batch
from lab.statistics import Z
from problem1.dataset import carries

SOURCES = ("looked up", "handed on", "added", "plus", "position", "written")
NINES = 0.35  # so often a column is taken from the sums where it adds up to 9, beside the tenth that do so anyway


@dataclass(frozen=True)
class Case:
    """A digit of the answer, 0 the highest; how many columns right below it sum to 9; whether its own does."""

    name: str
    digit: int
    depth: int = 0
    own_nine: bool = False


CASES = (
    Case("tens", 2),
    Case("hundreds", 1),
    Case("hundreds through a 9", 1, depth=1),
    Case("hundreds if 9", 1, own_nine=True),
    Case("thousands through a 9", 0, depth=1),
    Case("thousands through two 9s", 0, depth=2),
)


def every_case(num_digits: int) -> list[Case]:
    """Each digit, through each number of columns that sum to 9; its own column does not."""
    cases = []
    for digit in range(num_digits):
        for depth in range(num_digits - digit):
            cases.append(Case(f"digit {digit}, through {depth}", digit, depth))
    return cases


@dataclass(frozen=True)
class Draws:
    """What each position of the decoder sees, drawn independently of everything else."""

    rows: Tensor  # [N, T, columns] the sum from which position t sees a column
    plus: Tensor  # [N, T] the sum from which it sees '+'
    shown: Tensor  # [N, T] the carry that the digit just written shows, where the own column sums to 9
    sums: Tensor  # [N, T, columns] what the columns that it sees add up to
    carry_in: Tensor  # [N, T, columns] the carry that came into them, in the sums that they are taken from
    plus_carry: Tensor  # [N, T] the carry that digit t would need in the sum that its '+' is taken from


def draw(batch: Batch) -> Draws:
    count = len(batch)
    digits = batch.digits
    rows = any_rows(batch, digits, NINES)
    plus = torch.randint(count, (count, digits), generator=batch.generator)
    shown = torch.randint(2, (count, digits), generator=batch.generator)
    sums, carry_in = seen(batch, rows)
    out = carries(batch.sums).long()  # [N, columns] the carry out of each column
    needed = torch.cat([out, torch.zeros_like(out[:, :1])], 1)  # the last digit needs no carry
    return Draws(rows, plus, shown, sums, carry_in, plus_carry=needed[plus, torch.arange(digits)])


def write(batch: Batch, memory: Tensor, draws: Draws) -> Tensor:
    """The digits [N, T] that the model writes when its positions see these draws."""
    edges = torch.cat([draws.rows, draws.plus.unsqueeze(2), draws.rows], 2)
    inputs = own_prefix(draws.sums, draws.shown)
    return batch.written(inputs=inputs, edges=edges, memory=memory)


def bits(draws: Draws, case: Case) -> list[tuple[str, Tensor]]:
    """The carry that each source tells [N]; a kind of source may be there several times, once for each place."""
    t = case.digit
    found = [("looked up", (draws.sums[:, t, t + case.depth] > 9).long())]
    for k in range(t, t + case.depth):
        found.append(("handed on", draws.carry_in[:, t, k]))
    if t > 0:
        found.append(("added", draws.carry_in[:, t, t - 1]))
    found.append(("plus", draws.plus_carry[:, t]))
    for earlier in range(t):
        found.append(("position", carry_out(draws.sums[:, earlier], t)))
    if case.own_nine:
        found.append(("written", draws.shown[:, t]))
    return found


def applies(draws: Draws, case: Case) -> Tensor:
    """[N] True where the row is of the case."""
    t = case.digit
    here = draws.sums[:, t, t + case.depth] != 9
    for k in range(t, t + case.depth):
        here &= draws.sums[:, t, k] == 9
    if t > 0:
        here &= (draws.sums[:, t, t - 1] == 9) == case.own_nine
    return here


def effects(draws: Draws, written: Tensor, case: Case) -> dict:
    """{"n", "no_carry": share of rows where the digit fits neither carry, "effects": {source: [effect, half-width of
    its 95% interval]}}; a source that is there several times counts with the sum of its effects."""
    t = case.digit
    own = draws.sums[:, t, t - 1] if t > 0 else 0
    used = (written[:, t] - own) % 10
    here = applies(draws, case)
    fits = here & (used <= 1)
    names, values = zip(*bits(draws, case), strict=True)
    found = {"n": int(here.sum()), "no_carry": 1 - int(fits.sum()) / int(here.sum())}
    estimates, covariance = least_squares(torch.stack(values, 1)[fits], used[fits])
    for name in dict.fromkeys(names):
        places = torch.tensor([other == name for other in names])
        half = Z * covariance[places][:, places].sum().sqrt()
        found.setdefault("effects", {})[name] = [estimates[places].sum().item(), half.item()]
    return found


def least_squares(values: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """values [N, K], wanted [N] -> coefficients [K], and their covariance [K, K] (White 1980: errors may differ in
    size from row to row). A constant is fitted, too, and left out."""
    x = torch.cat([values.double(), torch.ones(len(values), 1, dtype=torch.double)], 1)
    y = wanted.double().unsqueeze(1)
    inverse = torch.linalg.pinv(x.T @ x)
    coefficients = inverse @ x.T @ y
    errors = x * (y - x @ coefficients)
    covariance = inverse @ errors.T @ errors @ inverse
    return coefficients[:-1, 0], covariance[:-1, :-1]
