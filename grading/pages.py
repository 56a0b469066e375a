"""Two pages of HTML, each one file that needs nothing else: feedback for a student, and an overview of a class."""

import base64
import io
from collections import Counter
from html import escape
from pathlib import Path
from string import Template

from grading.folder import Folder
from grading.report import Report, Score
from grading.submission import Issue
from lab.files import shown

PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
WIDTH = 640  # pixels of a figure on the page
ENCOURAGEMENT = [  # from which share of the points
    (0.8, "Very good work: only a few things are left."),
    (0.4, "Good progress. Each note below says what to look at next."),
    (0, "A start is made. Each note below is one step forward; take them one at a time."),
]


def feedback(report: Report, reference: Report) -> str:
    """What a student has, item by item, beside what the reference solution has."""
    full = sum(item.score >= item.maximum for item in report.items)
    share = report.score / report.maximum if report.maximum else 0.0
    encouragement = next(words for least, words in ENCOURAGEMENT if share >= least)
    encouragement = "Everything is here and sound. Well done!" if report.passed else encouragement
    parts = [f"<h1>Your results: {report.score:g} of {report.maximum:g} points</h1>"]
    parts.append(_bar(report.score, report.maximum))
    parts.append(f'<p class="lead">{encouragement} {full} of {len(report.items)} items are complete.</p>')
    lost = {item.id: round(item.maximum - item.score, 2) for item in report.items if item.score < item.maximum}
    if lost:
        most = sorted(lost, key=lost.get, reverse=True)[:3]
        steps = "".join(f"<li>{_title(item)}: {lost[item]:g} points</li>" for item in most)
        parts.append(f"<p>Where the most points are still to be had:</p><ol>{steps}</ol>")
    expected = {item.id: item for item in reference.items}
    for problem, title in report.titles.items():
        items = report.of(problem)
        if items:
            points = f"{sum(item.score for item in items):g} of {sum(item.maximum for item in items):g} points"
            parts.append(f"<h2>{problem}: {escape(title)} ({points})</h2>")
        parts += [_issue(issue) for issue in report.issues if issue.item == problem]
        for item in items:
            other, issues = expected[item.id], [_issue(issue) for issue in report.issues if issue.item == item.id]
            parts.append(
                f'<section class="item{" full" * (item.score >= item.maximum)}"><header><h3>{_title(item.id)}</h3>'
                f'<span class="points">{item.score:g} of {item.maximum:g}</span></header><div class="pair">'
                f"{_side('Yours', item, report.files)}{_side('Reference solution', other, reference.files)}</div>"
                f"{''.join(issues)}</section>"
            )
    if report.remarks:
        remarks = "".join(f"<li>{escape(remark)}</li>" for remark in report.remarks)
        parts.append(f"<h2>Remarks (they cost no points)</h2><ul>{remarks}</ul>")
    return PAGE.substitute(title="Feedback", body="\n".join(parts))


def overview(reports: dict[str, Report]) -> str:
    """Which known issues are common in a class, which items lose points, and a line for each submission."""
    sound = sum(report.passed for report in reports.values())
    parts = [f"<h1>{len(reports)} submissions, {sound} complete and sound</h1><h2>Known issues, commonest first</h2>"]
    having = {name: sorted({issue.name for issue in report.issues}) for name, report in reports.items()}
    rows = []
    for issue, count in Counter(issue for names in having.values() for issue in names).most_common():
        who = ", ".join(name for name in reports if issue in having[name])
        rows.append([_title(issue), count, _bar(count, len(reports)), escape(who)])
    parts += [_table(["issue", "submissions", "", "which"], rows) if rows else "<p>None.</p>"]
    points, possible = Counter(), Counter()
    for item in (item for report in reports.values() for item in report.items):
        points[item.id] += item.score
        possible[item.id] += item.maximum
    shares = sorted((points[item] / possible[item], item) for item in possible if points[item] < possible[item])
    rows = [[escape(item), f"{share:.0%}", _bar(share, 1)] for share, item in shares]
    parts += ["<h2>Items that lose points, lowest first</h2>", _table(["item", "of its points", ""], rows)]
    rows = []
    for name, report in reports.items():
        points = "not graded" if report.error else f"{report.score:g} of {report.maximum:g}"
        rows.append([escape(name), points, escape(report.error) or ", ".join(map(_title, having[name])) or "none"])
    parts += ["<h2>Submissions</h2>", _table(["submission", "points", "known issues"], rows)]
    return PAGE.substitute(title="Class overview", body="\n".join(parts))


def _title(name: str) -> str:
    """ "problem1/training-log" -> "Training log" """
    return escape(name.rsplit("/", 1)[-1].replace("-", " ").capitalize())


def _issue(issue: Issue) -> str:
    return (
        f'<div class="issue"><p><b>{_title(issue.name)}:</b> {escape(issue.evidence)}.</p>'
        f"<p>Hint: {escape(issue.hint)}</p><p>Where to look: <code>{escape(issue.file)}</code></p></div>"
    )


def _side(what: str, item: Score, files: Folder) -> str:
    picture = ""
    if item.figure:
        image, buffer = files.picture(item.figure), io.BytesIO()
        image.thumbnail((WIDTH, 4 * WIDTH))
        image.quantize(128).save(buffer, "PNG", optimize=True)
        data = base64.b64encode(buffer.getvalue()).decode()
        picture = f'<img alt="{escape(shown(item.figure))}" src="data:image/png;base64,{data}">'
    return f"<div><b>{what}</b><p>{escape(item.message)}</p>{picture}</div>"


def _bar(value: float, maximum: float) -> str:
    return f'<div class="bar"><div style="width: {100 * value / (maximum or 1):.0f}%"></div></div>'


def _table(heads: list[str], rows: list[list]) -> str:
    lines = ["".join(f"<th>{head}</th>" for head in heads), *("".join(f"<td>{cell}</td>" for cell in r) for r in rows)]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
