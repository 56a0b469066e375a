"""What an expected.json can ask of figures, texts and tables. Each check takes (item, submission): an Outcome."""

import math
import re
from posixpath import basename, join

from grading.folder import Unreadable, attempt, ink
from grading.layouts import leaves, read_table
from grading.report import Issue
from grading.submission import ROUNDED, Outcome, Submission, judged
from lab.files import shown

MIN_INK = 0.001  # share of pixels that differ from the background: fewer are not even a pair of axes
# of one folder: to look at more would only take time
MAX_FIGURES = 200
MAX_PIXELS = 60_000_000
MAX_LETTERS = 200  # of a value in which a statement is looked for
COLLAPSED = re.compile("collaps|constant|(one|same|single) (class|answer)")
ANOTHER_SCHEME = re.compile("random(?!.?(seed|state))|interpolat|normali|stretch|scaled|relative|window")
BEYOND_RANGE = (
    "A model that gives the same answer for every row beyond its training lengths gets exactly this. Count how often "
    "it predicts each class, and report that instead of an accuracy of about one half."
)


def figure_issue(path: str, submission: Submission) -> Issue | None:
    """None for a sound figure: it can be unpacked, is large enough, not blank, and no copy of an earlier one."""
    try:
        share, digest = ink(submission.files.picture(path))
    except Unreadable as reason:
        return Issue("broken-figure", str(reason), file=path)
    first = submission.files.first_figure.setdefault(digest, path)
    if share < MIN_INK:
        return Issue("blank-figure", f"is blank: {1 - share:.2%} of its pixels have one colour", file=path)
    return None if first == path else Issue("copied-figure", f"is the same picture as {shown(first)}", file=path)


def check_figures(item: dict, submission: Submission) -> Outcome:
    """One figure, "a.png", or all those in a folder, "folder/*"."""
    (folder, star, _), least = item["file"].partition("/*"), item.get("at_least", 1)
    paths = submission.files.under(join(submission.place, folder), ".png") if star else [submission.find(folder)]
    if not paths:
        raise Unreadable("is missing")
    paths, issues = _looked_at(paths, submission)
    good = len(paths) - len(issues)
    message = f"{good} sound figure{'s' if good != 1 else ''}"
    if issues:
        message += f"; {shown(basename(issues[0].file))} {issues[0].evidence}"
        message += f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    elif good < least:
        message += f"; at least {least} expected"
    sound = [path for path in paths if path not in {issue.file for issue in issues}]
    return Outcome(min(1.0, good / least) * good / len(paths), message, issues=issues, figure=next(iter(sound), None))


def _looked_at(paths: list[str], submission: Submission) -> tuple[list[str], list[Issue]]:
    """As many of the figures as there is time for, and what is wrong with them."""
    enough = submission.files.pixels + MAX_PIXELS
    looked_at = []
    issues = []
    for path in paths[:MAX_FIGURES]:
        if submission.files.pixels > enough:
            break
        looked_at.append(path)
        issue = figure_issue(path, submission)
        if issue:
            issues.append(issue)
    return looked_at, issues


def check_any_file(item: dict, submission: Submission) -> Outcome:
    """At least one figure, which may be a copy, or one text that can be read."""
    paths = submission.files.under(join(submission.place, item["file"][:-2]))
    if not paths:
        raise Unreadable("is missing")
    problems = []
    message = f"{len(paths)} file{'s' if len(paths) > 1 else ''}"
    for path in paths[:50]:
        try:
            if not path.lower().endswith(".png"):
                submission.files.text(path)
                return Outcome(1.0, message)
            issue = figure_issue(path, submission)
            if issue is None or issue.name == "copied-figure":
                return Outcome(1.0, message, figure=path)
            problems.append(issue.evidence)
        except Unreadable as reason:
            problems.append(str(reason))
    return Outcome(0.0, f"{shown(basename(paths[0]))} {problems[0]}")


def check_content(item: dict, submission: Submission) -> Outcome:
    """A JSON file with enough entries, or a text with enough lines."""
    name = item["file"]
    if name.endswith(".json"):
        count = sum(leaf not in (None, "") for _, leaf in leaves(submission.json(name)))
        what = "entries"
    else:
        count = sum(bool(x.strip()) for x in submission.text(name).splitlines())
        what = "lines"
    share = min(1.0, count / item["at_least"])
    return Outcome(share, f"{count} {what}" + ("" if share == 1 else f"; at least {item['at_least']} expected"))


