"""Which sequences does a model get wrong, where is the violation, and how confident was the model?"""

import math

import torch
from torch import Tensor

from lab.files import write_text
from problem2.analysis.context import Context
from problem2.analysis.extrapolation import COURSE
from problem2.dataset import Rows, to_rows
from problem2.model import SortingClassifier

SHOWN = 16  # values on either side of a violation that are printed


def confidence(margin: float) -> float:
    """The probability that the model gives to its own prediction."""
    return 1 / (1 + math.exp(-min(abs(margin), 700.0)))


def describe(values: list[int], margin: float) -> dict:
    """One sequence and the model's prediction, in numbers."""
    down = [i for i in range(len(values) - 1) if values[i] > values[i + 1]]
    return {
        "sequence": values,
        "is_sorted": int(not down),
        "predicted_sorted": int(margin > 0),
        "confidence": confidence(margin),
        "steps_down": down,
        "largest_drop": max((values[i] - values[i + 1] for i in down), default=0),
    }


def sentence(case: dict) -> str:
    """'length 5: predicted sorted (confidence 98.0%), wrong: values 3 and 4 are 41 and 27: 3 15 [41 27] 58'"""
    values, down = case["sequence"], case["steps_down"]
    predicted = "sorted" if case["predicted_sorted"] else "not sorted"
    verdict = "correct" if case["predicted_sorted"] == case["is_sorted"] else "wrong"
    text = f"length {len(values)}: predicted {predicted} (confidence {case['confidence']:.1%}), {verdict}: "
    if not down:
        return text + f"no step down: {excerpt(values, 0)}"
    i = down[0]
    more = f" (and {len(down) - 1} more steps down)" if len(down) > 1 else ""
    return text + f"values {i + 1} and {i + 2} are {values[i]} and {values[i + 1]}{more}: {excerpt(values, i)}"


def excerpt(values: list[int], index: int) -> str:
    """The values around `index`; a step down from it stands in brackets."""
    words = [*map(str, values)]
    if values[index : index + 2] != sorted(values[index : index + 2]):
        words[index : index + 2] = f"[{words[index]}", f"{words[index + 1]}]"
    start, end = max(0, index - SHOWN // 2), index + SHOWN
    return " ".join(["…"] * (start > 0) + words[start:end] + ["…"] * (end < len(words)))


def find(margin: Tensor, rows: Rows, most: int = 5) -> dict:
    """{"wrong": count, "rows": count, "cases": the most confident mistakes}, from the model's margins on the rows"""
    wrong = ((margin > 0) != rows.labels.bool()).nonzero().flatten()
    worst = wrong[margin[wrong].abs().argsort(descending=True)][:most]
    lengths = rows.lengths()
    cases = [describe(rows.sequences[i, : lengths[i]].tolist(), margin[i].item()) for i in worst.tolist()]
    return {"wrong": len(wrong), "rows": len(rows), "cases": cases}


@torch.no_grad()
def predict(model: SortingClassifier, values: list[int]) -> tuple[dict, list[float]]:
    """One sequence of the user's: the case, and the margin for "sorted" in the vote of each position."""
    rows = to_rows([values]).sequences.to(next(model.parameters()).device)
    votes, _ = model.votes(rows)
    logits = model(rows)[0]
    return describe(values, (logits[1] - logits[0]).item()), (votes[0, :, 1] - votes[0, :, 0]).tolist()


def as_text(failures: dict) -> str:
    lines = []
    for scheme, sets in failures.items():
        for name, numbers in sets.items():
            colon = ", the most confident:" if numbers["cases"] else ""
            lines.append(f"{scheme}, {name}: {numbers['wrong']} of {numbers['rows']} wrong{colon}")
            lines += [f"    {sentence(case)}" for case in numbers["cases"]]
    return "\n".join(lines) + "\n"


def run(context: Context) -> None:
    """On the in-range rows, on rows with one swap of neighbours, and on the first of the longer sets."""
    names = ("test", f"adjacent/{context.trained[1]}", f"extrapolation/{context.lengths[0]}")
    wrong = {
        scheme: {name: find(margins[name], context.sets[name]) for name in names}
        for scheme, margins in context.margins.items()
    }
    context.write("failures.json", {"schemes": wrong})
    write_text(context.folder / "failures.txt", as_text(wrong))
    lines = []
    for scheme in [scheme for scheme in COURSE if scheme in wrong]:
        in_range = wrong[scheme]["test"]
        lines.append(f"  {scheme}: {in_range['wrong']} of {in_range['rows']} test rows wrong")
        lines += [f"    {sentence(case)}" for case in in_range["cases"][:1]]
    context.show("\n".join(lines), "failures.txt", "failures.json")
