"""Known issues of results. Each is named only if the numbers prove it; its hint claims no more than they do."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grading.checks import ROUNDED, SAME, by_chance, exhaustive_errors, is_constant, percent
from grading.folder import Unreadable
from grading.layouts import ACCURACY, LOSS, SPLITS, WHOLE_ANSWER, Log, divisor, leaves, number, words
from grading.submission import Submission
from grading.weights import Weights
from lab.files import shown

HINTS = json.loads(Path(__file__).with_name("hints.json").read_text(encoding="utf-8"))
REPRODUCED = {  # causes that report/contradictions.json reproduces
    "ln 2": " One cause that we have reproduced: value embeddings so much larger than the positional encodings that "
    "the model cannot see the order."
}
BEYOND_RANGE = (
    "A model that gives the same answer for every row beyond its training lengths gets exactly this. Count how often "
    "it predicts each class, and report that instead of an accuracy of about one half."
)


@dataclass(frozen=True)
class Issue:
    name: str
    evidence: str
    cost: float = 0.0  # the share of the item's points that it takes
    hint: str = ""  # as in HINTS where nothing else is said
    file: str = ""  # the item's own where nothing else is said
    item: str = ""


Issues = Iterator[Issue]


# --- training logs -----------------------------------------------------------------------------------------------


def log_issues(item: dict, submission: Submission) -> Issues:
    log = submission.log(item["file"])
    yield from _not_finite(log)
    for name, values in [("test_acc", [log.test_acc])] + [(n, log.series.get(n, [])) for n in ("train_acc", "val_acc")]:
        bad = [value for value in values if value is not None and _impossible(value)]
        if bad:
            yield Issue("impossible-number", f"{name} holds {bad[0]:g}", 1.0)
            break
    if not item.get("learnable", True):
        return
    kind = "training" if log.series.get("train_loss") else "validation"
    losses = [v for v in log.series.get("train_loss") or log.series.get("val_loss", []) if math.isfinite(v)]
    chance = item["chance_loss"]
    if len(losses) >= 3 and min(losses) > 0.98 * chance and losses[-1] < 1.1 * chance:
        yield Issue(
            "flat-loss",
            f"the {kind} loss never leaves {item['chance_name']} = {chance:.3f}: lowest {min(losses):.4f} in "
            f"{len(losses)} epochs, last {losses[-1]:.4f}",
            0.5,
            HINTS["flat-loss"] + REPRODUCED.get(item["chance_name"], ""),
        )
    for share in [item["class_share"], 1 - item["class_share"]] if "class_share" in item else []:
        if log.test_acc is not None and abs(log.test_acc - share) < ROUNDED / 3:
            evidence = f"the test accuracy {log.test_acc:.4f} is exactly the share of one class in the test rows"
            yield Issue("constant-classifier", f"{evidence} ({share:g})", 0.5)


def _not_finite(log: Log) -> Issues:
    for name, series in log.series.items():
        epochs = [epoch for epoch, value in enumerate(series, 1) if not math.isfinite(value)]
        if epochs:
            where = f"in {len(epochs)} of {len(series)} epochs, first in epoch {epochs[0]}"
            yield Issue("not-finite", f"{name} is not a finite number {where}", 1.0)
            return
    for name, value in (("test_loss", log.test_loss), ("test_acc", log.test_acc)):
        if value is not None and not math.isfinite(value):
            yield Issue("not-finite", f"{name} is {value}", 1.0)


def _impossible(value: float) -> bool:
    return math.isfinite(value) and not -1e-6 <= value <= 1 + 1e-6


# --- accuracies --------------------------------------------------------------------------------------------------


def accuracy_issues(item: dict, submission: Submission) -> Issues:
    log = submission.log(item["file"])
    yield from _two_modes(item, submission, log)
    yield from _known_values(submission, log.test_acc, "the test accuracy", 0.0)  # too low to have any points left
    counted = exhaustive_errors(item, submission)
    if counted and log.test_acc is not None and 0 <= log.test_acc <= 1:
        wrong = (1 - log.test_acc) * item["proof"]["test_rows"]
        if wrong > counted[0] + 0.5:
            evidence = f"{wrong:.0f} of the test rows are wrong by the log, but {counted[0]:,} of all {counted[1]:,}"
            yield Issue("proof-contradicted", evidence, 0.5, file=item["proof"]["file"])


FORCED, GREEDY = {"teacher", "forced", "forcing"}, {"greedy", "autoregressive", "generated", "generation"}
PART_OF_ANSWER = LOSS | {"token", "tokens", "char"}


def _two_modes(item: dict, submission: Submission, log: Log) -> Issues:
    """One model's exact match with teacher forcing and with greedy decoding, reported as different numbers."""
    not_of_test = PART_OF_ANSWER | {*submission.expected.get("parts", [])} | SPLITS["train"] | SPLITS["val"]
    for name in item.get("modes_in", []):
        try:
            content = submission.json(name)
        except Unreadable:
            continue
        forced, greedy = [], []
        for keys, leaf in leaves(content):
            said, value = {word for key in keys for word in words(key)}, number(leaf)
            of_answers = said & (ACCURACY | WHOLE_ANSWER) and not said & not_of_test
            if value is None or not of_answers or len(keys) > 4 or any(key.isdigit() for key in keys):
                continue
            if said & FORCED:
                forced.append(value)
            elif said & GREEDY:
                greedy.append(value)
        by = divisor(forced + greedy)
        if not forced and log.test_acc is not None:  # then the plain number is the other one
            forced = [log.test_acc * by]
        if forced and greedy and abs(max(forced) - max(greedy)) / by > SAME:
            numbers = percent(max(forced) / by), percent(max(greedy) / by)
            yield Issue("two-modes", "{} (teacher forcing), {} with greedy decoding".format(*numbers), 0.5, file=name)


