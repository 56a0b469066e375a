"""The valid submission in each layout that occurs: the same numbers, written in another way."""

import argparse
from pathlib import Path

import numpy
import PIL.Image
import torch

import tests.grading.submissions as valid
from tests.grading.submissions import ABLATION, EPOCHS, LOG, PROBLEM1, PROBLEM2, SHARES, TABLE, change, load, write

BASELINE = 0.9985


def at(n: int) -> tuple[int, int]:
    """Layer and head of the n-th head."""
    return n // 4, n % 4


# name -> an ablation_results.json with these accuracies without each of twelve heads
ABLATIONS = {
    "flat": lambda values: {"encoder_layer_{}_head_{}".format(*at(n)): value for n, value in enumerate(values)},
    "of lists": lambda values: {"baseline_accuracy": BASELINE, "encoder": {"0": values[:4], "1": values[4:8]}},
    "of records": lambda values: {
        "baseline": {"accuracy": BASELINE},
        "results": [
            {"type": "encoder", "layer": n // 4, "head": n % 4, "ablated_accuracy": value, "drop": BASELINE - value}
            for n, value in enumerate(values)
        ],
    },
    "of drops": lambda values: {
        "baseline": 99.85,
        "ablations": {
            "decoder_cross_L{}H{}".format(*at(n)): {"accuracy_drop": round(99.85 - 100 * value, 4), "std": 0.3}
            for n, value in enumerate(values)
        },
    },
    # numbers without a word for what they are, most of them about 0 and one below: drops
    "of importances": lambda values: {
        "baseline_accuracy": BASELINE,
        "head_ablation": {
            "encoder": [[BASELINE - v for v in row] for row in (values[:4], values[4:8], [*values[8:11], 0.999])]
        },
    },
    # the word nearest to a number tells what it is
    "under importance": lambda values: {
        "original_accuracy": BASELINE,
        "head_importance": {
            "enc_l{}_h{}".format(*at(n)): {"masked_accuracy": value, "accuracy_change": value - BASELINE}
            for n, value in enumerate(values)
        },
        **{"num_heads": 4, "num_layers": 2},
    },
    "in layers": lambda values: {
        "baseline": BASELINE,
        "ablation": {
            stack: {
                f"layer_{layer}": {
                    f"head_{n}": {"drop": BASELINE - values[4 * layer + n], "relative_drop_pct": 1.0} for n in range(4)
                }
                for layer in layers
            }
            for stack, layers in (("encoder_self", [0, 1]), ("decoder_cross", [2]))
        },
    },
    "by numbers": lambda values: (
        {"baseline": BASELINE, "betas": [0.9, 0.98]}
        | {"({}, {})".format(*at(n)): value for n, value in enumerate(values)}
    ),
    "in one list": lambda values: {
        **{"baseline_accuracy": BASELINE, "ablated_accuracies": values},
        **{"lr": 0.001, "per_place_accuracy": [0.99, 0.98, 0.97]},
    },
}

# name -> an extrapolation_results.json with these accuracies by encoding and length
TABLES = {
    "of pairs": lambda table: {name: [[int(n), v] for n, v in row.items()] for name, row in table.items()},
    "with the length again": lambda table: {
        name: {n: {"length": int(n), "accuracy": v} for n, v in row.items()} for name, row in table.items()
    },
    "of lists": lambda table: {name: [*row.values()] for name, row in table.items()},
    "with lengths": lambda table: {
        "test_lengths": [16, 32, 64, 128, 256],
        "accuracies": {name: [0.99, *row.values()] for name, row in table.items()},
    },
    "with own lengths": lambda table: {
        "results": {
            f"{name}_encoding": {"lengths": [int(n) for n in row], "accuracies": [*row.values()]}
            for name, row in table.items()
        }
    },
    "by accuracy": lambda table: {
        name: {"accuracy_by_length": [*row.values()], "seed": 3} for name, row in table.items()
    },
    "by length": lambda table: {
        f"len_{n}": {name: {"accuracy": row[n], "loss": 1.5} for name, row in table.items()} for n in SHARES
    },
    "of records": lambda table: [
        {"encoding": name, "length": int(n), "accuracy": value, "samples": 500}
        for name, row in table.items()
        for n, value in row.items()
    ],
}


def in_percent(folder: Path) -> None:
    values = {head: {"ablated": 100 * value} for head, value in valid.accuracies(folder).items()}
    write(folder, ABLATION, {"baseline": 99.85, "heads": values})
    for name in (LOG, f"{PROBLEM2}/none/training_log.json"):
        log = load(folder, name)
        percent = {key: [100 * value for value in log[key]] for key in ("train_acc", "val_acc")}
        change(folder, name, test_acc=100 * log["test_acc"], **percent)
    table = load(folder, TABLE)
    write(folder, TABLE, {name: {n: 100 * v for n, v in row.items()} for name, row in table.items()})


def log_with_other_names(folder: Path) -> None:
    log = load(folder, LOG)
    names = {"train_losses": "train_loss", "train_accuracies": "train_acc", "val_losses": "val_loss"}
    history = {other: log[name] for other, name in (names | {"val_accuracies": "val_acc"}).items()}
    test = {"loss": log["test_loss"], "sequence_accuracy": log["test_acc"], "token_accuracy": 0.9999}
    write(folder, LOG, {"history": history, "test": test})


def log_of_epochs(folder: Path) -> None:
    log = load(folder, LOG)
    names = ("train_loss", "train_acc", "val_loss", "val_acc")
    epochs = [{"epoch": n + 1} | {name: log[name][n] for name in names} for n in range(EPOCHS)]
    write(folder, LOG, {"epochs": epochs, "test_loss": 0.002, "test_accuracy": "99.85%"})


def log_of_nested_epochs(folder: Path) -> None:
    log = load(folder, LOG)
    epochs = {
        f"epoch_{n + 1}": {
            split: {kind: log[f"{split}_{kind}"][n] for kind in ("loss", "acc")} for split in ("train", "val")
        }
        for n in range(EPOCHS)
    }
    write(folder, LOG, {"history": epochs, "test": {"loss": 0.002, "accuracy": BASELINE}})


def moved_files(folder: Path) -> None:
    """Other letters, other folders; as long as nothing else has the name."""
    results = folder / PROBLEM1
    (results / "head_analysis/ablation_results.json").rename(results / "Ablation_Results.json")
    (results / "checkpoints").mkdir()
    (results / "best_model.pth").rename(results / "checkpoints/best_model.pth")
    (folder / "problem2").rename(folder / "Problem2")


def transparent_figure(folder: Path) -> None:
    """Black ink on nothing: without its transparency it would be one black area."""
    alpha = numpy.zeros((300, 400, 4), dtype=numpy.uint8)
    alpha[100:200, 100:200, 3] = 255
    PIL.Image.fromarray(alpha).save(folder / PROBLEM1 / "training_curves.png")


def with_proof(folder: Path) -> None:
    write(folder, f"{PROBLEM1}/verification.json", {"pairs": 810_000, "errors": 1300, "exhaustive": True})


def other_rows_forced(folder: Path) -> None:
    """Teacher forcing on training rows, greedy decoding on test rows: two numbers that may differ."""
    modes = {
        "train_teacher_forcing_accuracy": 0.9999,
        "test_greedy_accuracy": BASELINE,
        "digit_greedy_accuracy": 0.9996,
    }
    change(folder, LOG, **modes)


def collapse_reported(folder: Path) -> None:
    """One class for all beyond the range is no issue if the submission says so."""
    change(folder, TABLE, sinusoidal=SHARES)
    write(folder, f"{PROBLEM2}/extrapolation/details.json", {"sinusoidal": {"32": {"collapsed": True}}})


def plain_weights(folder: Path) -> None:
    torch.save(valid.weights(), folder / PROBLEM1 / "best_model.pth")


def weights_with_company(folder: Path) -> None:
    """What people save beside the weights: the optimizer, numpy's scalars, the arguments."""
    content = {
        "model_state_dict": valid.weights(),
        "optimizer_state_dict": {"state": {0: torch.ones(3)}},
        "epoch": EPOCHS - 1,
        "val_accuracy": numpy.float64(BASELINE),
        "args": argparse.Namespace(d_model=16, lr=1e-3),
    }
    torch.save(content, folder / PROBLEM1 / "best_model.pth")


def move(folder: Path, old: str, new: str) -> None:
    (folder / new).parent.mkdir(parents=True, exist_ok=True)
    (folder / old).rename(folder / new)


def where_the_starter_puts_them(folder: Path) -> None:
    move(folder, f"{PROBLEM1}/head_analysis/head_specialization.json", f"{PROBLEM1}/head_analysis/head_analysis.json")
    beyond = f"{PROBLEM2}/extrapolation"
    for own, name in (("position_viz", "learned_position_embeddings"), ("encoding_comparison", "encoding_comparison")):
        move(folder, f"{beyond}/{name}.png", f"{beyond}/{own}/{name}.png")


def in_folders_of_their_own(folder: Path) -> None:
    move(folder, f"{PROBLEM1}/head_analysis/head_specialization.json", f"{PROBLEM1}/quantitative/head_analysis.json")
    move(folder, ABLATION, f"{PROBLEM1}/head_ablation_results.json")
    name = "learned_position_embeddings.png"
    move(folder, f"{PROBLEM2}/extrapolation/{name}", f"{PROBLEM2}/learned/positional visualization/{name}")


def percent_beside_shares(*names: str):
    def make(folder: Path) -> None:
        log = load(folder, LOG)
        percent = {name: [100 * value for value in log[name]] for name in names}
        change(folder, LOG, **percent)

    make.__name__ = f"percent_in_{'_'.join(names)}"
    return make


def percent_but_for_the_test(folder: Path) -> None:
    percent_beside_shares("train_acc", "val_acc")(folder)


def more_heads_than_needed(folder: Path) -> None:
    change(folder, LOG, test_acc=1.0)
    heads = {f"encoder.{layer}.self.head{head}": 1.0 for layer in range(6) for head in range(8)}
    write(folder, ABLATION, {"baseline": 1.0, "heads": heads})


def heads_that_cost_little(folder: Path) -> None:
    change(folder, LOG, test_acc=1.0)
    heads = {f"encoder.{n // 8}.self.head{n % 8}": 1.0 - 0.0005 * (n % 4) for n in range(48)}
    write(folder, ABLATION, {"baseline": 1.0, "heads": heads})


def validated_every_fifth_epoch(folder: Path) -> None:
    log = load(folder, LOG)
    for name in ("val_loss", "val_acc"):
        log[name] = [value if n % 5 == 4 else None for n, value in enumerate(log[name])]
    write(folder, LOG, log)


def layers_of_both_stacks(folder: Path) -> None:
    """num_layers 4 means two in the encoder and two in the decoder."""
    model = valid.weights()
    model |= {name.replace("encoder", "decoder"): value for name, value in model.items() if "encoder" in name}
    valid.checkpoint(folder, f"{PROBLEM1}/best_model.pth", BASELINE, model=model)
    change(folder, LOG, config=load(folder, LOG)["config"] | {"num_layers": 4})


OTHERS = [where_the_starter_puts_them, in_folders_of_their_own, more_heads_than_needed, heads_that_cost_little]
OTHERS += [percent_beside_shares("train_acc"), percent_beside_shares("val_acc"), percent_but_for_the_test]
OTHERS += [validated_every_fifth_epoch, layers_of_both_stacks, in_percent, log_with_other_names, log_of_epochs]
OTHERS += [log_of_nested_epochs, moved_files, transparent_figure]
OTHERS += [with_proof, other_rows_forced, collapse_reported, plain_weights, weights_with_company]
