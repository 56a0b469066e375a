"""Ablations head by head, in any layout."""

import math
from dataclasses import dataclass, field

from lab.grading.layouts import ACCURACY, LOSS, Keys, in_shares, keyed, leaves, number
from lab.grading.reading import words

BASELINE = {"baseline", "original", "unablated", "intact", "full", "base"}
PLACE = {"encoder", "decoder", "enc", "dec", "self", "cross", "attn", "attention", "layer", "layers", "l", "block"}
PLACE |= {"head", "heads", "h", "src", "blocks"}
DROPS = {"drop", "drops", "decrease", "delta", "impact", "importance", "difference", "change", "degradation"}
WITHOUT = ACCURACY | {"ablated", "without", "score", "after", "zero", "zeroed", "value", "test", "mean", "overall"}
WITHOUT |= {"ablation", "ablations", "results", "single", "removed", "ablate", "per", "sequence", "exact"}
NEVER = LOSS | {"std", "low", "high", "ci", "interval", "count", "rank", "entropy", "seconds", "samples", "rows", "n"}
NEVER |= {"config", "settings", "args", "seed", "num", "by", "number", "total", "versions", "threads"}


@dataclass
class Ablation:
    """Accuracy of the whole model, and of the model without each head; what is not in the file is missing."""

    baseline: float | None = None
    without: dict[str, float] = field(default_factory=dict)
    drops: dict[str, float] = field(default_factory=dict)  # where these are all that the file gives
    samples: int | None = None
    notes: list[str] = field(default_factory=list)


def read_ablation(value) -> Ablation:
    baselines, tables, samples = [], {}, None
    for path, leaf in leaves(keyed(value)):
        amount = number(leaf)
        if amount is None:
            continue
        said = {word for key in path for word in words(key)}
        counted = said & {"samples", "rows", "total"} and "by" not in said and len(path) <= 2
        if counted and math.isfinite(amount) and amount >= 1:
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
    if not without and drops:
        by = 100.0 if any(math.isfinite(drop) and abs(drop) > 1.5 for drop in drops.values()) else divisor
        ablation.drops = {head: drop / by for head, drop in drops.items()}
        from_baseline(ablation, ablation.baseline)
    return ablation


def from_baseline(ablation: Ablation, baseline: float | None) -> None:
    """Drops alone tell the accuracies where the accuracy of the whole model is known."""
    if ablation.drops and not ablation.without and baseline is not None:
        ablation.without = {head: baseline - drop for head, drop in ablation.drops.items()}
        ablation.notes.append("accuracies without a head follow from drops")


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
    return " ".join(name), tuple(word for word in measure if word not in PLACE)


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
