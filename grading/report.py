"""Grade one folder, and write the result as a table for people or as JSON for machines."""

import csv
import io
import shutil
import textwrap
from dataclasses import asdict, dataclass, field
from pathlib import Path
from posixpath import join

from grading import checks
from grading.ablations import check_ablation
from grading.folder import Folder, Unreadable
from grading.submission import HINTS, Issue, Outcome, Submission, locate
from grading.training import check_accuracy, check_checkpoint, check_log
from lab.files import UserError, read_json, shown

CHECKS = {
    "log": check_log,
    "accuracy": check_accuracy,
    "checkpoint": check_checkpoint,
    "ablation": check_ablation,
    "figures": checks.check_figures,
    "any files": checks.check_any_file,
    "content": checks.check_content,
    "table": checks.check_table,
    "row": checks.check_row,
}
BEYOND = "is more than this grader understands: please look at it yourself"


@dataclass
class Score:
    id: str  # "problem1/checkpoint"
    score: float
    maximum: float
    message: str
    value: float | None = None  # the accuracy that was measured, if the item is one of the leaderboard
    figure: str | None = None  # a sound figure, as a path in the folder


@dataclass
class Report:
    files: Folder | None
    error: str = ""  # why a submission of a class has no grade
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

    def of(self, problem: str) -> list[Score]:
        return [item for item in self.items if item.id.startswith(f"{problem}/")]

    def plain(self) -> dict:
        if self.error:
            return {"error": self.error}
        plain = {"passed": self.passed, "score": self.score, "maximum": self.maximum, "folder": shown(self.files.root)}
        plain |= {"items": [asdict(item) for item in self.items], "issues": [asdict(issue) for issue in self.issues]}
        return plain | {"remarks": self.remarks, "results": self.results, "titles": self.titles}

    def gradescope(self) -> dict:
        """Gradescope's results.json: a test for each item with its known issues, and two rows of a leaderboard."""
        tests = []
        for item in self.items:
            notes = [_markdown(issue) for issue in self.issues if issue.item == item.id]
            test = {"name": item.id, "score": item.score, "max_score": item.maximum}
            test |= {"status": "passed" if item.score >= item.maximum else "failed", "visibility": "visible"}
            test |= {"output": "\n\n".join([item.message, *notes]), "output_format": "md"}
            tests.append(test | {"tags": [item.id.split("/")[0], *(i.name for i in self.issues if i.item == item.id)]})
        whole = [_markdown(issue) for issue in self.issues if "/" not in issue.item]
        rows = [{"name": LEADERBOARD[i.id], "value": round(i.value, 4)} for i in self.items if i.value is not None]
        output = "\n\n".join([self.verdict(), *whole, *self.remarks])
        result = {"score": self.score, "visibility": "visible", "stdout_visibility": "hidden", "output_format": "md"}
        return result | {"output": output, "tests": tests, "leaderboard": rows}

    def verdict(self) -> str:
        if not self.items:
            return "Nothing to grade: neither problem's results are here."
        return f"Total {self.score:g} of {self.maximum:g}: {'all sound' if self.passed else 'something falls short'}."

    def table(self) -> str:
        """Every item with its points, then the known issues, then remarks that cost no points."""
        width = max(80, min(140, shutil.get_terminal_size((110, 24)).columns))
        lines = [shown(self.files.root)]
        for problem, place in self.results.items():
            items = self.of(problem)
            if not items:
                continue
            lines += ["", f"{problem}: {self.titles[problem]} ({place or 'no results found'})"]
            for item in items:
                mark = "ok   " if item.score >= item.maximum else "SHORT"
                start = f"  {mark} {item.score:4.1f} / {item.maximum:<2g}  {item.id.split('/', 1)[1]:<22}"
                lines += _wrapped(start, item.message, width)
            lines.append(f"        {sum(i.score for i in items):4.1f} / {sum(i.maximum for i in items):g}")
        lines += ["", "Known issues"] if self.issues else []
        for issue in self.issues:
            lines += ["", f"  {issue.name} ({issue.file})"]
            lines += _wrapped("    Evidence: ", f"{issue.evidence}.", width) + _wrapped("    Hint: ", issue.hint, width)
        lines += ["", "Remarks (they cost no points)"] if self.remarks else []
        for remark in self.remarks:
            lines += _wrapped("  - ", remark, width)
        return "\n".join([*lines, "", self.verdict()])


LEADERBOARD = {  # item -> what its accuracy is called
    "problem1/test-accuracy": "exact match",
    "problem2/extrapolation": "extrapolation",  # the best encoding's mean accuracy over the longer lengths
}


