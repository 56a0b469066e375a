"""Grade a folder of results: is everything there, are the numbers as expected, and which known issues do they show?

    python -m grading FOLDER                     # anybody's results; nothing in the folder is run
    python -m grading FOLDER --code              # its code, too: this runs it, by the checks of starter/check.py
    python -m grading --all FOLDER --csv FILE    # a class: one submission in each folder of FOLDER

What is expected, with points and reasons, stands in each problem's expected.json. FOLDER holds problem1/results and
problem2/results, or one of them, or is such a folder itself. Exit code 0: everything is there and sound; 1: something
falls short; 2: wrong use.
"""

import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036  (that is what it tells)
    print("error: this needs Python 3.10 or newer: type `make .venv/ready && . .venv/bin/activate`.", file=sys.stderr)
    sys.exit(2)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[0] = ROOT  # in place of the current folder, from which a submission's own torch.py could be imported

import argparse
import contextlib
import importlib.util
import json
from pathlib import Path

from lab.files import UserError, read_json, write_json, write_text
from lab.settings import Parser, run

ROOT = Path(ROOT)
PACKAGES = {"torch": "torch", "numpy": "numpy", "PIL": "pillow"}  # module -> what pip calls it


def main(argv: list[str] | None = None) -> int:
    files = sorted(ROOT.glob("problem*/expected.json"))
    expected = [read_json(path, "restore it from the repository.") for path in files]
    settings = parsed(argv, [one["problem"] for one in expected])
    folder = settings.folder or ROOT
    if not os.path.isdir(folder):
        raise UserError(f"{str(folder)!r} is not a folder: name the one that holds the results.")
    missing = [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(
            f"this Python has no {', '.join(missing)}: type `make .venv/ready && . .venv/bin/activate` in {ROOT}, or "
            f"`{sys.executable} -m pip install {' '.join(missing)}`."
        )
    problems = [one for one in expected if settings.problem in (None, one["problem"])]
    sys.stdout.reconfigure(errors="backslashreplace")
    # In full: this repository, a problem that was named, and an assignment on Gradescope, which has fixed points.
    required = settings.folder is None or settings.problem is not None or settings.gradescope is not None
    return (grade_all if settings.all else grade_one)(settings, folder, problems, required)


def parsed(argv: list[str] | None, names: list[str]) -> argparse.Namespace:
    parser = Parser(prog="python -m grading", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="default: this repository")
    parser.add_argument("--all", action="store_true", help="FOLDER holds one folder for each submission of a class")
    parser.add_argument("--code", action="store_true", help="run the checks of starter/check.py on the code, too")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - writes it in place of the table")
    parser.add_argument("--html", metavar="FILE", help="write a page of feedback, or with --all of the class")
    parser.add_argument("--csv", metavar="FILE", help="with --all: write a line for each submission, as it is graded")
    parser.add_argument("--gradescope", metavar="FILE", help="write the results.json that Gradescope reads")
    parser.add_argument(
        "--problem", choices=names, help="grade only this one; if it is not there, all of it is missing"
    )
    settings = parser.parse_args(argv)
    if settings.all and (settings.folder is None or settings.gradescope):
        parser.error("--all needs a FOLDER and writes --csv, --html or --json")
    if settings.csv and not settings.all:
        parser.error("--csv is for a class: add --all")
    return settings


def grade_one(settings: argparse.Namespace, folder: Path, problems: list[dict], required: bool) -> int:
    from grading.child import grade_apart
    from grading.pages import feedback

    pictures = settings.html is not None
    try:
        report = grade_apart(folder, problems, required, pictures)
        if settings.code:
            from grading.code import add_code

            add_code(report, folder, problems)
    except UserError as reason:
        write(settings.gradescope, write_json, {"score": 0, "output": str(reason), "visibility": "visible"})
        raise
    write(settings.gradescope, write_json, report.gradescope())
    if settings.html:
        write(settings.html, write_text, feedback(report, grade_apart(ROOT, problems, True, pictures)))
    finish(settings.json, report.plain(), report.table() + "\n")
    return 0 if report.passed else 1


def grade_all(settings: argparse.Namespace, folder: Path, problems: list[dict], required: bool) -> int:
    """Each line is written when its submission is graded, so that whatever stops the rest leaves these."""
    from grading.classroom import Table, grade_one_of_a_class, submissions
    from grading.pages import overview

    folders = submissions(folder)
    reports = {}
    with contextlib.ExitStack() as stack:
        files = []
        if settings.csv:
            try:
                files.append(stack.enter_context(open(settings.csv, "w", encoding="utf-8", newline="")))
            except OSError:
                raise unwritable(settings.csv) from None
        if settings.json != "-":
            files.append(sys.stdout)
        table = Table(problems, settings.code, *files)
        for name, path in folders.items():
            reports[name] = grade_one_of_a_class(path, problems, required, settings.code)
            table.add(name, reports[name])
    if settings.html:
        write(settings.html, write_text, overview(reports))
    finish(settings.json, {name: report.plain() for name, report in reports.items()}, "")
    return 0 if all(report.passed for report in reports.values()) else 1


def finish(file: str | None, plain: dict, table: str) -> None:
    """Print the table, and write the JSON, or print it in the table's place."""
    write(None if file == "-" else file, write_json, plain)
    print(json.dumps(plain, indent=2) + "\n" if file == "-" else table, end="", flush=True)


def write(file: str | None, writer, content) -> None:
    """Write the content, if a file was named."""
    if file is not None:
        try:
            writer(Path(file), content)
        except UserError:
            raise unwritable(file) from None


def unwritable(file: str) -> UserError:
    return UserError(f"{file!r} cannot be written: name another file.")


if __name__ == "__main__":
    run(lambda: sys.exit(main()))
