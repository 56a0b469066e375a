"""The valid submission with each known issue, and all that the grader must name then."""

import math
from collections.abc import Callable
from pathlib import Path

import PIL.Image
import torch

import tests.grading.submissions as valid
from tests.grading.submissions import (
    ABLATION,
    EPOCHS,
    HEADS,
    LOG,
    PROBLEM1,
    PROBLEM2,
    SHARES,
    TABLE,
    change,
    checkpoint,
    load,
    write,
)

LEARNED, MODEL = f"{PROBLEM2}/learned/training_log.json", f"{PROBLEM1}/best_model.pth"
RANKING = f"{PROBLEM1}/head_analysis/head_importance_ranking.txt"


def flat_loss(folder: Path) -> None:
    losses = [0.7012, *[0.6932 + 0.0003 * (n % 3) for n in range(EPOCHS - 1)]]
    change(folder, LEARNED, train_loss=losses)


def one_class_everywhere(folder: Path) -> None:
    flat_loss(folder)
    share = [0.506] * EPOCHS
    change(folder, LEARNED, test_acc=0.49, val_acc=share, train_acc=share)
    checkpoint(folder, f"{PROBLEM2}/learned/best_model.pth", 0.506)
    change(folder, TABLE, learned={n: round(1 - share, 3) for n, share in SHARES.items()})


def one_class_at_each_length(folder: Path) -> None:
    """Each length another class; of the training nothing is known."""
    for name in ("training_log.json", "best_model.pth", "training_curves.png"):
        (folder / PROBLEM2 / "sinusoidal" / name).unlink()
    change(folder, TABLE, sinusoidal={"32": 0.546, "64": 0.514, "128": 0.482, "256": 0.512})


def ablation(folder: Path, baseline: float, values: list[float]) -> None:
    write(folder, ABLATION, {"baseline": baseline, "heads": dict(zip(HEADS, values, strict=True))})


def baseline(value: float, test: float | None = None, conclusion: str = "") -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        ablation(folder, value, [value * share for share in [0.1, 0.5, 0.99, 1] * 3])
        write(folder, RANKING, f"a\nb\nc\nd\n{conclusion}")
        if test is not None:
            write(folder, LOG, valid.log(test, 0.3, 10))
            checkpoint(folder, MODEL, test)

    return make


def no_effect(folder: Path) -> None:
    """One sum in ten is wrong, and no head changes any."""
    write(folder, LOG, valid.log(0.9, 0.1, 10))
    checkpoint(folder, MODEL, 0.9)
    write(folder, ABLATION, {"baseline": 0.9} | {head: 0.9 for head in HEADS})
    write(folder, RANKING, "a\nb\nc\nd\n")


def missing(folder: Path) -> None:
    (folder / PROBLEM1 / "head_analysis/head_specialization.json").unlink()
    (folder / PROBLEM2 / "extrapolation/encoding_comparison.png").unlink()


def copied_figure(folder: Path) -> None:
    results = folder / PROBLEM2
    (results / "none/training_curves.png").write_bytes((results / "learned/training_curves.png").read_bytes())


def repacked_figure(folder: Path) -> None:
    patterns = folder / PROBLEM1 / "attention_patterns"
    PIL.Image.open(patterns / f"{HEADS[0]}.png").save(patterns / f"{HEADS[1]}.png", compress_level=1)


def truncated_figure(folder: Path) -> None:
    path = folder / PROBLEM1 / "head_analysis/head_importance.png"
    path.write_bytes(path.read_bytes()[:1000])


def nan_in_log(folder: Path) -> None:
    losses = load(folder, LOG)["val_loss"]
    change(folder, LOG, val_loss=[*losses[:12], *[math.nan] * (EPOCHS - 12)])


def nan_in_weights(folder: Path) -> None:
    checkpoint(folder, MODEL, 0.9985, model=valid.weights() | {"output.weight": torch.full((16, 16), math.nan)})


def of_model(accuracy: float = 0.9985, epoch: int = EPOCHS, **sizes) -> Callable[[Path], None]:
    return lambda folder: checkpoint(folder, MODEL, accuracy, epoch, valid.weights(**sizes))


XAVIER_TABLE = math.sqrt(2 / (300 + 128))


def handed_out(
    folder: Path, accuracy: float = 0.49, table: float = XAVIER_TABLE, rows: int = 101, best: float = 0, **more
):
    """A run of learned positions, and its checkpoint: embeddings and positions drawn with these sizes."""
    series = [0.494] * (EPOCHS - 1) + [best or 0.494]
    change(folder, LEARNED, test_acc=accuracy, val_acc=series, train_acc=series, config={})
    generator = torch.Generator().manual_seed(0)
    drawn = {"embedding.weight": (rows, math.sqrt(2 / (rows + 128))), "positions.table.weight": (300, table)}
    model = {name: torch.randn(count, 128, generator=generator) * size for name, (count, size) in drawn.items()}
    checkpoint(folder, f"{PROBLEM2}/learned/best_model.pth", series[-1], model=model | more)


def perfect(folder: Path, of: str = "sinusoidal", least: float = 1.0, positions: str = "sinusoidal") -> None:
    """Right at every length; the log says with which positions, and has a random seed, as most logs."""
    change(folder, TABLE, **{of: dict.fromkeys(SHARES, 1.0) | {"64": least}})
    config = {"positions": positions, "random_seed": 1}
    change(folder, f"{PROBLEM2}/sinusoidal/training_log.json", config=config)


