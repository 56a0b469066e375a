"""Read training logs and accuracy tables in the many layouts that people write.

The same numbers come nested or flat, as lists or dictionaries, as shares or percentages. A reader walks through the
whole file, looks at the words on the way to each number, and says in `notes` what it had to assume.
"""

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

# more keys, letters or words than these say nothing about a number
MAX_DEPTH = 10
MAX_KEY = 200
MAX_WORDS = 20
Keys = tuple[str | int, ...]  # what leads to a leaf: keys of dictionaries, positions in lists
SERIES = ("train_loss", "train_acc", "val_loss", "val_acc")
ACCURACIES = ("train_acc", "val_acc", "test_acc")


def vocabulary(text: str) -> set[str]:
    return set(text.split())


LOSS = vocabulary("loss losses")
ACCURACY = vocabulary("acc accs accuracy accuracies match em")
SPLITS = {
    "train": vocabulary("train training trn tr"),
    "val": vocabulary("val valid validation dev eval"),
    "test": vocabulary("test testing"),
}
WHOLE_ANSWER = vocabulary("exact sequence seq match em full")
TOKENS = vocabulary("token tokens char")
NOT_WHOLE = TOKENS | vocabulary("teacher forcing forced tf")
FORCED = vocabulary("teacher forced forcing")
GREEDY = vocabulary("greedy autoregressive generated generation")
ASIDE = vocabulary("by per class std interval low high ci config settings args")
NOT_ACCURACY = LOSS | ASIDE | vocabulary("count total n samples correct seconds seed margin positive")
IN_PERCENT = "accuracies are in percent"
NAMING = vocabulary(
    "name head layer type component module kind length len encoding attention attn idx index block stack id seq test "
    "sequence"
)


@dataclass
class Log:
    """A training log. Accuracies are shares. What is no number ("null") was not measured, and is left out."""

    numbers: dict[str, list[float]]  # by the names in SERIES; and the last of "test_loss" and of "test_acc"
    best_epoch: int | None
    config: dict[str, float]
    notes: list[str]
    gaps: bool = False  # some epochs lack a value, so that positions in the lists are not epochs

    @property
    def test_acc(self) -> float | None:
        return self.numbers.get("test_acc", [None])[0]

    def lengths(self) -> set[int]:
        return {len(self.numbers[name]) for name in SERIES if name in self.numbers}

    def epochs(self) -> int:
        return max(self.lengths(), default=0)

    def of(self, name: str) -> list[float]:
        """The finite numbers of a series."""
        return [value for value in self.numbers.get(name, []) if math.isfinite(value)]


@functools.lru_cache(100_000)
def words(text: str | int) -> tuple[str, ...]:
    """The words of a name in lower case, and its numbers: "valAccuracy_2" -> "val", "accuracy", "2"."""
    found = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", str(text)[:MAX_KEY])
    return tuple(word.lower() for word in found[:MAX_WORDS])


def number(value) -> float | None:
    """A leaf of JSON as a number: 0.5, "0.5" and "50%" are the same; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        if not isinstance(value, str):
            return float(value)
        text = value.strip()
        if len(text) > 40 or "_" in text:
            return None
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except OverflowError:
        return math.inf
    except ValueError:
        return None


def leaves(value) -> Iterator[tuple[Keys, object]]:
    """Every leaf with what leads to it, in the file's order; what is nested too deeply is left out."""
    waiting = [((), value)]
    while waiting:
        keys, item = waiting.pop()
        if not isinstance(item, dict | list):
            yield keys, item
        elif len(keys) < MAX_DEPTH:
            entries = [*(item.items() if isinstance(item, dict) else enumerate(item))]
            short = [(key[:MAX_KEY] if isinstance(key, str) else key, inner) for key, inner in entries]
            waiting += [((*keys, key), inner) for key, inner in reversed(short)]


def finite(value) -> float | None:
    amount = number(value)
    return amount if amount is not None and math.isfinite(amount) else None


def divisor(accuracies: list[float]) -> float:
    """100 if one of a file's accuracies is above 1.5, which no share can be: then they are percentages."""
    return 100.0 if any(math.isfinite(value) and value > 1.5 for value in accuracies) else 1.0


