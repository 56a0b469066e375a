"""Checks of a training: its log, the accuracy in it, and whether the checkpoint belongs to it."""

import math
import re
from collections.abc import Iterator

from grading.folder import attempt
from grading.layouts import SERIES, Log, number, read_modes, words
from grading.report import Issue
from grading.submission import ROUNDED, SAME, Outcome, Submission, impossible, judged, percent
from grading.weights import MAX_CHECKPOINT, Weights, read_weights
from lab.files import shown

# --- logs --------------------------------------------------------------------------------------------------------


def check_log(item: dict, submission: Submission) -> Outcome:
    """Four series and two test numbers; each is a sixth of the points."""
    log = submission.log(item["file"])
    missing = [name for name in (*SERIES, "test_loss", "test_acc") if not log.numbers.get(name)]
    message = f"{log.epochs()} epochs" + (f"; no {', '.join(missing)}" if missing else "")
    message += f" ({'; '.join(log.notes)})" if log.notes else ""
    outcome = Outcome(1 - len(missing) / 6, message, issues=[*_not_numbers(log), *_nothing_learned(item, log)])
    if len(log.lengths()) > 1:
        outcome.remarks.append(f"{item['file']}: the series have different lengths")
    return outcome


def _not_numbers(log: Log) -> Iterator[Issue]:
    """NaN, infinity, and accuracies that are no shares."""
    for name, values in log.numbers.items():
        epochs = [epoch for epoch, value in enumerate(values, 1) if not math.isfinite(value)]
        if epochs:
            where = f"not a finite number in {len(epochs)} of {len(values)} epochs, first in epoch {epochs[0]}"
            yield Issue("not-finite", f"{name} is {where if name in SERIES else values[0]}", 1.0)
            break
    accuracies = [(name, value) for name in ("test_acc", "train_acc", "val_acc") for value in log.of(name)]
    yield from impossible([(f"{name} holds", value) for name, value in accuracies])


def _nothing_learned(item: dict, log: Log) -> Iterator[Issue]:
    if not item.get("learnable", True):
        return
    kind, name = ("training", "train_loss") if log.numbers.get("train_loss") else ("validation", "val_loss")
    losses = log.of(name)
    chance = item["chance_loss"]
    if len(losses) >= 3 and min(losses) > 0.995 * chance and losses[-1] < 1.1 * chance:
        evidence = f"the {kind} loss never leaves {item['chance_name']} = {chance:.3f}: lowest {min(losses):.4f} in "
        yield Issue("flat-loss", f"{evidence}{len(losses)} epochs, last {losses[-1]:.4f}", 0.5)
    for share in [item["class_share"], 1 - item["class_share"]] if "class_share" in item else []:
        if log.test_acc is not None and abs(log.test_acc - share) < ROUNDED / 3:
            evidence = f"the test accuracy {log.test_acc:.4f} is exactly the share of one class in the test rows"
            yield Issue("constant-classifier", f"{evidence} ({share:g})", 0.5)


# --- accuracies --------------------------------------------------------------------------------------------------


def check_accuracy(item: dict, submission: Submission) -> Outcome:
    """The test accuracy, or, for half of the points, the best validation accuracy if there is no other."""
    log = submission.log(item["file"])
    issues = [*_two_modes(item, submission, log)]
    issues += submission.known_values(log.test_acc, "the test accuracy", 0.0)  # too low to have any points left
    accuracy = log.test_acc
    what = "test accuracy"
    worth = 1.0
    if accuracy is None:
        accuracy = max(log.of("val_acc"), default=None)
        what = "no test accuracy; best validation accuracy"
        worth = 0.5
    if accuracy is None:
        return Outcome(0.0, "no test accuracy in the log", issues=issues)
    if not 0 <= accuracy <= 1:
        return Outcome(0.0, f"{what} is {accuracy:g}, which is not a share", issues=issues)
    share, advice = judged(item, [accuracy])
    message = f"{what} {accuracy:.2%}"
    counted = exhaustive_errors(item, submission)
    if counted is not None:
        proof = item["proof"]
        wrong = (1 - accuracy) * proof["test_rows"]
        message += f", {counted:,} wrong of all {proof['all']:,}"
        if log.test_acc is not None and wrong > counted + 0.5:
            evidence = f"{wrong:.0f} of the test rows are wrong by the log, but {counted:,} of all {proof['all']:,}"
            issues.append(Issue("proof-contradicted", evidence, 0.5, file=proof["file"]))
    learned = share > 0 or "between" in item
    return Outcome(worth * share, message, advice, issues=issues, value=accuracy, learned=learned)


