"""Accuracy without each head: read in the many layouts that people write, checked, and what it can show."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from grading.folder import attempt
from grading.layouts import ACCURACY, IN_PERCENT, LOSS, Keys, divisor, keyed, leaves, number, vocabulary, words
from grading.report import Issue
from grading.submission import SAME, Outcome, Submission, impossible, percent
from lab.files import shown

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


FEWEST = 20  # rows, where a file does not say how many: fewer would be no evaluation


@dataclass
class Ablation:
    """Accuracy of the whole model, and of the model without each head; what is not in the file is missing."""

    baseline: float | None
    without: dict[str, float]
    samples: int | None
    notes: list[str]


def read_ablation(value, test_acc: float | None = None) -> Ablation:
    """Drops alone give the accuracies once that of the whole model is known, here or as `test_acc`."""
    samples = None
    baselines = []
    tables = {}
    notes = []
    for keys, leaf in leaves(keyed(value)):
        amount = number(leaf)
        said = {word for key in keys for word in words(key)}
        if amount is None:
            continue
        counted = said & {"samples", "rows", "total"} and "by" not in said and len(keys) <= 2
        if counted and math.isfinite(amount) and amount >= 1:
            samples = samples or int(min(amount, 1e9))
        elif said & BASELINE and not said & (NEVER | DROPS):
            baselines.append((len(keys), not said & ACCURACY, amount))
        elif split := _split_keys(keys):
            head, measure = split
            tables.setdefault(measure, {})[head] = amount
    baseline = min(baselines, key=lambda entry: entry[:2])[2] if baselines else None
    without = _plainest(tables, drops=False)
    drops = _plainest(tables, drops=True)
    bare = tables.get(((), ()), {})
    if not drops and _are_drops(bare, baseline):
        without = {}
        drops = bare
    by = divisor([*without.values(), *([] if baseline is None else [baseline])])
    if by != 1:
        notes.append(IN_PERCENT)
    baseline = None if baseline is None else baseline / by
    without = {head: accuracy / by for head, accuracy in without.items()}
    whole = test_acc if baseline is None else baseline
    if drops and not without and whole is not None:
        by = 100.0 if any(math.isfinite(drop) and abs(drop) > 1.5 for drop in drops.values()) else by
        sign = -1 if sum(drops.values()) < 0 else 1  # "change": -0.3
        without = {head: whole - sign * drop / by for head, drop in drops.items()}
        notes.append("accuracies without a head are computed from drops")
    return Ablation(baseline, without, samples, notes)


def _split_keys(keys: Keys) -> tuple[str, tuple[Keys, Keys]] | None:
    """The head that the keys to a number name, and the words for what was measured before and after that name.

    ("zero", "encoder.0.self.head1", "accuracy") -> "encoder 0 self head 1", (("zero",), ("accuracy",))
    ("encoder", "0", "1") -> "encoder 0 1", ((), ()); None if no head is named, or for what is no result
    """
    head = []
    before = []
    after = []
    complete = False
    for key in keys:
        said = words(key)
        numbered, head_numbered = (any(word.isdigit() for word in found) for found in (said, head))
        rest = [word for word in said if word not in HEAD | FILLERS and not word.isdigit()]
        if not complete and not after and (not rest or (numbered and not head_numbered)):
            head += [word for word in said if word in HEAD or word.isdigit()]
            after += rest  # "ablate_encoder_0_head_1_accuracy"
        elif head_numbered and numbered:
            return None
        else:
            (after if head_numbered else before).extend(rest)
        complete = complete or (bool({"head", "h"} & {*said}) and said[-1].isdigit())
    numbers = sum(word.isdigit() for word in head)
    measure = {*before, *after}
    if not 1 <= numbers <= 3 or measure & NEVER:
        return None
    # Numbers alone name a head only if nothing else is said ({"0_1": 0.98}) or the words are those of an ablation.
    if not {*head} & HEAD and (measure - WITHOUT - DROPS or (numbers < 2 and not measure & (ACCURACY | DROPS))):
        return None
    name = [word for word in head if word not in ("heads", "layers", "blocks")]
    return " ".join(name), (tuple(before), tuple(after))


def _plainest(tables: dict, drops: bool) -> dict[str, float]:
    """Of the tables of drops, or of accuracies, the one whose measure needs the fewest and best known words.

    The words nearest to the number decide: {"importance": {head: {"accuracy": 0.9}}} is an accuracy.
    """
    fitting = []
    for (before, after), table in tables.items():
        nearest = {*(after or before)}
        unknown = {*before, *after} - WITHOUT - DROPS
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


# --- the check ---------------------------------------------------------------------------------------------------


def check_ablation(item: dict, submission: Submission) -> Outcome:
    """An accuracy for each head. A missing baseline costs nothing: it is the test accuracy, which the log holds."""
    test = submission.log(item["log"], needed=False).test_acc
    ablation = read_ablation(submission.json(item["file"]), test)
    named = [] if ablation.baseline is None else [("the baseline:", ablation.baseline)]
    named += [(f"without {head[:50]}:", accuracy) for head, accuracy in ablation.without.items()]
    heads = sum(0 <= accuracy <= 1 for accuracy in ablation.without.values())
    share = min(1.0, heads / item["at_least"])
    message = f"{heads} heads"
    message += "; no baseline" if ablation.baseline is None else f", baseline {percent(ablation.baseline)}"
    if share < 1:
        message += f"; accuracies of at least {item['at_least']} heads expected"
    else:
        worst = min(ablation.without, key=ablation.without.get)
        message += f", lowest {percent(ablation.without[worst])} without {shown(worst, 40)}"
    message += f" ({'; '.join(ablation.notes)})" if ablation.notes else ""
    found = [*_unsupported(item, ablation, test)]
    found[1:1] = submission.known_values(ablation.baseline, "the baseline", 1.0)
    said = _conclusion(item, submission)
    if found and said:
        evidence = f"the submission concludes “{said}” from the numbers above ({found[0].name})"
        found.append(Issue("redundancy-unsupported", evidence))
    outcome = Outcome(share, message, issues=impossible(named) + found)
    whole = test if ablation.baseline is None else ablation.baseline
    if whole is not None and whole >= item["solved"] and _all_as_baseline(item, ablation, whole):
        outcome.remarks.append(
            f"{item['file']}: no head alone changes the accuracy. Either the model has more heads than it needs, or "
            "the ablation does not reach them: the numbers cannot tell"
        )
    return outcome


def _unsupported(item: dict, ablation: Ablation, test: float | None) -> Iterator[Issue]:
    """Two baselines that cannot both hold; a model that solves nothing; an ablation that changes nothing."""
    baseline = test if ablation.baseline is None else ablation.baseline
    values = [*ablation.without.values()]
    if baseline is None or not 0 <= baseline <= 1:
        return
    if ablation.baseline is not None and test is not None and 0 <= test <= 1:
        sampled = min(ablation.samples or FEWEST, item["test_rows"])
        middle = (test + baseline) / 2
        chance = 3 * math.sqrt(middle * (1 - middle) / sampled) if sampled < item["test_rows"] else 0.0
        if abs(baseline - test) > max(SAME, chance):
            evidence = f"the ablation starts from {baseline:.4f}, the log's test accuracy is {test:.4f}"
            evidence += "" if sampled == item["test_rows"] else f", and {sampled} rows are enough to tell them apart"
            yield Issue("two-baselines", evidence, 1.0)
    if values and baseline <= item["dead_below"]:
        evidence = f"the whole model is right on {percent(baseline)}; without a head on "
        yield Issue("nothing-to-ablate", f"{evidence}{percent(min(values))} to {percent(max(values))}", 1.0)
        return
    if _all_as_baseline(item, ablation, baseline) and baseline < item["solved"]:
        evidence = f"{values[0]:.4f} without each of {len(values)} heads, {baseline:.4f} with all"
        yield Issue("ablation-without-effect", evidence, 1.0)


def _all_as_baseline(item: dict, ablation: Ablation, baseline: float) -> bool:
    """Whether the model without any one head gives the whole model's accuracy, to the row."""
    values = [value for value in ablation.without.values() if math.isfinite(value)]
    rows = min(ablation.samples or item["test_rows"], 10**6)
    return len(values) >= item["at_least"] and all(abs(value - baseline) < 0.5 / rows for value in values)


MAX_CONCLUSION = 100_000  # letters of a text in which a claim is searched
CLAIM = re.compile(
    r"\d{1,3}(\.\d{1,4})?\s?%[^.\n]{0,40}(prun|redundan)\w{0,12}"
    r"|(prun|redundan)\w{0,12}[^.\n]{0,40}?\d{1,3}(\.\d{1,4})?\s?%"
    r"|all (the )?heads [^.\n]{0,20}redundan\w{0,12}",
    re.IGNORECASE,
)


def _conclusion(item: dict, submission: Submission) -> str | None:
    """A share of heads that is called prunable or redundant, in a text or under a key of a JSON file."""
    for name in item["conclusions"]:
        if name.endswith(".json"):
            for keys, leaf in leaves(attempt(submission.json, name, default={})):
                path = " ".join(map(str, keys))
                if re.search("prun|redundan", path, re.IGNORECASE) and number(leaf):
                    return shown(f"{path}: {leaf}", 80)
        elif claim := CLAIM.search(attempt(submission.text, name, default=""), 0, MAX_CONCLUSION):
            return shown(claim[0].strip(), 80)
    return None
