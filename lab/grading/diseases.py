"""Known diseases of results, each named only where the numbers prove it. (item, submission) -> findings."""

import math
import re
from collections.abc import Iterator

from lab.grading.checks import SERIES
from lab.grading.layouts import Ablation, Log, leaves, number, words
from lab.grading.reading import Unreadable, shown
from lab.grading.submission import Finding, Submission
from lab.grading.weights import Weights

ROUNDED = 0.0006  # shares are often written with three decimals


# ------------------------------------------------------------------------------------------------------- logs


def not_finite(item: dict, submission: Submission) -> Iterator[Finding]:
    log = submission.log(item["file"])
    for name in SERIES:
        epochs = [epoch for epoch, value in enumerate(log.series.get(name, []), 1) if not math.isfinite(value)]
        if epochs:
            yield Finding(
                "not-finite",
                item["id"],
                item["file"],
                f"{name} is not a finite number in {len(epochs)} of {len(log.series[name])} epochs, first in "
                f"epoch {epochs[0]}",
                "training diverged, or a mean was taken over nothing; the weights after that epoch are worthless",
                1.0,
            )
            return
    for name in ("test_loss", "test_acc"):
        value = getattr(log, name)
        if value is not None and not math.isfinite(value):
            yield Finding("not-finite", item["id"], item["file"], f"{name} is {value}", "nothing was measured", 1.0)


def impossible(item: dict, submission: Submission) -> Iterator[Finding]:
    log = submission.log(item["file"])
    numbers = [("test_acc", log.test_acc)] + [(n, v) for n in ("train_acc", "val_acc") for v in log.series.get(n, [])]
    for name, value in numbers:
        if value is not None and math.isfinite(value) and not -1e-6 <= value <= 1 + 1e-6:
            yield Finding(
                "impossible-number", item["id"], item["file"], f"{name} holds {value:g}", "an accuracy is a share", 1.0
            )
            return


def flat_loss(item: dict, submission: Submission) -> Iterator[Finding]:
    """A loss that stays where it is without any learning, in a problem that can be learned."""
    if "chance_loss" not in item or not item.get("learnable", True):
        return
    losses = [value for value in submission.log(item["file"]).series.get("train_loss", []) if math.isfinite(value)]
    chance = item["chance_loss"]
    if len(losses) >= 3 and min(losses) > 0.98 * chance and losses[-1] < 1.1 * chance:
        yield Finding(
            "flat-loss",
            item["id"],
            item["file"],
            f"the training loss never leaves {item['chance_name']} = {chance:.3f}: lowest {min(losses):.4f} "
            f"in {len(losses)} epochs, last {losses[-1]:.4f}",
            item["chance_meaning"],
            0.5,
        )


def one_class(item: dict, submission: Submission) -> Iterator[Finding]:
    """The test accuracy is exactly what one answer for all rows gets."""
    log = submission.log(item["file"])
    share = item.get("class_share")
    if share is None or log.test_acc is None or not item.get("learnable", True):
        return
    for value in (share, 1 - share):
        if abs(log.test_acc - value) < ROUNDED / 3:
            yield Finding(
                "constant-classifier",
                item["id"],
                item["file"],
                f"the test accuracy {log.test_acc:.4f} is exactly the share of one class in the test rows ({value:g})",
                "the model answers the same for every row: it has not learned, whatever its curves look like",
                0.5,
            )


def known_value(item: dict, submission: Submission) -> Iterator[Finding]:
    """An accuracy that a known mistake leaves at most, or just below it."""
    if item["check"] == "ablation":
        accuracy, what = submission.ablation(item["file"]).baseline, "the baseline"
    else:
        accuracy, what = submission.log(item["file"]).test_acc, "the test accuracy"
    for known in item.get("known_values", []):
        if accuracy is not None and -0.003 <= accuracy - known["value"] <= ROUNDED:
            yield Finding(
                known["name"],
                item["id"],
                item["file"],
                f"{what} is {accuracy:.4f}; {known['evidence']}",
                known["meaning"],
                1.0 if item["check"] == "ablation" else 0.0,
            )


# ------------------------------------------------------------------------------------------------ checkpoints


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


