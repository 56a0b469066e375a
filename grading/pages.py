"""Two pages of HTML, each one file that needs nothing else: feedback for a student, and an overview of a class."""

from collections import Counter
from html import escape
from pathlib import Path
from string import Template

from grading.report import Issue, Part, Report, Score, titled
from lab.files import shown

PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def feedback(report: Report, reference: Report) -> str:
    """What a student has, item by item, beside what the reference solution has."""
    name = escape(Path(report.folder).name or report.folder)
    if not report.items and not report.code:
        return PAGE.substitute(title=f"Feedback: {name}", body=f"<h1>{name}</h1><p>{escape(report.verdict())}</p>")
    full = sum(item.score >= item.maximum for item in report.items)
    complete = f"{full} of {len(report.items)} items are complete." if report.items else escape(report.verdict())
    parts = [f"<h1>{name}: {report.score:g} of {report.maximum:g} points</h1>"]
    parts.append(_bar(report.score, report.maximum))
    parts.append(f'<p class="lead">{_lead(report)} {complete}</p>')
    if report.not_graded:
        parts.append(f"<p>Not graded, because no results of it are here: {', '.join(report.not_graded)}.</p>")
    scored = [*report.items, *(report.code or [])]
    lost = {one.id: round(one.maximum - one.score, 2) for one in scored if one.score < one.maximum}
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
            other = expected[item.id]
            issues = [_issue(issue) for issue in report.issues if issue.item == item.id]
            parts.append(
                f'<section class="item{" full" * (item.score >= item.maximum)}"><header><h3>{_title(item.id)}</h3>'
                f'<span class="points">{item.score:g} of {item.maximum:g}</span></header><div class="pair">'
                f"{_side('Yours', item, report)}{_side('Reference solution', other, reference)}</div>"
                f"{_advice(item)}{''.join(issues)}</section>"
            )
    if report.code:
        parts.append(f'<h2 id="code">{escape(report.counted())}</h2>')
        parts += [_part(part) for part in report.code]
    if report.remarks:
        remarks = "".join(f"<li>{escape(remark)}</li>" for remark in report.remarks)
        parts.append(f"<h2>Remarks (they cost no points)</h2><ul>{remarks}</ul>")
    return PAGE.substitute(title=f"Feedback: {name}", body="\n".join(parts))


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
    if any(report.code is not None for report in reports.values()):
        parts += ["<h2>Checks of the code that fail, commonest first</h2>", _failing(reports)]
    points = Counter()
    possible = Counter()
    for report in reports.values():
        for item in [*report.items, *(report.code or [])]:
            points[item.id] += item.score
            possible[item.id] += item.maximum
    shares = sorted((points[item] / possible[item], item) for item in possible if points[item] < possible[item])
    rows = [[escape(item), f"{share:.0%}", _bar(share, 1)] for share, item in shares]
    parts += ["<h2>Items that lose points, lowest first</h2>", _table(["item", "of its points", ""], rows)]
    rows = []
    for name, report in reports.items():
        points = "not graded" if report.error else f"{report.score:g} of {report.maximum:g}"
        notes = [*map(_title, having[name]), *(f"{problem} not graded" for problem in report.not_graded)]
        code = escape(report.counted()) if report.code else ""
        rows.append([escape(name), points, escape(report.error) or ", ".join(notes) or "none", code])
    parts += ["<h2>Submissions</h2>", _table(["submission", "points", "known issues", ""], rows)]
    return PAGE.substitute(title="Class overview", body="\n".join(parts))


def _failing(reports: dict[str, Report]) -> str:
    """A line for each check of the code that is wrong or to do in some submission."""
    having: dict[str, dict[str, list[str]]] = {}  # check -> verdict -> submissions
    for name, report in reports.items():
        for check in report.checks:
            having.setdefault(check.name, {}).setdefault(check.verdict, []).append(name)
    titles = {check.name: check.title for report in reports.values() for check in report.checks}
    rows = []
    for check, who in having.items():
        wrong = who.get("WRONG", [])
        to_do = who.get("to do", [])
        not_tried = who.get("not tried", [])
        if wrong or to_do:
            said = f"<b>{escape(check)}</b>: {escape(titles[check])}"
            bar = _bar(len(wrong), len(reports))
            rows.append([said, len(wrong), len(to_do), len(not_tried), bar, escape(", ".join(wrong))])
    if not rows:
        return "<p>None.</p>"
    rows.sort(key=lambda row: row[1:3], reverse=True)
    return _table(["check", "wrong", "to do", "not tried", "", "wrong in"], rows)


def _lead(report: Report) -> str:
    """What to do first. Points for figures do not hide a model that has not learned."""
    if report.passed:
        return "Everything is here and sound. Well done!"
    wrong = [escape(check.name) for check in report.checks if check.verdict == "WRONG"]
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return f'<a href="#code">The code has mistakes</a> ({wrong[0]}{more}). Begin there, before you train again.'
    unlearned = [_title(item.id) for item in report.items if not item.learned]
    if unlearned:
        return f"A model has not learned its task yet ({', '.join(unlearned)}). Begin there: the rest depends on it."
    return "Each note below says what to look at next."


def _title(name: str) -> str:
    return escape(titled(name))


def _advice(item: Score) -> str:
    return f'<div class="issue"><p>{escape(item.advice)}</p></div>' if item.advice else ""


def _issue(issue: Issue) -> str:
    return (
        f'<div class="issue"><p><b>{_title(issue.name)}:</b> {escape(issue.evidence)}.</p>'
        f"<p>Hint: {escape(issue.hint)}</p><p>Where to look: <code>{escape(issue.file)}</code></p></div>"
    )


def _part(part: Part) -> str:
    """A part of the code: what is not ok, and a list of what is."""
    points = f"{part.score:g} of {part.maximum:g}" if part.maximum else ""
    notes = "".join(f'<div class="issue"><p>{escape(note)}</p></div>' for note in part.notes())
    sound = "".join(f"<li>{escape(check.title)}</li>" for check in part.checks if check.verdict == "ok")
    sound = f"<details><summary>What is ok</summary><ul>{sound}</ul></details>" if sound else ""
    return (
        f'<section class="item{" full" * part.passed}"><header><h3>{_title(part.id)}: {part.counted()}</h3>'
        f'<span class="points">{points}</span></header>{notes}{sound}</section>'
    )


def _side(what: str, item: Score, report: Report) -> str:
    picture = report.pictures.get(item.figure, "")
    picture = f'<img alt="{escape(shown(item.figure))}" src="{picture}">' if picture else ""
    return f"<div><b>{what}</b><p>{escape(item.message)}</p>{picture}</div>"


def _bar(value: float, maximum: float) -> str:
    return f'<div class="bar"><div style="width: {100 * value / (maximum or 1):.0f}%"></div></div>'


def _table(heads: list[str], rows: list[list]) -> str:
    lines = ["".join(f"<th>{head}</th>" for head in heads), *("".join(f"<td>{cell}</td>" for cell in r) for r in rows)]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
