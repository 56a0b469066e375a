"""The layouts in the wild, brought to one: training logs, tables of accuracy by length, ablations by head.

Everybody's analysis writes the same numbers in another shape: nested or flat, lists or dictionaries, shares or
percentages. A reader walks through the whole file, looks at the words on the way to each number, and says in
`notes` what it had to assume and what it could not use.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from lab.grading.reading import words

MOST_LEAVES = 200_000
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


# ---------------------------------------------------------------------------------------------- training logs

PARTS = {
    "train": {"train", "training", "trn", "tr"},
    "val": {"val", "valid", "validation", "dev", "eval"},
    "test": {"test", "testing"},
}
LOSS, ACCURACY = {"loss", "losses"}, {"acc", "accs", "accuracy", "accuracies", "match", "em"}
WHOLE_ANSWER = {"exact", "sequence", "seq", "match", "em", "full"}
NOT_WHOLE = {"token", "tokens", "digit", "digits", "char", "teacher", "forcing", "forced", "tf"}
ASIDE = {"by", "per", "class", "std", "interval", "low", "high", "ci", "config", "settings", "args"}


@dataclass
class Log:
    """A training log: series by "train_loss", "train_acc", "val_loss", "val_acc"; NaN where no number stands."""

    series: dict[str, list[float]] = field(default_factory=dict)
    test_loss: float | None = None
    test_acc: float | None = None
    best_epoch: int | None = None
    seconds: float | None = None
    config: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def epochs(self) -> int:
        return max(map(len, self.series.values()), default=0)


def read_log(value) -> Log:
    log, found = Log(), {}
    for _rank, name, content in sorted(_log_candidates(_by_epoch(value)), key=lambda entry: entry[0]):
        if name not in found:
            found[name] = content
    for part in PARTS:
        for kind in ("loss", "acc"):
            name = f"{part}_{kind}"
            content = found.get(name)
            if content is None:
                continue
            if part == "test":
                setattr(log, name, content[-1])
            else:
                log.series[name] = content
    accuracies = [v for name, series in log.series.items() if name.endswith("acc") for v in series]
    divisor = in_shares(accuracies + ([log.test_acc] if log.test_acc is not None else []))
    if divisor != 1:
        log.notes.append("accuracies are in percent")
        for name in log.series:
            if name.endswith("acc"):
                log.series[name] = [v / divisor for v in log.series[name]]
        log.test_acc = log.test_acc / divisor if log.test_acc is not None else None
    if isinstance(value, dict):
        _read_settings(value, log)
    return log


def _by_epoch(value):
    """[{"epoch": 1, "loss": 0.5}, …], alone or under a key, turned into lists by name."""
    if isinstance(value, dict):
        return {key: _by_epoch(item) if isinstance(item, list) else item for key, item in value.items()}
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return value
    names = {name: None for item in value for name in item}
    return {str(name): [item.get(name) for item in value] for name in names if str(name) != "epoch"}


def _log_candidates(value) -> Iterator[tuple[tuple[int, int], str, list[float]]]:
    """(how far it is from the plain name, "val_acc", its numbers) for everything that may be one of the series."""
    waiting = [((), value)]
    seen = 0
    while waiting and seen < 10_000:
        path, item = waiting.pop()
        seen += 1
        if isinstance(item, dict):
            if len(path) < 6:
                waiting += [((*path, str(key)), inner) for key, inner in item.items()]
            continue
        said = [word for key in path for word in words(key)]
        part = next((part for part, names in PARTS.items() if names & set(said)), None)
        kind = "loss" if LOSS & set(said) else "acc" if ACCURACY & set(said) else None
        if kind is None or ASIDE & set(said) or any(word.isdigit() for word in said):
            continue
        content = _numbers(item, alone=part == "test")
        if content:
            best = 4 if {"best", "final"} & set(said) and part != "test" else 0
            whole = 0 if WHOLE_ANSWER & set(said) else 2 if NOT_WHOLE & set(said) else 1
            yield (whole + best, len(said)), f"{part or 'train'}_{kind}", content


def _numbers(item, alone: bool) -> list[float]:
    """A list of numbers (NaN where one is missing), or one number alone where that is meant; [] otherwise."""
    if isinstance(item, list):
        if not item or any(isinstance(entry, dict | list) for entry in item):
            return []
        found = [number(entry) for entry in item]
        return [math.nan if entry is None else entry for entry in found] if any(e is not None for e in found) else []
    single = number(item) if alone else None
    return [] if single is None else [single]


def _read_settings(value: dict, log: Log) -> None:
    for name in ("best_epoch", "bestEpoch"):
        best = number(value.get(name))
        if best is not None and math.isfinite(best) and best == int(best):
            log.best_epoch = int(best)
    for name in ("seconds", "training_time", "train_time", "total_time"):
        seconds = number(value.get(name))
        if seconds is not None and math.isfinite(seconds):
            log.seconds = seconds
            break
    config = next((value[k] for k in ("config", "settings", "args", "hyperparameters") if k in value), value)
    if isinstance(config, dict):
        plain = {str(key): number(item) for key, item in config.items() if not isinstance(item, str)}
        log.config = {key: item for key, item in plain.items() if item is not None and math.isfinite(item)}


# -------------------------------------------------------------------------------- accuracy by name and length


@dataclass
class Table:
    """Accuracy by name and length: rows["learned"][32]."""

    rows: dict[str, dict[int, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


MEASURED = ACCURACY | {"mean", "value", "score"}
UNMEASURED = LOSS | ASIDE | {"count", "total", "n", "samples", "correct", "seconds", "seed", "margin", "positive"}


def read_table(value, names: list[str], lengths: list[int]) -> Table:
    """Find accuracies of `names` at any length. `lengths` are what a bare list of as many numbers stands for."""
    table = Table()
    assumed = set()
    found: dict[str, dict[int, list[tuple[int, float]]]] = {}
    for path, leaf in leaves(_with_lengths(_keyed(value), lengths, assumed)):
        accuracy = number(leaf)
        said = [word for key in path for word in words(key)]
        if {"by", "length"} <= set(said):  # "accuracy_by_length" is the very thing
            said = [word for word in said if word != "by"]
        if accuracy is None or UNMEASURED & set(said):
            continue
        name = next((name for key in path for name in names if name in (key.lower(), *words(key))), None)
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
        beside = [item for key, item in value.items() if {"length", "lengths", "lens"} & set(words(key))]
        whole = [
            [int(n) for n in map(number, item) if n is not None and math.isfinite(n)]
            for item in beside
            if isinstance(item, list)
        ]
        given = whole[0] if whole and whole[0] else given
        return {
            key: _with_lengths(item, lengths, assumed, given, depth + 1)
            for key, item in value.items()
            if not {"length", "lengths", "lens"} & set(words(key)) or isinstance(item, dict) or words(key)[-1].isdigit()
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


# ------------------------------------------------------------------------------------------- ablation by head

BASELINE = {"baseline", "original", "unablated", "intact", "full", "base"}
PLACE = {"encoder", "decoder", "enc", "dec", "self", "cross", "attn", "attention", "layer", "layers", "l", "block"}
PLACE |= {"head", "heads", "h", "src", "blocks"}
DROPS = {"drop", "drops", "decrease", "delta", "impact", "importance", "difference", "change", "degradation"}
WITHOUT = ACCURACY | {
    "ablated",
    "without",
    "score",
    "after",
    "zero",
    "zeroed",
    "value",
    "test",
    "mean",
    "overall",
    "all",
}
NEVER = LOSS | {"std", "low", "high", "ci", "interval", "count", "rank", "entropy", "seconds", "samples", "rows", "n"}
NEVER |= {"config", "settings", "args", "seed", "num", "by", "per", "number", "total", "versions", "threads"}


@dataclass
class Ablation:
    """Accuracy of the whole model, and of the model without each head; what is not in the file is missing."""

    baseline: float | None = None
    without: dict[str, float] = field(default_factory=dict)
    samples: int | None = None
    notes: list[str] = field(default_factory=list)


def read_ablation(value) -> Ablation:
    baselines, tables, samples = [], {}, None
    for path, leaf in leaves(_keyed(value)):
        amount = number(leaf)
        if amount is None:
            continue
        said = {word for key in path for word in words(key)}
        if said & {"samples", "rows", "total"} and len(path) <= 2 and math.isfinite(amount) and amount >= 1:
            samples = samples or int(min(amount, 1e9))
        elif said & BASELINE and not said & (NEVER | DROPS):
            baselines.append((len(path), not said & ACCURACY, amount))
        else:
            head, measure = _head_of(path)
            if head and not set(measure) & NEVER:
                tables.setdefault(measure, {})[head] = amount
    baseline = min(baselines, key=lambda entry: entry[:2])[2] if baselines else None
    without, drops = _best_table(tables, WITHOUT), _best_table(tables, DROPS)
    return _in_shares(baseline, without, drops, samples)


def _in_shares(baseline: float | None, without: dict, drops: dict, samples: int | None) -> Ablation:
    ablation = Ablation(samples=samples)
    divisor = in_shares([*without.values(), *([] if baseline is None else [baseline])])
    if divisor != 1:
        ablation.notes.append("accuracies are in percent")
    ablation.baseline = None if baseline is None else baseline / divisor
    ablation.without = {head: accuracy / divisor for head, accuracy in without.items()}
    if not without and drops and ablation.baseline is not None:
        by = 100.0 if any(math.isfinite(drop) and abs(drop) > 1.5 for drop in drops.values()) else divisor
        ablation.without = {head: ablation.baseline - drop / by for head, drop in drops.items()}
        ablation.notes.append("accuracies without a head follow from baseline and drops")
    elif not without and drops:
        ablation.notes.append("only drops are given and no baseline, so no accuracy can be read")
    return ablation


def _head_of(path: Keys) -> tuple[str | None, tuple[str, ...]]:
    """Split the keys to a number into the head they name and what was measured of it.

    ("heads", "encoder.0.self.head1", "zero", "accuracy") -> ("encoder 0 self head 1", ("zero", "accuracy"))
    ("encoder", "0", "1") -> ("encoder 0 1", ()); no head: (None, …)
    """
    place, measure, complete = [], [], False
    for key in path:
        said = words(key)
        numbered = any(word.isdigit() for word in said)
        is_place = bool(said) and all(word in PLACE or word.isdigit() for word in said)
        if is_place and not complete and not (measure and place):
            place += said
        elif numbered and not place and {"head", "h", *PLACE} & set(said):  # "ablate_encoder_0_head_1_accuracy"
            place += [word for word in said if word in PLACE or word.isdigit()]
            measure += [word for word in said if word not in PLACE and not word.isdigit()]
        else:
            measure += [word for word in said if not word.isdigit()]
            if numbered:
                measure.append("by")
        complete = complete or (bool({"head", "h"} & set(said)) and said[-1].isdigit())
    ids = [word for word in place if word.isdigit()]
    if not ids or not set(place) & PLACE or len(ids) > 3:
        return None, ()
    name = [word for word in place if word not in ("heads", "layers", "blocks")]
    return " ".join(name), tuple(word for word in measure if word not in ("ablation", "ablations", "results", "single"))


def _best_table(tables: dict[tuple[str, ...], dict[str, float]], wanted: set[str]) -> dict[str, float]:
    """The table whose measure is plainest among those that say nothing but `wanted` (or, for accuracies, nothing)."""
    fitting = []
    for measure, table in tables.items():
        is_drop = bool(set(measure) & DROPS)
        if wanted is DROPS:
            if is_drop and set(measure) <= DROPS | WITHOUT:
                fitting.append((len(measure), table))
        elif not is_drop and set(measure) <= WITHOUT:
            fitting.append((len(measure) + ("mean" in measure), table))
    if not fitting:
        return {}
    plainest = min(fitting, key=lambda entry: (-len(entry[1]), entry[0]))
    return plainest[1]


def _keyed(value, depth: int = 0):
    """Lists of records as dictionaries by what each names itself: {"layer": 0, "head": 1, …} -> "layer 0 head 1"."""
    if depth > 12:
        return value
    if isinstance(value, dict):
        return {key: _keyed(item, depth + 1) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if not value or not all(isinstance(item, dict) for item in value):
        return [_keyed(item, depth + 1) for item in value] if any(isinstance(i, dict | list) for i in value) else value
    keyed = {}
    for place, record in enumerate(value):
        names, rest = [], {}
        for key, item in record.items():
            said = words(key)
            naming = said and all(word in NAMING for word in said)
            if naming and isinstance(item, int | str) and not isinstance(item, bool):
                names.append(str(item) if isinstance(item, str) else f"{said[0]} {item}")
            else:
                rest[key] = _keyed(item, depth + 1)
        keyed[" ".join(names) or str(place)] = rest
    return keyed


NAMING = {
    "name",
    "head",
    "layer",
    "type",
    "component",
    "module",
    "kind",
    "length",
    "len",
    "encoding",
    "attention",
    "attn",
}
NAMING |= {"idx", "index", "block", "stack", "id", "seq", "test", "sequence"}
