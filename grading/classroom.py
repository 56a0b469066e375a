"""A class: each submission graded by itself, and a table with a line for each."""

import csv
from pathlib import Path

from grading.child import grade_apart
from grading.code import add_code
from grading.report import LEADERBOARD, Report
from lab.files import UserError, shown


def submissions(folder: Path) -> dict[str, Path]:
    """The folders of a class by name. No two have the same: a backslash is doubled, before others stand for letters
    that cannot be printed."""
    paths = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not paths:
        raise UserError(f"{str(folder)!r} holds no folders: name the one that holds a folder for each submission.")
    return {shown(path.name.replace("\\", "\\\\"), 2000): path for path in paths}


def grade_one_of_a_class(path: Path, problems: list[dict], required: bool, code: bool) -> Report:
    """Its report, or one of why there is no grade: what is wrong with one submission does not stop the others."""
    if path.is_symlink():
        return Report(shown(path), error="is a link, which is not followed")
    try:
        report = grade_apart(path, problems, required)
    except UserError as reason:
        return Report(shown(path), error=f"could not be read, because {reason}".rstrip("."))
    if code:
        add_code(report, path, problems)
    if not report.items and not report.code and not report.error:
        report.error = report.verdict()
    return report


class Table:
    """grades.csv: a line for each submission, written as soon as it is known."""

    def __init__(self, problems: list[dict], code: bool, *files):
        self.problems = [one["problem"] for one in problems]
        self.files = files
        self.columns = ["submission", "score", "maximum", *self.problems, *LEADERBOARD.values()]
        self.columns += ["known_issues", *(["code_ok", "code_wrong"] if code else []), "not_graded", "error"]
        self._write({column: column for column in self.columns})

    def add(self, name: str, report: Report) -> None:
        row = {"submission": name, "error": report.error, "not_graded": " ".join(report.not_graded)}
        if not report.error:
            row |= {"score": report.score, "maximum": report.maximum}
            for problem in self.problems:
                scored = [*report.of(problem), *report.code_of(problem)]
                row[problem] = round(sum(one.score for one in scored), 2) if scored else None
            row |= {LEADERBOARD[item.id]: item.value for item in report.items if item.id in LEADERBOARD}
            if report.code is not None:
                row["code_ok"] = sum(part.ok for part in report.code)
                row["code_wrong"] = " ".join(check.name for check in report.checks if check.verdict == "WRONG")
            row["known_issues"] = " ".join(dict.fromkeys(issue.name for issue in report.issues))
        self._write({column: _plain_cell(cell) for column, cell in row.items()})

    def _write(self, row: dict) -> None:
        for file in self.files:
            csv.DictWriter(file, self.columns, lineterminator="\n").writerow(row)
            file.flush()


def _plain_cell(cell):
    """A text that a spreadsheet does not take for a formula; "'" is doubled, so that different ones stay different."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "'")) else cell
