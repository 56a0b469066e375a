"""The valid submission in each layout that occurs: the same numbers, written in another way."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy
import PIL.Image
import torch

from tests.grading.submissions import (
    ABLATION,
    EPOCHS,
    LOG,
    PROBLEM1,
    PROBLEM2,
    SHARES,
    TABLE,
    accuracies,
    change,
    load,
    weights,
    write,
)

LAYOUTS: list[Callable[[Path], None]] = []


def layout(make: Callable[[Path], None]) -> Callable[[Path], None]:
    LAYOUTS.append(make)
    return make


@layout
def flat_ablation(folder: Path) -> None:
    names = [f"encoder_layer_{n // 4}_head_{n % 4}" for n in range(12)]
    write(folder, ABLATION, dict(zip(names, accuracies(folder).values(), strict=True)))


@layout
def ablation_of_lists(folder: Path) -> None:
    values = list(accuracies(folder).values())
    write(folder, ABLATION, {"baseline_accuracy": 0.9985, "encoder": {"0": values[:4], "1": values[4:8]}})


@layout
def ablation_of_records(folder: Path) -> None:
    values = enumerate(accuracies(folder).values())
    records = [
        {"type": "encoder", "layer": n // 4, "head": n % 4, "ablated_accuracy": value, "drop": 0.9985 - value}
        for n, value in values
    ]
    write(folder, ABLATION, {"baseline": {"accuracy": 0.9985}, "results": records})


@layout
def ablation_of_drops(folder: Path) -> None:
    drops = {
        f"decoder_cross_L{n // 4}H{n % 4}": {"accuracy_drop": round(99.85 - 100 * value, 4), "std": 0.3}
        for n, value in enumerate(accuracies(folder).values())
    }
    write(folder, ABLATION, {"baseline": 99.85, "ablations": drops})


@layout
def ablation_of_importances(folder: Path) -> None:
    """Numbers without a word for what they are, most of them about 0 and one below: drops."""
    drops = [0.9985 - value for value in accuracies(folder).values()]
    matrix = [drops[:4], drops[4:8], [*drops[8:11], -0.0005]]
    write(folder, ABLATION, {"baseline_accuracy": 0.9985, "head_ablation": {"encoder": matrix}})


@layout
def ablation_under_importance(folder: Path) -> None:
    """What stands nearest to a number tells what it is."""
    values = enumerate(accuracies(folder).values())
    heads = {f"enc_l{n // 4}_h{n % 4}": {"masked_accuracy": v, "accuracy_change": v - 0.9985} for n, v in values}
    write(folder, ABLATION, {"original_accuracy": 0.9985, "head_importance": heads, "num_heads": 4, "num_layers": 2})


@layout
def ablation_in_layers(folder: Path) -> None:
    values = accuracies(folder).values()
    heads = {"encoder_self": {}, "decoder_cross": {}}
    for n, value in enumerate(values):
        stack = heads["encoder_self" if n < 8 else "decoder_cross"]
        stack.setdefault(f"layer_{n // 4}", {})[f"head_{n % 4}"] = {"drop": 0.9985 - value, "relative_drop_pct": 1.0}
    write(folder, ABLATION, {"baseline": 0.9985, "ablation": heads})


@layout
def ablation_by_numbers(folder: Path) -> None:
    write(
        folder,
        ABLATION,
        {"baseline": 0.9985, "betas": [0.9, 0.98]}
        | {f"({n // 4}, {n % 4})": value for n, value in enumerate(accuracies(folder).values())},
    )


@layout
def ablation_in_one_list(folder: Path) -> None:
    content = {"baseline_accuracy": 0.9985, "ablated_accuracies": [*accuracies(folder).values()], "lr": 0.001}
    write(folder, ABLATION, content | {"per_place_accuracy": [0.99, 0.98, 0.97]})


@layout
def in_percent(folder: Path) -> None:
    values = {head: {"ablated": 100 * value} for head, value in accuracies(folder).items()}
    write(folder, ABLATION, {"baseline": 99.85, "heads": values})
    for name in (LOG, f"{PROBLEM2}/none/training_log.json"):
        content = load(folder, name)
        for key in ("train_acc", "val_acc"):
            content[key] = [100 * value for value in content[key]]
        write(folder, name, content | {"test_acc": 100 * content["test_acc"]})
    table = load(folder, TABLE)
    write(folder, TABLE, {name: {n: 100 * v for n, v in row.items()} for name, row in table.items()})


@layout
def other_names(folder: Path) -> None:
    content = load(folder, LOG)
    renamed = {
        "history": {
            "train_losses": content["train_loss"],
            "train_accuracies": content["train_acc"],
            "val_losses": content["val_loss"],
            "val_accuracies": content["val_acc"],
        },
        "test": {"loss": content["test_loss"], "sequence_accuracy": content["test_acc"], "token_accuracy": 0.9999},
    }
    write(folder, LOG, renamed)


@layout
def log_of_epochs(folder: Path) -> None:
    content = load(folder, LOG)
    names = ("train_loss", "train_acc", "val_loss", "val_acc")
    epochs = [{"epoch": n + 1} | {name: content[name][n] for name in names} for n in range(EPOCHS)]
    write(folder, LOG, {"epochs": epochs, "test_loss": 0.002, "test_accuracy": "99.85%"})


@layout
def log_of_nested_epochs(folder: Path) -> None:
    content = load(folder, LOG)
    epochs = {
        f"epoch_{n + 1}": {
            part: {kind: content[f"{part}_{kind}"][n] for kind in ("loss", "acc")} for part in ("train", "val")
        }
        for n in range(EPOCHS)
    }
    write(folder, LOG, {"history": epochs, "test": {"loss": 0.002, "accuracy": 0.9985}})


@layout
def table_of_lists(folder: Path) -> None:
    rows = {name: list(row.values()) for name, row in load(folder, TABLE).items()}
    write(folder, TABLE, rows)


@layout
def table_with_lengths(folder: Path) -> None:
    rows = {name: [0.99, *row.values()] for name, row in load(folder, TABLE).items()}
    write(folder, TABLE, {"test_lengths": [16, 32, 64, 128, 256], "accuracies": rows})


@layout
def table_with_own_lengths(folder: Path) -> None:
    table = load(folder, TABLE)
    rows = {
        f"{name}_encoding": {"lengths": [int(n) for n in row], "accuracies": [*row.values()]}
        for name, row in table.items()
    }
    write(folder, TABLE, {"results": rows})


@layout
def table_by_accuracy(folder: Path) -> None:
    rows = {name: {"accuracy_by_length": [*row.values()], "seed": 3} for name, row in load(folder, TABLE).items()}
    write(folder, TABLE, rows)


@layout
def table_by_length(folder: Path) -> None:
    table = load(folder, TABLE)
    write(
        folder,
        TABLE,
        {f"len_{n}": {name: {"accuracy": row[n], "loss": 1.5} for name, row in table.items()} for n in SHARES},
    )


@layout
def table_of_records(folder: Path) -> None:
    records = [
        {"encoding": name, "length": int(n), "accuracy": value, "samples": 500}
        for name, row in load(folder, TABLE).items()
        for n, value in row.items()
    ]
    write(folder, TABLE, records)


@layout
def moved_files(folder: Path) -> None:
    """Other letters, other folders; as long as nothing else has the name."""
    results = folder / PROBLEM1
    (results / "head_analysis/ablation_results.json").rename(results / "Ablation_Results.json")
    (results / "checkpoints").mkdir()
    (results / "best_model.pth").rename(results / "checkpoints/best_model.pth")
    (folder / "problem2").rename(folder / "Problem2")


@layout
def transparent_figure(folder: Path) -> None:
    """Black ink on nothing: without its transparency it would be one black area."""
    alpha = numpy.zeros((300, 400, 4), dtype=numpy.uint8)
    alpha[100:200, 100:200, 3] = 255
    PIL.Image.fromarray(alpha).save(folder / PROBLEM1 / "training_curves.png")


@layout
def with_proof(folder: Path) -> None:
    write(folder, f"{PROBLEM1}/verification.json", {"pairs": 810_000, "errors": 1300, "exhaustive": True})


@layout
def other_rows_forced(folder: Path) -> None:
    """Teacher forcing on training rows, greedy decoding on test rows: two numbers that may differ."""
    modes = {"train_teacher_forcing_accuracy": 0.9999, "test_greedy_accuracy": 0.9985, "digit_greedy_accuracy": 0.9996}
    change(folder, LOG, **modes)


@layout
def collapse_reported(folder: Path) -> None:
    """One class for all beyond the range is no issue if the submission says so."""
    change(folder, TABLE, sinusoidal=SHARES)
    write(folder, f"{PROBLEM2}/extrapolation/details.json", {"sinusoidal": {"32": {"collapsed": True}}})


@layout
def plain_weights(folder: Path) -> None:
    torch.save(weights(), folder / PROBLEM1 / "best_model.pth")


@layout
def weights_with_company(folder: Path) -> None:
    """What people save beside the weights: the optimiser, numpy's scalars, the arguments."""

    content = {
        "model_state_dict": weights(),
        "optimizer_state_dict": {"state": {0: torch.ones(3)}},
        "epoch": EPOCHS - 1,
        "val_accuracy": numpy.float64(0.9985),
        "args": argparse.Namespace(d_model=16, lr=1e-3),
    }
    torch.save(content, folder / PROBLEM1 / "best_model.pth")