def _list_sizes(shapes: dict) -> dict[str, int]:
    """How many numbered members stand under each name: "encoder.0.…", "encoder.1.…" -> {"encoder": 2}"""
    members: dict[str, set] = {}
    for name in shapes:
        for match in re.finditer(r"\.(\d+)\.", name):
            members.setdefault(name[: match.start()], set()).add(match.group(1))
    return {name: len(found) for name, found in members.items()}


def another_run(item: dict, submission: Submission) -> Iterator[Finding]:
    """The checkpoint says that it is of an epoch, or of an accuracy, that is not the log's best."""
    weights, log = submission.weights(item["file"]), submission.log_or_none(item.get("log"))
    evidence = _age_evidence(weights, log) if log and log.epochs() else None
    if evidence:
        yield Finding(
            "checkpoint-of-another-run",
            item["id"],
            item["file"],
            evidence,
            "the weights are older or newer than the log: the log's test accuracy is not theirs",
            1.0,
        )


def _age_evidence(weights: Weights, log: Log) -> str | None:
    epoch = accuracy = None
    for name, value in weights.plain.items():
        if isinstance(value, float) and math.isfinite(value) and "." not in name:
            said = set(words(name))
            if said & {"epoch", "epochs"} and not said & {"num", "max", "epochs", "patience", "total"}:
                epoch = int(value)
            elif said & {"val", "valid", "validation"} and said & {"acc", "accuracy"} and not said & {"token", "digit"}:
                accuracy = value / 100 if value > 1.5 else value
    history = log.series.get("val_acc", [])
    if epoch is not None and epoch > log.epochs():
        return f"the checkpoint is of epoch {epoch}, the log ends at epoch {log.epochs()}"
    if accuracy is not None and history and min(abs(accuracy - value) for value in history) > 0.0015:
        return f"the checkpoint's validation accuracy is {accuracy:.4f}, which the log has at no epoch"
    if epoch is None:
        return None
    best = _best_epochs(log)
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


# -------------------------------------------------------------------------------------------------- ablations


def ablation_diseases(item: dict, submission: Submission) -> Iterator[Finding]:
    ablation, log = submission.ablation(item["file"]), submission.log_or_none(item.get("log"))
    test = log.test_acc if log else None
    baseline = ablation.baseline if ablation.baseline is not None else test
    found = [*_two_baselines(item, ablation, test), *known_value(item, submission)]
    if baseline is not None:
        found += _nothing_to_ablate(item, ablation, baseline) or _no_effect(item, ablation, baseline)
    yield from found
    said = _conclusion(item, submission)
    if found and said and all(finding.name != "redundancy-unsupported" for finding in found):
        yield Finding(
            "redundancy-unsupported",
            item["id"],
            item["file"],
            f"concluded: “{said}”, from the data above ({found[0].name})",
            "which heads matter cannot be told from these numbers; no share of heads can be called prunable",
        )


def _two_baselines(item: dict, ablation: Ablation, test: float | None) -> list[Finding]:
    """Exact match under teacher forcing and under greedy decoding is the same number, always."""
    if ablation.baseline is None or test is None or not (0 <= test <= 1 and 0 <= ablation.baseline <= 1):
        return []
    difference = abs(ablation.baseline - test)
    middle, rows = (ablation.baseline + test) / 2, min(ablation.samples or 500, item["test_rows"])
    by_chance = 0.0 if rows == item["test_rows"] else 4 * math.sqrt(middle * (1 - middle) / rows)
    if difference <= max(by_chance, 0.0015):
        return []
    return [
        Finding(
            "two-baselines",
            item["id"],
            item["file"],
            f"the ablation starts from {ablation.baseline:.4f}, the log's test accuracy is {test:.4f}",
            item["two_baselines"],
            1.0,
        )
    ]


def _nothing_to_ablate(item: dict, ablation: Ablation, baseline: float) -> list[Finding]:
    if baseline > item["dead_below"] or not ablation.without:
        return []
    return [
        Finding(
            "nothing-to-ablate",
            item["id"],
            item["file"],
            f"the whole model is right on {baseline:.2%}; without a head on "
            f"{min(ablation.without.values()):.2%} to {max(ablation.without.values()):.2%}",
            "a model that solves nothing has no head that it could miss: the ablation says nothing about heads",
            1.0,
        )
    ]


