"""Is the model right? Run it on every sum there is, and count errors by class of carry.

Three-digit operands make 810,000 pairs: the model runs on all of them, none is sampled. Longer operands make too many:
it runs on random pairs.
"""

import torch
from torch import Tensor
from tqdm import tqdm

from lab.statistics import margins, proportion
from problem1.analysis.context import Context
from problem1.analysis.rows import digits_text, operand_texts
from problem1.dataset import Sums, carries, decoder_inputs, every_pair, longest_chain, random_pairs, seen_in

QUESTION = "Is every sum right?"
FILES = ("verification.json",)
EXHAUSTIVE_DIGITS = 3  # four digits would be 81 million pairs: those are sampled
SAMPLES = 100_000  # random pairs
LISTED = 50  # wrong sums written out in full


@torch.no_grad()
def predict(model, sums: Sums, batch_size: int = 1024) -> tuple[Tensor, Tensor]:
    """The digits the model predicts [N, T], and the smallest logit margin of each row [N].

    One teacher-forced pass: up to its first wrong digit a row is what greedy decoding writes (see `score` in
    dataset.py). The margin is below 0 where the row is wrong.
    """
    device = next(model.parameters()).device
    inputs = decoder_inputs(sums.targets)
    predicted = []
    smallest = []
    chunks = range(0, len(sums), batch_size)
    for start in tqdm(chunks, desc="verifying", unit="batch", leave=False, disable=None):
        part = slice(start, start + batch_size)
        logits = model(sums.sources[part].to(device), inputs[part].to(device)).cpu()
        predicted.append(logits.argmax(-1))
        smallest.append(margins(logits, sums.targets[part]).amin(-1))
    return torch.cat(predicted), torch.cat(smallest)


def verify(model, train: Sums, batch_size: int = 1024) -> dict:
    """All pairs: errors, by class, and the wrong sums. Beyond three digits SAMPLES random pairs.

    train: the rows of training; pairs that they cannot have shown are counted apart.
    """
    digits = train.num_digits
    exhaustive = digits <= EXHAUSTIVE_DIGITS
    sums = every_pair(digits) if exhaustive else random_pairs(digits, SAMPLES, seed=1)
    predicted, smallest = predict(model, sums, batch_size)
    right = (predicted == sums.targets).all(1)
    carry = carries(sums)
    seen = seen_in(sums, train)
    return {
        "exhaustive": exhaustive,
        **count(right),
        "interval_95": None if exhaustive else proportion(right)["interval_95"],
        "smallest_margin": smallest.min().item(),
        "by_carries": _by_class(right, carry.sum(1)),
        "by_longest_chain": _by_class(right, longest_chain(carry)),
        "seen_in_training": count(right[seen]),
        "never_seen_in_training": count(right[~seen]),
        "wrong_by_digit": (predicted != sums.targets).sum(0).tolist(),
        "wrong_sums": wrong_sums(sums, predicted),
    }


def wrong_sums(sums: Sums, predicted: Tensor) -> list[str]:
    """'445 + 555 = 1000, the model writes 0990'"""
    wrong = []
    for row in (predicted != sums.targets).any(1).nonzero()[:LISTED, 0].tolist():
        a, b = operand_texts(sums, row)
        wrong.append(f"{a} + {b} = {int(a) + int(b)}, the model writes {digits_text(predicted[row])}")
    return wrong


def _by_class(right: Tensor, classes: Tensor) -> dict[str, dict]:
    return {str(value): count(right[classes == value]) for value in classes.unique().tolist()}


def count(right: Tensor) -> dict:
    pairs = len(right)
    errors = int((~right).sum())
    return {"pairs": pairs, "errors": errors, "accuracy": 1 - errors / pairs if pairs else None}


def run(context: Context) -> dict:
    """Write verification.json."""
    return context.write("verification.json", verify(context.model, context.rows["train"], context.batch_size))


def findings(results: dict) -> str:
    pairs = results["pairs"]
    unseen = results["never_seen_in_training"]
    kind = "" if results["exhaustive"] else "random "
    right = f"exact on {pairs - results['errors']:,} of {pairs:,} {kind}sums"
    lines = [
        f"{right}; smallest logit margin {results['smallest_margin']:.2f}",
        f"pairs that training cannot have shown: {unseen['errors']:,} errors in {unseen['pairs']:,}",
    ]
    return "\n".join(lines + [f"wrong: {text}" for text in results["wrong_sums"][:3]])
