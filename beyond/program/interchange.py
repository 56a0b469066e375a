"""Interchange: columns of different pairs in one memory, so that the model's variables contradict each other."""

import torch
from torch import Tensor

from beyond.program.program import sources
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


def fitting_rows(batch: Batch) -> Tensor:
    """[N, 1, columns], the same for every digit: in each column the carry comes in that the column below sends."""
    it, rows = batch.columns, [batch.anything()]
    for k in range(batch.digits - 3, -1, -1):
        below = rows[0]
        wanted = (it.sum[below, k + 1] + it.carry_in[below, k + 1]) // 10
        row = torch.empty_like(below)
        for value in (0, 1):
            found, needed = (it.carry_in[:, k] == value).nonzero().flatten(), wanted == value
            row[needed] = found[torch.randint(len(found), (int(needed.sum()),), generator=batch.generator)]
        rows.insert(0, row)
    return torch.stack(rows, 1).unsqueeze(1)


def seen(batch: Batch, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The sums and the carries coming in, [N, T, columns] each, of columns from these rows."""
    columns, rows = torch.arange(rows.shape[2]), rows.expand(-1, batch.digits, -1)
    return batch.columns.sum[rows, columns], batch.columns.carry_in[rows, columns]


def contradictory(sums: Tensor, carry_in: Tensor, answer: Tensor) -> Tensor:
    """[N] True where the sources of some digit's carry disagree, so that another program could answer otherwise."""
    found = torch.zeros(len(sums), dtype=torch.bool)
    for t in range(sums.shape[2]):
        before = answer[:, t - 1] if t else torch.zeros_like(answer[:, 0])
        nine = sums[:, t, t - 1] == 9  # only then does the digit before tell the carry
        first, *others = sources(t, sums.shape[2])
        for source in others:
            differs = source.carry(t, sums, carry_in, before) != first.carry(t, sums, carry_in, before)
            found |= differs & nine if source.kind == "written" else differs
    return found
