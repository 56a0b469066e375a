"""Numbers as text."""

import pytest

from lab.tables import aligned, indented, markdown, percent


@pytest.mark.parametrize(
    "share, text",
    [(1.0, "100%"), (0.99999, "99.99%"), (0.9995, "99.95%"), (0.5, "50%"), (0.000001, "0.01%"), (0.0, "0%")],
)
def test_only_all_is_100_percent_and_only_none_is_0(share, text):
    assert percent(share) == text


def test_columns_are_as_wide_as_their_longest_cell():
    rows = [["scheme", "length 32"], ["t5", "54.6%"]]
    assert aligned(rows) == ["scheme  length 32", "t5      54.6%"]
    assert aligned(rows, right=True) == ["scheme  length 32", "t5          54.6%"]


def test_markdown_has_a_line_below_its_header():
    assert markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_findings_fit_into_a_narrow_terminal():
    text = "a short line\nhead  zero  mean\n" + "many words " * 20 + "encoder-decoder"
    lines = indented(text).splitlines()
    assert lines[:2] == ["  a short line", "  head  zero  mean"]
    assert all(line.startswith("  ") and len(line) <= 80 for line in lines) and lines[3].startswith("      many")
    assert " ".join(indented(text).split()) == " ".join(text.split())
