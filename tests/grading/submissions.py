"""A synthetic submission without any fault; with_layouts.py and with_issues.py change it."""

import json
import math
from pathlib import Path

import numpy
import PIL.Image
import torch

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = [json.loads((ROOT / f"problem{n}/expected.json").read_text(encoding="utf-8")) for n in (1, 2)]
EPOCHS = 20
SHARES = {"32": 0.454, "64": 0.514, "128": 0.518, "256": 0.512}  # of sorted rows, as the generator draws them
CHANCE = {"32": 0.482, "64": 0.526, "128": 0.506, "256": 0.49}
HEADS = [f"{module}.head{n}" for module in ("encoder.0.self", "decoder.0.self", "decoder.0.cross") for n in range(4)]
PROBLEM1, PROBLEM2 = "problem1/results", "problem2/results"
ABLATION = f"{PROBLEM1}/head_analysis/ablation_results.json"
LOG = f"{PROBLEM1}/training_log.json"
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


def valid(folder: Path) -> Path:
    write(folder, LOG, log(0.9985, 0.002, 10))
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


def accuracies(folder: Path) -> dict[str, float]:
    return {head: entry["zero"]["accuracy"] for head, entry in load(folder, ABLATION)["heads"].items()}


def slow(folder: Path) -> None:
    """As many values, and keys on the way to each, as the grader reads: several seconds of work."""
    for path in folder.rglob("*.json"):
        path.write_text("[" * 9 + "1," * 90_000 + "1" + "]" * 9)
