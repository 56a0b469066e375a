"""Intervals, how far a measured share or mean may be from the true one; and logit margins."""

import math

import torch
from torch import Tensor

Z = 1.96  # standard errors on either side that 95% of a normal distribution lies within
RESAMPLES = 1000  # of the bootstrap


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95% interval of a share (Wilson 1927): sound also at 0 and at 1, where the usual one has no width."""
    if trials == 0:
        return (0.0, 1.0)
    share = successes / trials
    spread = Z * Z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = Z * math.sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == trials else min(1.0, middle + half)
    return (low, high)


def bootstrap(samples: Tensor) -> tuple[Tensor, Tensor]:
    """The 95% bootstrap interval of the mean over dimension 0: samples [N, …] -> (low […], high […])."""
    generator = torch.Generator().manual_seed(0)  # the same interval every time
    count = len(samples)
    flat = samples.reshape(count, -1).double()
    # How often each row is drawn, so that all resampled means are one matrix product.
    draws = torch.randint(count, (RESAMPLES, count), generator=generator)
    ones = torch.ones(1, dtype=torch.double).expand_as(draws)
    weights = torch.zeros(RESAMPLES, count, dtype=torch.double).scatter_add_(1, draws, ones)
    means = (weights @ flat / count).reshape(RESAMPLES, *samples.shape[1:])
    low, high = means.quantile(torch.tensor([0.025, 0.975], dtype=torch.double), dim=0)
    return low, high


def proportion(hits: Tensor) -> dict:
    """How many of [N] are true, with the 95% Wilson interval; None where there are none to count."""
    count = int(hits.sum())
    total = len(hits)
    if total == 0:
        return {"share": None, "interval_95": None, "n": 0}
    return {"share": count / total, "interval_95": list(wilson(count, total)), "n": total}


def margins(logits: Tensor, targets: Tensor) -> Tensor:
    """Logit margins: how far the right logit lies above the best wrong one. [..., V], [...] -> [...]"""
    right = targets.unsqueeze(-1)
    wrong = logits.scatter(-1, right, float("-inf")).amax(-1)
    return logits.gather(-1, right).squeeze(-1) - wrong