def _no_effect(item: dict, ablation: Ablation, baseline: float) -> list[Finding]:
    """No head matters: exactly (nothing was ablated) or within what so many rows can tell."""
    values = [value for value in ablation.without.values() if math.isfinite(value)]
    if len(values) < item["at_least"]:
        return []
    rows = ablation.samples or item["test_rows"]
    if max(values) - min(values) < 0.5 / rows:
        return [
            Finding(
                "ablation-without-effect",
                item["id"],
                item["file"],
                f"{values[0]:.4f} without each of {len(values)} heads, {baseline:.4f} with all",
                "the ablation did not reach single heads (a hook that is never called, output rows in place of a "
                "head's columns, or a model in which nothing depends on attention)",
                1.0,
            )
        ]
    largest = max(abs(baseline - value) for value in values)
    if largest > item["too_small"]:
        return []
    return [
        Finding(
            "redundancy-unsupported",
            item["id"],
            item["file"],
            f"no head of {len(values)} changes the accuracy by more than {largest:.4f}: "
            f"{largest * rows:.0f} of {rows:,} rows",
            "so small a difference for every head is within what these rows can tell, and typical of an ablation that "
            "misses the heads: check it against removing the head's columns of the output projection",
            0.5,
        )
    ]


CLAIM = re.compile(
    r"(\d+(\.\d+)?\s?%[^.\n]{0,40}(prun|redundan)\w*|(prun|redundan)\w*[^.\n]{0,40}?\d+(\.\d+)?\s?%"
    r"|all (the )?heads [^.\n]{0,20}redundan\w*)",
    re.IGNORECASE,
)


def _conclusion(item: dict, submission: Submission) -> str | None:
    """A share of heads that is called prunable or redundant, in the texts or under a key of the JSON files."""
    for name in item.get("conclusions", []):
        try:
            if name.endswith(".json"):
                for keys, leaf in leaves(submission.json(name)):
                    key = " ".join(map(str, keys))
                    if re.search("prun|redundan", key, re.IGNORECASE) and number(leaf):
                        return shown(f"{key}: {leaf}", 80)
            else:
                claim = CLAIM.search(submission.text(name))
                if claim:
                    return shown(claim.group(0).strip(), 80)
        except Unreadable:
            continue
    return None


# ----------------------------------------------------------------------------------------------------- tables


def constant_rows(item: dict, submission: Submission) -> Iterator[Finding]:
    """The accuracy at each length is what one answer for every row gets: the model tells nothing apart."""
    table = submission.table(item["file"], item["names"], item["lengths"])
    shares = {int(length): share for length, share in item["class_shares"].items()}
    for name, row in table.rows.items():
        lengths = [length for length in shares if length in row]
        same = all(
            min(abs(row[length] - shares[length]), abs(row[length] - 1 + shares[length])) < ROUNDED
            for length in lengths
        )
        if len(lengths) < 3 or not same or name in item["unlearnable"] or in_range(item, submission, name):
            continue
        listed = ", ".join(f"{row[length]:.3f} at {length}" for length in lengths)
        yield Finding(
            "constant-classifier",
            item["id"],
            item["file"],
            f"{name}: {listed}: exactly the share of one class in each of the course's test sets",
            "the model gives every row the same answer; these are not accuracies near chance but no answer at all",
            1 / len(item["required"]),
        )


def in_range(item: dict, submission: Submission, name: str) -> bool:
    """Whether this row's own log says that the model solves the problem where it was trained."""
    log = submission.log_or_none(item["logs"].format(name=name))
    best = [log.test_acc] if log and log.test_acc is not None else log.series.get("val_acc", []) if log else []
    return any(value >= item["solved"] for value in best)


# ---------------------------------------------------------------------------------------------------- figures


def figure_diseases(item: dict, submission: Submission) -> Iterator[Finding]:
    meanings = {
        "broken-figure": "nobody can look at it",
        "blank-figure": "an empty canvas was saved, perhaps after the figure had been closed",
        "copied-figure": "one file under two names: the second figure was never drawn",
    }
    for pattern in item["files"]:
        try:
            paths = submission.figures(pattern)
        except Unreadable:
            continue
        for path in paths:
            complaint = submission.pictures.complaint(path)
            if complaint:
                name, reason = complaint
                yield Finding(name, item["id"], shown(path), reason, meanings[name])


DISEASES = {
    "log": [not_finite, impossible, flat_loss, one_class, known_value],
    "checkpoint": [broken_weights, another_shape, another_run],
    "ablation": [ablation_diseases],
    "table": [constant_rows],
    "figures": [figure_diseases],
}
