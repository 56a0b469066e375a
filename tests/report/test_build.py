"""The report names a missing result, and states nothing that the results do not bear out."""

import json
import re

import pytest

from lab.files import UserError
from report import build
from tests.conftest import ROOT

pytest.importorskip("typst")


@pytest.fixture
def typeset(tmp_path, monkeypatch):
    """typeset("text", errors=0): the bytes of a report with this text, in a small repository with one result."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "SOURCE", tmp_path / "report.typ")
    (tmp_path / "style.typ").write_text((ROOT / "report/style.typ").read_text())

    def run(text: str, errors: int | None = 0, strict: bool = False) -> bytes:
        if errors is not None:
            (tmp_path / "numbers.json").write_text(json.dumps({"errors": errors}))
        build.SOURCE.write_text('#import "style.typ": *\n#let found = json("/numbers.json")\n' + text)
        build.main(build.Settings(tmp_path / "report.pdf", strict))
        return (tmp_path / "report.pdf").read_bytes()

    return run


@pytest.mark.parametrize(
    ("text", "errors", "words"),
    [
        ("#found.errors", None, r"^numbers\.json.*does not exist.*make help"),
        ("#found.mistakes", 0, "cannot be typeset"),
    ],
)
def test_a_result_or_a_key_that_is_gone_gets_one_sentence(typeset, text, errors, words):
    with pytest.raises(UserError, match=words):
        typeset(text, errors)


def test_the_report_reads_all_its_numbers():
    """No decimal stands in the text where a result should be read."""
    text = (ROOT / "report/report.typ").read_text()
    # In code a decimal follows an operator (a bound in a condition) or is a width; anywhere else it was typed by hand.
    assert re.findall(r"(?<![<>=*/+-] )(?<![\w.])\d+\.\d+(?!\d|fr|em|cm|pt)%?", text) == []
    assert len(build.results_read(ROOT / "report/report.typ")) > 10


def test_figures_are_printed_at_the_size_they_are_drawn_at():
    """No width is given, so what a figure calls 7 points is 7 points in print."""
    text = (ROOT / "report/report.typ").read_text()
    figures = re.findall(r'image\(("/(?:problem|beyond)[\w./+-]+\.pdf")\)', text)
    assert re.findall(r"image\((.*?)\)", text) == figures != []


def test_a_claim_that_fails_stops_a_strict_build_only(typeset):
    claim = "#claim(found.errors == 0)[It is exact.]"
    assert typeset(claim, strict=True).startswith(b"%PDF")
    assert typeset(claim, errors=3).startswith(b"%PDF")
    with pytest.raises(UserError, match="not borne out"):
        typeset(claim, errors=3, strict=True)


def test_the_committed_results_bear_out_every_sentence_and_give_the_committed_pdf(tmp_path):
    build.main(build.Settings(output=tmp_path / "report.pdf", strict=True))
    assert (tmp_path / "report.pdf").read_bytes() == (ROOT / "report/report.pdf").read_bytes()