def exhaustive_errors(item: dict, submission: Submission) -> int | None:
    """How many rows are wrong, if a file says that every possible row was evaluated."""
    proof = item.get("proof")
    content = attempt(submission.json, proof["file"], default=None) if proof else None
    if not isinstance(content, dict) or number(content.get(proof["rows"])) != proof["all"]:
        return None
    errors = number(content.get(proof["errors"]))
    return int(errors) if errors is not None and 0 <= errors <= proof["all"] else None


def _two_modes(item: dict, submission: Submission, log: Log) -> Iterator[Issue]:
    """One model's exact match with teacher forcing and with greedy decoding, reported as different numbers."""
    for name in item.get("modes_in", []):
        content = attempt(submission.json, name, default={})
        forced, greedy = read_modes(content, submission.expected["parts"], log.test_acc)
        if forced is not None and greedy is not None and abs(forced - greedy) > SAME:
            evidence = f"{percent(forced)} (teacher forcing), {percent(greedy)} with greedy decoding"
            yield Issue("two-modes", evidence, 0.5, file=name)


# --- checkpoints -------------------------------------------------------------------------------------------------


def check_checkpoint(item: dict, submission: Submission) -> Outcome:
    weights = read_weights(submission.files.read(submission.find(item["file"]), MAX_CHECKPOINT))
    log = submission.log(item["log"], needed=False)
    outcome = Outcome(1.0, f"{len(weights.shapes)} tensors, {weights.parameters():,} numbers")
    if weights.not_finite:
        count = len(weights.not_finite)
        first = shown(weights.not_finite[0], 60)
        evidence = f"{count} of {len(weights.shapes)} tensors hold NaN or infinity, first {first}"
        outcome.issues.append(Issue("not-finite", evidence, 1.0))
    for name, evidence in (
        ("checkpoint-of-another-shape", _other_shape(weights, log.config, item["sizes"], item["counts"])),
        ("checkpoint-of-another-run", _other_run(weights, log, submission.expected.get("parts", []))),
    ):
        if evidence:
            outcome.issues.append(Issue(name, evidence, 1.0))
    if "embedded" in item:
        evidence = _small_table(weights, log, item)
        outcome.issues += [Issue("small-position-table", evidence)] if evidence else []
    return outcome


def _small_table(weights: Weights, log: Log, item: dict) -> str | None:
    """What shows that a run with learned positions stayed at the share of one class while its position table is as
    Xavier's initialisation leaves it, beside embeddings that are, too: then √d_model times an embedding, as the
    handed-out model adds it, is many times as large as a position. Silent where a table cannot be told by its name."""
    low, high = item["embedded"]  # how many values a vocabulary may have
    matrices = {name: shape for name, shape in weights.shapes.items() if name in weights.spread}
    embeddings = [
        name
        for name, (rows, _) in matrices.items()
        if low <= rows <= high and "emb" in name.lower() and "pos" not in name.lower()
    ]
    positions = [name for name in matrices if "pos" in name.lower()]
    if len(embeddings) != 1 or len(positions) != 1 or log.test_acc is None:
        return None
    embedding = embeddings[0]
    table = positions[0]
    width = matrices[embedding][1]
    stuck = any(abs(log.test_acc - share) < ROUNDED / 3 for share in (item["class_share"], 1 - item["class_share"]))
    learned = max(log.of("val_acc") + log.of("train_acc"), default=0.0) > item["chance_below"]
    if not stuck or learned or matrices[table][1] != width:
        return None
    if not all(0.85 < weights.spread[name] / _xavier(matrices[name]) < 1.15 for name in (embedding, table)):
        return None
    size = weights.spread[embedding] * math.sqrt(width)
    of_table = weights.spread[table]
    return (
        f"the test accuracy {log.test_acc:.4f} is the share of one class; the entries of {shown(table, 60)} have the "
        f"standard deviation {of_table:.3f}, those of {shown(embedding, 60)} times √{width} have {size:.3f}"
    )


def _xavier(shape: tuple[int, ...]) -> float:
    """The standard deviation of a matrix that Xavier's initialisation has drawn."""
    return math.sqrt(2 / sum(shape))


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
    stacks = [len(found) for found in members.values()]
    layers = {*stacks, sum(stacks)}  # some count encoder and decoder together
    for name in counts:
        if name in config and layers and config[name] not in layers:
            return f"the log's {name} is {config[name]:g}, but the checkpoint has {max(stacks)} layers"
    return None


def _other_run(weights: Weights, log: Log, parts: list[str]) -> str | None:
    """What shows that the checkpoint is of an epoch, or of an accuracy, that is not the log's best."""
    if log.gaps or len(log.lengths()) != 1:
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
    history = log.numbers.get("val_acc", [])
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
            best |= {n for n, value in enumerate(log.numbers.get(name, []), 1) if finite and value == pick(finite)}
    if all(abs(epoch - number) > 1 for number in best):
        return f"the checkpoint is of epoch {epoch}{there}, the log's best is epoch {min(best)}"
    return None
