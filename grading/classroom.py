"""Grade a folder of submissions: the report of each, and a table with a line for each."""

import csv
import io
from pathlib import Path

from grading.report import LEADERBOARD, Report, grade
from lab.files import UserError, shown


def grade_class(folder: Path, problems: list[dict], required: bool) -> dict[str, Report | str]:
    """The report of each submission, or why there is none: one that cannot be graded does not stop the others."""
    reports = {}
    for path in sorted(path for path in Path(folder).iterdir() if path.is_dir() and not path.name.startswith(".")):
        name = shown(path.name, 2000)  # whole: no two submissions have the same
        try:
            reports[name] = grade(path, problems, required)
            if not reports[name].items:
                reports[name] = reports[name].verdict()
        except UserError as reason:
            reports[name] = str(reason)
        except Exception as error:  # a mistake of the grader itself
            reports[name] = f"This is more than the grader understands ({type(error).__name__}): please look yourself."
    if not reports:
        raise UserError(f"{str(folder)!r} holds no folders: name the one that holds a folder for each submission.")
    return reports


def as_csv(reports: dict[str, Report | str], problems: list[dict]) -> str:
    names, text = [one["problem"] for one in problems], io.StringIO()
    columns = ["submission", "score", "maximum", *names, *LEADERBOARD.values(), "known_issues", "error"]
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    for submission, report in reports.items():
        row = {"submission": submission}
        if isinstance(report, Report):
            row |= {"score": report.score, "maximum": report.maximum}
            row |= {name: round(sum(item.score for item in report.of(name)), 2) for name in names}
            row |= {LEADERBOARD[item.id]: item.value for item in report.items if item.id in LEADERBOARD}
            row["known_issues"] = " ".join(dict.fromkeys(issue.name for issue in report.issues))
        else:
            row["error"] = report
        table.writerow(row)
    return text.getvalue()
