"""A class: each submission graded by itself, and a table with a line for each."""

import csv
from pathlib import Path

from grading.child import grade_apart
from grading.report import LEADERBOARD, Report
from lab.files import UserError, shown


def submissions(folder: Path) -> dict[str, Path]:
    """The folders of a class by name. No two have the same: a backslash is doubled, before others stand for letters
    that cannot be printed."""
    paths = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not paths:
        raise UserError(f"{str(folder)!r} holds no folders: name the one that holds a folder for each submission.")
    return {shown(path.name.replace("\\", "\\\\"), 2000): path for path in paths}


def grade_one_of_a_class(path: Path, problems: list[dict], required: bool) -> Report:
    """Its report, or one of why there is no grade: what is wrong with one submission does not stop the others."""
    if path.is_symlink():
        return Report(shown(path), error="is a link, which is not followed")
    try:
        report = grade_apart(path, problems, required)
    except UserError as reason:
        return Report(shown(path), error=f"could not be read, because {reason}".rstrip("."))
    if not report.items and not report.error:
        report.error = report.verdict()
    return report


class Table:
    """grades.csv: a line for each submission, written as soon as it is known."""

    def __init__(self, problems: list[dict], *files):
        self.problems, self.files = [one["problem"] for one in problems], files
        self.columns = ["submission", "score", "maximum", *self.problems, *LEADERBOARD.values()]
        self.columns += ["known_issues", "not_graded", "error"]
        self._write({column: column for column in self.columns})

    def add(self, name: str, report: Report) -> None:
        row = {"submission": name, "error": report.error, "not_graded": " ".join(report.not_graded)}
        if not report.error:
            row |= {"score": report.score, "maximum": report.maximum}
            for problem in self.problems:
                items = report.of(problem)
                row[problem] = round(sum(item.score for item in items), 2) if items else None
            row |= {LEADERBOARD[item.id]: item.value for item in report.items if item.id in LEADERBOARD}
            row["known_issues"] = " ".join(dict.fromkeys(issue.name for issue in report.issues))
        self._write({column: _plain_cell(cell) for column, cell in row.items()})

    def _write(self, row: dict) -> None:
        for file in self.files:
            csv.DictWriter(file, self.columns, lineterminator="\n").writerow(row)
            file.flush()


def _plain_cell(cell):
    """A text that a spreadsheet does not take for a formula; "'" is doubled, so that different ones stay different."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "'")) else cell
