"""Known diseases of checkpoints. (item, submission) -> findings"""

import math
import re
from collections.abc import Iterator

from lab.grading.logs import Log
from lab.grading.reading import shown, words
from lab.grading.submission import Finding, Submission
from lab.grading.weights import Weights


def broken_weights(item: dict, submission: Submission) -> Iterator[Finding]:
    weights = submission.weights(item["file"])
    if weights.not_finite:
        yield Finding(
            "not-finite",
            item["id"],
            item["file"],
            f"{len(weights.not_finite)} of {len(weights.shapes)} tensors hold NaN or infinity, "
            f"first {shown(weights.not_finite[0], 60)}",
            "training diverged before this checkpoint was written",
            1.0,
        )


def another_shape(item: dict, submission: Submission) -> Iterator[Finding]:
    """The checkpoint is not of the model that the log's configuration describes."""
    weights, log = submission.weights(item["file"]), submission.log_or_none(item.get("log"))
    evidence = _shape_evidence(weights, log.config, item["sizes"], item["counts"]) if log else None
    if evidence:
        yield Finding(
            "checkpoint-of-another-shape",
            item["id"],
            item["file"],
            evidence,
            f"the weights and {item['log']} are of two different models: the numbers do not belong to these weights",
            1.0,
        )


def _shape_evidence(weights: Weights, config: dict, sizes: list[str], counts: list[str]) -> str | None:
    own = {name.rsplit(".", 1)[-1]: value for name, value in weights.plain.items() if isinstance(value, float)}
    for name in (*sizes, *counts, "num_heads"):
        if name in config and name in own and own[name] != config[name]:
            return f"the log's {name} is {config[name]:g}, the checkpoint's own is {own[name]:g}"
    sides = {side for shape in weights.shapes.values() for side in shape}
    tables = [s for name, s in weights.shapes.items() if "embed" in name.lower() and len(s) == 2 and min(s) > 1]
    for name in sizes:
        if name not in config:
            continue
        if config[name] not in sides:
            return f"the log's {name} is {config[name]:g}, but no tensor of the checkpoint has a side of that size"
        if name == sizes[0] and tables and all(config[name] not in shape for shape in tables):
            return f"the log's {name} is {config[name]:g}, but the checkpoint's embedding is {tables[0]}"
    lists = _list_sizes(weights.shapes)
    for name in counts:
        if name in config and lists and config[name] not in lists.values():
            return f"the log's {name} is {config[name]:g}, but the checkpoint has {max(lists.values())} layers"
    return None


STACKS = re.compile("layer|block|encoder|decoder|stack", re.IGNORECASE)


def _list_sizes(shapes: dict) -> dict[str, int]:
    """How many numbered members stand under each name of a stack: "encoder.0.…", "encoder.1.…" -> {"encoder": 2}"""
    members: dict[str, set] = {}
    for name in shapes:
        for match in re.finditer(r"\.(\d+)\.", name):
            if STACKS.search(name[: match.start()].rsplit(".", 1)[-1]):
                members.setdefault(name[: match.start()], set()).add(match.group(1))
    return {name: len(found) for name, found in members.items()}


def another_run(item: dict, submission: Submission) -> Iterator[Finding]:
    """The checkpoint says that it is of an epoch, or of an accuracy, that is not the log's best."""
    weights, log = submission.weights(item["file"]), submission.log_or_none(item.get("log"))
    evidence = _age_evidence(weights, log, submission.parts) if log and log.epochs() else None
    if evidence:
        yield Finding(
            "checkpoint-of-another-run",
            item["id"],
            item["file"],
            evidence,
            "the weights are older or newer than the log: the log's test accuracy is not theirs",
            1.0,
        )


def _age_evidence(weights: Weights, log: Log, parts: list[str]) -> str | None:
    if len({len(series) for series in log.series.values()}) > 1:
        return None  # not every epoch was validated: places in the lists are no epochs
    epoch = accuracy = None
    for name, value in weights.plain.items():
        if isinstance(value, float) and math.isfinite(value) and "." not in name:
            said = set(words(name))
            if "epoch" in said and not said & {"num", "max", "total"}:
                epoch = int(value)
            elif said & {"val", "valid", "validation"} and said & {"acc", "accuracy"} and not said & {"token", *parts}:
                accuracy = (value / 100 if value > 1.5 else value) or None  # 0: what some start from
    history = log.series.get("val_acc", [])
    if epoch is not None and epoch > log.epochs():
        return f"the checkpoint is of epoch {epoch}, the log ends at epoch {log.epochs()}"
    if accuracy is not None and history and min(abs(accuracy - value) for value in history) > 0.006:
        return f"the checkpoint's validation accuracy is {accuracy:.4f}, which the log has at no epoch"
    if epoch is None:
        return None
    best = _best_epochs(log)
    if log.best_epoch is None and 1 <= epoch <= len(history) and max(history) - history[epoch - 1] < 0.005:
        return None  # as good as the best, by whatever rule it was chosen
    if best and not any(abs(epoch - number) <= 1 for number in best):
        at = f" ({history[epoch - 1]:.4f} there)" if 1 <= epoch <= len(history) else ""
        return f"the checkpoint is of epoch {epoch}{at}, the log's best is epoch {min(best)}"
    return None


def _best_epochs(log: Log) -> set[int]:
    """The epochs that anyone could call best, counted from 1; the last one too, which many save as best."""
    if log.best_epoch is not None:
        return {log.best_epoch}
    best = {log.epochs()}
    for name, pick in (("val_acc", max), ("val_loss", min)):
        values = [value for value in log.series.get(name, []) if math.isfinite(value)]
        if values:
            best |= {epoch for epoch, value in enumerate(log.series[name], 1) if value == pick(values)}
    return best
