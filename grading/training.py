"""Checks of a training: its log, the accuracy in it, and whether the checkpoint belongs to it."""

import math
import re

from grading.folder import attempt
from grading.layouts import (
    ACCURACY,
    LOSS,
    SERIES,
    SPLITS,
    WHOLE_ANSWER,
    Log,
    divisor,
    leaves,
    number,
    vocabulary,
    words,
)
from grading.submission import HINTS, ROUNDED, SAME, Issue, Outcome, Submission, percent, reached, wanted
from grading.weights import MAX_CHECKPOINT, Weights, read_weights
from lab.files import shown


def is_share(value: float) -> bool:
    return -1e-6 <= value <= 1 + 1e-6


# --- logs --------------------------------------------------------------------------------------------------------


def check_log(item: dict, submission: Submission) -> Outcome:
    """Four series and two test numbers; each is a sixth of the points."""
    log = submission.log(item["file"])
    missing = [name for name in SERIES if not log.series.get(name)]
    missing += [name for name in ("test_loss", "test_acc") if getattr(log, name) is None]
    message = f"{log.epochs()} epochs" + (f"; no {', '.join(missing)}" if missing else "")
    message += f" ({'; '.join(log.notes)})" if log.notes else ""
    outcome = Outcome(1 - len(missing) / 6, message, issues=_impossible(log))
    if len({len(series) for series in log.series.values()}) > 1:
        outcome.remarks.append(f"{item['file']}: the series have different lengths")
    if item.get("learnable", True):
        outcome.issues += _nothing_learned(item, log)
    return outcome


def _impossible(log: Log) -> list[Issue]:
    issues, tests = [], {"test_acc": log.test_acc, "test_loss": log.test_loss}
    numbers = {name: [value] for name, value in tests.items() if value is not None} | log.series
    for name in (*SERIES, *tests):
        epochs = [epoch for epoch, value in enumerate(numbers.get(name, []), 1) if not math.isfinite(value)]
        if epochs:
            where = f"in {len(epochs)} of {len(numbers[name])} epochs, first in epoch {epochs[0]}"
            evidence = f"{name} is not a finite number {where}" if name in SERIES else f"{name} is {tests[name]}"
            issues.append(Issue("not-finite", evidence, 1.0))
            break
    for name in ("test_acc", "train_acc", "val_acc"):
        bad = [value for value in numbers.get(name, []) if math.isfinite(value) and not is_share(value)]
        if bad:
            return [*issues, Issue("impossible-number", f"{name} holds {bad[0]:g}", 1.0)]
    return issues


def _nothing_learned(item: dict, log: Log) -> list[Issue]:
    issues, chance = [], item["chance_loss"]
    kind, losses = ("training", "train_loss") if log.series.get("train_loss") else ("validation", "val_loss")
    losses = log.of(losses)
    if len(losses) >= 3 and min(losses) > 0.98 * chance and losses[-1] < 1.1 * chance:
        evidence = f"the {kind} loss never leaves {item['chance_name']} = {chance:.3f}: lowest {min(losses):.4f} in "
        evidence += f"{len(losses)} epochs, last {losses[-1]:.4f}"
        issues.append(Issue("flat-loss", evidence, 0.5, HINTS["flat-loss"]))
    for share in [item["class_share"], 1 - item["class_share"]] if "class_share" in item else []:
        if log.test_acc is not None and abs(log.test_acc - share) < ROUNDED / 3:
            evidence = f"the test accuracy {log.test_acc:.4f} is exactly the share of one class in the test rows"
            issues.append(Issue("constant-classifier", f"{evidence} ({share:g})", 0.5))
    return issues


# --- accuracies --------------------------------------------------------------------------------------------------


