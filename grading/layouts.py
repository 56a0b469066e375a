"""Read training logs and accuracy tables in the many layouts that people write.

The same numbers come nested or flat, as lists or dictionaries, as shares or percentages. A reader walks through the
whole file, looks at the words on the way to each number, and says in `notes` what it had to assume.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from grading.folder import vocabulary

MAX_LEAVES = 200_000
Keys = tuple[str, ...]  # the keys that lead to a number
SERIES = ("train_loss", "train_acc", "val_loss", "val_acc")

LOSS, ACCURACY = {"loss", "losses"}, {"acc", "accs", "accuracy", "accuracies", "match", "em"}
SPLITS = {
    "train": {"train", "training", "trn", "tr"},
    "val": {"val", "valid", "validation", "dev", "eval"},
    "test": {"test", "testing"},
}
WHOLE_ANSWER = {"exact", "sequence", "seq", "match", "em", "full"}
NOT_WHOLE = {"token", "tokens", "char", "teacher", "forcing", "forced", "tf"}
ASIDE = vocabulary("by per class std interval low high ci config settings args")
NOT_ACCURACY = LOSS | ASIDE | vocabulary("count total n samples correct seconds seed margin positive")
NAMING = vocabulary(
    "name head layer type component module kind length len encoding attention attn idx index block stack id seq test "
    "sequence"
)


@dataclass
class Log:
    """A training log. Values that are no numbers stand as NaN; accuracies are shares."""

    series: dict[str, list[float]] = field(default_factory=dict)  # by the names in SERIES
    test_loss: float | None = None
    test_acc: float | None = None
    best_epoch: int | None = None
    config: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def epochs(self) -> int:
        return max(map(len, self.series.values()), default=0)


@dataclass
class Table:
    """Accuracy by name and length: rows["learned"][32]."""

    rows: dict[str, dict[int, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def words(text) -> list[str]:
    """The words of a name in lower case, and its numbers: "valAccuracy_2" -> ["val", "accuracy", "2"]"""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", str(text)[:200])]


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
    """Every leaf with the keys that lead to it, in the file's order; positions in a list count from "0"."""
    waiting, seen = [((), value)], 0
    while waiting and seen < MAX_LEAVES:
        keys, item = waiting.pop()
        seen += 1
        if isinstance(item, dict):
            waiting += [((*keys, str(key)), inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list):
            waiting += [((*keys, str(index)), inner) for index, inner in reversed(list(enumerate(item)))]
        else:
            yield keys, item


def divisor(accuracies: list[float]) -> float:
    """100 if one of a file's accuracies is above 1.5, which no share can be: then they are percentages."""
    return 100.0 if any(math.isfinite(value) and value > 1.5 for value in accuracies) else 1.0


def keyed(value, depth: int = 0):
    """Lists of records as dictionaries by the name of each record: {"layer": 0, "head": 1} -> "layer 0 head 1"."""
    if depth > 12:
        return value
    if isinstance(value, dict):
        return {key: keyed(item, depth + 1) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if not value or not all(isinstance(item, dict) for item in value):
        return [keyed(item, depth + 1) for item in value]
    entries = {}
    for index, record in enumerate(value):
        names, rest = [], {}
        for key, item in record.items():
            said = words(key)
            if said and {*said} <= NAMING and isinstance(item, int | str) and not isinstance(item, bool):
                names.append(item if isinstance(item, str) else f"{said[0]} {item}")
            else:
                rest[key] = keyed(item, depth + 1)
        entries[" ".join(names) or str(index)] = rest
    return entries


# --- training logs -----------------------------------------------------------------------------------------------


def read_log(value, parts: list[str] = ()) -> Log:
    """`parts` are words for accuracies of parts of an answer, which are used only if there is no other."""
    log, found = Log(), {}
    for _, name, values in sorted(_series(_by_epoch(value), NOT_WHOLE | {*parts}), key=lambda entry: entry[0]):
        found.setdefault(name, values)
    log.series = {name: found[name] for name in SERIES if name in found}
    log.test_loss, log.test_acc = (found.get(name, [None])[-1] for name in ("test_loss", "test_acc"))
    accuracies = [v for name in ("train_acc", "val_acc") for v in log.series.get(name, [])]
    by = divisor(accuracies + ([] if log.test_acc is None else [log.test_acc]))
    if by != 1:
        log.notes.append("accuracies are in percent")
        log.series = {n: [v / by for v in values] if "acc" in n else values for n, values in log.series.items()}
        log.test_acc = None if log.test_acc is None else log.test_acc / by
    if isinstance(value, dict):
        best = [number(value.get(name)) for name in ("best_epoch", "bestEpoch")]
        log.best_epoch = next(
            (int(n) for n in reversed(best) if n is not None and math.isfinite(n) and n % 1 == 0), None
        )
        config = next((value[key] for key in ("config", "settings", "args", "hyperparameters") if key in value), value)
        if isinstance(config, dict):
            plain = {str(key): number(item) for key, item in config.items() if not isinstance(item, str)}
            log.config = {key: item for key, item in plain.items() if item is not None and math.isfinite(item)}
    return log


def _by_epoch(value, depth: int = 0):
    """[{"epoch": 1, "loss": 0.5}, …] or {"1": {"loss": 0.5}, …}, at any depth, turned into lists by name."""
    if depth > 6:
        return value
    if isinstance(value, dict):
        if len(value) < 2 or not all(words(key)[-1:] and words(key)[-1].isdigit() for key in value):
            return {key: _by_epoch(item, depth + 1) for key, item in value.items()}
        value = list(value.values())
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return value
    names = {name: None for item in value for name in item}
    return {str(name): _by_epoch([item.get(name) for item in value], depth + 1) for name in names if name != "epoch"}


def _series(value, not_whole: set[str]) -> Iterator[tuple[tuple[int, int], str, list[float]]]:
    """(how far its name is from the plain one, "val_acc", its numbers) for all that may be one of the series."""
    waiting, seen = [((), value)], 0
    while waiting and seen < 10_000:
        keys, item = waiting.pop()
        seen += 1
        if isinstance(item, dict):
            if len(keys) < 6:
                waiting += [((*keys, str(key)), inner) for key, inner in item.items()]
            continue
        said = [word for key in keys for word in words(key)]
        split = next((split for split, names in SPLITS.items() if names & {*said}), None)
        kind = "loss" if LOSS & {*said} else "acc" if ACCURACY & {*said} else None
        if kind is None or ASIDE & {*said} or any(word.isdigit() for word in said):
            continue
        values = item if isinstance(item, list) else [item] if split == "test" else []
        if any(isinstance(entry, dict | list) for entry in values):
            continue
        values = [number(entry) for entry in values]
        if any(entry is not None for entry in values):
            best = 4 if {"best", "final"} & {*said} and split != "test" else 0
            whole = 0 if WHOLE_ANSWER & {*said} else 2 if not_whole & {*said} else 1
            numbers = [math.nan if entry is None else entry for entry in values]
            yield (whole + best, len(said)), f"{split or 'train'}_{kind}", numbers


# --- accuracy by name and length ---------------------------------------------------------------------------------


def read_table(value, names: dict[str, list[str]], lengths: list[int]) -> Table:
    """Accuracies of `names` (each with its aliases) at any length; a bare list of numbers stands for `lengths`."""
    table, assumed = Table(), []
    found: dict[str, dict[int, tuple[int, float]]] = {}
    for keys, leaf in leaves(_with_lengths(keyed(value), lengths, assumed)):
        accuracy, said = number(leaf), [word for key in keys for word in words(key)]
        measures = {*said} - {"by"} if {"by", "length"} <= {*said} else {*said}  # "accuracy_by_length" is one
        if accuracy is None or NOT_ACCURACY & measures:
            continue
        name = next((name for key in keys for name in names if {name, *names[name]} & {key.lower(), *words(key)}), None)
        numbers = [int(word) for word in said if word.isdigit() and len(word) < 7]
        if name is None or len(numbers) != 1 or len(keys) > 6:
            continue
        row = found.setdefault(name, {})
        if numbers[0] not in row or len(keys) < row[numbers[0]][0]:  # the plainest of several for one length
            row[numbers[0]] = len(keys), accuracy
    if assumed:
        table.notes.append(f"lists without lengths were read as {', '.join(map(str, lengths))}")
    by = divisor([accuracy for row in found.values() for _, accuracy in row.values()])
    if by != 1:
        table.notes.append("accuracies are in percent")
    table.rows = {name: {n: accuracy / by for n, (_, accuracy) in row.items()} for name, row in found.items()}
    return table


def _with_lengths(value, lengths: list[int], assumed: list, given: list[int] | None = None, depth: int = 0):
    """Lists of numbers as dictionaries by length, with the lengths that stand beside them or else `lengths`."""
    if depth > 8:
        return {}
    if isinstance(value, dict):
        beside = [item for key, item in value.items() if _are_lengths(key) and isinstance(item, list)]
        if beside:
            first = [int(n) for n in map(number, beside[0]) if n is not None and math.isfinite(n)]
            given = first or given
        return {
            key: _with_lengths(item, lengths, assumed, given, depth + 1)
            for key, item in value.items()
            if isinstance(item, dict) or not _are_lengths(key)
        }
    if not isinstance(value, list) or not value:
        return value
    if all(isinstance(item, list) and len(item) == 2 for item in value):  # [[32, 0.5], …]
        pairs = [(number(a), number(b)) for a, b in value]
        if all(a is not None and math.isfinite(a) and b is not None for a, b in pairs):
            return {str(int(a)): b for a, b in pairs}
    plain = [number(item) for item in value]
    if any(item is None for item in plain):
        return value
    meant = given or lengths
    if len(plain) != len(meant):
        return {}
    if given is None:
        assumed.append(value)
    return {str(n): item for n, item in zip(meant, plain, strict=True)}


def _are_lengths(key: str) -> bool:
    """ "test_lengths", but neither "length_32" nor "accuracy_by_length"."""
    said = words(key)
    return bool({"length", "lengths", "lens"} & {*said}) and not {"by", *ACCURACY} & {*said} and said[-1].isalpha()