def _markdown(issue: Issue) -> str:
    return f"**{issue.name}** ({issue.file}): {issue.evidence}.\n\nHint: {issue.hint}"


def _wrapped(start: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(start + text, width, subsequent_indent=" " * len(start), break_on_hyphens=False)


def load_expected(path: Path) -> dict:
    return read_json(path, "restore it from the repository.")


def grade(root: Path, problems: list[dict], required: bool = False) -> Report:
    """Compare what stands in the folder `root` with each problem's expected.json.

    A problem without any results is left out, unless all are `required`.
    """
    files = Folder(root)
    report = Report(files, titles={expected["problem"]: expected["title"] for expected in problems})
    if not files.complete:
        report.remarks.append("The folder holds more files than this grader lists: name the folder of the results.")
    for expected in problems:
        problem, place = expected["problem"], locate(files, expected)
        report.results[problem] = None if place is None else shown(place or ".")
        if place is None and not required:
            report.remarks.append(f"{problem}: no results here, so it is not graded (--problem {problem} insists)")
        else:
            _grade_problem(Submission(expected, files, f"{problem}/results" if place is None else place), report)
    not_strict = "is not strict JSON (comments or trailing commas); it was read all the same"
    report.remarks += [f"{shown(path)} {not_strict}" for path in dict.fromkeys(files.not_strict)]
    return report


def grade_class(folder: Path, problems: list[dict], required: bool) -> dict[str, Report]:
    """The report of each submission; one that cannot be graded does not stop the others."""
    reports = {}
    for path in sorted(path for path in Path(folder).iterdir() if path.is_dir() and not path.name.startswith(".")):
        try:
            report = grade(path, problems, required)
            report.error = "" if report.items else report.verdict()
        except UserError as reason:
            report = Report(None, str(reason))
        except Exception as error:  # a mistake of the grader itself
            report = Report(None, f"This {BEYOND} ({type(error).__name__})")
        reports[shown(path.name, 2000)] = report  # the whole name: no two submissions have the same
    if not reports:
        raise UserError(f"{str(folder)!r} holds no folders: name the one that holds a folder for each submission.")
    return reports


def as_csv(reports: dict[str, Report], problems: list[dict]) -> str:
    """A line for each submission of a class."""
    text, names = io.StringIO(), [one["problem"] for one in problems]
    columns = ["submission", "score", "maximum", *names, *LEADERBOARD.values(), "known_issues", "error"]
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    for submission, report in reports.items():
        row = {"submission": submission, "error": report.error}
        if not report.error:
            row |= {"score": report.score, "maximum": report.maximum}
            row |= {name: round(sum(item.score for item in report.of(name)), 2) for name in names}
            row |= {LEADERBOARD[item.id]: item.value for item in report.items if item.id in LEADERBOARD}
            row["known_issues"] = " ".join(dict.fromkeys(issue.name for issue in report.issues))
        table.writerow(row)
    return text.getvalue()


def _grade_problem(submission: Submission, report: Report) -> None:
    problem, missing = submission.expected["problem"], []
    for item in submission.expected["items"]:
        name, file = f"{problem}/{item['id']}", item["file"]
        try:
            outcome = CHECKS[item["check"]](item, submission)
        except Unreadable as reason:
            outcome = Outcome(0.0, f"{file} {reason}")
            missing += [file] * (str(reason) == "is missing")
        except Exception as error:  # a mistake of the grader itself must not cost the other items
            outcome = Outcome(0.0, f"{file} {BEYOND} ({type(error).__name__})")
        share = max(0.0, outcome.share - sum(issue.cost for issue in outcome.issues))
        costly = ", ".join(dict.fromkeys(issue.name for issue in outcome.issues if issue.cost))
        message = outcome.message + (f"; see {costly}" if costly else "")
        value = outcome.value if name in LEADERBOARD else None
        points = round(share * item["points"], 2)
        report.items.append(Score(name, points, item["points"], message, value, outcome.figure))
        report.remarks += [f"{problem}: {remark}" for remark in outcome.remarks]
        for issue in outcome.issues:
            file = issue.file or item["file"]
            issue.item, issue.hint = name, issue.hint or HINTS[issue.name]
            issue.file = shown(file if file in submission.files.files else join(submission.place, file))
        report.issues += outcome.issues
    report.remarks += [f"{problem}: {name} was found as {shown(path)}" for name, path in submission.moved.items()]
    if missing:
        missing, file = [*dict.fromkeys(missing)], shown(submission.place or ".")
        evidence, name = f"{len(missing)} missing: {', '.join(missing)}", "missing-deliverables"
        report.issues.append(Issue(name, evidence, hint=HINTS[name], file=file, item=problem))
