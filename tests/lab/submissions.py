"""Synthetic submissions: a healthy one, each odd layout, and each known disease, made in a folder."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy
import PIL.Image
import torch

EPOCHS = 20
SHARES = {"32": 0.454, "64": 0.514, "128": 0.518, "256": 0.512}  # of sorted rows, as the generator draws them
CHANCE = {"32": 0.482, "64": 0.526, "128": 0.506, "256": 0.49}
HEADS = [f"{module}.head{n}" for module in ("encoder.0.self", "decoder.0.self", "decoder.0.cross") for n in range(4)]
PROBLEM1, PROBLEM2 = "problem1/results", "problem2/results"
ABLATION = f"{PROBLEM1}/head_analysis/ablation_results.json"
TABLE = f"{PROBLEM2}/extrapolation/extrapolation_results.json"


def write(folder: Path, name: str, value) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def load(folder: Path, name: str):
    return json.loads((folder / name).read_text())


def change(folder: Path, name: str, **values) -> None:
    write(folder, name, load(folder, name) | values)


def figure(folder: Path, name: str) -> None:
    """A picture of its own for each name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(sum(name.encode()))
    PIL.Image.fromarray(random.integers(0, 255, (120, 160, 3), dtype=numpy.uint8)).save(path)


def log(best: float, floor: float, classes: float) -> dict:
    """A run whose accuracy rises to `best` and whose loss falls from ln(classes) to `floor`."""
    start = math.log(classes)
    losses = [floor + (start - floor) * math.exp(-epoch / 4) for epoch in range(EPOCHS)]
    accuracies = [round(best * (1 - math.exp(-epoch / 2)), 4) for epoch in range(EPOCHS - 1)] + [best]
    return {
        "train_loss": losses,
        "train_acc": accuracies,
        "val_loss": [loss * 1.05 for loss in losses],
        "val_acc": accuracies,
        "test_loss": floor,
        "test_acc": best,
        "best_epoch": EPOCHS,
        "config": {"d_model": 16, "num_heads": 4, "num_layers": 2, "d_ff": 32},
        "seed": 641,
        "seconds": 30.0,
    }


def weights(width: int = 16, inner: int = 32, layers: int = 2) -> dict:
    model = {"embedding.weight": torch.ones(13, width)}
    for layer in range(layers):
        model[f"encoder.{layer}.query.weight"] = torch.ones(width, width)
        model[f"encoder.{layer}.inner.weight"] = torch.ones(inner, width)
    return model


def checkpoint(folder: Path, name: str, accuracy: float, epoch: int = EPOCHS, model: dict | None = None) -> None:
    content = {"kind": "x", "settings": {}, "epoch": epoch, "val_acc": accuracy, "model": model or weights()}
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)


def healthy(folder: Path) -> Path:
    write(folder, f"{PROBLEM1}/training_log.json", log(0.9985, 0.002, 10))
    checkpoint(folder, f"{PROBLEM1}/best_model.pth", 0.9985)
    figure(folder, f"{PROBLEM1}/training_curves.png")
    for head in HEADS[:4]:
        figure(folder, f"{PROBLEM1}/attention_patterns/{head}.png")
    figure(folder, f"{PROBLEM1}/examples/example_1.png")
    drops = [0.6, 0.2, 0.001, 0.0, 0.02, 0.3, 0.005, 0.0, 0.9, 0.4, 0.0, 0.0]
    heads = {head: {"zero": {"accuracy": 0.9985 - drop}} for head, drop in zip(HEADS, drops, strict=True)}
    write(folder, ABLATION, {"baseline": 0.9985, "heads": heads})
    figure(folder, f"{PROBLEM1}/head_analysis/head_importance.png")
    ranking = "\n".join(f"{head} {drop}" for head, drop in zip(HEADS, drops, strict=True))
    write(folder, f"{PROBLEM1}/head_analysis/head_importance_ranking.txt", ranking + "\n33% of heads are prunable\n")
    write(folder, f"{PROBLEM1}/head_analysis/head_specialization.json", {head: {"entropy": 1.0} for head in HEADS})
    for name, best, floor in (("sinusoidal", 0.9965, 0.01), ("learned", 0.98, 0.05), ("none", 0.51, math.log(2))):
        write(folder, f"{PROBLEM2}/{name}/training_log.json", log(best, floor, 2))
        checkpoint(folder, f"{PROBLEM2}/{name}/best_model.pth", best)
        figure(folder, f"{PROBLEM2}/{name}/training_curves.png")
    write(folder, TABLE, {name: CHANCE for name in ("sinusoidal", "learned")} | {"none": SHARES})
    for name in ("extrapolation_curves", "learned_position_embeddings", "encoding_comparison"):
        figure(folder, f"{PROBLEM2}/extrapolation/{name}.png")
    return folder