def _known_values(submission: Submission, accuracy: float | None, what: str, cost: float) -> Issues:
    """An accuracy that a known mistake leaves at most, or just below it."""
    for known in submission.expected.get("known_values", []):
        if accuracy is not None and -0.003 <= accuracy - known["value"] <= ROUNDED:
            yield Issue(known["name"], f"{what} is {accuracy:.4f}; {known['evidence']}", cost, known["hint"])


# --- checkpoints -------------------------------------------------------------------------------------------------


def checkpoint_issues(item: dict, submission: Submission) -> Issues:
    weights, log = submission.weights(item["file"]), submission.log_or_empty(item["log"])
    if weights.not_finite:
        count, first = len(weights.not_finite), shown(weights.not_finite[0], 60)
        yield Issue("not-finite", f"{count} of {len(weights.shapes)} tensors hold NaN or infinity, first {first}", 1.0)
    evidence = _other_shape(weights, log.config, item["sizes"], item["counts"])
    if evidence:
        yield Issue("checkpoint-of-another-shape", evidence, 1.0)
    evidence = _other_run(weights, log, submission.expected.get("parts", []))
    if evidence:
        yield Issue("checkpoint-of-another-run", evidence, 1.0)


def _other_shape(weights: Weights, config: dict, sizes: list[str], counts: list[str]) -> str | None:
    """What shows that the checkpoint is not of the model that the log's configuration describes."""
    own = {name.rsplit(".", 1)[-1]: value for name, value in weights.plain.items() if isinstance(value, float)}
    for name in (*sizes, *counts, "num_heads"):
        if name in config and name in own and own[name] != config[name]:
            return f"the log's {name} is {config[name]:g}, the checkpoint's own is {own[name]:g}"
    sides = {side for shape in weights.shapes.values() for side in shape}
    tables = [s for name, s in weights.shapes.items() if "embed" in name.lower() and len(s) == 2 and min(s) > 1]
    for name in sizes:
        if name in config and config[name] not in sides:
            return f"the log's {name} is {config[name]:g}, but no tensor of the checkpoint has a side of that size"
        if name in config and name == sizes[0] and tables and all(config[name] not in shape for shape in tables):
            return f"the log's {name} is {config[name]:g}, but the checkpoint's embedding is {tables[0]}"
    members: dict[str, set] = {}  # "encoder.0.…", "encoder.1.…" -> {"encoder": {"0", "1"}}
    for name in weights.shapes:
        for match in re.finditer(r"\.(\d+)\.", name):
            if re.search("layer|block|encoder|decoder|stack", name[: match.start()].rsplit(".", 1)[-1], re.IGNORECASE):
                members.setdefault(name[: match.start()], set()).add(match[1])
    layers = {len(found) for found in members.values()}
    for name in counts:
        if name in config and layers and config[name] not in layers:
            return f"the log's {name} is {config[name]:g}, but the checkpoint has {max(layers)} layers"
    return None


