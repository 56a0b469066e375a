"""The predictions of a model on test sets, and what is counted of them.

A share of correct answers alone deceives here: a model that says "not sorted" to everything is right on 54.6% of
the course's rows of length 32. So every number comes with both classes, and such a model is called collapsed.
"""

from pathlib import Path

import torch
from torch import Tensor

from lab.statistics import wilson
from problem2.dataset import Rows, load_test_set
from problem2.generate_data import TEST_ROWS
from problem2.model import SortingClassifier

KINDS = {"extrapolation": "the course's negatives (L/3 swaps)", "adjacent": "one swap of two neighbours"}
COLLAPSED_AT = 0.99  # of all predictions the same
SCORES_AT_ONCE = 2**18  # attention scores of a batch, for each head: bounds memory at great lengths


def rows_used(length: int) -> int:
    """How many rows of a test set are used: all of them up to length 256, then fewer."""
    return TEST_ROWS if length <= 256 else max(50, 100 * 1024 // length)


def test_sets(data_dir: Path, lengths, rows: dict[str, Rows]) -> dict[str, Rows]:
    """The in-range test rows, and both kinds of longer sets."""
    sets, longest = {"test": rows["test"]}, rows["train"].length_range()[1]
    for kind, wanted in (("extrapolation", lengths), ("adjacent", [longest, *lengths])):
        for length in dict.fromkeys(wanted):
            sets[f"{kind}/{length}"] = load_test_set(data_dir, kind, length).part(slice(rows_used(length)))
    return sets


@torch.no_grad()
def margins(model: SortingClassifier, sequences: Tensor, batch_size: int = 512) -> Tensor:
    """[N, T] -> [N] logit of "sorted" minus logit of "not sorted", on the CPU."""
    device = next(model.parameters()).device
    rows_at_once = max(1, min(batch_size, SCORES_AT_ONCE // sequences.shape[1] ** 2))
    logits = torch.cat([model(part.to(device)).cpu() for part in sequences.split(rows_at_once)])
    return (logits[:, 1] - logits[:, 0]).double()


def predict(model: SortingClassifier, sets: dict[str, Rows], batch_size: int = 512) -> dict[str, Tensor]:
    """{"extrapolation/64": rows, …} -> {"extrapolation/64": margins [N], …}"""
    return {name: margins(model, rows.sequences, batch_size) for name, rows in sets.items()}


def judge(margin: Tensor, labels: Tensor) -> dict:
    """Numbers of one model on one test set, from its margins [N] and the labels [N]."""
    predicted_sorted = margin > 0
    correct = predicted_sorted == labels.bool()
    share = predicted_sorted.double().mean().item()
    classes = {}
    for name, chosen in (("sorted", labels == 1), ("unsorted", labels == 0)):
        count, hits = int(chosen.sum()), int(correct[chosen].sum())
        classes[name] = {
            "rows": count,
            "accuracy": hits / max(1, count),
            "interval_95": list(wilson(hits, count)),
            "margin_mean": margin[chosen].mean().item() if count else 0.0,
            "margin_sd": margin[chosen].std(correction=0).item() if count else 0.0,
        }
    accuracy, both = correct.double().mean().item(), 0 < int(labels.sum()) < len(labels)
    return {
        "rows": len(labels),
        "accuracy": accuracy,
        "interval_95": list(wilson(int(correct.sum()), len(correct))),
        # The mean of both classes' accuracies: 50% for a constant answer.
        "balanced_accuracy": sum(c["accuracy"] for c in classes.values()) / 2 if both else accuracy,
        **classes,
        "predicted_sorted": share,
        "collapsed": both and (share >= COLLAPSED_AT or share <= 1 - COLLAPSED_AT),
    }


def measure(margins: dict[str, Tensor], sets: dict[str, Rows]) -> dict[str, dict]:
    """Margins of `predict` -> {"extrapolation/64": numbers of `judge`, …}"""
    return {name: judge(margin, sets[name].labels) for name, margin in margins.items()}