def keyed(value, depth: int = 0):
    """Lists of records as dictionaries by the name of each record: {"layer": 0, "head": 1} -> "layer 0 head 1"."""
    if depth > MAX_DEPTH or not isinstance(value, dict | list):
        return value
    if isinstance(value, dict):
        return {key: keyed(item, depth + 1) for key, item in value.items()}
    if not value or not all(isinstance(item, dict) for item in value):
        return [keyed(item, depth + 1) for item in value]
    entries = {}
    for index, record in enumerate(value):
        naming = {
            key: item if isinstance(item, str) else f"{words(key)[0]} {item}"
            for key, item in record.items()
            if words(key) and {*words(key)} <= NAMING and isinstance(item, int | str) and not isinstance(item, bool)
        }
        rest = {key: keyed(item, depth + 1) for key, item in record.items() if key not in naming}
        entries[" ".join(naming.values()) or str(index)] = rest
    return entries


# --- training logs -----------------------------------------------------------------------------------------------


def read_log(value, parts: list[str] = ()) -> Log:
    """`parts` are words for accuracies of parts of an answer, which are used only if there is no other."""
    ranked = sorted(_series(value, NOT_WHOLE | {*parts}), key=lambda entry: entry[0], reverse=True)
    listed = {name: numbers for _, name, numbers in ranked}  # the plainest stands last
    found = {name: [entry for entry in entries if entry is not None] for name, entries in listed.items()}
    gaps = any(None in listed[name] for name in SERIES if name in listed)
    numbers = {name: found[name] for name in SERIES if name in found}
    numbers |= {name: found[name][-1:] for name in ("test_acc", "test_loss") if name in found}
    known = None
    notes = []
    for name in ACCURACIES:
        if name in numbers:
            by = _unit(numbers[name], known)
            numbers[name] = [value / by for value in numbers[name]]
            if by != 1:
                known = max(numbers[name])
                notes = [IN_PERCENT]
    top = value if isinstance(value, dict) else {}
    best = number(top.get("best_epoch", top.get("bestEpoch")))
    config = next((top[key] for key in ("config", "settings", "args", "hyperparameters") if key in top), top)
    entries = config.items() if isinstance(config, dict) else []
    plain = {key: amount for key, item in entries if not isinstance(item, str) and (amount := finite(item)) is not None}
    best_epoch = int(best) if best is not None and best.is_integer() else None
    return Log(numbers, best_epoch, plain, notes, gaps)


def _unit(accuracies: list[float], known: float | None) -> float:
    """What one series is divided by: one file may hold shares and percentages.

    Where both are possible, what is nearer to `known` is meant, the highest of a series that was in percent.
    """
    by = divisor(accuracies)
    if by == 1 and known is not None:
        highest = max(accuracies)
        by = min((1.0, 100.0), key=lambda by: abs(highest / by - known))
    return by


def _series(value, not_whole: set[str]) -> Iterator[tuple[tuple[int, int], str, list[float | None]]]:
    """(how far its name is from the plain one, "val_acc", its entries) for all that may be one of the series.

    An epoch is a position in a list or a key such as "3" or "epoch_3", anywhere among the keys.
    """
    found: dict[tuple[Keys, bool], list[float | None]] = {}
    for keys, leaf in leaves(value):
        names = tuple(key for key in keys if not _is_epoch(key))
        if len(keys) - len(names) <= 1:
            found.setdefault((names, len(keys) > len(names)), []).append(number(leaf))
    for (names, by_epoch), numbers in found.items():
        said = [word for key in names for word in words(key)]
        split = next((split for split, of_split in SPLITS.items() if of_split & {*said}), None)
        kind = "loss" if LOSS & {*said} else "acc" if ACCURACY & {*said} else None
        if kind is None or ASIDE & {*said} or any(word.isdigit() for word in said) or len(names) > 6:
            continue
        if (by_epoch or split == "test") and any(entry is not None for entry in numbers):
            best = 4 if {"best", "final"} & {*said} and split != "test" else 0
            whole = 0 if WHOLE_ANSWER & {*said} else 2 if not_whole & {*said} else 1
            yield (whole + best, len(said)), f"{split or 'train'}_{kind}", numbers