# --------------------------------------------------------------------------- the same numbers in other layouts


def accuracies(folder: Path) -> dict[str, float]:
    return {head: entry["zero"]["accuracy"] for head, entry in load(folder, ABLATION)["heads"].items()}


def flat_ablation(folder: Path) -> None:
    names = [f"encoder_layer_{n // 4}_head_{n % 4}" for n in range(12)]
    write(folder, ABLATION, dict(zip(names, accuracies(folder).values(), strict=True)))


def ablation_of_lists(folder: Path) -> None:
    values = list(accuracies(folder).values())
    write(folder, ABLATION, {"baseline_accuracy": 0.9985, "encoder": {"0": values[:4], "1": values[4:8]}})


def ablation_of_records(folder: Path) -> None:
    values = enumerate(accuracies(folder).values())
    records = [
        {"type": "encoder", "layer": n // 4, "head": n % 4, "ablated_accuracy": value, "drop": 0.9985 - value}
        for n, value in values
    ]
    write(folder, ABLATION, {"baseline": {"accuracy": 0.9985}, "results": records})


def ablation_of_drops(folder: Path) -> None:
    drops = {
        f"decoder_cross_L{n // 4}H{n % 4}": {"accuracy_drop": round(99.85 - 100 * value, 4), "std": 0.3}
        for n, value in enumerate(accuracies(folder).values())
    }
    write(folder, ABLATION, {"baseline": 99.85, "ablations": drops})


def ablation_of_importances(folder: Path) -> None:
    """Numbers without a word for what they are, most of them about 0 and one below: drops."""
    drops = [0.9985 - value for value in accuracies(folder).values()]
    matrix = [drops[:4], drops[4:8], [*drops[8:11], -0.0005]]
    write(folder, ABLATION, {"baseline_accuracy": 0.9985, "head_ablation": {"encoder": matrix}})


def ablation_under_importance(folder: Path) -> None:
    """What stands nearest to a number tells what it is."""
    values = enumerate(accuracies(folder).values())
    heads = {f"enc_l{n // 4}_h{n % 4}": {"masked_accuracy": v, "accuracy_change": v - 0.9985} for n, v in values}
    write(folder, ABLATION, {"original_accuracy": 0.9985, "head_importance": heads, "num_heads": 4, "num_layers": 2})


def ablation_in_layers(folder: Path) -> None:
    values = accuracies(folder).values()
    heads = {"encoder_self": {}, "decoder_cross": {}}
    for n, value in enumerate(values):
        stack = heads["encoder_self" if n < 8 else "decoder_cross"]
        stack.setdefault(f"layer_{n // 4}", {})[f"head_{n % 4}"] = {"drop": 0.9985 - value, "relative_drop_pct": 1.0}
    write(folder, ABLATION, {"baseline": 0.9985, "ablation": heads})


def ablation_by_numbers(folder: Path) -> None:
    write(
        folder,
        ABLATION,
        {"baseline": 0.9985, "betas": [0.9, 0.98]}
        | {f"({n // 4}, {n % 4})": value for n, value in enumerate(accuracies(folder).values())},
    )


def ablation_in_one_list(folder: Path) -> None:
    content = {"baseline_accuracy": 0.9985, "ablated_accuracies": [*accuracies(folder).values()], "lr": 0.001}
    write(folder, ABLATION, content | {"per_place_accuracy": [0.99, 0.98, 0.97]})


def in_percent(folder: Path) -> None:
    values = {head: {"ablated": 100 * value} for head, value in accuracies(folder).items()}
    write(folder, ABLATION, {"baseline": 99.85, "heads": values})
    for name in (f"{PROBLEM1}/training_log.json", f"{PROBLEM2}/none/training_log.json"):
        content = load(folder, name)
        for key in ("train_acc", "val_acc"):
            content[key] = [100 * value for value in content[key]]
        write(folder, name, content | {"test_acc": 100 * content["test_acc"]})
    table = load(folder, TABLE)
    write(folder, TABLE, {name: {n: 100 * v for n, v in row.items()} for name, row in table.items()})


def other_names(folder: Path) -> None:
    content = load(folder, f"{PROBLEM1}/training_log.json")
    renamed = {
        "history": {
            "train_losses": content["train_loss"],
            "train_accuracies": content["train_acc"],
            "val_losses": content["val_loss"],
            "val_accuracies": content["val_acc"],
        },
        "test": {"loss": content["test_loss"], "sequence_accuracy": content["test_acc"], "token_accuracy": 0.9999},
    }
    write(folder, f"{PROBLEM1}/training_log.json", renamed)


def log_of_epochs(folder: Path) -> None:
    content = load(folder, f"{PROBLEM1}/training_log.json")
    names = ("train_loss", "train_acc", "val_loss", "val_acc")
    epochs = [{"epoch": n + 1} | {name: content[name][n] for name in names} for n in range(EPOCHS)]
    write(folder, f"{PROBLEM1}/training_log.json", {"epochs": epochs, "test_loss": 0.002, "test_accuracy": "99.85%"})


def log_of_nested_epochs(folder: Path) -> None:
    content = load(folder, f"{PROBLEM1}/training_log.json")
    epochs = {
        f"epoch_{n + 1}": {
            part: {kind: content[f"{part}_{kind}"][n] for kind in ("loss", "acc")} for part in ("train", "val")
        }
        for n in range(EPOCHS)
    }
    write(folder, f"{PROBLEM1}/training_log.json", {"history": epochs, "test": {"loss": 0.002, "accuracy": 0.9985}})


def table_of_lists(folder: Path) -> None:
    rows = {name: list(row.values()) for name, row in load(folder, TABLE).items()}
    write(folder, TABLE, rows)


def table_with_lengths(folder: Path) -> None:
    rows = {name: [0.99, *row.values()] for name, row in load(folder, TABLE).items()}
    write(folder, TABLE, {"test_lengths": [16, 32, 64, 128, 256], "accuracies": rows})


def table_with_own_lengths(folder: Path) -> None:
    table = load(folder, TABLE)
    rows = {
        f"{name}_encoding": {"lengths": [int(n) for n in row], "accuracies": [*row.values()]}
        for name, row in table.items()
    }
    write(folder, TABLE, {"results": rows})


def table_by_accuracy(folder: Path) -> None:
    rows = {name: {"accuracy_by_length": [*row.values()], "seed": 3} for name, row in load(folder, TABLE).items()}
    write(folder, TABLE, rows)


def table_by_length(folder: Path) -> None:
    table = load(folder, TABLE)
    write(
        folder,
        TABLE,
        {f"len_{n}": {name: {"accuracy": row[n], "loss": 1.5} for name, row in table.items()} for n in SHARES},
    )


def table_of_records(folder: Path) -> None:
    records = [
        {"encoding": name, "length": int(n), "accuracy": value, "samples": 500}
        for name, row in load(folder, TABLE).items()
        for n, value in row.items()
    ]
    write(folder, TABLE, records)


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
    modes = {"train_teacher_forcing_accuracy": 0.9999, "test_greedy_accuracy": 0.9985, "digit_greedy_accuracy": 0.9996}
    change(folder, f"{PROBLEM1}/training_log.json", **modes)


def collapse_told(folder: Path) -> None:
    """One class for all beyond the range is no disease where it is said."""
    change(folder, TABLE, sinusoidal=SHARES)
    write(folder, f"{PROBLEM2}/extrapolation/details.json", {"sinusoidal": {"32": {"collapsed": True}}})


def plain_weights(folder: Path) -> None:
    torch.save(weights(), folder / PROBLEM1 / "best_model.pth")


def weights_with_company(folder: Path) -> None:
    """What people save beside the weights: the optimiser, numpy's scalars, the arguments."""
    import argparse

    content = {
        "model_state_dict": weights(),
        "optimizer_state_dict": {"state": {0: torch.ones(3)}},
        "epoch": EPOCHS - 1,
        "val_accuracy": numpy.float64(0.9985),
        "args": argparse.Namespace(d_model=16, lr=1e-3),
    }
    torch.save(content, folder / PROBLEM1 / "best_model.pth")


LAYOUTS: list[Callable[[Path], None]] = [
    flat_ablation,
    ablation_of_lists,
    ablation_of_records,
    ablation_of_drops,
    ablation_of_importances,
    ablation_under_importance,
    ablation_in_layers,
    ablation_by_numbers,
    ablation_in_one_list,
    in_percent,
    other_names,
    log_of_epochs,
    log_of_nested_epochs,
    table_of_lists,
    table_with_lengths,
    table_with_own_lengths,
    table_by_accuracy,
    table_by_length,
    table_of_records,
    moved_files,
    collapse_told,
    other_rows_forced,
    with_proof,
    transparent_figure,
    plain_weights,
    weights_with_company,
]


# ------------------------------------------------------------------------------------------------- diseases


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
