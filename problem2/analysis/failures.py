"""Which sequences does a model get wrong, where does the violation sit, and how sure was it?"""

import math

import torch
from torch import Tensor

from problem2.analysis.extrapolation import margins
from problem2.dataset import Rows, descents, to_rows
from problem2.model import SortingClassifier

SHOWN = 16  # values on either side of a violation that are printed


def sureness(margin: float) -> float:
    """How probable the model finds its own answer."""
    return 1 / (1 + math.exp(-min(abs(margin), 700.0)))


def describe(values: list[int], margin: float) -> dict:
    """One sequence and the answer to it, in numbers."""
    down = [i for i in range(len(values) - 1) if values[i] > values[i + 1]]
    return {
        "sequence": values,
        "is_sorted": int(not down),
        "says_sorted": int(margin > 0),
        "sureness": sureness(margin),
        "steps_down": down,
        "largest_drop": max((values[i] - values[i + 1] for i in down), default=0),
    }


def sentence(case: dict) -> str:
    """The same for people: 'claims that … is sorted (98.1% sure), but place 4 holds 41 and place 5 holds 27'"""
    claim = "is sorted" if case["says_sorted"] else "is not sorted"
    values, down = case["sequence"], case["steps_down"]
    verdict = "rightly" if case["says_sorted"] == case["is_sorted"] else "wrongly"
    text = f"length {len(values)}: {verdict} says that it {claim} ({case['sureness']:.1%} sure); "
    if down:
        i = down[0]
        more = f" (and {len(down) - 1} more steps down)" if len(down) > 1 else ""
        text += f"place {i + 1} holds {values[i]}, place {i + 2} holds {values[i + 1]}{more}: {excerpt(values, i)}"
    else:
        text += f"nothing steps down: {excerpt(values, 0)}"
    return text


def excerpt(values: list[int], place: int) -> str:
    """The values around a step down, which stands in brackets."""
    start, end = max(0, place - SHOWN // 2), min(len(values), place + SHOWN)
    words = [str(value) for value in values[start:end]]
    if place + 1 < len(values) and values[place] > values[place + 1]:
        words[place - start] = "[" + words[place - start]
        words[place + 1 - start] += "]"
    return ("… " if start else "") + " ".join(words) + (" …" if end < len(values) else "")


def find(model: SortingClassifier, sets: dict[str, Rows], most: int = 5, batch_size: int = 512) -> dict:
    """{set: {"wrong": count, "rows": count, "cases": the surest mistakes}}"""
    report = {}
    for name, rows in sets.items():
        margin = margins(model, rows.sequences, batch_size)
        wrong = ((margin > 0) != rows.labels.bool()).nonzero().flatten()
        surest = wrong[margin[wrong].abs().argsort(descending=True)][:most]
        lengths = rows.lengths()
        cases = [describe(rows.sequences[i, : lengths[i]].tolist(), margin[i].item()) for i in surest.tolist()]
        report[name] = {"wrong": len(wrong), "rows": len(rows), "cases": cases}
    return report


def missed_by_violation(margin: Tensor, rows: Rows) -> dict:
    """Share of unsorted rows found, by how many steps down there are and by how far the largest goes."""
    unsorted = rows.labels == 0
    sequences, found = rows.sequences[unsorted], (margin <= 0)[unsorted]
    down = descents(sequences)
    counts = down.sum(1)
    drops = torch.where(down, sequences[:, :-1] - sequences[:, 1:], 0).amax(1)
    report = {"steps_down": {}, "largest_drop": {}}
    for label, low, high in (("1", 1, 1), ("2", 2, 2), ("3", 3, 3), ("4 or more", 4, 10**9)):
        report["steps_down"][label] = _share(found[(counts >= low) & (counts <= high)])
    for label, low, high in (("1 to 5", 1, 5), ("6 to 20", 6, 20), ("21 to 50", 21, 50), ("51 to 99", 51, 99)):
        report["largest_drop"][label] = _share(found[(drops >= low) & (drops <= high)])
    return report


def _share(found: Tensor) -> dict:
    return {"rows": len(found), "found": found.float().mean().item() if len(found) else None}


@torch.no_grad()
def answer(model: SortingClassifier, values: list[int]) -> tuple[dict, list[float]]:
    """One sequence of the user's: the case, and how far "sorted" is ahead in the vote of each place."""
    rows = to_rows([values]).sequences.to(next(model.parameters()).device)
    votes, _ = model.votes(rows)
    logits = model(rows)[0]
    return describe(values, (logits[1] - logits[0]).item()), (votes[0, :, 1] - votes[0, :, 0]).tolist()


def as_text(failures: dict) -> str:
    lines = []
    for scheme, sets in failures.items():
        for name, its in sets.items():
            lines.append(
                f"{scheme}, {name}: {its['wrong']} of {its['rows']} wrong" + (", the surest:" if its["cases"] else "")
            )
            lines += [f"    {sentence(case)}" for case in its["cases"]]
    return "\n".join(lines) + "\n"
