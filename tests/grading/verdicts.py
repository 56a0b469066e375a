"""What every verdict must be, whatever stands in the folder."""

import json
from pathlib import Path

from grading.child import grade_apart
from grading.report import BEYOND
from tests.grading.submissions import EXPECTED


def survives(submission: Path, how=grade_apart):
    """A verdict without a mistake of the grader itself, which can be printed and is strict JSON."""
    report = how(submission, EXPECTED, required=True)
    assert not report.error, report.error
    text = report.table()
    text.encode()
    assert BEYOND not in " ".join(text.split()), text
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    json.dumps([report.plain(), report.gradescope()], allow_nan=False).encode("ascii")
    assert all(0 <= item.score <= item.maximum for item in report.items)
    return report


def problem_with(report, item: str) -> str:
    (found,) = [one for one in report.items if one.id == f"problem1/{item}"]
    assert found.score == 0, found
    return found.message
