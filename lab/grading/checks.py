"""What an expected.json can ask of a file. Each check: (item, submission) -> Outcome."""

import math
import re
from dataclasses import dataclass, field

from lab.grading.ablations import Ablation
from lab.grading.layouts import leaves, number
from lab.grading.reading import Unreadable, shown
from lab.grading.submission import Submission

ROUNDED = 0.0006  # shares are often written with three decimals
SAME = 0.0015  # two accuracies as written in two files, perhaps rounded
DAY = 86_400.0  # seconds
SERIES = ("train_loss", "train_acc", "val_loss", "val_acc")


@dataclass
class Outcome:
    share: float  # of the item's points
    message: str
    remarks: list[str] = field(default_factory=list)
    missing: str | None = None  # the file that is not there


def check_log(item: dict, submission: Submission) -> Outcome:
    """The four series and the two test numbers; each is a sixth."""
    log = submission.log(item["file"])
    missing = [name for name in SERIES if not log.series.get(name)]
    missing += [name for name in ("test_loss", "test_acc") if getattr(log, name) is None]
    message = f"{log.epochs()} epochs" + (f"; no {', '.join(missing)}" if missing else "")
    uneven = len({len(series) for series in log.series.values()}) > 1
    remarks = [f"{item['file']}: its series are of different lengths"] if uneven else []
    return Outcome(1 - len(missing) / 6, message + _notes(log.notes), remarks)


def check_accuracy(item: dict, submission: Submission) -> Outcome:
    """A band or steps for the test accuracy. Where only a validation accuracy is logged, half of it counts."""
    log = submission.log(item["file"])
    accuracy, what, worth = log.test_acc, "test accuracy", 1.0
    if accuracy is None:
        found = [value for value in log.series.get("val_acc", []) if math.isfinite(value)]
        if not found:
            return Outcome(0.0, "no test accuracy in the log")
        accuracy, what, worth = max(found), "no test accuracy; best validation accuracy", 0.5
    if not 0 <= accuracy <= 1:
        return Outcome(0.0, f"{what} is {accuracy:g}, which is no share")
    share, counted = reached(item, accuracy), proof(item, submission)
    message = f"{what} {accuracy:.2%}" + (f", {counted[0]:,} wrong of all {counted[1]:,}" if counted else "")
    return Outcome(worth * share, message + ("" if share == 1 else f"; {wanted(item)}"))


def proof(item: dict, submission: Submission) -> tuple[int, int] | None:
    """(errors, all rows there are), where a file says that every possible row was put to the model."""
    wanted = item.get("proof")
    try:
        content = submission.json(wanted["file"]) if wanted else None
    except Unreadable:
        return None
    if not isinstance(content, dict) or number(content.get(wanted["rows"])) != wanted["all"]:
        return None
    errors = number(content.get(wanted["errors"]))
    return (int(errors), wanted["all"]) if errors is not None and 0 <= errors <= wanted["all"] else None


def reached(item: dict, accuracy: float) -> float:
    """1 inside `between`, or the share of the highest of the `steps` that is reached."""
    if "between" in item:
        low, high = item["between"]
        return 1.0 if low <= accuracy <= high else 0.0
    return max((share for least, share in item["steps"] if accuracy >= least), default=0.0)


def wanted(item: dict) -> str:
    if "between" in item:
        low, high = item["between"]
        return f"{low:.0%} to {high:.0%} expected: {item['reason']}"
    return f"full marks from {max(least for least, _ in item['steps']):.1%}: {item['reason']}"


def check_checkpoint(item: dict, submission: Submission) -> Outcome:
    weights = submission.weights(item["file"])
    message = f"{len(weights.shapes)} tensors, {weights.parameters():,} numbers"
    return Outcome(0.0 if weights.not_finite else 1.0, message, _dates(item, submission))


