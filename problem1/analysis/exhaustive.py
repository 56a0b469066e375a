"""Is the model right? Ask it every sum there is, and tell the answer by class of carry.

Three-digit operands make 810,000 pairs: all of them are put to the model, none is sampled.
"""

import torch
from torch import Tensor
from tqdm import tqdm

from lab.statistics import wilson
from problem1.dataset import Sums, carries, every_pair, longest_chain, random_pairs, seen_in, decoder_inputs

EXHAUSTIVE_DIGITS = 3  # four digits would be 81 million pairs: those are sampled
SAMPLES = 100_000
LISTED = 50  # wrong sums written out in full


@torch.no_grad()
def answers(model, sums: Sums, batch_size: int = 4096) -> tuple[Tensor, Tensor]:
    """What greedy decoding answers as far as it is right, and how sure: digits [N, T], margins [N].

    One teacher-forced pass (see `score` in dataset.py). The margin of a row is the least lead, over its digits,
    of the right symbol's logit over the best wrong one's; below 0 the row is wrong.
    """
    device = next(model.parameters()).device
    predicted, margins = [], []
    inputs = decoder_inputs(sums.targets)
    chunks = range(0, len(sums), batch_size)
    for start in tqdm(chunks, desc="verifying", unit="batch", leave=False, disable=None):
        part = slice(start, start + batch_size)
        logits = model(sums.sources[part].to(device), inputs[part].to(device))
        right = sums.targets[part].to(device).unsqueeze(-1)
        others = logits.scatter(-1, right, float("-inf")).amax(-1)
        predicted.append(logits.argmax(-1).cpu())
        margins.append((logits.gather(-1, right).squeeze(-1) - others).amin(-1).cpu())
    return torch.cat(predicted), torch.cat(margins)


def verify(model, trained: Sums, batch_size: int = 4096, seed: int = 1) -> dict:
    """All pairs (or, beyond three digits, 100,000 fresh random ones): errors, by class, and the wrong sums."""
    exhaustive = trained.num_digits <= EXHAUSTIVE_DIGITS
    sums = every_pair(trained.num_digits) if exhaustive else random_pairs(trained.num_digits, SAMPLES, seed)
    predicted, margins = answers(model, sums, batch_size)
    right = (predicted == sums.targets).all(1)
    carry = carries(sums)
    seen = seen_in(sums, trained)
    wrong = (~right).nonzero().flatten()
    errors, pairs = len(wrong), len(sums)
    return {
        "exhaustive": exhaustive,
        "pairs": pairs,
        "errors": errors,
        "accuracy": 1 - errors / pairs,
        "interval_95": list(wilson(pairs - errors, pairs)) if not exhaustive else None,
        "smallest_margin": margins.min().item(),
        "by_carries": _by_class(right, carry.sum(1)),
        "by_longest_chain": _by_class(right, longest_chain(carry)),
        "by_digits_of_sum": _by_class(right, trained.num_digits + (sums.targets[:, 0] > 0)),
        "seen_in_training": _share(right[seen]),
        "never_seen_in_training": _share(right[~seen]),
        "wrong_by_digit": (predicted != sums.targets).sum(0).tolist(),
        "wrong_sums": [describe(sums, predicted, row) for row in wrong[:LISTED].tolist()],
    }


def _by_class(right: Tensor, classes: Tensor) -> dict[str, dict]:
    return {str(value): _share(right[classes == value]) for value in classes.unique().tolist()}


def _share(right: Tensor) -> dict:
    pairs, errors = len(right), int((~right).sum())
    return {"pairs": pairs, "errors": errors, "accuracy": 1 - errors / pairs if pairs else None}


def describe(sums: Sums, predicted: Tensor, row: int) -> str:
    """'445 + 555 = 1000, the model says 0990'"""
    a, b = ("".join(map(str, operand[row].tolist())) for operand in sums.operands())
    said = "".join(str(token) if token < 10 else "?" for token in predicted[row].tolist())
    return f"{a} + {b} = {int(a) + int(b)}, the model says {said}"
