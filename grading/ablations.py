"""Read ablations head by head, in the many layouts that people write."""

import math
from dataclasses import dataclass, field

from grading.folder import vocabulary
from grading.layouts import ACCURACY, LOSS, Keys, divisor, keyed, leaves, number, words

BASELINE = vocabulary("baseline original unablated intact full base")
# Words that name a head, words for an accuracy without it, words for a drop, words that say nothing of either, and
# words of numbers that are no result of an ablation.
HEAD = vocabulary("encoder decoder enc dec self cross attn attention layer layers l block blocks head heads h src")
WITHOUT = ACCURACY | vocabulary(
    "ablated without score after zero zeroed value test mean overall removed removal masked masking pruned disabled "
    "sequence seq exact val effect performance metric"
)
DROPS = vocabulary("drop drops decrease delta impact importance difference change degradation")
FILLERS = vocabulary("ablation ablations ablate results result single individual per data")
NEVER = LOSS | vocabulary(
    "std low high ci interval count rank entropy seconds samples rows n config settings args seed num by number total "
    "versions threads"
)


@dataclass
class Ablation:
    """Accuracy of the whole model, and of the model without each head; what is not in the file is missing."""

    baseline: float | None = None
    without: dict[str, float] = field(default_factory=dict)
    drops: dict[str, float] = field(default_factory=dict)  # if the file gives nothing else
    samples: int | None = None
    notes: list[str] = field(default_factory=list)

    def start_from(self, baseline: float | None) -> None:
        """Drops alone give the accuracies once the accuracy of the whole model is known."""
        if self.drops and not self.without and baseline is not None:
            self.without = {head: baseline - drop for head, drop in self.drops.items()}
            self.notes.append("accuracies without a head are computed from drops")


def read_ablation(value) -> Ablation:
    ablation, baselines, tables = Ablation(), [], {}
    for keys, leaf in leaves(keyed(value)):
        amount, said = number(leaf), {word for key in keys for word in words(key)}
        if amount is None:
            continue
        counted = said & {"samples", "rows", "total"} and "by" not in said and len(keys) <= 2
        if counted and math.isfinite(amount) and amount >= 1:
            ablation.samples = ablation.samples or int(min(amount, 1e9))
        elif said & BASELINE and not said & (NEVER | DROPS):
            baselines.append((len(keys), not said & ACCURACY, amount))
        else:
            head, before, after = _split_keys(keys)
            if head and not {*before, *after} & NEVER:
                tables.setdefault((before, after), {})[head] = amount
    baseline = min(baselines, key=lambda entry: entry[:2])[2] if baselines else None
    without, drops = _plainest(tables, drops=False), _plainest(tables, drops=True)
    bare = tables.get(((), ()), {})
    if not drops and _are_drops(bare, baseline):
        without, drops = {}, bare
    by = divisor([*without.values(), *([] if baseline is None else [baseline])])
    if by != 1:
        ablation.notes.append("accuracies are in percent")
    ablation.baseline = None if baseline is None else baseline / by
    ablation.without = {head: accuracy / by for head, accuracy in without.items()}
    if drops and not without:
        by = 100.0 if any(math.isfinite(drop) and abs(drop) > 1.5 for drop in drops.values()) else by
        sign = -1 if sum(drops.values()) < 0 else 1  # "change": -0.3
        ablation.drops = {head: sign * drop / by for head, drop in drops.items()}
        ablation.start_from(ablation.baseline)
    return ablation


def _split_keys(keys: Keys) -> tuple[str | None, Keys, Keys]:
    """The head that the keys to a number name, and the words for what was measured before and after that name.

    ("zero", "encoder.0.self.head1", "accuracy") -> "encoder 0 self head 1", ("zero",), ("accuracy",)
    ("encoder", "0", "1") -> "encoder 0 1", (), (); if no head is named: None, (), ()
    """
    head, before, after, complete = [], [], [], False
    for key in keys:
        said = words(key)
        numbered, head_numbered = (any(word.isdigit() for word in found) for found in (said, head))
        rest = [word for word in said if word not in HEAD | FILLERS and not word.isdigit()]
        if not complete and not after and (not rest or (numbered and not head_numbered)):
            head += [word for word in said if word in HEAD or word.isdigit()]
            (after if numbered else before).extend(rest)  # "ablate_encoder_0_head_1_accuracy"
        elif head_numbered:
            after += rest + (["by"] if numbered else [])
        else:
            before += rest
        complete = complete or (bool({"head", "h"} & {*said}) and said[-1].isdigit())
    numbers, measure = sum(word.isdigit() for word in head), {*before, *after}
    if not 1 <= numbers <= 3:
        return None, (), ()
    # Numbers alone name a head only if nothing else is said ({"0_1": 0.98}) or the words are those of an ablation.
    if not {*head} & HEAD and (measure - WITHOUT - DROPS or (numbers < 2 and not measure & (ACCURACY | DROPS))):
        return None, (), ()
    name = [word for word in head if word not in ("heads", "layers", "blocks")]
    return " ".join(name), tuple(before), tuple(after)


def _plainest(tables: dict, drops: bool) -> dict[str, float]:
    """Of the tables of drops, or of accuracies, the one whose measure needs the fewest and best known words.

    The words nearest to the number decide: {"importance": {head: {"accuracy": 0.9}}} is an accuracy.
    """
    fitting = []
    for (before, after), table in tables.items():
        nearest, unknown = {*(after or before)}, {*before, *after} - WITHOUT - DROPS
        if bool(nearest & DROPS) == drops and (not unknown & {*after} or nearest & ACCURACY):
            rank = (len(unknown), -len(table), len(before) + len(after) + ("mean" in before + after))
            fitting.append((rank, table))
    return min(fitting, key=lambda entry: entry[0])[1] if fitting else {}


def _are_drops(bare: dict[str, float], baseline: float | None) -> bool:
    """Whether numbers without a word for what they are must be drops: some below 0, or most of them about 0."""
    if not bare or baseline is None:
        return False
    middle = sorted(bare.values())[len(bare) // 2]
    return min(bare.values()) < 0 or (middle < 0.1 * baseline and max(bare.values()) < 1.01 * baseline)
