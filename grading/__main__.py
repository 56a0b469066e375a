"""Grade a folder of results: is everything there, are the numbers as expected, and which known issues do they show?

    python -m grading FOLDER                     # anybody's results; nothing in the folder is ever run
    python -m grading --all FOLDER --csv FILE    # a class: one submission in each folder of FOLDER

What is expected, with points and reasons, stands in each problem's expected.json. FOLDER holds problem1/results and
problem2/results, or one of them, or is such a folder itself. Exit code 0: everything is there and sound; 1: something
falls short; 2: wrong use.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from grading.pages import feedback, overview
from grading.report import as_csv, grade, grade_class, load_expected
from lab.files import UserError, write_json, write_text
from lab.settings import Parser, run

ROOT = Path(__file__).resolve().parents[1]


def main(argv: list[str] | None = None) -> int:
    expected = [load_expected(path) for path in sorted(ROOT.glob("problem*/expected.json"))]
    parser = Parser(prog="python -m grading", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="default: this repository")
    parser.add_argument("--all", action="store_true", help="FOLDER holds one folder for each submission of a class")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - writes it in place of the table")
    parser.add_argument("--html", metavar="FILE", help="write a page of feedback, or with --all of the class")
    parser.add_argument("--csv", metavar="FILE", help="with --all: write a line for each submission")
    parser.add_argument("--gradescope", metavar="FILE", help="write the results.json that Gradescope reads")
    names = [one["problem"] for one in expected]
    parser.add_argument(
        "--problem", choices=names, help="grade only this one; if it is not there, all of it is missing"
    )
    settings = parser.parse_args(argv)
    if settings.all and (settings.folder is None or settings.gradescope):
        parser.error("--all needs a FOLDER and writes --csv, --html or --json")
    if settings.csv and not settings.all:
        parser.error("--csv is for a class: add --all")
    folder = settings.folder or ROOT
    if not os.path.isdir(folder):
        raise UserError(f"{str(folder)!r} is not a folder: name the one that holds the results.")
    problems = [one for one in expected if settings.problem in (None, one["problem"])]
    required = settings.folder is None or settings.problem is not None
    if settings.all:
        reports = grade_class(folder, problems, required)
        plain = {name: report.plain() for name, report in reports.items()}
        passed, table = all(report.passed for report in reports.values()), as_csv(reports, problems)
        page = overview(reports) if settings.html else ""
        write(settings.csv, write_text, table)
    else:
        try:
            report = grade(folder, problems, required)
        except UserError as reason:
            write(settings.gradescope, write_json, {"score": 0, "output": str(reason), "visibility": "visible"})
            raise
        plain, passed, table = report.plain(), report.passed, report.table() + "\n"
        write(settings.gradescope, write_json, report.gradescope())
        page = feedback(report, grade(ROOT, problems, required=True)) if settings.html else ""
    write(settings.html, write_text, page)
    write(None if settings.json == "-" else settings.json, write_json, plain)
    sys.stdout.reconfigure(errors="backslashreplace")
    print(json.dumps(plain, indent=2) + "\n" if settings.json == "-" else table, end="", flush=True)
    return 0 if passed else 1


def write(file: str | None, writer, content) -> None:
    """Write the content, if a file was named."""
    if file is not None:
        try:
            writer(Path(file), content)
        except UserError:
            raise UserError(f"{file!r} cannot be written: name another file.") from None


if __name__ == "__main__":
    run(lambda: sys.exit(main()))
