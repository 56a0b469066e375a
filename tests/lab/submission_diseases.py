"""The healthy submission with each known disease, and what is to be found then."""

import math
from collections.abc import Callable
from pathlib import Path

import PIL.Image
import torch

from tests.lab.submissions import (
    ABLATION,
    EPOCHS,
    HEADS,
    PROBLEM1,
    PROBLEM2,
    SHARES,
    TABLE,
    accuracies,
    change,
    checkpoint,
    load,
    log,
    weights,
    write,
)


def flat_loss(folder: Path) -> None:
    losses = [0.7012, *[0.6932 + 0.0003 * (n % 3) for n in range(EPOCHS - 1)]]
    change(folder, f"{PROBLEM2}/learned/training_log.json", train_loss=losses)


def one_class_everywhere(folder: Path) -> None:
    flat_loss(folder)
    share = [0.506] * EPOCHS
    change(folder, f"{PROBLEM2}/learned/training_log.json", test_acc=0.49, val_acc=share, train_acc=share)
    checkpoint(folder, f"{PROBLEM2}/learned/best_model.pth", 0.506)
    change(folder, TABLE, learned={n: round(1 - share, 3) for n, share in SHARES.items()})


def one_class_at_each_length(folder: Path) -> None:
    """Each length another class; of the training nothing is known."""
    for name in ("training_log.json", "best_model.pth", "training_curves.png"):
        (folder / PROBLEM2 / "sinusoidal" / name).unlink()
    change(folder, TABLE, sinusoidal={"32": 0.546, "64": 0.514, "128": 0.482, "256": 0.512})


def one_class_beyond(folder: Path) -> None:
    change(folder, TABLE, sinusoidal=SHARES)


def baseline(value: float, test: float | None = None) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        heads = {head: {"accuracy": value * share} for head, share in zip(HEADS, [0.1, 0.5, 0.99, 1] * 3, strict=True)}
        write(folder, ABLATION, {"baseline": value, "heads": heads})
        write(folder, f"{PROBLEM1}/head_analysis/head_importance_ranking.txt", "a\nb\nc\nd\n")
        if test is not None:
            write(folder, f"{PROBLEM1}/training_log.json", log(test, 0.3, 10))
            checkpoint(folder, f"{PROBLEM1}/best_model.pth", test)

    return make


def no_effect(folder: Path) -> None:
    write(folder, ABLATION, {"baseline": 0.9985} | {head: 0.9985 for head in HEADS})
    write(folder, f"{PROBLEM1}/head_analysis/head_importance_ranking.txt", "a\nb\nc\nd\n")


def all_redundant(folder: Path) -> None:
    drops = [0.0005, 0.001, 0.0005, 0.0] * 3
    heads = {head: 0.9985 - drop for head, drop in zip(HEADS, drops, strict=True)}
    write(folder, ABLATION, {"baseline": 0.9985, "heads": heads})


def conclusion_from_nothing(folder: Path) -> None:
    baseline(0.01, 0.01)(folder)
    write(folder, f"{PROBLEM1}/head_analysis/head_importance_ranking.txt", "a\nb\nc\nPrunable heads: 21/24 (87.5%)\n")


def missing(folder: Path) -> None:
    (folder / PROBLEM1 / "head_analysis/head_specialization.json").unlink()
    (folder / PROBLEM2 / "extrapolation/encoding_comparison.png").unlink()


def blank_figure(folder: Path) -> None:
    PIL.Image.new("RGB", (800, 600), "white").save(folder / PROBLEM1 / "training_curves.png")


def copied_figure(folder: Path) -> None:
    results = folder / PROBLEM2
    (results / "none/training_curves.png").write_bytes((results / "learned/training_curves.png").read_bytes())


def repacked_figure(folder: Path) -> None:
    patterns = folder / PROBLEM1 / "attention_patterns"
    PIL.Image.open(patterns / f"{HEADS[0]}.png").save(patterns / f"{HEADS[1]}.png", compress_level=1)


def broken_figure(folder: Path) -> None:
    path = folder / PROBLEM1 / "head_analysis/head_importance.png"
    path.write_bytes(path.read_bytes()[:1000])


def empty_figure(folder: Path) -> None:
    (folder / PROBLEM1 / "training_curves.png").write_bytes(b"")


def nan_in_log(folder: Path) -> None:
    losses = load(folder, f"{PROBLEM1}/training_log.json")["val_loss"]
    change(folder, f"{PROBLEM1}/training_log.json", val_loss=[*losses[:12], *[math.nan] * (EPOCHS - 12)])


