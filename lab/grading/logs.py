"""Training logs in any layout."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from lab.grading.layouts import ACCURACY, ASIDE, LOSS, in_shares, number
from lab.grading.reading import words

PARTS = {
    "train": {"train", "training", "trn", "tr"},
    "val": {"val", "valid", "validation", "dev", "eval"},
    "test": {"test", "testing"},
}
WHOLE_ANSWER = {"exact", "sequence", "seq", "match", "em", "full"}
NOT_WHOLE = {"token", "tokens", "char", "teacher", "forcing", "forced", "tf"}


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


def read_log(value, parts: list[str] = ()) -> Log:
    """`parts` are words for accuracies of parts of an answer: taken only where no other stands."""
    log, found = Log(), {}
    for _rank, name, content in sorted(_candidates(_by_epoch(value), NOT_WHOLE | {*parts}), key=lambda entry: entry[0]):
        found.setdefault(name, content)
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


def _by_epoch(value, depth: int = 0):
    """[{"epoch": 1, "loss": 0.5}, …] or {"1": {"loss": 0.5}, …}, alone or under keys, turned into lists by name."""
    if depth > 6:
        return value
    if isinstance(value, dict):
        numbered = len(value) > 1 and all(words(key)[-1:] and words(key)[-1].isdigit() for key in value)
        if not numbered:
            return {key: _by_epoch(item, depth + 1) for key, item in value.items()}
        value = list(value.values())
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return value
    names = {name: None for item in value for name in item}
    return {str(name): _by_epoch([item.get(name) for item in value], depth + 1) for name in names if name != "epoch"}


def _candidates(value, not_whole: set[str]) -> Iterator[tuple[tuple[int, int], str, list[float]]]:
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
            whole = 0 if WHOLE_ANSWER & set(said) else 2 if not_whole & set(said) else 1
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
