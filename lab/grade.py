"""Grade a folder of results: what should be there, what the numbers should be, and known diseases by name.

    python -m lab.grade                         # this repository's own results
    python -m lab.grade SUBMISSION              # anybody's, in the same layout; nothing in it is ever run
    python -m lab.grade SUBMISSION --json -     # for a grading platform, on the screen
    python -m lab.grade SUBMISSION --json FILE  # the table on the screen, the JSON in a file
    python PATH/TO/lab/grade.py SUBMISSION      # the same from anywhere

What is expected, with points and reasons, stands in each problem's expected.json. SUBMISSION holds
problem1/results and problem2/results, or one of them, or is such a folder itself. Exit code 0: all is there and
sound; 1: something falls short; 2: wrong use.
"""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.files import UserError, write_json
from lab.grading.report import as_table, grade, load_expected
from lab.settings import run

ROOT = Path(__file__).resolve().parents[1]


def parse(problems: list[str], argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.grade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="SUBMISSION", help="default: this repository")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - writes it in place of the table")
    parser.add_argument(
        "--problem", choices=problems, help="grade only this one; if it is not there, all of it is missing"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """0 or 1; what the user has to mend ends in a UserError."""
    expected = [load_expected(path) for path in sorted(ROOT.glob("*/expected.json"))]
    settings = parse([one["problem"] for one in expected], argv)
    folder = ROOT if settings.folder is None else settings.folder
    if not os.path.isdir(folder):
        raise UserError(f"{str(folder)!r} is not a folder: name the one that holds the results.")
    required = {one["problem"] for one in expected} if settings.folder is None else {settings.problem}
    report = grade(folder, expected, required, only=settings.problem)
    text = json.dumps(report.plain(), indent=2) if settings.json == "-" else as_table(report)
    if settings.json not in (None, "-"):
        try:
            write_json(Path(settings.json), report.plain())
        except UserError:
            raise UserError(f"{settings.json!r} cannot be written: name another file after --json.") from None
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text, flush=True)
    except BrokenPipeError:  # "| head": nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0 if report.passed else 1


if __name__ == "__main__":
    run(lambda: sys.exit(main()))
