"""Grade a folder of results: is everything there, are the numbers as expected, and which known issues do they show?

    python -m grading                            # this repository's own results
    python -m grading FOLDER                     # anybody's; nothing in it is ever run
    python -m grading FOLDER --json -            # JSON on the screen, in place of the table
    python -m grading FOLDER --json FILE         # JSON in a file, and the table on the screen
    python -m grading FOLDER --gradescope FILE   # the results.json of a Gradescope autograder

What is expected, with points and reasons, stands in each problem's expected.json. FOLDER holds problem1/results and
problem2/results, or one of them, or is such a folder itself. Exit code 0: everything is there and sound; 1: something
falls short; 2: wrong use.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from grading.report import grade, load_expected
from lab.files import UserError, write_json
from lab.settings import run

ROOT = Path(__file__).resolve().parents[1]


def main(argv: list[str] | None = None) -> int:
    expected = [load_expected(path) for path in sorted(ROOT.glob("problem*/expected.json"))]
    problems = {one["problem"] for one in expected}
    parser = argparse.ArgumentParser(
        prog="python -m grading", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="default: this repository")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - writes it in place of the table")
    parser.add_argument("--gradescope", metavar="FILE", help="write the results.json that Gradescope reads")
    parser.add_argument(
        "--problem", choices=sorted(problems), help="grade only this one; if it is not there, all of it is missing"
    )
    settings = parser.parse_args(argv)
    folder = ROOT if settings.folder is None else settings.folder
    if not os.path.isdir(folder):
        raise UserError(f"{str(folder)!r} is not a folder: name the one that holds the results.")
    report = grade(folder, expected, problems if settings.folder is None else {settings.problem}, settings.problem)
    for file, content in ((settings.json, report.plain()), (settings.gradescope, report.gradescope())):
        if file not in (None, "-"):
            try:
                write_json(Path(file), content)
            except UserError:
                raise UserError(f"{file!r} cannot be written: name another file.") from None
    sys.stdout.reconfigure(errors="backslashreplace")
    print(json.dumps(report.plain(), indent=2) if settings.json == "-" else report.table(), flush=True)
    return 0 if report.passed else 1


if __name__ == "__main__":
    run(lambda: sys.exit(main()))
