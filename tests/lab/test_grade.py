"""The grader's self-test: a healthy submission in every layout, and each known disease, no more and no less."""

import json
from pathlib import Path

import pytest

from lab.grading.report import as_table, grade, load_expected
from tests.lab.submissions import DISEASES, LAYOUTS, healthy

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = [load_expected(ROOT / problem / "expected.json") for problem in ("problem1", "problem2")]


def graded(folder: Path, required=("problem1", "problem2")):
    report = grade(folder, EXPECTED, set(required))
    json.loads(json.dumps(report.plain(), allow_nan=False))
    assert as_table(report).isprintable() or "\n" in as_table(report)
    return report


def test_a_healthy_submission_gets_full_marks_and_no_claim(tmp_path):
    report = graded(healthy(tmp_path))
    assert report.findings == [], report.findings
    assert [item for item in report.items if item.score < item.maximum] == []
    assert report.passed and report.score == report.maximum == 100


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_healthy_in_an_odd_layout(layout, tmp_path):
    layout(healthy(tmp_path))
    report = graded(tmp_path)
    assert report.findings == [], report.findings
    assert [item for item in report.items if item.score < item.maximum] == []


@pytest.mark.parametrize("name", DISEASES)
def test_each_disease_is_named_and_nothing_else_claimed(name, tmp_path):
    make, expected = DISEASES[name]
    make(healthy(tmp_path))
    report = graded(tmp_path)
    assert {finding.name for finding in report.findings} == expected, report.findings
    assert not report.passed
    for finding in report.findings:
        assert finding.evidence and finding.meaning and finding.where