# name -> what makes it, and everything that must be found then, no more and no fewer
CASES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "the loss never leaves ln 2": (flat_loss, {"flat-loss"}),
    "one class, in and beyond the range": (one_class_everywhere, {"flat-loss", "constant-classifier"}),
    "one class at each length": (one_class_at_each_length, {"constant-classifier", "missing-deliverables"}),
    "no error among all, three in the test": (
        lambda to: write(to, f"{PROBLEM1}/verification.json", {"pairs": 810_000, "errors": 0}),
        {"proof-contradicted"},
    ),
    "greedy decoding against the rest": (
        lambda to: change(to, LOG, greedy={"exact_match": 34.9, "digit_accuracy": 80.0}),
        {"two-modes"},
    ),
    "teacher forcing and greedy decoding": (
        lambda to: change(to, LOG, test_teacher_forcing_accuracy=0.9985, test_greedy_accuracy=0.349),
        {"two-modes"},
    ),
    "two baselines": (baseline(0.5495), {"two-baselines"}),
    "the first digit given": (baseline(0.412), {"two-baselines", "first-digit-given"}),
    "the first digit given, here and in the log": (baseline(0.412, 0.412), {"first-digit-given"}),
    "the commonest first digit given": (baseline(0.588), {"two-baselines", "first-digit-given"}),
    "zeros never learned": (baseline(0.349), {"two-baselines", "zero-as-padding"}),
    "ablation of a model at 0%": (baseline(0.0005, 0.0005), {"nothing-to-ablate"}),
    "the same accuracy without any head": (no_effect, {"ablation-without-effect"}),
    "a conclusion from nothing": (
        baseline(0.01, 0.01, "Prunable heads: 21/24 (87.5%)\n"),
        {"nothing-to-ablate", "redundancy-unsupported"},
    ),
    "missing": (missing, {"missing-deliverables"}),
    "blank figure": (
        lambda to: PIL.Image.new("RGB", (800, 600), "white").save(to / PROBLEM1 / "training_curves.png"),
        {"blank-figure"},
    ),
    "copied figure": (copied_figure, {"copied-figure"}),
    "repacked figure": (repacked_figure, {"copied-figure"}),
    "truncated figure": (truncated_figure, {"broken-figure"}),
    "empty figure": (lambda to: write(to, f"{PROBLEM1}/training_curves.png", ""), {"broken-figure"}),
    "NaN in the log": (nan_in_log, {"not-finite"}),
    "an accuracy below 0": (
        lambda to: change(to, ABLATION, heads=valid.accuracies(to) | {HEADS[3]: -0.3}),
        {"impossible-number"},
    ),
    "NaN in the weights": (nan_in_weights, {"not-finite"}),
    "an accuracy of 120%": (lambda to: change(to, LOG, test_acc=1.2), {"impossible-number"}),
    "checkpoint of an earlier epoch": (
        lambda to: of_model(load(to, LOG)["val_acc"][7], 8)(to),
        {"checkpoint-of-another-run"},
    ),
    "checkpoint of a later epoch": (of_model(epoch=EPOCHS + 12), {"checkpoint-of-another-run"}),
    "checkpoint of another accuracy": (of_model(0.4321), {"checkpoint-of-another-run"}),
    "checkpoint of another width": (of_model(width=24), {"checkpoint-of-another-shape"}),
    "checkpoint of another inner width": (of_model(inner=48), {"checkpoint-of-another-shape"}),
    "checkpoint of more layers": (of_model(layers=4), {"checkpoint-of-another-shape"}),
    "a position table as Xavier leaves it": (handed_out, {"small-position-table", "constant-classifier"}),
    "the same, answering the other class": (
        lambda to: handed_out(to, 0.51),
        {"small-position-table", "constant-classifier"},
    ),
    "a large position table, and one class": (lambda to: handed_out(to, table=0.64), {"constant-classifier"}),
    "a table that no initialisation of Xavier's leaves": (
        lambda to: handed_out(to, table=0.02),
        {"constant-classifier"},
    ),
    "two tables with positions in their names": (
        lambda to: handed_out(to, **{"positions.other.weight": torch.randn(300, 128) * XAVIER_TABLE}),
        {"constant-classifier"},
    ),
    "a run that learned, scored as one class": (lambda to: handed_out(to, best=0.97), {"constant-classifier"}),
    "embeddings of another vocabulary": (lambda to: handed_out(to, rows=13), {"constant-classifier"}),
    "no error at any length": (perfect, {"perfect-beyond-range"}),
    "a baseline of said rows": (
        lambda to: change(to, ABLATION, baseline=0.9, num_samples=500),
        {"two-baselines", "redundancy-unsupported"},
    ),
}


# --- what only looks like an issue -------------------------------------------------------------------------------


def half_trained(folder: Path) -> None:
    """Near the share of sums from 1000 on, but not that number."""
    baseline(0.5855, 0.5855)(folder)


def a_little_learned(folder: Path) -> None:
    """A loss just below ln 2, and more rows right than by chance."""
    losses = [0.6931 - 0.0105 * epoch / (EPOCHS - 1) for epoch in range(EPOCHS)]
    change(folder, LEARNED, train_loss=losses, train_acc=[0.566] * EPOCHS)


HONEST = {
    "a position table as Xavier leaves it, and a run that learns": lambda to: handed_out(to, 0.97, best=0.97),
    "the same, near one class's share and not on it": lambda to: handed_out(to, 0.5005),
    "no error at any length but one": lambda to: perfect(to, least=0.998),
    "no error at any length, with learned positions": lambda to: perfect(to, "learned"),
    "no error at any length, with a scheme that the log names": lambda to: perfect(to, positions="randomized"),
    "half-trained": half_trained,
    "half-trained on the other side": lambda to: baseline(0.4105, 0.4105)(to),
    "a little learned": a_little_learned,
    "a small sample that is not said to be one": lambda to: (
        baseline(0.97, 0.935)(to),
        ablation(to, 0.97, [0.97 - drop for drop in [0.3, 0.2, 0.01, 0.0] * 3]),
    ),
}
