"""What an expected.json can ask of a file. Each check takes (item, submission) and gives an Outcome."""

import math
from dataclasses import dataclass, field

from grading.ablations import Ablation
from grading.folder import Unreadable, join
from grading.layouts import SERIES, leaves, number
from grading.submission import Submission
from lab.files import shown

ROUNDED = 0.0006  # shares are often written with three decimals
SAME = 0.0015  # two accuracies from two files, perhaps rounded, that may be the same


@dataclass
class Outcome:
    share: float  # of the item's points
    message: str
    remarks: list[str] = field(default_factory=list)
    missing: str | None = None  # the file that is not there


def percent(value: float) -> str:
    return f"{value:.2%}" if 0 <= value <= 1 else f"{value:g}"


def _notes(notes: list[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""


def check_log(item: dict, submission: Submission) -> Outcome:
    """Four series and two test numbers; each is a sixth of the points."""
    log = submission.log(item["file"])
    missing = [name for name in SERIES if not log.series.get(name)]
    missing += [name for name in ("test_loss", "test_acc") if getattr(log, name) is None]
    message = f"{log.epochs()} epochs" + (f"; no {', '.join(missing)}" if missing else "")
    uneven = len({len(series) for series in log.series.values()}) > 1
    remarks = [f"{item['file']}: the series have different lengths"] if uneven else []
    return Outcome(1 - len(missing) / 6, message + _notes(log.notes), remarks)


def check_accuracy(item: dict, submission: Submission) -> Outcome:
    """The test accuracy, or, for half of the points, the best validation accuracy if there is no other."""
    log = submission.log(item["file"])
    accuracy, what, worth = log.test_acc, "test accuracy", 1.0
    if accuracy is None:
        finite = [value for value in log.series.get("val_acc", []) if math.isfinite(value)]
        if not finite:
            return Outcome(0.0, "no test accuracy in the log")
        accuracy, what, worth = max(finite), "no test accuracy; best validation accuracy", 0.5
    if not 0 <= accuracy <= 1:
        return Outcome(0.0, f"{what} is {accuracy:g}, which is not a share")
    share, counted = reached(item, accuracy), exhaustive_errors(item, submission)
    message = f"{what} {accuracy:.2%}" + (f", {counted[0]:,} wrong of all {counted[1]:,}" if counted else "")
    return Outcome(worth * share, message + ("" if share == 1 else f"; {wanted(item)}"))


def exhaustive_errors(item: dict, submission: Submission) -> tuple[int, int] | None:
    """(errors, all rows that exist), if a file says that every possible row was evaluated."""
    proof = item.get("proof")
    try:
        content = submission.json(proof["file"]) if proof else None
    except Unreadable:
        return None
    if not isinstance(content, dict) or number(content.get(proof["rows"])) != proof["all"]:
        return None
    errors = number(content.get(proof["errors"]))
    return (int(errors), proof["all"]) if errors is not None and 0 <= errors <= proof["all"] else None


def reached(item: dict, accuracy: float) -> float:
    """1 inside `between`, or the share of the highest of the `steps` that is reached."""
    if "between" in item:
        low, high = item["between"]
        return 1.0 if low <= accuracy <= high else 0.0
    return max((share for least, share in item["steps"] if accuracy >= least), default=0.0)


def wanted(item: dict) -> str:
    if "between" in item:
        return "{:.0%} to {:.0%} expected: {}".format(*item["between"], item["reason"])
    return f"all points from {max(least for least, _ in item['steps']):.1%}: {item['reason']}"


def check_checkpoint(item: dict, submission: Submission) -> Outcome:
    weights = submission.weights(item["file"])
    return Outcome(float(not weights.not_finite), f"{len(weights.shapes)} tensors, {weights.parameters():,} numbers")


def check_figures(item: dict, submission: Submission) -> Outcome:
    """Sound pictures: they can be unpacked, are large enough, not blank, and none is a copy of another."""
    paths = [path for pattern in item["files"] for path in submission.figures(pattern)]
    if not paths:
        raise Unreadable("is missing")
    bad = [(path, problem[1]) for path in paths if (problem := submission.files.figure_problem(path))]
    good, least = len(paths) - len(bad), item.get("at_least", 1)
    message = f"{good} sound figure{'s' if good != 1 else ''}"
    if bad:
        message += f"; {shown(bad[0][0].rsplit('/', 1)[-1])} {bad[0][1]}"
        message += f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    elif good < least:
        message += f"; at least {least} expected"
    return Outcome(min(1.0, good / least) * good / len(paths), message)


def check_any_file(item: dict, submission: Submission) -> Outcome:
    """At least one figure or text that can be read."""
    paths = submission.files.under(join(submission.place, item["files"][0][:-2]))
    if not paths:
        raise Unreadable("is missing")
    problems = [submission.files.problem(path) for path in paths[:50]]
    if None in problems:
        return Outcome(1.0, f"{len(paths)} file{'s' if len(paths) > 1 else ''}")
    return Outcome(0.0, f"{shown(paths[0].rsplit('/', 1)[-1])} {problems[0]}")


def check_content(item: dict, submission: Submission) -> Outcome:
    """A JSON file with enough entries, or a text with enough lines."""
    if item["file"].endswith(".json"):
        count, what = sum(leaf not in (None, "") for _, leaf in leaves(submission.json(item["file"]))), "entries"
    else:
        count, what = sum(bool(line.strip()) for line in submission.text(item["file"]).splitlines()), "lines"
    share = min(1.0, count / item["at_least"])
    return Outcome(share, f"{count} {what}" + ("" if share == 1 else f"; at least {item['at_least']} expected"))


def check_ablation(item: dict, submission: Submission) -> Outcome:
    """An accuracy for each head. A missing baseline costs nothing: it is the test accuracy, which the log holds."""
    ablation = submission.ablation(item)
    heads = sum(0 <= accuracy <= 1 for accuracy in ablation.without.values())
    share = min(1.0, heads / item["at_least"])
    message = f"{heads} heads"
    message += "; no baseline" if ablation.baseline is None else f", baseline {percent(ablation.baseline)}"
    if share < 1:
        message += f"; accuracies of at least {item['at_least']} heads expected"
    else:
        worst = min(ablation.without, key=ablation.without.get)
        message += f", lowest {percent(ablation.without[worst])} without {shown(worst, 40)}"
    return Outcome(share, message + _notes(ablation.notes))


def by_chance(item: dict, ablation: Ablation, test: float) -> float:
    """How far the accuracy on a sample of the test rows may be from that on all of them (3 standard deviations).

    If the file does not say how many rows it took, 500 are assumed.
    """
    rows = min(ablation.samples or 500, item["test_rows"])
    middle = min(1.0, max(0.0, (test + ablation.baseline) / 2))
    return 0.0 if rows == item["test_rows"] else 3 * math.sqrt(middle * (1 - middle) / rows)


def check_table(item: dict, submission: Submission) -> Outcome:
    """An accuracy for each expected name and length."""
    table = submission.table(item)
    cells = [(name, length) for name in item["required"] for length in item["lengths"]]
    missing = [f"{n} at {length}" for n, length in cells if not 0 <= table.rows.get(n, {}).get(length, math.nan) <= 1]
    message = f"{len(table.rows)} rows"
    if missing:
        message += f"; {len(missing)} of {len(cells)} missing or not a share: {missing[0]}"
        message += ", …" if len(missing) > 1 else ""
    remarks = []
    for name, row in table.rows.items():
        values = [row.get(length, math.nan) for length in item["lengths"]]
        if not is_constant(item, row):
            for remark in item.get("remarks", []):
                low, high = remark["between"]
                if remark["name"] == name and all(low <= value <= high for value in values):
                    remarks.append(f"{name} ({', '.join(f'{v:.3f}' for v in values)}): {remark['say']}")
        elif name in item["unlearnable"] or submission.reports_collapse(name, item["file"]):
            remarks.append(f"{name}: one answer for every row (at each length exactly the share of one class)")
    return Outcome(1 - len(missing) / len(cells), message + _notes(table.notes), remarks)


def is_constant(item: dict, row: dict[int, float]) -> bool:
    """Whether the accuracy at each of at least three lengths is what one answer for every row gives."""
    shares = {int(length): share for length, share in item["class_shares"].items() if int(length) in row}
    off = [min(abs(row[length] - share), abs(row[length] - 1 + share)) for length, share in shares.items()]
    return len(shares) >= 3 and all(difference < ROUNDED for difference in off)


def check_row(item: dict, submission: Submission) -> Outcome:
    """One row of a table inside a band."""
    row = submission.table(item).rows.get(item["row"], {})
    values = [row.get(length, math.nan) for length in item["lengths"]]
    share = sum(reached(item, value) for value in values) / len(values)
    message = ", ".join("-" if math.isnan(value) else f"{value:.3f}" for value in values)
    return Outcome(share, message + ("" if share == 1 else f"; {wanted(item)}"))


CHECKS = {
    "log": check_log,
    "accuracy": check_accuracy,
    "checkpoint": check_checkpoint,
    "figures": check_figures,
    "any files": check_any_file,
    "content": check_content,
    "ablation": check_ablation,
    "table": check_table,
    "row": check_row,
}