def null_in_log(folder: Path) -> None:
    losses = load(folder, f"{PROBLEM1}/training_log.json")["train_loss"]
    change(folder, f"{PROBLEM1}/training_log.json", train_loss=[*losses[:-1], None])


def two_modes(folder: Path) -> None:
    change(folder, f"{PROBLEM1}/training_log.json", test_teacher_forcing_accuracy=0.9985, test_greedy_accuracy=0.349)


def greedy_apart(folder: Path) -> None:
    change(folder, f"{PROBLEM1}/training_log.json", greedy={"exact_match": 34.9, "digit_accuracy": 80.0})


def proof_of_another_model(folder: Path) -> None:
    write(folder, f"{PROBLEM1}/verification.json", {"pairs": 810_000, "errors": 0})


def impossible_ablation(folder: Path) -> None:
    change(folder, ABLATION, heads=accuracies(folder) | {HEADS[3]: -0.3})


def nan_in_weights(folder: Path) -> None:
    model = weights() | {"output.weight": torch.full((16, 16), math.nan)}
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.9985, model=model)


def impossible_accuracy(folder: Path) -> None:
    change(folder, f"{PROBLEM1}/training_log.json", test_acc=1.2)


def older_epoch(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", load(folder, f"{PROBLEM1}/training_log.json")["val_acc"][7], 8)


def later_epoch(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.9985, EPOCHS + 12)


def another_accuracy(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.4321)


def another_width(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.9985, model=weights(width=24))


def another_inner_width(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.9985, model=weights(inner=48))


def more_layers(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM2}/sinusoidal/best_model.pth", 0.9965, model=weights(layers=4))


# name -> what makes it, and everything that is to be found then, no more and no less
DISEASES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "the loss never leaves ln 2": (flat_loss, {"flat-loss"}),
    "one class, in and beyond the range": (one_class_everywhere, {"flat-loss", "constant-classifier"}),
    "one class at each length": (one_class_at_each_length, {"constant-classifier", "missing-deliverables"}),
    "one class beyond the range only": (one_class_beyond, {"constant-classifier"}),
    "no error among all, three in the test": (proof_of_another_model, {"proof-contradicted"}),
    "greedy decoding against the rest": (greedy_apart, {"two-modes"}),
    "two baselines": (baseline(0.5495), {"two-baselines"}),
    "the first digit given": (baseline(0.412), {"two-baselines", "first-digit-given"}),
    "the first digit given, nearly all the rest right": (baseline(0.4105, 0.4105), {"first-digit-given"}),
    "the commonest first digit given": (baseline(0.588), {"two-baselines", "first-digit-given"}),
    "zeros never learned": (baseline(0.349), {"two-baselines", "zero-as-padding"}),
    "ablation of a model at 0%": (baseline(0.0005, 0.0005), {"nothing-to-ablate"}),
    "the same accuracy without any head": (no_effect, {"ablation-without-effect"}),
    "every head redundant": (all_redundant, {"redundancy-unsupported"}),
    "a conclusion from nothing": (conclusion_from_nothing, {"nothing-to-ablate", "redundancy-unsupported"}),
    "missing": (missing, {"missing-deliverables"}),
    "blank figure": (blank_figure, {"blank-figure"}),
    "copied figure": (copied_figure, {"copied-figure"}),
    "repacked figure": (repacked_figure, {"copied-figure"}),
    "truncated figure": (broken_figure, {"broken-figure"}),
    "empty figure": (empty_figure, {"broken-figure"}),
    "NaN in the log": (nan_in_log, {"not-finite"}),
    "null in the log": (null_in_log, {"not-finite"}),
    "teacher forcing and greedy decoding": (two_modes, {"two-modes"}),
    "an accuracy below 0": (impossible_ablation, {"impossible-number"}),
    "NaN in the weights": (nan_in_weights, {"not-finite"}),
    "an accuracy of 120%": (impossible_accuracy, {"impossible-number"}),
    "checkpoint of an earlier epoch": (older_epoch, {"checkpoint-of-another-run"}),
    "checkpoint of a later epoch": (later_epoch, {"checkpoint-of-another-run"}),
    "checkpoint of another accuracy": (another_accuracy, {"checkpoint-of-another-run"}),
    "checkpoint of another width": (another_width, {"checkpoint-of-another-shape"}),
    "checkpoint of another inner width": (another_inner_width, {"checkpoint-of-another-shape"}),
    "checkpoint of more layers": (more_layers, {"checkpoint-of-another-shape"}),
}
