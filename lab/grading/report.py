"""Grading one folder, and the result as a table for people and as JSON for machines."""

import json
import shutil
import textwrap
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lab.files import UserError
from lab.grading.checks import CHECKS, Outcome
from lab.grading.diseases import DISEASES
from lab.grading.reading import Tree, Unreadable, shown
from lab.grading.submission import Finding, Pictures, Submission, locate

BEYOND = "is beyond this grader: please look yourself"


@dataclass
class Score:
    id: str
    score: float
    maximum: float
    message: str


@dataclass
class Report:
    folder: str
    items: list[Score] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    places: dict[str, str | None] = field(default_factory=dict)  # problem -> where its results stand
    titles: dict[str, str] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return round(sum(item.score for item in self.items), 2)

    @property
    def maximum(self) -> float:
        return round(sum(item.maximum for item in self.items), 2)

    @property
    def passed(self) -> bool:
        return bool(self.items) and self.score >= self.maximum and not self.findings

    def plain(self) -> dict:
        return {
            "folder": self.folder,
            "passed": self.passed,
            "score": self.score,
            "maximum": self.maximum,
            "items": [asdict(item) for item in self.items],
            "findings": [asdict(finding) for finding in self.findings],
            "remarks": self.remarks,
            "results": self.places,
        }


def grade(folder: Path, problems: list[dict], required: set[str], only: str | None = None) -> Report:
    """Hold what stands in `folder` against each problem's expected.json, or against that of `only` one.

    A problem that is absent altogether is left out, unless it is `required`.
    """
    tree = Tree(folder)
    report = Report(shown(tree.root), titles={expected["problem"]: expected["title"] for expected in problems})
    if not tree.whole:
        report.remarks.append("the folder holds more than this grader lists: name the folder of the results itself")
    pictures = Pictures(tree)
    names = [expected["problem"] for expected in problems]
    for expected in problems:
        problem = expected["problem"]
        if only not in (None, problem):
            continue
        place = locate(tree, expected, [name for name in names if name != problem])
        report.places[problem] = None if place is None else shown(place or ".")
        if place is None and problem not in required:
            report.remarks.append(f"{problem}: no results here, so it was not graded (--problem {problem} insists)")
            continue
        agreed = f"{problem}/results" if place is None else place
        grade_problem(Submission(expected, tree, agreed, pictures), report)
    return report


def grade_problem(submission: Submission, report: Report) -> None:
    problem, missing = submission.expected["problem"], {}
    for item in submission.expected["items"]:
        outcome, findings = judge(item, submission)
        if outcome.missing:
            missing[outcome.missing] = True
        share = max(0.0, outcome.share - sum(finding.cost for finding in findings))
        named = ", ".join(dict.fromkeys(finding.name for finding in findings if finding.cost))
        message = outcome.message + (f"; see {named}" if named else "")
        report.items.append(Score(f"{problem}/{item['id']}", round(share * item["points"], 2), item["points"], message))
        report.remarks += [f"{problem}: {remark}" for remark in outcome.remarks]
        place = f"{submission.folder}/" if submission.folder else ""
        for finding in findings:
            where = finding.where if finding.where.startswith(place) else place + finding.where
            report.findings.append(replace(finding, item=f"{problem}/{item['id']}", where=shown(where)))
    report.remarks += [f"{problem}: {name} was found as {shown(path)}" for name, path in submission.moved.items()]
    if missing:
        evidence = f"{len(missing)} missing: {', '.join(missing)}"
        meaning = "what is asked for under these names is not there, under no similar path either"
        where = shown(submission.folder or ".")
        report.findings.append(Finding("missing-deliverables", problem, where, evidence, meaning))


def judge(item: dict, submission: Submission) -> tuple[Outcome, list[Finding]]:
    """One item's check and the diseases of its kind. A mistake of the grader's own must not cost the other items."""
    file, findings = item.get("file") or ", ".join(item["files"]), []
    try:
        outcome = CHECKS[item["check"]](item, submission)
    except Unreadable as reason:
        outcome = Outcome(0.0, f"{file} {reason}", missing=file if str(reason) == "is missing" else None)
    except Exception as error:
        outcome = Outcome(0.0, f"{file} {BEYOND} ({type(error).__name__})")
    for disease in DISEASES.get(item["check"], []):
        try:
            findings += disease(item, submission)
        except Unreadable:
            break
        except Exception as error:
            outcome.message += f"; {BEYOND} ({type(error).__name__})"
    return outcome, findings


def as_table(report: Report) -> str:
    """For people: every item with its points, then what was found, then what is only said."""
    width = max(80, min(140, shutil.get_terminal_size((110, 24)).columns))
    longest = max([len(item.id.split("/", 1)[1]) for item in report.items], default=10)
    lines = [f"{report.folder}"]
    for problem, place in report.places.items():
        items = [item for item in report.items if item.id.startswith(f"{problem}/")]
        if not items:
            continue
        lines += ["", f"{problem}  {report.titles[problem]}  (in {place or 'no folder'})"]
        for item in items:
            mark = "ok   " if item.score >= item.maximum else "SHORT"
            start = f"  {item.id.split('/', 1)[1]:<{longest}}  {item.score:5.1f} / {item.maximum:<4g} {mark}  "
            lines += _wrapped(start, item.message, width)
        lines.append(f"  {'':<{longest}}  {sum(i.score for i in items):5.1f} / {sum(i.maximum for i in items):<4g}")
    if report.findings:
        lines += ["", "Findings"]
        for finding in report.findings:
            lines += _wrapped(f"  {finding.name}: ", f"{finding.where}: {finding.evidence}.", width, 6)
            lines += _wrapped("      ", f"{finding.meaning}.", width)
    if report.remarks:
        lines += ["", "Remarks (no points)"]
        for remark in report.remarks:
            lines += _wrapped("  - ", remark, width)
    if report.items:
        verdict = "complete" if report.passed else "falls short"
        lines += ["", f"total {report.score:g} of {report.maximum:g}: {verdict}"]
    else:
        lines += ["", "nothing to grade: neither problem's results stand here"]
    return "\n".join(lines)


def _wrapped(start: str, text: str, width: int, indent: int | None = None) -> list[str]:
    rest = " " * (len(start) if indent is None else indent)
    return textwrap.wrap(start + text, width, subsequent_indent=rest, drop_whitespace=True, break_on_hyphens=False) or [
        start
    ]


def load_expected(path: Path) -> dict:
    """A problem's expected.json: ours, so a mistake in it is to be mended, not survived."""
    try:
        expected = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be used ({error}): restore it from the repository.") from None
    unknown = [item["check"] for item in expected["items"] if item["check"] not in CHECKS]
    if unknown:
        raise UserError(f"{path} asks for a check called {unknown[0]!r}; there is {', '.join(CHECKS)}.")
    return expected