def _dates(item: dict, submission: Submission) -> list[str]:
    """Dates of files prove nothing (copying sets them), so a gap that no training explains is only remarked, and
    only where the checkpoint does not say itself of which epoch it is."""
    if any("epoch" in name.lower() for name in submission.weights(item["file"]).plain):
        return []
    try:
        later = submission.tree.modified(submission.find(item["log"]))
        gap = later - submission.tree.modified(submission.find(item["file"]))
        seconds = submission.log(item["log"]).seconds or 0.0
    except Unreadable:
        return []
    if abs(gap) <= max(DAY, 2 * min(seconds, 100 * DAY)):
        return []
    older = "older" if gap > 0 else "newer"
    return [f"{item['file']} is {abs(gap) / DAY:.0f} days {older} than {item['log']}: are they of one run?"]


def check_figures(item: dict, submission: Submission) -> Outcome:
    """Sound pictures: unpacked, of plausible size, not blank, none the same as another."""
    paths = [path for pattern in item["files"] for path in submission.figures(pattern)]
    if not paths:
        raise Unreadable("is missing")
    bad = [(path, complaint[1]) for path in paths if (complaint := submission.pictures.complaint(path))]
    good, least = len(paths) - len(bad), item.get("at_least", 1)
    message = f"{good} sound figure{'s' if good != 1 else ''}"
    if bad:
        message += f"; {shown(bad[0][0].rsplit('/', 1)[-1])} {bad[0][1]}"
        message += f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    elif good < least:
        message += f"; at least {least} expected"
    return Outcome(min(1.0, good / least) * good / len(paths), message)


def check_any_files(item: dict, submission: Submission) -> Outcome:
    """At least one file with something in it."""
    folder = item["files"][0][:-2]
    paths = submission.tree.under(f"{submission.folder}/{folder}" if submission.folder else folder)
    if not paths:
        raise Unreadable("is missing")
    troubles = []
    for path in paths[:50]:
        try:
            if path.lower().endswith(".png"):
                complaint = submission.pictures.complaint(path)
                if complaint and complaint[0] != "copied-figure":  # an example may well stand elsewhere too
                    raise Unreadable(complaint[1])
            else:
                submission.tree.text(path)
            return Outcome(1.0, f"{len(paths)} file{'s' if len(paths) > 1 else ''}")
        except Unreadable as reason:
            troubles.append(f"{shown(path.rsplit('/', 1)[-1])} {reason}")
    return Outcome(0.0, troubles[0])


def check_text(item: dict, submission: Submission) -> Outcome:
    lines = [line for line in submission.text(item["file"]).splitlines() if line.strip()]
    share = min(1.0, len(lines) / item["lines"])
    return Outcome(share, f"{len(lines)} lines" + ("" if share == 1 else f"; at least {item['lines']} expected"))


def check_entries(item: dict, submission: Submission) -> Outcome:
    """A JSON file with something in it: numbers or words."""
    count = sum(leaf not in (None, "") for _, leaf in leaves(submission.json(item["file"])))
    share = min(1.0, count / item["at_least"])
    return Outcome(share, f"{count} entries" + ("" if share == 1 else f"; at least {item['at_least']} expected"))


def check_ablation(item: dict, submission: Submission) -> Outcome:
    """An accuracy for each head. A missing baseline costs nothing: it is the test accuracy, and that is logged."""
    ablation, log = submission.ablation(item), submission.log_or_none(item["log"])
    heads = sum(0 <= accuracy <= 1 for accuracy in ablation.without.values())
    share = min(1.0, heads / item["at_least"])
    message = f"{heads} heads"
    message += "; no baseline" if ablation.baseline is None else f", baseline {percent(ablation.baseline)}"
    if share < 1:
        message += f"; accuracies of at least {item['at_least']} heads expected"
    elif ablation.without:
        worst = min(ablation.without, key=ablation.without.get)
        message += f", lowest {percent(ablation.without[worst])} without {shown(worst, 40)}"
    remarks = []
    tested = log.test_acc if log else None
    if tested is not None and SAME < abs(tested - (ablation.baseline or tested)) <= by_chance(item, ablation, tested):
        remarks.append(
            f"{item['file']} starts from {percent(ablation.baseline)}, the log's test accuracy is "
            f"{percent(tested)}: the same only if the ablation took a sample of the rows, which it does not say"
        )
    return Outcome(share, message + _notes(ablation.notes), remarks)


