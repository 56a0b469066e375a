"""What the readers of the layouts in the wild share (logs.py, tables.py, ablations.py).

Everybody's analysis writes the same numbers in another shape: nested or flat, lists or dictionaries, shares or
percentages. A reader walks through the whole file, looks at the words on the way to each number, and says in
`notes` what it had to assume and what it could not use.
"""

import math
from collections.abc import Iterator

from lab.grading.reading import words

MOST_LEAVES = 200_000
LOSS, ACCURACY = {"loss", "losses"}, {"acc", "accs", "accuracy", "accuracies", "match", "em"}
ASIDE = {"by", "per", "class", "std", "interval", "low", "high", "ci", "config", "settings", "args"}
Keys = tuple[str, ...]  # what leads to a leaf


def number(value) -> float | None:
    """A leaf of JSON as a number: 0.5, "0.5" and "50%" are the same; None where it is none at all."""
    if isinstance(value, bool) or value is None or not isinstance(value, int | float | str):
        return None
    try:
        if isinstance(value, str):
            text = value.strip()
            if len(text) > 40 or "_" in text:
                return None
            return float(text[:-1]) / 100 if text.endswith("%") else float(text)
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return None


def leaves(value) -> Iterator[tuple[Keys, object]]:
    """Every leaf with the keys that lead to it, in the file's order; a list's places count from "0"."""
    waiting = [((), value)]
    seen = 0
    while waiting and seen < MOST_LEAVES:
        path, item = waiting.pop()
        seen += 1
        if isinstance(item, dict):
            waiting += [((*path, str(key)), inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list):
            waiting += [((*path, str(place)), inner) for place, inner in reversed(list(enumerate(item)))]
        else:
            yield path, item


def in_shares(values: list[float]) -> float:
    """What to divide accuracies by: 100 in a file that holds one above 1.5, which no share can be."""
    return 100.0 if any(math.isfinite(value) and value > 1.5 for value in values) else 1.0


NAMING = {"name", "head", "layer", "type", "component", "module", "kind", "length", "len", "encoding", "attention"}
NAMING |= {"attn", "idx", "index", "block", "stack", "id", "seq", "test", "sequence"}


def keyed(value, depth: int = 0):
    """Lists of records as dictionaries by what each names itself: {"layer": 0, "head": 1, …} -> "layer 0 head 1"."""
    if depth > 12:
        return value
    if isinstance(value, dict):
        return {key: keyed(item, depth + 1) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if not value or not all(isinstance(item, dict) for item in value):
        return [keyed(item, depth + 1) for item in value] if any(isinstance(i, dict | list) for i in value) else value
    entries = {}
    for place, record in enumerate(value):
        names, rest = [], {}
        for key, item in record.items():
            said = words(key)
            naming = said and all(word in NAMING for word in said)
            if naming and isinstance(item, int | str) and not isinstance(item, bool):
                names.append(str(item) if isinstance(item, str) else f"{said[0]} {item}")
            else:
                rest[key] = keyed(item, depth + 1)
        entries[" ".join(names) or str(place)] = rest
    return entries
