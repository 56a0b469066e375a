"""Interchange: columns of different pairs in one memory, so that the model's variables contradict each other."""

import torch
from torch import Tensor

from beyond.program.scrub import Batch


def any_rows(batch: Batch, digits: int, nines: float = 0.0) -> Tensor:
    """[N, digits, columns] random rows, for each digit or for all of them (1); a share `nines` of them from pairs whose
    column sums to 9."""
    shape = (len(batch), digits, batch.digits - 1)
    rows = torch.randint(len(batch), shape, generator=batch.generator)
    if nines:
        replaced = torch.rand(shape, generator=batch.generator) < nines
        for k in range(shape[2]):
            found = (batch.columns.sum[:, k] == 9).nonzero().flatten()
            drawn = found[torch.randint(len(found), shape[:2], generator=batch.generator)]
            rows[:, :, k] = torch.where(replaced[:, :, k], drawn, rows[:, :, k])
    return rows


def seen(batch: Batch, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The sums and the carries coming in, [N, T, columns] each, of columns from these rows."""
    columns, rows = torch.arange(rows.shape[2]), rows.expand(-1, batch.digits, -1)
    return batch.columns.sum[rows, columns], batch.columns.carry_in[rows, columns]


def opposite_carries(batch: Batch) -> Tensor:
    """[N, columns] for each column of each sum an unrelated sum with the same two digits there, into which the
    opposite carry comes; into the last column none ever comes."""
    it = batch.columns
    columns = batch.digits - 1
    rows = []
    for k in range(columns):
        pair = (it.a[:, k] * 10 + it.b[:, k]) * 2
        wanted = pair + (1 - it.carry_in[:, k] if k < columns - 1 else 0)
        rows.append(random_match(pair + it.carry_in[:, k], wanted, batch.generator))
    return torch.stack(rows, 1)


def random_match(values: Tensor, wanted: Tensor, generator: torch.Generator) -> Tensor:
    """[N] for each entry of `wanted` the index of a random entry of `values` that is equal to it."""
    order = values.argsort()
    counts = values.bincount(minlength=int(wanted.max()) + 1)
    missing = wanted[counts[wanted] == 0]
    if len(missing):
        raise ValueError(f"no row has the value {int(missing[0])}: more rows are needed")
    starts = counts.cumsum(0) - counts
    chosen = (torch.rand(len(wanted), generator=generator, dtype=torch.double) * counts[wanted]).long()
    return order[starts[wanted] + chosen]


def with_opposite_carries(batch: Batch, memory: Tensor) -> Tensor:
    """[N] True where the answer is still right when every column, and '+', comes from such an unrelated sum."""
    rows = batch.with_plus(opposite_carries(batch).unsqueeze(1))
    written = batch.written(edges=rows, memory=memory)
    return (written == batch.sums.targets).all(1)
