"""A valid submission in every layout, and one with each known issue: all of it is named, and nothing else."""

import json
from pathlib import Path

import pytest

from grading.ablations import read_ablation
from grading.grade import grade
from grading.layouts import read_log, read_table
from grading.report import HINTS
from tests.grading.submissions import (
    ABLATION,
    EXPECTED,
    LOG,
    SHARES,
    TABLE,
    accuracies,
    change,
    load,
    valid,
    write,
)
from tests.grading.with_issues import CASES, HONEST, flat_loss
from tests.grading.with_layouts import ABLATIONS, OTHERS, TABLES


def graded(folder: Path):
    report = grade(folder, EXPECTED, required=True)
    json.dumps([report.plain(), report.gradescope()], allow_nan=False)
    return report


def all_points(folder: Path):
    report = graded(folder)
    assert report.issues == [], report.issues
    assert [item for item in report.items if item.score < item.maximum] == []
    assert report.passed and report.score == report.maximum == 100
    return report


@pytest.mark.parametrize("layout", OTHERS, ids=lambda layout: layout.__name__)
def test_valid_in_another_layout(layout, tmp_path):
    layout(valid(tmp_path))
    all_points(tmp_path)


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_layout_of_an_ablation_is_read_as_the_same_numbers(name, tmp_path):
    meant = list(accuracies(valid(tmp_path)).values())
    write(tmp_path, ABLATION, ABLATIONS[name](meant))
    read = list(read_ablation(load(tmp_path, ABLATION)).without.values())
    assert len(read) >= 8
    assert read[:11] == pytest.approx(meant[: len(read[:11])], abs=1e-9)
    all_points(tmp_path)


@pytest.mark.parametrize("name", TABLES)
def test_every_layout_of_a_table_is_read_as_the_same_numbers(name, tmp_path):
    meant = load(valid(tmp_path), TABLE)
    write(tmp_path, TABLE, TABLES[name](meant))
    lengths = [int(n) for n in SHARES]
    table, _ = read_table(load(tmp_path, TABLE), {name: [] for name in meant}, lengths)
    assert {name: {str(n): row[n] for n in lengths} for name, row in table.items()} == meant
    all_points(tmp_path)


def test_low_percentages_are_not_taken_for_high_shares():
    numbers = read_log({"train_acc": [2.0, 3.1], "val_acc": [0.7, 1.3], "test_acc": 0.9}).numbers
    assert numbers["val_acc"] == pytest.approx([0.007, 0.013]) and numbers["test_acc"] == pytest.approx([0.009])


@pytest.mark.parametrize("name", CASES)
def test_each_known_issue_is_named_and_nothing_else(name, tmp_path):
    make, expected = CASES[name]
    make(valid(tmp_path))
    report = graded(tmp_path)
    assert {issue.name for issue in report.issues} == expected, report.issues
    assert not report.passed
    for issue in report.issues:
        assert issue.evidence and issue.hint and issue.file
        assert issue.name in report.table() and issue.evidence in str(report.plain())


@pytest.mark.parametrize("name", HONEST)
def test_what_only_looks_like_an_issue_is_none(name, tmp_path):
    HONEST[name](valid(tmp_path))
    assert graded(tmp_path).issues == []


def test_one_answer_beyond_the_trained_lengths_is_what_is_expected(tmp_path):
    change(valid(tmp_path), TABLE, sinusoidal=SHARES)
    assert any("exactly the share of one class" in remark for remark in all_points(tmp_path).remarks)


def test_every_hint_belongs_to_an_issue_that_is_tested():
    known = {known["name"] for expected in EXPECTED for known in expected.get("known_values", [])}
    assert {*HINTS} | known == {name for _, names in CASES.values() for name in names}


def test_a_flat_loss_alone_is_blamed_on_no_cause(tmp_path):
    flat_loss(valid(tmp_path))
    (issue,) = graded(tmp_path).issues
    said = f"{issue.evidence} {issue.hint}".lower()
    assert not any(word in said for word in ("warm-up", "warmup", "norm", "rate", "xavier", "table"))
    assert "ln 2" in issue.evidence and "does not say why" in issue.hint


def test_json_with_comments_and_trailing_commas_costs_nothing(tmp_path):
    content = json.dumps(load(valid(tmp_path), LOG), indent=1).replace(
        "\n}", ',\n "note": "// no /* comment */ ,]",\n}'
    )
    write(tmp_path, LOG, f"// the first run\n/* of\ntwo */ {content.replace('],', ',], // numbers', 1)}")
    report = all_points(tmp_path)
    assert f"{LOG} is not strict JSON (comments or trailing commas); it was read all the same" in report.remarks