def _other_run(weights: Weights, log: Log, parts: list[str]) -> str | None:
    """What shows that the checkpoint is of an epoch, or of an accuracy, that is not the log's best."""
    if len({len(series) for series in log.series.values()}) != 1:
        return None  # no log, or not every epoch was validated: positions in the lists are not epochs
    epoch = accuracy = None
    for name, value in weights.plain.items():
        said = {*words(name)}
        if not isinstance(value, float) or not math.isfinite(value) or "." in name:
            continue
        if "epoch" in said and not said & {"num", "max", "total"}:
            epoch = int(value)
        elif said & {"val", "valid", "validation"} and said & {"acc", "accuracy"} and not said & {"token", *parts}:
            accuracy = (value / 100 if value > 1.5 else value) or None  # 0 is what some start from
    history = log.series.get("val_acc", [])
    if epoch is not None and epoch > log.epochs():
        return f"the checkpoint is of epoch {epoch}, the log ends at epoch {log.epochs()}"
    if accuracy is not None and history and min(abs(accuracy - value) for value in history) > 0.006:
        return f"the checkpoint's validation accuracy is {accuracy:.4f}, which the log has at no epoch"
    if epoch is None:
        return None
    there = f" ({history[epoch - 1]:.4f} there)" if 1 <= epoch <= len(history) else ""
    best = {log.best_epoch}
    if log.best_epoch is None:
        if there and max(history) - history[epoch - 1] < 0.005:
            return None  # as good as the best, by whatever rule it was chosen
        best = {log.epochs()}  # many save the last as best
        for name, pick in (("val_acc", max), ("val_loss", min)):
            finite = [value for value in log.series.get(name, []) if math.isfinite(value)]
            best |= {n for n, value in enumerate(log.series.get(name, []), 1) if finite and value == pick(finite)}
    if all(abs(epoch - number) > 1 for number in best):
        return f"the checkpoint is of epoch {epoch}{there}, the log's best is epoch {min(best)}"
    return None


# --- ablations ---------------------------------------------------------------------------------------------------


def ablation_issues(item: dict, submission: Submission) -> Issues:
    ablation, test = submission.ablation(item), submission.log_or_empty(item["log"]).test_acc
    named = {} if ablation.baseline is None else {"the baseline": ablation.baseline}
    named |= {f"without {head}": value for head, value in ablation.without.items()}
    bad = next((name for name, value in named.items() if not -1e-6 <= value <= 1 + 1e-6), None)
    if bad:
        yield Issue("impossible-number", f"{shown(bad, 60)}: {named[bad]:g}", 1.0)
    found = []
    baseline = test if ablation.baseline is None else ablation.baseline
    sound = baseline is not None and 0 <= baseline <= 1
    both = sound and ablation.baseline is not None and test is not None and 0 <= test <= 1
    if both and abs(baseline - test) > max(SAME, by_chance(item, ablation, test)):
        evidence = f"the ablation starts from {baseline:.4f}, the log's test accuracy is {test:.4f}"
        found.append(Issue("two-baselines", evidence, 1.0))
    found += _known_values(submission, ablation.baseline, "the baseline", 1.0)
    values = [*ablation.without.values()]
    if sound and values and baseline <= item["dead_below"]:
        evidence = f"the whole model is right on {percent(baseline)}; without a head on "
        found.append(Issue("nothing-to-ablate", f"{evidence}{percent(min(values))} to {percent(max(values))}", 1.0))
    elif sound:
        values = [value for value in values if math.isfinite(value)]
        found += _no_effect(item, values, baseline, min(ablation.samples or item["test_rows"], 10**6))
    yield from found
    said = _conclusion(item, submission)
    if found and said and all(issue.name != "redundancy-unsupported" for issue in found):
        evidence = f"the submission concludes “{said}” from the numbers above ({found[0].name})"
        yield Issue("redundancy-unsupported", evidence)


