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
WITHOUT |= {
    "removed",
    "removal",
    "masked",
    "masking",
    "pruned",
    "disabled",
    "sequence",
    "seq",
    "exact",
    "val",
    "effect",
}
WITHOUT |= {"performance", "metric"}
SAYS_NOTHING = {"ablation", "ablations", "ablate", "results", "result", "single", "individual", "per", "data"}
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
            head, before, after = _head_of(path)
            if head and not {*before, *after} & NEVER:
                tables.setdefault((before, after), {})[head] = amount
    baseline = min(baselines, key=lambda entry: entry[:2])[2] if baselines else None
    without, drops = _plainest(tables, drops=False), _plainest(tables, drops=True)
    if not drops and _are_drops(tables.get(((), ()), {}), baseline):
        without, drops = {}, tables[(), ()]
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
        sign = -1 if sum(drops.values()) < 0 else 1  # "change": -0.3
        ablation.drops = {head: sign * drop / by for head, drop in drops.items()}
        from_baseline(ablation, ablation.baseline)
    return ablation


def from_baseline(ablation: Ablation, baseline: float | None) -> None:
    """Drops alone tell the accuracies where the accuracy of the whole model is known."""
    if ablation.drops and not ablation.without and baseline is not None:
        ablation.without = {head: baseline - drop for head, drop in ablation.drops.items()}
        ablation.notes.append("accuracies without a head follow from drops")


def _head_of(path: Keys) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """Split the keys to a number into the head they name and what is said before and after of the measure.

    ("zero", "encoder.0.self.head1", "accuracy") -> "encoder 0 self head 1", ("zero",), ("accuracy",)
    ("encoder", "0", "1") -> "encoder 0 1", (), (); no head: None, …
    """
    place, before, after, complete = [], [], [], False
    for key in path:
        said = words(key)
        numbered = any(word.isdigit() for word in said)
        rest = [word for word in said if word not in PLACE | SAYS_NOTHING and not word.isdigit()]
        if not complete and not after and (not rest or (numbered and not any(word.isdigit() for word in place))):
            place += [
                word for word in said if word in PLACE or word.isdigit()
            ]  # also "ablate_encoder_0_head_1_accuracy"
            (after if numbered else before).extend(rest)
        elif any(word.isdigit() for word in place):
            after += rest + (["by"] if numbered else [])
        else:
            before += rest
        complete = complete or (bool({"head", "h"} & set(said)) and said[-1].isdigit())
    ids = [word for word in place if word.isdigit()]
    said = {*before, *after}
    if not set(place) & PLACE and (said - WITHOUT - DROPS or (len(ids) < 2 and not said & (ACCURACY | DROPS))):
        return None, (), ()  # numbers alone name a head only where nothing else is said: {"0_1": 0.98}
    if not ids or len(ids) > 3:
        return None, (), ()
    name = [word for word in place if word not in ("heads", "layers", "blocks")]
    return " ".join(name), tuple(before), tuple(after)


def _plainest(tables: dict, drops: bool) -> dict[str, float]:
    """Of the tables of drops, or of accuracies, the one whose measure needs the fewest and best known words.

    What stands nearest to the number tells what it is: {"importance": {head: {"accuracy": 0.9}}} is an accuracy.
    """
    fitting = []
    for (before, after), table in tables.items():
        telling = set(after or before)
        strange = {*before, *after} - WITHOUT - DROPS
        if bool(telling & DROPS) == drops and (not strange & set(after) or telling & ACCURACY):
            rank = (len(strange), -len(table), len(before) + len(after) + ("mean" in before + after))
            fitting.append((rank, table))
    return min(fitting, key=lambda entry: entry[0])[1] if fitting else {}


def _are_drops(bare: dict[str, float], baseline: float | None) -> bool:
    """Whether numbers without a word for what they are must be drops: some below 0, or most of them about 0."""
    if not bare or baseline is None:
        return False
    middle = sorted(bare.values())[len(bare) // 2]
    return min(bare.values()) < 0 or (middle < 0.1 * baseline and max(bare.values()) < 1.01 * baseline)
