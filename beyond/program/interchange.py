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
