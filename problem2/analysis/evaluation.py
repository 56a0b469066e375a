"""The predictions of a model on test sets, and what is counted of them.

A share of correct answers alone deceives here: a model that says "not sorted" to everything is right on 54.6% of
the course's rows of length 32. So every number comes with both classes, and such a model is called collapsed.
"""

import statistics
from pathlib import Path

import torch
from torch import Tensor

from lab.statistics import wilson
from problem2.dataset import Rows, load_test_set, to_rows
from problem2.generate_data import TEST_ROWS, make_rows
from problem2.model import SortingClassifier

KINDS = {"extrapolation": "the course's unsorted rows (L/3 swaps)", "adjacent": "one swap of two neighbours"}
COLLAPSED_AT = 0.99  # of all predictions the same
BATCH_SIZE = 512
BALANCED_SEED = 3641  # of `balanced_rows`, beside the length
SCORES_AT_ONCE = 2**18  # attention scores of a batch, for each head: bounds memory at great lengths


def rows_used(length: int) -> int:
    """How many rows of a test set are used: all of them up to length 256, then fewer."""
    return TEST_ROWS if length <= 256 else max(50, 100 * 1024 // length)


def test_sets(data_dir: Path, lengths, rows: dict[str, Rows]) -> dict[str, Rows]:
    """The in-range test rows, and both kinds of longer sets: {"test": rows, "extrapolation/32": rows, …}

    Those with one swap of neighbours are made of the longest trained length as well.
    """
    _, longest = rows["train"].length_range()
    sets = {"test": rows["test"]}
    for kind, wanted in (("extrapolation", lengths), ("adjacent", [longest, *lengths])):
        for length in dict.fromkeys(wanted):
            sets[f"{kind}/{length}"] = load_test_set(data_dir, kind, length).part(slice(rows_used(length)))
    return sets


def balanced_rows(length: int, each: int) -> Rows:
    """Rows of one length, drawn as the course's are: the first `each` sorted and the first `each` unsorted ones."""
    drawn = to_rows([row["sequence"] for row in make_rows(length, length, 3 * each, BALANCED_SEED + length)])
    of_each_class = [(drawn.labels == label).nonzero().flatten()[:each] for label in (1, 0)]
    return drawn.part(torch.cat(of_each_class))


@torch.no_grad()
def logit_differences(model: SortingClassifier, sequences: Tensor, batch_size: int = BATCH_SIZE) -> Tensor:
    """[N, T] -> [N] logit of "sorted" minus logit of "not sorted", on the CPU."""
    device = next(model.parameters()).device
    rows_at_once = max(1, min(batch_size, SCORES_AT_ONCE // sequences.shape[1] ** 2))
    logits = torch.cat([model(part.to(device)).cpu() for part in sequences.split(rows_at_once)])
    return (logits[:, 1] - logits[:, 0]).double()


def judge(differences: Tensor, labels: Tensor) -> dict:
    """Numbers of one model on one test set, from its `logit_differences` [N] and the labels [N]."""
    predicted_sorted = differences > 0
    correct = predicted_sorted == labels.bool()
    share_sorted = predicted_sorted.double().mean().item()
    classes = {
        "sorted": judge_class(differences, correct, labels == 1),
        "unsorted": judge_class(differences, correct, labels == 0),
    }
    accuracy = correct.double().mean().item()
    has_both = 0 < int(labels.sum()) < len(labels)
    return {
        "rows": len(labels),
        "accuracy": accuracy,
        "interval_95": list(wilson(int(correct.sum()), len(correct))),
        # The mean of both classes' accuracies: 50% for a constant answer.
        "balanced_accuracy": sum(c["accuracy"] for c in classes.values()) / 2 if has_both else accuracy,
        **classes,
        "predicted_sorted": share_sorted,
        "collapsed": has_both and (share_sorted >= COLLAPSED_AT or share_sorted <= 1 - COLLAPSED_AT),
    }


def judge_class(differences: Tensor, correct: Tensor, chosen: Tensor) -> dict:
    """The numbers of the rows of one class; `chosen` [N] is True where they are."""
    count = int(chosen.sum())
    hits = int(correct[chosen].sum())
    return {
        "rows": count,
        "accuracy": hits / max(1, count),
        "interval_95": list(wilson(hits, count)),
        "margin_mean": differences[chosen].mean().item() if count else 0.0,
        "margin_sd": differences[chosen].std(correction=0).item() if count else 0.0,
    }


def measure(model: SortingClassifier, sets: dict[str, Rows], batch_size: int = BATCH_SIZE) -> dict[str, dict]:
    """{"extrapolation/64": numbers of `judge`, …} for each of the sets"""
    numbers = {}
    for name, rows in sets.items():
        numbers[name] = judge(logit_differences(model, rows.sequences, batch_size), rows.labels)
    return numbers


def over_seeds(reports: list[dict]) -> dict:
    """Numbers of `judge` for models that differ in their seed: mean, range, and how many have collapsed."""
    accuracies = [report["accuracy"] for report in reports]
    middle = sorted(reports, key=lambda report: report["accuracy"])[len(reports) // 2]
    return {
        "mean": statistics.fmean(accuracies),
        "min": min(accuracies),
        "max": max(accuracies),
        "rows": reports[0]["rows"],
        "balanced": statistics.fmean(report["balanced_accuracy"] for report in reports),
        "median_interval_95": middle["interval_95"],
        "sorted": statistics.fmean(report["sorted"]["accuracy"] for report in reports),
        "unsorted": statistics.fmean(report["unsorted"]["accuracy"] for report in reports),
        "collapsed_seeds": sum(report["collapsed"] for report in reports),
    }