def check_table(item: dict, submission: Submission) -> Outcome:
    """An accuracy for each expected name and length, and whether it is what one answer for every row gives."""
    table, notes = read_table(submission.json(item["file"]), item["names"], item["lengths"])
    cells = [(name, length) for name in item["required"] for length in item["lengths"]]
    missing = [f"{n} at {length}" for n, length in cells if not 0 <= table.get(n, {}).get(length, math.nan) <= 1]
    message = f"{len(table)} rows"
    if missing:
        message += f"; {len(missing)} of {len(cells)} missing or not a share: {missing[0]}"
        message += ", …" if len(missing) > 1 else ""
    outcome = Outcome(1 - len(missing) / len(cells), message + (f" ({'; '.join(notes)})" if notes else ""))
    for name, row in table.items():
        values = [row.get(length, math.nan) for length in item["lengths"]]
        if not missing:
            outcome.value = max(outcome.value or 0.0, sum(values) / len(values))
        if name == item.get("never_perfect") and _perfect(values) and not names_another_scheme(name, item, submission):
            lengths = ", ".join(map(str, item["lengths"]))
            outcome.issues.append(Issue("perfect-beyond-range", f"{name}: no row is wrong at any of {lengths}"))
        elif not is_constant(item, row):
            for remark in item.get("remarks", []):
                low, high = remark["between"]
                if remark["name"] == name and all(low <= value <= high for value in values):
                    outcome.remarks.append(f"{name} ({', '.join(f'{v:.3f}' for v in values)}): {remark['say']}")
        elif name in item["unlearnable"] or says(COLLAPSED, name, item["file"], submission):
            outcome.remarks.append(f"{name}: one answer for every row (at each length exactly the share of one class)")
        else:
            listed = ", ".join(f"{row[int(n)]:.3f} at {n}" for n in item["class_shares"] if int(n) in row)
            evidence = f"{name}: {listed}: exactly the share of one class in each of the course's test sets"
            log = submission.log(item["logs"].format(name=name), needed=False)
            in_range = log.numbers.get("val_acc", []) if log.test_acc is None else [log.test_acc]
            solved = any(value >= item["solved"] for value in in_range)  # then it fails beyond its range only
            if solved:
                outcome.remarks.append(f"{evidence}. {BEYOND_RANGE}")
            else:
                outcome.issues.append(Issue("constant-classifier", evidence, 1 / len(item["required"])))
    return outcome


def is_constant(item: dict, row: dict[int, float]) -> bool:
    """Whether the accuracy at each of at least three lengths is what one answer for every row gives."""
    shares = {int(length): share for length, share in item["class_shares"].items() if int(length) in row}
    off = [min(abs(row[length] - share), abs(row[length] - 1 + share)) for length, share in shares.items()]
    return len(shares) >= 3 and all(difference < ROUNDED for difference in off)


def _perfect(accuracies: list[float]) -> bool:
    return all(1 - ROUNDED < value <= 1 for value in accuracies)


def says(what: re.Pattern, name: str, table: str, submission: Submission) -> bool:
    """Whether a file beside the table says this of a model: that it gives one answer for all rows, for instance."""
    for path in submission.files.under(submission.find(table).rpartition("/")[0], ".json")[:20]:
        for keys, leaf in leaves(attempt(submission.files.json, path, default={})):
            text = " ".join(map(str, [*keys, str(leaf)[:MAX_LETTERS]])).lower()
            if leaf and name in text and what.search(text):
                return True
    return False


def names_another_scheme(name: str, item: dict, submission: Submission) -> bool:
    """Whether the table's folder or the model's log says that its positions are not 0, 1, 2, …"""
    if says(ANOTHER_SCHEME, name, item["file"], submission):
        return True
    log = attempt(submission.json, item["logs"].format(name=name), default={})
    words = [str(part)[:MAX_LETTERS].lower() for keys, leaf in leaves(log) for part in (*keys, leaf)]
    return any(ANOTHER_SCHEME.search(word) for word in words)


def check_row(item: dict, submission: Submission) -> Outcome:
    """One row of a table inside a band."""
    table, _ = read_table(submission.json(item["file"]), item["names"], item["lengths"])
    values = [table.get(item["row"], {}).get(length, math.nan) for length in item["lengths"]]
    share, advice = judged(item, values)
    return Outcome(share, ", ".join("-" if math.isnan(value) else f"{value:.3f}" for value in values), advice)