def _is_epoch(key: str | int) -> bool:
    rest = {*words(key)} - {"epoch"}
    return isinstance(key, int) or (bool(rest) and all(word.isdigit() for word in rest))


def read_modes(value, parts: list[str], test_acc: float | None) -> tuple[float | None, float | None]:
    """The exact match with teacher forcing and with greedy decoding, as shares. `test_acc` stands in for the first."""
    found = {"forced": [], "greedy": []}
    not_of_answers = LOSS | SPLITS["train"] | SPLITS["val"] | TOKENS | {*parts}
    for keys, leaf in leaves(value):
        said = {word for key in keys for word in words(key)}
        amount = number(leaf)
        mode = "forced" if said & FORCED else "greedy" if said & GREEDY else None
        of_answers = said & (ACCURACY | WHOLE_ANSWER) and not said & not_of_answers
        if mode and amount is not None and of_answers and len(keys) <= 4 and not any(str(k).isdigit() for k in keys):
            found[mode].append(amount)
    by = divisor(found["forced"] + found["greedy"])
    forced, greedy = (max(amounts) / by if amounts else None for amounts in found.values())
    return (test_acc if forced is None else forced), greedy


# --- accuracy by name and length ---------------------------------------------------------------------------------


def read_table(value, names: dict[str, list[str]], lengths: list[int]) -> tuple[dict[str, dict[int, float]], list[str]]:
    """Accuracies of `names` (each with its aliases) at any length, and notes: rows["learned"][32].

    A list of numbers is read with the list of lengths that stands beside or above it, or else with `lengths`.
    """
    flat = {keys: leaf for keys, leaf in leaves(keyed(value)) if keys}
    sizes = Counter(keys[:-1] for keys in flat)
    stated: dict[Keys, list[int]] = {}
    for keys, leaf in flat.items():
        if isinstance(keys[-1], int) and _is_of_lengths(keys) and (length := finite(leaf)) is not None:
            stated.setdefault(keys[:-2], []).append(int(length))
    found = {}
    notes = {}
    for keys, leaf in flat.items():
        accuracy = number(leaf)
        said = [word for key in keys if isinstance(key, str) for word in words(key)]
        measures = {*said} - {"by"} if "length" in said else {*said}  # "accuracy_by_length" is one
        name = next((n for key in keys for n in names if {n, *names[n]} & {str(key).lower(), *words(key)}), None)
        if accuracy is None or name is None or NOT_ACCURACY & measures or len(keys) > 6 or _is_of_lengths(keys):
            continue
        at = [int(word) for word in said if word.isdigit() and len(word) < 7]
        if isinstance(keys[-1], int):
            before = flat.get((*keys[:-1], 0))
            size = sizes[keys[:-1]]
            meant = next((stated[keys[:end]] for end in range(len(keys), -1, -1) if keys[:end] in stated), lengths)
            if not isinstance(keys[-2], int) and size == len(meant) > keys[-1]:
                at.append(meant[keys[-1]])
                if meant is lengths:
                    notes[f"lists without lengths were read as {', '.join(map(str, lengths))}"] = True
            elif isinstance(keys[-2], int) and size == 2 and keys[-1] == 1 and finite(before) is not None:
                at.append(int(finite(before)))  # [[32, 0.5], …]
            else:
                continue
        row = found.setdefault(name, {})
        if len(at) == 1 and (at[0] not in row or len(keys) < row[at[0]][0]):  # the plainest of several
            row[at[0]] = len(keys), accuracy
    by = divisor([accuracy for row in found.values() for _, accuracy in row.values()])
    if by != 1:
        notes[IN_PERCENT] = True
    return {name: {n: value / by for n, (_, value) in row.items()} for name, row in found.items() if row}, [*notes]


def _is_of_lengths(keys: Keys) -> bool:
    """Whether they lead to "length", or into a list "test_lengths", but not to "length_32" or "accuracy_by_length"."""
    said = words(next((key for key in reversed(keys) if isinstance(key, str)), ""))
    return bool({"length", "lengths", "lens"} & {*said}) and not {"by", *ACCURACY} & {*said} and said[-1].isalpha()
