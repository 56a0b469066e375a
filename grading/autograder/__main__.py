"""Write autograder.zip, which Gradescope takes as an autograder.

python -m grading.autograder                      # both problems: an assignment with 100 points
PROBLEM=problem1 python -m grading.autograder     # one of them: 50 points
CODE=1 python -m grading.autograder               # run the checks of starter/check.py on uploaded code, too
"""

import argparse
import io
import os
import zipfile
from pathlib import Path

from lab.files import UserError, read_json, write_bytes
from lab.settings import Parser, run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def main() -> None:
    paths = sorted(ROOT.glob("problem*/expected.json"))
    expected = {path.parent.name: read_json(path, "restore it from the repository.") for path in paths}
    parser = Parser(
        prog="python -m grading.autograder",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", type=Path, default=Path("autograder.zip"), metavar="FILE")
    target = parser.parse_args().file
    problem = os.environ.get("PROBLEM", "")
    if problem not in ("", *expected):
        raise UserError(f"PROBLEM is {problem!r}: set it to {' or '.join(expected)}, or to nothing for both.")
    chosen = [expected[problem]] if problem else expected.values()
    code = os.environ.get("CODE", "")
    if code not in ("", "1"):
        raise UserError(f"CODE is {code!r}: set it to 1 to check uploaded code, too, or to nothing.")
    points = sum(item["points"] for one in chosen for item in one["items"])
    if code:
        points += sum(sum(one["code"].values()) for one in chosen)
    files = [*ROOT.glob("grading/*.*"), *ROOT.glob("lab/*.py"), ROOT / "starter/check.py", *paths]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("setup.sh", "run_autograder", "requirements.txt"):
            archive.write(HERE / name, name)
        # What Gradescope's own environment says goes first.
        variables = f'export PROBLEM="${{PROBLEM-{problem}}}"\nexport CODE="${{CODE-{code}}}"\n'
        archive.writestr("environment.sh", variables)
        for path in sorted(files):
            archive.write(path, path.relative_to(ROOT))
    try:
        write_bytes(target, content.getvalue())
    except UserError:
        raise UserError(f"{str(target)!r} cannot be written: name another file.") from None
    print(f"{target}: upload it to Gradescope as the autograder of an assignment with {points} points.")


if __name__ == "__main__":
    run(main)
