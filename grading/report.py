"""Grade one folder, and write the result as a table for people or as JSON for machines."""

import json
import shutil
import textwrap
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from grading.checks import CHECKS, Outcome
from grading.folder import Folder, Unreadable, join
from grading.known_issues import HINTS, KNOWN_ISSUES, Issue
from grading.submission import Submission, locate
from lab.files import UserError, shown

BEYOND = "is more than this grader understands: please look at it yourself"


@dataclass
class Score:
    id: str  # "problem1/checkpoint"
    score: float
    maximum: float
    message: str


@dataclass
class Report:
    folder: str
    items: list[Score] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    results: dict[str, str | None] = field(default_factory=dict)  # problem -> where its results stand
    titles: dict[str, str] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return round(sum(item.score for item in self.items), 2)

    @property
    def maximum(self) -> float:
        return round(sum(item.maximum for item in self.items), 2)

    @property
    def passed(self) -> bool:
        return bool(self.items) and self.score >= self.maximum and not self.issues

    def plain(self) -> dict:
        return {"passed": self.passed, "score": self.score, "maximum": self.maximum, **asdict(self)}

    def gradescope(self) -> dict:
        """Gradescope's results.json: one test for each item, with the known issues that touch it."""
        tests = []
        for item in self.items:
            notes = [_sentences(issue) for issue in self.issues if issue.item == item.id]
            test = {"name": item.id, "score": item.score, "max_score": item.maximum, "visibility": "visible"}
            tests.append(test | {"output": "\n\n".join([item.message, *notes])})
        whole = [_sentences(issue) for issue in self.issues if "/" not in issue.item]
        return {"score": self.score, "output": "\n\n".join([self.verdict(), *whole, *self.remarks]), "tests": tests}

    def verdict(self) -> str:
        if not self.items:
            return "Nothing to grade: neither problem's results are here."
        return f"Total {self.score:g} of {self.maximum:g}: {'all sound' if self.passed else 'something falls short'}."

    def table(self) -> str:
        """Every item with its points, then the known issues, then remarks that cost no points."""
        width = max(80, min(140, shutil.get_terminal_size((110, 24)).columns))
        lines = [self.folder]
        for problem, place in self.results.items():
            items = [item for item in self.items if item.id.startswith(f"{problem}/")]
            lines += ["", f"{problem}: {self.titles[problem]} ({place or 'no results found'})"] if items else []
            for item in items:
                mark = "ok   " if item.score >= item.maximum else "SHORT"
                start = f"  {mark} {item.score:4.1f} / {item.maximum:<2g}  {item.id.split('/', 1)[1]:<22}"
                lines += _wrapped(start, item.message, width)
            if items:
                lines.append(f"        {sum(i.score for i in items):4.1f} / {sum(i.maximum for i in items):g}")
        if self.issues:
            lines += ["", "Known issues"]
        for issue in self.issues:
            lines += ["", f"  {issue.name} ({issue.file})"]
            lines += _wrapped("    Evidence: ", f"{issue.evidence}.", width) + _wrapped("    Hint: ", issue.hint, width)
        if self.remarks:
            lines += ["", "Remarks (they cost no points)"]
        for remark in self.remarks:
            lines += _wrapped("  - ", remark, width)
        return "\n".join([*lines, "", self.verdict()])


def _sentences(issue: Issue) -> str:
    return f"Known issue: {issue.name} ({issue.file}). {issue.evidence}. Hint: {issue.hint}"


def _wrapped(start: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(start + text, width, subsequent_indent=" " * len(start), break_on_hyphens=False)


def load_expected(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be used ({error}): restore it from the repository.") from None


def grade(root: Path, problems: list[dict], required: set[str], only: str | None = None) -> Report:
    """Compare what stands in the folder `root` with each problem's expected.json, or with that of `only` one.

    A problem without any results is left out, unless it is `required`.
    """
    files = Folder(root)
    report = Report(shown(files.root), titles={expected["problem"]: expected["title"] for expected in problems})
    if not files.complete:
        report.remarks.append("The folder holds more files than this grader lists: name the folder of the results.")
    for expected in problems:
        problem = expected["problem"]
        if only not in (None, problem):
            continue
        place = locate(files, expected, [other["problem"] for other in problems if other is not expected])
        report.results[problem] = None if place is None else shown(place or ".")
        if place is None and problem not in required:
            report.remarks.append(f"{problem}: no results here, so it is not graded (--problem {problem} insists)")
        else:
            _grade_problem(Submission(expected, files, f"{problem}/results" if place is None else place), report)
    for path in dict.fromkeys(files.not_strict):
        report.remarks.append(
            f"{shown(path)} is not strict JSON (comments or trailing commas); it was read all the same"
        )
    return report


def _grade_problem(submission: Submission, report: Report) -> None:
    problem, missing = submission.expected["problem"], {}
    for item in submission.expected["items"]:
        outcome, issues = _grade_item(item, submission)
        if outcome.missing:
            missing[outcome.missing] = True
        share = max(0.0, outcome.share - sum(issue.cost for issue in issues))
        costly = ", ".join(dict.fromkeys(issue.name for issue in issues if issue.cost))
        message = outcome.message + (f"; see {costly}" if costly else "")
        report.items.append(Score(f"{problem}/{item['id']}", round(share * item["points"], 2), item["points"], message))
        report.remarks += [f"{problem}: {remark}" for remark in outcome.remarks]
        for issue in issues:
            file = issue.file or item["file"]
            file = file if file in submission.files.files else join(submission.place, file)
            hint = issue.hint or HINTS[issue.name]
            report.issues.append(replace(issue, item=f"{problem}/{item['id']}", file=shown(file), hint=hint))
    report.remarks += [f"{problem}: {name} was found as {shown(path)}" for name, path in submission.moved.items()]
    if missing:
        evidence, place = f"{len(missing)} missing: {', '.join(missing)}", shown(submission.place or ".")
        hint = HINTS["missing-deliverables"]
        report.issues.append(Issue("missing-deliverables", evidence, hint=hint, file=place, item=problem))


def _grade_item(item: dict, submission: Submission) -> tuple[Outcome, list[Issue]]:
    """One item's check and its known issues. A mistake of the grader itself must not cost the other items."""
    file, issues = item.get("file") or ", ".join(item["files"]), []
    try:
        outcome = CHECKS[item["check"]](item, submission)
        if item["check"] in KNOWN_ISSUES:
            issues = list(KNOWN_ISSUES[item["check"]](item, submission))
    except Unreadable as reason:
        return Outcome(0.0, f"{file} {reason}", missing=file if str(reason) == "is missing" else None), []
    except Exception as error:
        return Outcome(0.0, f"{file} {BEYOND} ({type(error).__name__})"), []
    return outcome, issues