def _no_effect(item: dict, values: list[float], baseline: float, rows: int) -> Issues:
    """No head matters: exactly (nothing was ablated), or within what so many rows can tell."""
    if len(values) < item["at_least"]:
        return
    largest = max(abs(baseline - value) for value in values)
    if max(values) - min(values) < 0.5 / rows:
        evidence = f"{values[0]:.4f} without each of {len(values)} heads, {baseline:.4f} with all"
        yield Issue("ablation-without-effect", evidence, 1.0)
    elif largest <= item["too_small"]:
        evidence = f"no head of {len(values)} changes the accuracy by more than {largest:.4f}: "
        yield Issue("redundancy-unsupported", f"{evidence}{largest * rows:.0f} of {rows:,} rows", 0.5)


CLAIM = re.compile(
    r"(\d+(\.\d+)?\s?%[^.\n]{0,40}(prun|redundan)\w*|(prun|redundan)\w*[^.\n]{0,40}?\d+(\.\d+)?\s?%"
    r"|all (the )?heads [^.\n]{0,20}redundan\w*)",
    re.IGNORECASE,
)


def _conclusion(item: dict, submission: Submission) -> str | None:
    """A share of heads that is called prunable or redundant, in a text or under a key of a JSON file."""
    for name in item["conclusions"]:
        try:
            if name.endswith(".json"):
                for keys, leaf in leaves(submission.json(name)):
                    if re.search("prun|redundan", " ".join(keys), re.IGNORECASE) and number(leaf):
                        return shown(f"{' '.join(keys)}: {leaf}", 80)
            elif claim := CLAIM.search(submission.text(name)):
                return shown(claim[0].strip(), 80)
        except Unreadable:
            continue
    return None


# --- tables and figures ------------------------------------------------------------------------------------------


def table_issues(item: dict, submission: Submission) -> Issues:
    """The accuracy at each length is what one answer for every row gives."""
    for name, row in submission.table(item).rows.items():
        told = name in item["unlearnable"] or submission.reports_collapse(name, item["file"])
        if told or not is_constant(item, row):
            continue
        listed = ", ".join(f"{row[int(n)]:.3f} at {n}" for n in item["class_shares"] if int(n) in row)
        evidence = f"{name}: {listed}: exactly the share of one class in each of the course's test sets"
        log = submission.log_or_empty(item["logs"].format(name=name))
        in_range = log.series.get("val_acc", []) if log.test_acc is None else [log.test_acc]
        if any(value >= item["solved"] for value in in_range):
            yield Issue("constant-classifier", evidence, hint=BEYOND_RANGE)
        else:
            yield Issue("constant-classifier", evidence, 1 / len(item["required"]))


def figure_issues(item: dict, submission: Submission) -> Issues:
    for path in [path for pattern in item["files"] for path in submission.figures(pattern)]:
        problem = submission.files.figure_problem(path)
        if problem:
            yield Issue(*problem, file=path)


KNOWN_ISSUES = {
    "log": log_issues,
    "accuracy": accuracy_issues,
    "checkpoint": checkpoint_issues,
    "ablation": ablation_issues,
    "table": table_issues,
    "figures": figure_issues,
}
