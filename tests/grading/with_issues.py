"""The valid submission with each known issue, and all that the grader must name then."""

import math
from collections.abc import Callable
from pathlib import Path

import PIL.Image
import torch

from tests.grading.submissions import (
    ABLATION,
    EPOCHS,
    HEADS,
    LOG,
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

CASES: dict[str, tuple[Callable[[Path], None], set[str]]] = {}


def case(name: str, *issues: str):
    """Register what makes a case under its name, with all issues that must be found: no more and no fewer."""

    def register(make: Callable[[Path], None]) -> Callable[[Path], None]:
        CASES[name] = make, {*issues}
        return make

    return register


@case("the loss never leaves ln 2", "flat-loss")
def flat_loss(folder: Path) -> None:
    losses = [0.7012, *[0.6932 + 0.0003 * (n % 3) for n in range(EPOCHS - 1)]]
    change(folder, f"{PROBLEM2}/learned/training_log.json", train_loss=losses)


@case("one class, in and beyond the range", "flat-loss", "constant-classifier")
def one_class_everywhere(folder: Path) -> None:
    flat_loss(folder)
    share = [0.506] * EPOCHS
    change(folder, f"{PROBLEM2}/learned/training_log.json", test_acc=0.49, val_acc=share, train_acc=share)
    checkpoint(folder, f"{PROBLEM2}/learned/best_model.pth", 0.506)
    change(folder, TABLE, learned={n: round(1 - share, 3) for n, share in SHARES.items()})


@case("one class at each length", "constant-classifier", "missing-deliverables")
def one_class_at_each_length(folder: Path) -> None:
    """Each length another class; of the training nothing is known."""
    for name in ("training_log.json", "best_model.pth", "training_curves.png"):
        (folder / PROBLEM2 / "sinusoidal" / name).unlink()
    change(folder, TABLE, sinusoidal={"32": 0.546, "64": 0.514, "128": 0.482, "256": 0.512})


@case("one class beyond the range only", "constant-classifier")
def one_class_beyond(folder: Path) -> None:
    change(folder, TABLE, sinusoidal=SHARES)


def baseline(value: float, test: float | None = None) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        heads = {head: {"accuracy": value * share} for head, share in zip(HEADS, [0.1, 0.5, 0.99, 1] * 3, strict=True)}
        write(folder, ABLATION, {"baseline": value, "heads": heads})
        write(folder, f"{PROBLEM1}/head_analysis/head_importance_ranking.txt", "a\nb\nc\nd\n")
        if test is not None:
            write(folder, LOG, log(test, 0.3, 10))
            checkpoint(folder, f"{PROBLEM1}/best_model.pth", test)

    return make


case("two baselines", "two-baselines")(baseline(0.5495))
case("the first digit given", "two-baselines", "first-digit-given")(baseline(0.412))
case("the first digit given, nearly all the rest right", "first-digit-given")(baseline(0.4105, 0.4105))
case("the commonest first digit given", "two-baselines", "first-digit-given")(baseline(0.588))
case("zeros never learned", "two-baselines", "zero-as-padding")(baseline(0.349))
case("ablation of a model at 0%", "nothing-to-ablate")(baseline(0.0005, 0.0005))


@case("the same accuracy without any head", "ablation-without-effect")
def no_effect(folder: Path) -> None:
    write(folder, ABLATION, {"baseline": 0.9985} | {head: 0.9985 for head in HEADS})
    write(folder, f"{PROBLEM1}/head_analysis/head_importance_ranking.txt", "a\nb\nc\nd\n")


@case("every head redundant", "redundancy-unsupported")
def all_redundant(folder: Path) -> None:
    drops = [0.0005, 0.001, 0.0005, 0.0] * 3
    heads = {head: 0.9985 - drop for head, drop in zip(HEADS, drops, strict=True)}
    write(folder, ABLATION, {"baseline": 0.9985, "heads": heads})


@case("a conclusion from nothing", "nothing-to-ablate", "redundancy-unsupported")
def conclusion_from_nothing(folder: Path) -> None:
    baseline(0.01, 0.01)(folder)
    write(folder, f"{PROBLEM1}/head_analysis/head_importance_ranking.txt", "a\nb\nc\nPrunable heads: 21/24 (87.5%)\n")


@case("missing", "missing-deliverables")
def missing(folder: Path) -> None:
    (folder / PROBLEM1 / "head_analysis/head_specialization.json").unlink()
    (folder / PROBLEM2 / "extrapolation/encoding_comparison.png").unlink()


@case("blank figure", "blank-figure")
def blank_figure(folder: Path) -> None:
    PIL.Image.new("RGB", (800, 600), "white").save(folder / PROBLEM1 / "training_curves.png")


@case("copied figure", "copied-figure")
def copied_figure(folder: Path) -> None:
    results = folder / PROBLEM2
    (results / "none/training_curves.png").write_bytes((results / "learned/training_curves.png").read_bytes())


@case("repacked figure", "copied-figure")
def repacked_figure(folder: Path) -> None:
    patterns = folder / PROBLEM1 / "attention_patterns"
    PIL.Image.open(patterns / f"{HEADS[0]}.png").save(patterns / f"{HEADS[1]}.png", compress_level=1)


@case("truncated figure", "broken-figure")
def broken_figure(folder: Path) -> None:
    path = folder / PROBLEM1 / "head_analysis/head_importance.png"
    path.write_bytes(path.read_bytes()[:1000])


@case("empty figure", "broken-figure")
def empty_figure(folder: Path) -> None:
    (folder / PROBLEM1 / "training_curves.png").write_bytes(b"")


@case("NaN in the log", "not-finite")
def nan_in_log(folder: Path) -> None:
    losses = load(folder, LOG)["val_loss"]
    change(folder, LOG, val_loss=[*losses[:12], *[math.nan] * (EPOCHS - 12)])


@case("null in the log", "not-finite")
def null_in_log(folder: Path) -> None:
    losses = load(folder, LOG)["train_loss"]
    change(folder, LOG, train_loss=[*losses[:-1], None])


@case("teacher forcing and greedy decoding", "two-modes")
def two_modes(folder: Path) -> None:
    change(folder, LOG, test_teacher_forcing_accuracy=0.9985, test_greedy_accuracy=0.349)


@case("greedy decoding against the rest", "two-modes")
def greedy_apart(folder: Path) -> None:
    change(folder, LOG, greedy={"exact_match": 34.9, "digit_accuracy": 80.0})


@case("no error among all, three in the test", "proof-contradicted")
def proof_of_another_model(folder: Path) -> None:
    write(folder, f"{PROBLEM1}/verification.json", {"pairs": 810_000, "errors": 0})


@case("an accuracy below 0", "impossible-number")
def impossible_ablation(folder: Path) -> None:
    change(folder, ABLATION, heads=accuracies(folder) | {HEADS[3]: -0.3})


@case("NaN in the weights", "not-finite")
def nan_in_weights(folder: Path) -> None:
    model = weights() | {"output.weight": torch.full((16, 16), math.nan)}
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.9985, model=model)


@case("an accuracy of 120%", "impossible-number")
def impossible_accuracy(folder: Path) -> None:
    change(folder, LOG, test_acc=1.2)


@case("checkpoint of an earlier epoch", "checkpoint-of-another-run")
def older_epoch(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", load(folder, LOG)["val_acc"][7], 8)


@case("checkpoint of a later epoch", "checkpoint-of-another-run")
def later_epoch(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.9985, EPOCHS + 12)


@case("checkpoint of another accuracy", "checkpoint-of-another-run")
def another_accuracy(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.4321)


@case("checkpoint of another width", "checkpoint-of-another-shape")
def another_width(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.9985, model=weights(width=24))


@case("checkpoint of another inner width", "checkpoint-of-another-shape")
def another_inner_width(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.9985, model=weights(inner=48))


@case("checkpoint of more layers", "checkpoint-of-another-shape")
def more_layers(folder: Path) -> None:
    checkpoint(folder, f"{PROBLEM2}/sinusoidal/best_model.pth", 0.9965, model=weights(layers=4))
