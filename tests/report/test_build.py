"""The report names a missing result, and states nothing that the results do not bear out."""

import json
import re
from dataclasses import replace

import pytest

from lab.files import UserError
from report import build
from tests.conftest import ROOT

pytest.importorskip("typst")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A small repository with one result and a report that reads it."""
    (tmp_path / "problem1/results").mkdir(parents=True)
    (tmp_path / "problem1/results/numbers.json").write_text(json.dumps({"errors": 0}))
    source = tmp_path / "report.typ"
    source.write_text('#let it = json("/problem1/results/numbers.json")\nErrors: #it.errors')
    monkeypatch.setattr(build, "ROOT", tmp_path)
    return build.Settings(source, tmp_path / "report.pdf")


def test_a_missing_result_is_named(results, tmp_path):
    (tmp_path / "problem1/results/numbers.json").unlink()
    with pytest.raises(UserError, match=r"problem1/results/numbers\.json.*does not exist.*make problem1"):
        build.main(results)
    assert not results.output.exists()


def test_a_key_that_is_gone_is_one_sentence(results):
    results.source.write_text('#let it = json("/problem1/results/numbers.json")\nErrors: #it.mistakes')
    with pytest.raises(UserError, match="cannot be typeset"):
        build.main(results)


def test_the_report_reads_all_its_numbers():
    """No decimal stands in the text where a result should be read."""
    text = (ROOT / "report/report.typ").read_text()
    # In code a decimal follows an operator (a bound in a condition) or is a width; anywhere else it was typed by hand.
    assert re.findall(r"(?<![<>=*/+-] )(?<![\w.])\d+\.\d+(?!\d|fr|em|cm|pt)%?", text) == []
    assert len(build.results_read(ROOT / "report/report.typ")) > 10


@pytest.mark.parametrize(("errors", "strict", "words"), [(0, True, None), (3, False, None), (3, True, "not borne out")])
def test_a_claim_that_fails_stops_a_strict_build_only(results, tmp_path, errors, strict, words):
    (tmp_path / "style.typ").write_text((ROOT / "report/style.typ").read_text())
    (tmp_path / "problem1/results/numbers.json").write_text(json.dumps({"errors": errors}))
    results.source.write_text(
        '#import "style.typ": *\n#let found = json("/problem1/results/numbers.json")\n'
        "#claim(found.errors == 0)[It is exact.]"
    )
    settings = replace(results, strict=strict)
    if words is None:
        build.main(settings)
        assert settings.output.read_bytes().startswith(b"%PDF")
    else:
        with pytest.raises(UserError, match=words):
            build.main(settings)


def test_the_committed_results_bear_out_every_sentence_and_give_the_committed_pdf(tmp_path):
    build.main(build.Settings(output=tmp_path / "report.pdf", strict=True))
    assert (tmp_path / "report.pdf").read_bytes() == (ROOT / "report/report.pdf").read_bytes()