def by_chance(item: dict, ablation: Ablation, tested: float) -> float:
    """How far the baseline on a sample of the test rows may be from the accuracy on all of them (3 sd).

    Where the file does not say how many rows it took, 500 are granted.
    """
    rows = min(ablation.samples or 500, item["test_rows"])
    middle = min(1.0, max(0.0, (tested + ablation.baseline) / 2))
    return 0.0 if rows == item["test_rows"] else 3 * math.sqrt(middle * (1 - middle) / rows)


def percent(value: float) -> str:
    return f"{value:.2%}" if 0 <= value <= 1 else f"{value:g}"


def check_table(item: dict, submission: Submission) -> Outcome:
    """An accuracy for each expected name and length."""
    table = submission.table(item)
    wanted = [(name, length) for name in item["required"] for length in item["lengths"]]
    missing = [
        f"{name} at {length}" for name, length in wanted if not 0 <= table.rows.get(name, {}).get(length, math.nan) <= 1
    ]
    message = f"{len(table.rows)} rows"
    if missing:
        message += f"; {len(missing)} of {len(wanted)} missing or no share: {missing[0]}" + (
            ", …" if len(missing) > 1 else ""
        )
    remarks = []
    for remark in item.get("remarks", []):
        low, high = remark["between"]
        values = [table.rows.get(remark["name"], {}).get(length, math.nan) for length in item["lengths"]]
        if all(low <= value <= high for value in values) and not is_constant(item, table.rows[remark["name"]]):
            remarks.append(f"{remark['name']} ({', '.join(f'{v:.3f}' for v in values)}): {remark['say']}")
    for name, row in table.rows.items():
        if is_constant(item, row) and (name in item["unlearnable"] or says_so(name, item, submission)):
            remarks.append(f"{name}: at each length exactly the share of one class, so one answer for every row there")
    return Outcome(1 - len(missing) / len(wanted), message + _notes(table.notes), remarks)


def is_constant(item: dict, row: dict[int, float]) -> bool:
    """Whether the accuracy at each of at least three lengths is what one answer for every row gets there."""
    shares = {int(length): share for length, share in item["class_shares"].items() if int(length) in row}
    return len(shares) >= 3 and all(
        min(abs(row[length] - share), abs(row[length] - 1 + share)) < ROUNDED for length, share in shares.items()
    )


CONFESSED = re.compile("collaps|constant|(one|same|single) (class|answer)")


def says_so(name: str, item: dict, submission: Submission) -> bool:
    """Whether a file beside the table says of this model that it collapsed to one answer."""
    folder = submission.find(item["file"]).rpartition("/")[0]
    for path in submission.tree.under(folder, ".json")[:20]:
        try:
            content = submission.tree.json(path)
        except Unreadable:
            continue
        for keys, leaf in leaves(content):
            said = " ".join([*keys, str(leaf) if leaf else ""]).lower()
            if leaf and name in said and CONFESSED.search(said):
                return True
    return False


def check_row(item: dict, submission: Submission) -> Outcome:
    """One row of a table inside a band."""
    table = submission.table(item)
    row = [table.rows.get(item["row"], {}).get(length, math.nan) for length in item["lengths"]]
    share = sum(reached(item, value) for value in row) / len(row)
    message = ", ".join("-" if math.isnan(value) else f"{value:.3f}" for value in row)
    return Outcome(share, message + ("" if share == 1 else f"; {wanted(item)}"))


def _notes(notes: list[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""


CHECKS = {
    "log": check_log,
    "accuracy": check_accuracy,
    "checkpoint": check_checkpoint,
    "figures": check_figures,
    "any files": check_any_files,
    "text": check_text,
    "entries": check_entries,
    "ablation": check_ablation,
    "table": check_table,
    "row": check_row,
}
