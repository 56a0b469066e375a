"""Put the trained models into one page that runs them: explorer/explorer.html, from checkpoints and results.

    python explorer/build.py

The page is one file: style, scripts, weights and results are inside, and nothing is fetched. Weights of the two
addition models are exact (32 bits). Those of the sorting models are rounded to 8 bits, so that all of them fit;
the rounded models are evaluated again here, and the page shows these numbers beside those of the exact models.
"""

import base64
import hashlib
import io
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import lab.installed

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from beyond.any_length import checkpoint as text_trained
from beyond.schemes import runs
from lab import checkpoint, device
from lab.files import UserError, read_json, write_bytes
from lab.hooks import head_names
from lab.settings import run
from lab.training import evaluate
from problem1 import checkpoint as addition_trained
from problem1 import dataset as addition
from problem1.analysis.interventions import InterventionRunner
from problem1.analysis.rows import CARRY_CLASSES, carry_classes
from problem2 import dataset as sorting
from problem2 import generate_data
from problem2.analysis.collapse import trained_directions
from problem2.positional_encoding import SCHEMES, T5PositionalEncoding, t5_bucket

HERE, PAGE = Path(__file__).resolve().parent, ROOT / "explorer/explorer.html"
RESULTS1, RESULTS2 = ROOT / "problem1/results", ROOT / "problem2/results"
PROGRAM, TEXT, SCHEMES_STUDY = (ROOT / "beyond" / name / "results" for name in ("program", "any_length", "schemes"))
ENGINE = ("engine", "addition_model", "text_model", "sorting_model", "weights")
PANELS = ("ui", "patterns", "accuracy", "program", "add", "carry_map", "carry", "proof", "length", "lengths", "sorted")
PANELS += ("waves", "main")
LENGTHS = generate_data.COURSE_LENGTHS
IN_PAGE = [*(f"course/{scheme}" for scheme in SCHEMES), "strict/window"]  # of the strict protocol only one is committed
FIGURES = {  # for readers whose browser runs no scripts
    RESULTS1 / "head_analysis/head_importance.png": "Which heads matter: accuracy with one head switched off",
    RESULTS1 / "carry/patching_heads.png": "Which heads bring the carry: activation patching",
    TEXT / "proof.png": "Addition at every length: the logit margins of all local contexts",
    RESULTS2 / "extrapolation/extrapolation_curves.png": "Sorted or not: accuracy at longer lengths",
}


# --- weights as text ---------------------------------------------------------------------------------------------


def base64_of(values: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values).astype(dtype).tobytes()).decode()


def exact(weights: dict[str, Tensor]) -> dict:
    return {
        name: {"shape": list(tensor.shape), "f32": base64_of(tensor.numpy(), "<f4")} for name, tensor in weights.items()
    }


def rounded(weights: dict[str, Tensor]) -> tuple[dict, dict[str, Tensor]]:
    """Matrices in 8 bits with a scale for each row, all else exact; and the weights that a reader of this gets."""
    texts, values = exact({name: tensor for name, tensor in weights.items() if len(tensor) < 16 or tensor.ndim < 2}), {}
    for name, tensor in weights.items():
        if name in texts:
            values[name] = tensor
            continue
        scale = (tensor.abs().amax(1, keepdim=True) / 127).clamp(min=1e-12)
        steps = (tensor / scale).round()
        values[name] = steps * scale
        row_scales = base64_of(scale.numpy(), "<f4")
        texts[name] = {"shape": list(tensor.shape), "i8": base64_of(steps.numpy(), "i1"), "scale": row_scales}
    return texts, values


def addition_model() -> tuple[dict, torch.nn.Module]:
    model, settings = addition_trained.load_model(RESULTS1 / "best_model.pth")
    return {"kind": "addition", "settings": settings, "tensors": exact(model.state_dict())}, model


def text_model() -> dict:
    model, settings = text_trained.load_model(text_trained.MODEL)
    return {"kind": "text", "settings": settings, "tensors": exact(model.state_dict())}