def check_accuracy(item: dict, submission: Submission) -> Outcome:
    """The test accuracy, or, for half of the points, the best validation accuracy if there is no other."""
    log = submission.log(item["file"])
    accuracy, what, worth = log.test_acc, "test accuracy", 1.0
    if accuracy is None:
        if not log.of("val_acc"):
            return Outcome(0.0, "no test accuracy in the log", issues=_two_modes(item, submission, log))
        accuracy, what, worth = max(log.of("val_acc")), "no test accuracy; best validation accuracy", 0.5
    issues = _two_modes(item, submission, log)
    issues += submission.known_values(log.test_acc, "the test accuracy", 0.0)  # too low to have any points left
    if not 0 <= accuracy <= 1:
        return Outcome(0.0, f"{what} is {accuracy:g}, which is not a share", issues=issues)
    share, message = reached(item, accuracy), f"{what} {accuracy:.2%}"
    counted = exhaustive_errors(item, submission)
    if counted is not None:
        proof = item["proof"]
        wrong = (1 - accuracy) * proof["test_rows"]
        message += f", {counted:,} wrong of all {proof['all']:,}"
        if log.test_acc is not None and wrong > counted + 0.5:
            evidence = f"{wrong:.0f} of the test rows are wrong by the log, but {counted:,} of all {proof['all']:,}"
            issues.append(Issue("proof-contradicted", evidence, 0.5, file=proof["file"]))
    return Outcome(worth * share, message + ("" if share == 1 else f"; {wanted(item)}"), issues=issues, value=accuracy)


def exhaustive_errors(item: dict, submission: Submission) -> int | None:
    """How many rows are wrong, if a file says that every possible row was evaluated."""
    proof = item.get("proof")
    content = attempt(submission.json, proof["file"], default=None) if proof else None
    if not isinstance(content, dict) or number(content.get(proof["rows"])) != proof["all"]:
        return None
    errors = number(content.get(proof["errors"]))
    return int(errors) if errors is not None and 0 <= errors <= proof["all"] else None


FORCED, GREEDY = vocabulary("teacher forced forcing"), vocabulary("greedy autoregressive generated generation")


def _two_modes(item: dict, submission: Submission, log: Log) -> list[Issue]:
    """One model's exact match with teacher forcing and with greedy decoding, reported as different numbers."""
    issues, not_of_test = [], LOSS | SPLITS["train"] | SPLITS["val"] | vocabulary("token tokens char")
    for name in item.get("modes_in", []):
        forced, greedy = [], []
        for keys, leaf in leaves(attempt(submission.json, name, default={})):
            said, value = {word for key in keys for word in words(key)}, number(leaf)
            of_answers = said & (ACCURACY | WHOLE_ANSWER) and not said & {*not_of_test, *submission.expected["parts"]}
            if value is None or not of_answers or len(keys) > 4 or any(str(key).isdigit() for key in keys):
                continue
            if said & FORCED:
                forced.append(value)
            elif said & GREEDY:
                greedy.append(value)
        by = divisor(forced + greedy)
        if not forced and log.test_acc is not None:  # then the plain number is the other one
            forced = [log.test_acc * by]
        if forced and greedy and abs(max(forced) - max(greedy)) / by > SAME:
            evidence = (
                f"{percent(max(forced) / by)} (teacher forcing), {percent(max(greedy) / by)} with greedy decoding"
            )
            issues.append(Issue("two-modes", evidence, 0.5, file=name))
    return issues


# --- checkpoints -------------------------------------------------------------------------------------------------


def check_checkpoint(item: dict, submission: Submission) -> Outcome:
    weights = read_weights(submission.files.read(submission.find(item["file"]), MAX_CHECKPOINT))
    log = submission.log(item["log"], needed=False)
    outcome = Outcome(1.0, f"{len(weights.shapes)} tensors, {weights.parameters():,} numbers")
    if weights.not_finite:
        count, first = len(weights.not_finite), shown(weights.not_finite[0], 60)
        evidence = f"{count} of {len(weights.shapes)} tensors hold NaN or infinity, first {first}"
        outcome.issues.append(Issue("not-finite", evidence, 1.0))
    for name, evidence in (
        ("checkpoint-of-another-shape", _other_shape(weights, log.config, item["sizes"], item["counts"])),
        ("checkpoint-of-another-run", _other_run(weights, log, submission.expected.get("parts", []))),
    ):
        if evidence:
            outcome.issues.append(Issue(name, evidence, 1.0))
    return outcome


def _other_shape(weights: Weights, config: dict, sizes: list[str], counts: list[str]) -> str | None:
    """What shows that the checkpoint is not of the model that the log's configuration describes."""
    own = {name.rsplit(".", 1)[-1]: value for name, value in weights.plain.items()}
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
        if not math.isfinite(value) or "." in name:
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
            finite = log.of(name)
            best |= {n for n, value in enumerate(log.series.get(name, []), 1) if finite and value == pick(finite)}
    if all(abs(epoch - number) > 1 for number in best):
        return f"the checkpoint is of epoch {epoch}{there}, the log's best is epoch {min(best)}"
    return None
