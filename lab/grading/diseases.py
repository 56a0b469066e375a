"""Known diseases of results, each named only where the numbers prove it. (item, submission) -> findings

Logs, tables and figures are here; diseases_of_weights.py and diseases_of_ablations.py hold the rest.
"""

import math
from collections.abc import Iterator

from lab.grading.checks import ROUNDED, SAME, SERIES, is_constant, percent, proof, says_so
from lab.grading.diseases_of_ablations import ablation_diseases, known_value
from lab.grading.diseases_of_weights import another_run, another_shape, broken_weights
from lab.grading.layouts import ACCURACY, LOSS, in_shares, leaves, number
from lab.grading.logs import PARTS, WHOLE_ANSWER
from lab.grading.reading import Unreadable, shown, words
from lab.grading.submission import Finding, Submission

PARTIAL = LOSS | {"token", "tokens", "char"}


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
    series = submission.log(item["file"]).series
    losses = [value for value in series.get("train_loss") or series.get("val_loss", []) if math.isfinite(value)]
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


FORCED, GREEDY = {"teacher", "forced", "forcing"}, {"greedy", "autoregressive", "generated", "generation"}


def two_modes(item: dict, submission: Submission) -> Iterator[Finding]:
    """One model's exact match with teacher forcing and with greedy decoding, reported as different numbers."""
    for name in item.get("modes_in", []):
        try:
            content = submission.json(name)
        except Unreadable:
            continue
        found: dict[str, list[float]] = {"forced": [], "greedy": []}
        for keys, leaf in leaves(content):
            said, value = {word for key in keys for word in words(key)}, number(leaf)
            of_answers = said & (ACCURACY | WHOLE_ANSWER) and not said & {*PARTIAL, *submission.parts}
            if value is None or not of_answers or said & (PARTS["train"] | PARTS["val"]) or len(keys) > 4:
                continue
            mode = "forced" if said & FORCED else "greedy" if said & GREEDY else None
            if mode and not any(key.isdigit() for key in keys):
                found[mode].append(value)
        divisor = in_shares(found["forced"] + found["greedy"])
        log = submission.log_or_none(item["file"])
        if not found["forced"] and log and log.test_acc is not None:  # then the plain number is the other one
            found["forced"] = [log.test_acc * divisor]
        if found["forced"] and found["greedy"]:
            forced, greedy = (max(values) / divisor for values in found.values())
            if abs(forced - greedy) > SAME:
                evidence = f"{percent(forced)} (teacher forcing), {percent(greedy)} with greedy decoding"
                yield Finding("two-modes", item["id"], name, evidence, item["two_modes"], 0.5)


def proof_contradicted(item: dict, submission: Submission) -> Iterator[Finding]:
    """The test rows are among all rows: no more of them can be wrong than of all."""
    log, counted = submission.log(item["file"]), proof(item, submission)
    if counted is None or log.test_acc is None or not 0 <= log.test_acc <= 1:
        return
    wrong = (1 - log.test_acc) * item["proof"]["test_rows"]
    if wrong > counted[0] + 0.5:
        evidence = f"{wrong:.0f} of the test rows are wrong by the log, but {counted[0]:,} of all {counted[1]:,}"
        meaning = "the two numbers are of two different models, or one of them was not measured"
        yield Finding("proof-contradicted", item["id"], item["proof"]["file"], evidence, meaning, 0.5)


def constant_rows(item: dict, submission: Submission) -> Iterator[Finding]:
    """The accuracy at each length is what one answer for every row gets: the model tells nothing apart."""
    table = submission.table(item)
    for name, row in table.rows.items():
        if not is_constant(item, row) or name in item["unlearnable"] or says_so(name, item, submission):
            continue
        listed = ", ".join(
            f"{row[int(length)]:.3f} at {length}" for length in item["class_shares"] if int(length) in row
        )
        solved = in_range(item, submission, name)
        yield Finding(
            "constant-classifier",
            item["id"],
            item["file"],
            f"{name}: {listed}: exactly the share of one class in each of the course's test sets",
            "beyond its training lengths the model gives every row the same answer: say so, and not that it is right "
            "on about half"
            if solved
            else "the model gives every row the same answer; these are not accuracies near chance but no answer at all",
            0.0 if solved else 1 / len(item["required"]),
        )


def in_range(item: dict, submission: Submission, name: str) -> bool:
    """Whether this row's own log says that the model solves the problem where it was trained."""
    log = submission.log_or_none(item["logs"].format(name=name))
    best = [log.test_acc] if log and log.test_acc is not None else log.series.get("val_acc", []) if log else []
    return any(value >= item["solved"] for value in best)


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
    "log": [not_finite, impossible, flat_loss, one_class],
    "accuracy": [two_modes, known_value, proof_contradicted],
    "checkpoint": [broken_weights, another_shape, another_run],
    "ablation": [ablation_diseases],
    "table": [constant_rows],
    "figures": [figure_diseases],
}