def sorting_model(name: str) -> tuple[dict, torch.nn.Module]:
    """The model with rounded weights, as text and to be evaluated."""
    path = RESULTS2 / name.removeprefix("course/") / "best_model.pth"
    if name.startswith("strict/"):
        path = SCHEMES_STUDY / "strict/641" / name.removeprefix("strict/") / "best_model.pth"
    content = checkpoint.load(path, runs.KIND)
    settings = content["settings"]
    if settings["encoding"] == "randomized_learned":  # evaluation uses the rows of the span alone
        span = SCHEMES["randomized_learned"].SPAN
        content["model"]["scheme.table"] = content["model"]["scheme.table"][:span]
        settings["max_len"] = min(span, settings["max_len"])
    texts, values = rounded(content["model"])
    model = checkpoint.rebuild(runs.build, {"settings": settings, "model": values}, path).eval()
    more = {"pooling": settings.get("pooling", "mean")}
    more |= {"gain": getattr(model.scheme, "GAIN", 1), "size": getattr(model.scheme, "SIZE", 1)}  # of a bias, of codes
    if settings["encoding"] == "t5":
        more["bucket_starts"] = bucket_starts()
    return {"kind": "sorting", "settings": settings | more, "tensors": texts}, model


def bucket_starts() -> list[int]:
    """The first distance of each bucket on one side"""
    distances = torch.arange(T5PositionalEncoding.FARTHEST + 1)
    buckets = t5_bucket(-distances, T5PositionalEncoding.BUCKETS, T5PositionalEncoding.FARTHEST).tolist()
    return [buckets.index(bucket) for bucket in range(T5PositionalEncoding.BUCKETS // 2)]


# --- results -----------------------------------------------------------------------------------------------------


def results(path: Path) -> dict:
    return read_json(path, "`make help` says what makes it.")


def facts_of_addition(model: torch.nn.Module) -> dict:
    """What the panels Add and Carry say, and the rows that the page measures accuracy on."""
    verification = results(RESULTS1 / "verification.json")
    ablation = results(RESULTS1 / "head_analysis/ablation_results.json")
    greedy = results(RESULTS1 / "head_analysis/pruning_curve.json")["curves"]["greedy"]
    patched = results(RESULTS1 / "carry/patching.json")
    rows = addition.load_or_generate()["test"]
    if 2 * rows.num_digits + 1 != len(model.position.table):
        raise UserError("problem1/data holds sums of another length than the model adds: generate it again.")
    a, b = (sum(column * 10**power for power, column in enumerate(x.T.flip(0))) for x in rows.operands())
    outputs = InterventionRunner(model, rows).recorded.outputs
    return {
        "verification": {key: verification[key] for key in ("pairs", "errors", "exhaustive", "smallest_margin")},
        "rows": torch.stack([a, b], 1).tolist(),
        "classes": carry_classes(rows).tolist(),
        "class_names": CARRY_CLASSES,
        "means": exact({head: outputs[head].mean(0) for head in head_names(model)}),
        "ablation": {
            head: {kind: ablation["heads"][head][kind]["accuracy"] for kind in ("zero", "mean")}
            for head in head_names(model)
        },
        "pruning": {"order": greedy["order"], "exact_match": [point["share"] for point in greedy["exact_match"]]},
        "program": facts_of_program(),
        "groups": [carry_group(group, patched["carrying_heads"]) for group in patched["groups"] if group["pairs"]],
    }


def facts_of_program() -> dict:
    """What each column tells each digit of the answer, and the program that follows, in words"""
    program = results(PROGRAM / "program.json")
    return {"tells": [[edge["variable"] for edge in row] for row in program["edges"]], "lines": program["lines"]}


def carry_group(group: dict, heads: list[str]) -> dict:
    sufficiency = group["stages"]["carrying heads"]["flips"]
    complement = group["stages"]["all other heads"]["flips"]
    return {
        **{key: group[key] for key in ("name", "target", "digit", "nines", "pairs")},
        "example": [re.findall(r"\d+", text)[:2] for text in group["example"]],
        "moved": {head: round(entry["logit_difference"], 4) for head, entry in group["heads"].items()},
        "circuit": {"heads": heads, "sufficiency": sufficiency, "complement": complement},
    }


def facts_of_engine(packed: dict) -> dict | None:
    """What every_sum.py found, if it was for these weights"""
    found = read_json(HERE / "every_sum.json", "run `python explorer/every_sum.py`.")
    return found if found["weights"] == weights_digest(packed["tensors"]) else None


def weights_digest(tensors: dict) -> str:
    """16 hex digits that tell these weights from any others"""
    return hashlib.sha256(json.dumps(tensors, sort_keys=True).encode()).hexdigest()[:16]


def facts_of_text() -> dict:
    proof = results(TEXT / "proof.json")
    names = ("proven", "local_contexts", "failures", "smallest_margin", "rounding")
    return {name: proof[name] for name in names}


def facts_of_sorting(models: dict[str, tuple[dict, torch.nn.Module]]) -> dict:
    """Accuracy at each length: committed, for both protocols; and of the rounded models, evaluated here."""
    details = results(RESULTS2 / "extrapolation/extrapolation_details.json")
    course = details["schemes"]
    measured = {f"course/{scheme}": course[scheme]["sets"] for scheme in SCHEMES}
    for scheme in SCHEMES:
        measured[f"strict/{scheme}"] = results(SCHEMES_STUDY / f"strict/641/{scheme}/measured.json")["sets"]
    committed = {name: {key: entry["accuracy"] for key, entry in sets.items()} for name, sets in measured.items()}
    rows = {"test": sorting.load_or_generate()["test"]}
    for n in LENGTHS:
        made = generate_data.test_set("extrapolation", n)
        rows[f"extrapolation/{n}"] = sorting.to_rows([row["sequence"] for row in made])

    def accuracies(model: torch.nn.Module) -> dict[str, float]:
        return {key: evaluate(model, part, sorting.score, 25)[1] for key, part in rows.items()}

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        again = dict(zip(models, pool.map(accuracies, (model for _, model in models.values())), strict=True))
    scheme = models["course/sinusoidal"][1].scheme
    projection = exact({"projection": projection_on_trained_codes(scheme, details["trained_lengths"][1])})
    sizes = {key: len(part.labels) for key, part in rows.items()}
    collapse = results(RESULTS2 / "extrapolation/collapse.json")
    by_length = results(RESULTS2 / "extrapolation/accuracy_by_length.json")["schemes"]["sinusoidal"]["641"]
    waves = {"bands": collapse["bands"], "constant_from": by_length["constant_from"]}
    return {"committed": committed, "rounded": again, "sets": sizes, "waves": waves} | projection


def projection_on_trained_codes(scheme: torch.nn.Module, trained: int) -> Tensor:
    """[d, d] onto the directions of the codes of the trained positions (see problem2/analysis/collapse.py)"""
    directions = trained_directions(scheme.code(torch.arange(trained, dtype=torch.double)))
    return directions.T @ directions


# --- the page ----------------------------------------------------------------------------------------------------


def small_figure(path: Path, width: int = 480) -> str:
    """A figure as a data address, small enough for a page that shows it only where no script runs."""
    image = Image.open(path).convert("L")
    image = image.resize((width, round(image.height * width / image.width)), Image.LANCZOS).quantize(6)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def as_script(value: object) -> str:
    """JSON that may stand inside a <script>"""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def source(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def page() -> str:
    digits, model = addition_model()
    classifiers = {name: sorting_model(name) for name in IN_PAGE}
    models = {"addition": digits, "text": text_model()} | {name: text for name, (text, _) in classifiers.items()}
    facts = {
        "addition": facts_of_addition(model),
        "text": facts_of_text(),
        "every_sum": facts_of_engine(digits),
        "sorting": facts_of_sorting(classifiers),
    }
    fields = {
        "style": source("style.css"),
        **{name: source(f"{name}.js") for name in ("tools", "worker")},
        "engine": "\n".join(source(f"{name}.js") for name in ENGINE),
        "panels": "\n".join(source(f"{name}.js") for name in PANELS),
        "models": as_script(models),
        "facts": as_script(facts),
        "figures": "\n".join(
            f'<figure><img alt="{text}" src="{small_figure(path)}"><figcaption>{text}</figcaption></figure>'
            for path, text in FIGURES.items()
        ),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], source("page.html"))


def main() -> None:
    device.start("cpu")
    try:
        content = page().encode()
    except (KeyError, TypeError):
        raise UserError("results are incomplete, or of models that cannot add: run `make beyond`.") from None
    write_bytes(PAGE, content)
    print(f"{PAGE}: {len(content):,} bytes")


if __name__ == "__main__":
    run(main, __doc__)
