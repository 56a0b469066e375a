"""Is what can be read also used? The memory of a column that sums to 9, and the carry that came into it.

A linear probe reads that carry from the column's two memory vectors. A probe that read the column's own digits alone
would be right in about half of the sums. Then such columns stand over lower columns of another sum, which send the
opposite carry: does the digit go by what is readable in the memory, or by the lower columns?
"""

import torch
from torch import Tensor

from beyond.program.interchange import any_rows, seen
from beyond.program.program import carry_out, write
from beyond.program.scrub import Batch
from lab.statistics import proportion
from problem1.dataset import decoder_inputs

STEPS, RIDGE = 8, 1e-3  # Newton's method; a little ridge keeps it finite where classes can be separated


def fit(vectors: Tensor, labels: Tensor) -> Tensor:
    """Logistic regression: vectors [N, d], labels [N] of 0 and 1 -> weights [d + 1], the last one the constant."""
    x = with_constant(vectors)
    weights = torch.zeros(x.shape[1], dtype=x.dtype)
    ridge = RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    for _ in range(STEPS):
        probability = torch.sigmoid(x @ weights)
        gradient = x.T @ (probability - labels) + ridge @ weights
        hessian = (x * (probability * (1 - probability)).unsqueeze(1)).T @ x + ridge
        weights = weights - torch.linalg.solve(hessian, gradient)
    return weights


def with_constant(vectors: Tensor) -> Tensor:
    return torch.cat([vectors.double(), torch.ones(len(vectors), 1, dtype=torch.double)], 1)


def probe(batch: Batch, column: int) -> dict:
    """How often the carry into a column that sums to 9 can be read from its memory, fitted on half of the sums; and how
    often it can be guessed from the column's two digits."""
    it = batch.columns.column(column)
    here = it.sum == 9
    positions = [column, column + batch.digits]
    vectors = batch.memory.cpu()[here][:, positions].flatten(1)
    labels = it.carry_in[here]
    half = len(labels) // 2
    mean, scale = vectors[:half].mean(0), vectors[:half].std(0).clamp(min=1e-6)
    vectors = (vectors - mean) / scale
    weights = fit(vectors[:half], labels[:half].double())
    read = with_constant(vectors[half:]) @ weights > 0
    # The best guess from a's digit, which tells b's: the commoner carry among the sums it was fitted on.
    counts = torch.zeros(10, 2).index_put_((it.a[here][:half], labels[:half]), torch.ones(1), accumulate=True)
    guess = counts.argmax(1)[it.a[here][half:]]
    return {"read": proportion(read == labels[half:]), "from_own_digits": proportion(guess == labels[half:])}


def followed(batch: Batch, digit: int) -> dict:
    """Where the column below a digit sums to 9, and the carry in its memory is not the one that the lower columns send:
    how often the digit goes by the memory."""
    rows = any_rows(batch, 1, nines=0.5)
    sums, carry_in = seen(batch, rows)
    sent = carry_out(sums[:, digit], digit)
    held = carry_in[:, digit, digit]
    contradict = (sums[:, digit, digit] == 9) & (sent != held)
    own = sums[:, digit, digit - 1]
    inputs = decoder_inputs(write(sums, carry_in))
    written = batch.written(inputs=inputs, edges=batch.with_plus(rows))[:, digit]
    return proportion(((written - own) % 10 == held)[contradict])


def measure(batch: Batch, digit: int) -> dict:
    """Of a digit of the answer and the column right below it, which has the same index."""
    return probe(batch, digit) | {"followed": followed(batch, digit)}
