"""Accuracy by name and length, in any layout."""

import math
from dataclasses import dataclass, field

from lab.grading.layouts import ACCURACY, ASIDE, LOSS, in_shares, keyed, leaves, number
from lab.grading.reading import words


@dataclass
class Table:
    """Accuracy by name and length: rows["learned"][32]."""

    rows: dict[str, dict[int, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


UNMEASURED = LOSS | ASIDE | {"count", "total", "n", "samples", "correct", "seconds", "seed", "margin", "positive"}


def read_table(value, names: dict[str, list[str]], lengths: list[int]) -> Table:
    """Find accuracies of `names` (each with other words for it) at any length.

    `lengths` are what a bare list of as many numbers stands for.
    """
    table = Table()
    assumed = set()
    found: dict[str, dict[int, list[tuple[int, float]]]] = {}
    for path, leaf in leaves(_with_lengths(keyed(value), lengths, assumed)):
        accuracy = number(leaf)
        said = [word for key in path for word in words(key)]
        if {"by", "length"} <= set(said):  # "accuracy_by_length" is the very thing
            said = [word for word in said if word != "by"]
        if accuracy is None or UNMEASURED & set(said):
            continue
        name = next((name for key in path for name in names if {name, *names[name]} & {key.lower(), *words(key)}), None)
        places = [int(word) for word in said if word.isdigit() and len(word) < 7]
        if name is None or len(places) != 1 or len(path) > 6:
            continue
        found.setdefault(name, {}).setdefault(places[0], []).append((len(path), accuracy))
    for name, row in found.items():  # of several numbers for one length, the one with the fewest keys around it
        table.rows[name] = {length: min(values, key=lambda entry: entry[0])[1] for length, values in row.items()}
    if assumed:
        table.notes.append(f"lists without lengths were read as {', '.join(map(str, lengths))}")
    divisor = in_shares([accuracy for row in table.rows.values() for accuracy in row.values()])
    if divisor != 1:
        table.notes.append("accuracies are in percent")
        table.rows = {name: {n: v / divisor for n, v in row.items()} for name, row in table.rows.items()}
    return table


def _with_lengths(value, lengths: list[int], assumed: set, given: list[int] | None = None, depth: int = 0):
    """Lists of numbers as dictionaries by length, with the lengths that stand beside them or else `lengths`."""
    if depth > 8:
        return {}
    if isinstance(value, dict):
        beside = [item for key, item in value.items() if _are_lengths(key)]
        whole = [
            [int(n) for n in map(number, item) if n is not None and math.isfinite(n)]
            for item in beside
            if isinstance(item, list)
        ]
        given = whole[0] if whole and whole[0] else given
        return {
            key: _with_lengths(item, lengths, assumed, given, depth + 1)
            for key, item in value.items()
            if isinstance(item, dict) or not _are_lengths(key)
        }
    if isinstance(value, list):
        if value and all(isinstance(item, list) and len(item) == 2 for item in value):  # [[32, 0.5], …]
            pairs = [(number(a), number(b)) for a, b in value]
            if all(a is not None and math.isfinite(a) and b is not None for a, b in pairs):
                return {str(int(a)): b for a, b in pairs}
        plain = [number(item) for item in value]
        if value and all(item is not None for item in plain):
            if given is None and len(plain) == len(lengths):
                assumed.add(len(plain))
            meant = given or lengths
            return {str(n): item for n, item in zip(meant, plain, strict=True)} if len(meant) == len(plain) else {}
    return value


def _are_lengths(key: str) -> bool:
    """ "test_lengths", but neither "length_32" nor "accuracy_by_length"."""
    said = words(key)
    return bool({"length", "lengths", "lens"} & set(said)) and not {"by", *ACCURACY} & set(said) and said[-1].isalpha()
