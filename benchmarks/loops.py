"""Time to a model that is right: our training loop beside the usual recipe of this homework, on the same rows.

The usual recipe: a Dataset that makes a row at a time, a DataLoader with a collate function, batch 64, Adam at 1e-3,
50 epochs, no augmentation, nn.Transformer of the same sizes. What differs is everything our recipe does; the sizes,
the rows and the machine do not.
"""

import tempfile
import time
from pathlib import Path

import torch

from benchmarks import rivals
from benchmarks.steps import products_in
from lab.training import Task, train
from problem1.analysis.exhaustive import verify
from problem1.dataset import VOCAB_SIZE, Sums, load_or_generate, score, swap_columns
from problem1.model import Seq2SeqTransformer
from problem1.train import HERE as PROBLEM
from problem1.train import Settings, recipe

MARKS = (0.995, 1.0)  # validation accuracies that are waited for
USUAL_EPOCHS = 50
UNAVERAGED = {"average": 0.0}  # the weights of the moment: the same steps, other weights validated and kept


def model(seed: int) -> Seq2SeqTransformer:
    torch.manual_seed(seed)
    return Seq2SeqTransformer(VOCAB_SIZE, max_len=8)


def ours(rows: dict[str, Sums], seed: int, **changes) -> dict:
    """problem1's default recipe, or with `changes`; the seconds of an epoch are equal shares of the whole."""
    settings, trained = Settings(**changes), model(seed)
    batches = ((sums.sources, sums.targets) for sums in rows.values())
    task = Task("benchmark", *batches, score, swap_columns)
    with tempfile.TemporaryDirectory() as folder, products_in(settings.precision):
        log = train(trained, task, recipe(settings), {"seed": seed}, Path(folder), seed, resume=False)
    epoch = log["seconds"] / settings.epochs
    checked = verify(trained.eval(), rows["train"])
    return {
        "seconds": log["seconds"],
        "epochs": settings.epochs,
        "seconds_to": {str(mark): reached(log["val_acc"], mark, epoch) for mark in MARKS},
        "best_val_acc": max(log["val_acc"]),
        "errors_of_all_pairs": checked["errors"],
        "pairs": checked["pairs"],
        "smallest_margin": checked["smallest_margin"],
    }


def usual(rows: dict[str, Sums], seed: int) -> dict:
    """The usual recipe, timed without its data's reading and until its last epoch or 100%."""
    lists = {
        name: [
            {"input": source, "target": target}
            for source, target in zip(sums.sources.tolist(), sums.targets.tolist(), strict=True)
        ]
        for name, sums in rows.items()
    }
    trained = rivals.seq2seq_twin(model(seed))
    optimizer = torch.optim.Adam(trained.parameters(), lr=1e-3)
    shown, asked = rivals.loader(lists["train"], shuffle=True), rivals.loader(lists["val"], shuffle=False)
    accuracies, spent, started = [], [], time.perf_counter()
    for _ in range(USUAL_EPOCHS):
        rivals.usual_epoch(trained, shown, optimizer)
        accuracies.append(rivals.usual_validation(trained, asked))
        spent.append(time.perf_counter() - started)
        if accuracies[-1] == 1.0:
            break
    epoch = spent[-1] / len(spent)
    checked = verify(trained.eval(), rows["train"])
    return {
        "seconds": spent[-1],
        "epochs": len(spent),
        "seconds_to": {str(mark): reached(accuracies, mark, epoch) for mark in MARKS},
        "best_val_acc": max(accuracies),
        "errors_of_all_pairs": checked["errors"],
        "pairs": checked["pairs"],
        "smallest_margin": checked["smallest_margin"],
    }


def reached(accuracies: list[float], mark: float, epoch: float) -> float | None:
    """The seconds at the end of the first epoch at or above the mark; None if there was none."""
    return next((number * epoch for number, accuracy in enumerate(accuracies, 1) if accuracy >= mark), None)


def measure(seeds: list[int]) -> dict:
    """Runs of both in turns; a ratio is the usual recipe's seconds by ours, at least that where it never arrives."""
    rows = load_or_generate(PROBLEM / "data")
    runs = []
    for seed in seeds:
        run = {"seed": seed, "ours": ours(rows, seed), "ours_unaveraged": ours(rows, seed, **UNAVERAGED)}
        runs.append(run | {"ours_bfloat16": ours(rows, seed, precision="bfloat16"), "usual": usual(rows, seed)})
    for run in runs:
        for name in ("ours", "ours_unaveraged"):
            run[name]["ratio"] = {
                mark: mine and (run["usual"]["seconds_to"][mark] or run["usual"]["seconds"]) / mine
                for mark, mine in run[name]["seconds_to"].items()
            }
    return {"usual_epochs": USUAL_EPOCHS, "runs": runs}
