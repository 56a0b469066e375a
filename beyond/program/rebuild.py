"""The memory rebuilt by hand: a few vectors in place of what the encoder computes from each sum.

A digit of the answer reads from a column only the value of one variable, as "below 9, 9, above". So for each edge from
a column to a digit, and each value of its variable, one pair of vectors should be enough: one for a's digit and one for
b's. The decoder then runs on a table of these alone, and the encoder is not run. Three tables are tried:

by pair        for each two digits of the column the mean vectors over all sums that have them
by variable    for each value those of one pair of digits, the middle one of the pairs with this value
by mean        for each value the mean over all pairs of digits with this value; no pair has such vectors
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from beyond.program.scrub import Batch
from beyond.program.variables import EDGE_VARIABLES, EVERYTHING, Columns

PAIR = "pair of digits"


@dataclass(frozen=True)
class Tables:
    """memory [R, S, d]: row r has the vectors of one value of one edge, at the two positions of its column; the last
    row has the mean vector of '+'. first[t][k]: the row of the edge's value 0."""

    variables: list[list[str]]
    memory: Tensor
    first: list[list[int]]

    def edges(self, columns: Columns) -> Tensor:
        """The table rows [N, T, S] that each digit sees."""
        rows = []
        for line, first in zip(self.variables, self.first, strict=True):
            seen = [value(name, columns.column(k)) + first[k] for k, name in enumerate(line)]
            plus = torch.full_like(seen[0], len(self.memory) - 1)
            rows.append(torch.stack([*seen, plus, *seen], 1))
        return torch.stack(rows, 1)

    @property
    def entries(self) -> int:
        """How many pairs of vectors they hold."""
        return len(self.memory) - 1


def value(name: str, column: Columns) -> Tensor:
    """The value of an edge's variable [N]; PAIR is finer than any of them, but knows no other column."""
    if name in (PAIR, EVERYTHING):
        return column.a * 10 + column.b
    return EDGE_VARIABLES[name].of(column)


def tables(batch: Batch, variables: list[list[str]], one_pair: bool = False) -> Tables:
    """From a batch's sums; one_pair: for each value only from sums with the middle pair of digits that has it."""
    memory = batch.memory.cpu()
    plus = batch.digits - 1
    blocks = []
    first = []
    count = 0
    for line in variables:
        first.append([])
        for k, name in enumerate(line):
            column = batch.columns.column(k)
            values = value(name, column)
            chosen = middle_pair(values, value(PAIR, column)) if one_pair else torch.ones_like(values, dtype=torch.bool)
            size = int(values.max()) + 1
            block = torch.zeros(size, *memory.shape[1:])
            found = values[chosen].bincount(minlength=size).clamp(min=1).unsqueeze(1)
            for position in (k, k + plus + 1):
                total = torch.zeros(size, memory.shape[2]).index_add_(0, values[chosen], memory[chosen, position])
                block[:, position] = total / found
            blocks.append(block)
            first[-1].append(count)
            count += size
    blocks.append(memory.mean(0, keepdim=True))
    return Tables(variables, torch.cat(blocks).to(batch.device), first)


def middle_pair(values: Tensor, pairs: Tensor) -> Tensor:
    """[N] True where a row has the middle one of all pairs with its value."""
    chosen = torch.zeros_like(values, dtype=torch.bool)
    for number in values.unique():
        having = pairs[values == number].unique()
        chosen |= (values == number) & (pairs == having[len(having) // 2])
    return chosen


def outcome(batch: Batch, tables: Tables) -> dict[str, Tensor]:
    return batch.outcome(edges=tables.edges(batch.columns), memory=tables.memory)
