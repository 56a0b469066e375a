"""The grader's self-test: a healthy submission in every layout, and each known disease, no more and no less."""

import json
from pathlib import Path

import pytest

from lab.grading.ablations import read_ablation
from lab.grading.report import as_table, grade, load_expected
from lab.grading.tables import read_table
from tests.lab import submissions
from tests.lab.submission_diseases import DISEASES
from tests.lab.submission_layouts import LAYOUTS
from tests.lab.submissions import accuracies, healthy

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = [load_expected(ROOT / problem / "expected.json") for problem in ("problem1", "problem2")]
OF_ABLATIONS = [layout for layout in LAYOUTS if "ablation" in layout.__name__]
OF_TABLES = [layout for layout in LAYOUTS if "table" in layout.__name__]


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


@pytest.mark.parametrize("layout", OF_ABLATIONS, ids=lambda layout: layout.__name__)
def test_every_layout_of_an_ablation_is_read_as_the_same_numbers(layout, tmp_path):
    meant = list(accuracies(healthy(tmp_path)).values())
    layout(tmp_path)
    read = list(read_ablation(submissions.load(tmp_path, submissions.ABLATION)).without.values())
    assert len(read) >= 8
    assert read[:11] == pytest.approx(meant[: len(read[:11])], abs=1e-9)


@pytest.mark.parametrize("layout", OF_TABLES, ids=lambda layout: layout.__name__)
def test_every_layout_of_a_table_is_read_as_the_same_numbers(layout, tmp_path):
    meant = submissions.load(healthy(tmp_path), submissions.TABLE)
    layout(tmp_path)
    lengths = [int(n) for n in submissions.SHARES]
    table = read_table(submissions.load(tmp_path, submissions.TABLE), {name: [] for name in meant}, lengths)
    assert {name: {str(n): row[n] for n in lengths} for name, row in table.rows.items()} == meant


@pytest.mark.parametrize("name", DISEASES)
def test_each_disease_is_named_and_nothing_else_claimed(name, tmp_path):
    make, expected = DISEASES[name]
    make(healthy(tmp_path))
    report = graded(tmp_path)
    assert {finding.name for finding in report.findings} == expected, report.findings
    assert not report.passed
    for finding in report.findings:
        assert finding.evidence and finding.meaning and finding.where
