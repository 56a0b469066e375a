"""README shows what the committed results hold."""

from lab.provenance import ROOT
from report.key_numbers import BLOCK, _cell, key_numbers


def test_the_readme_shows_the_numbers_of_the_committed_results():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"<!-- {BLOCK} -->\n{key_numbers()}\n<!-- end of {BLOCK} -->" in text


def test_cells_never_round_up_to_100_and_mark_constant_answers():
    def scheme(mean, least, collapsed=0):
        return {"seeds": [1, 2], "sets": {"test": {"mean": mean, "min": least, "collapsed_seeds": collapsed}}}

    assert _cell(scheme(1.0, 1.0), "test") == "100%"
    assert _cell(scheme(0.999999, 0.999998), "test") == "99.99%"
    assert _cell(scheme(0.546, 0.546, 2), "test") == "54.6% †"
    assert _cell(scheme(0.546, 0.4, 1), "test") == "54.6%"
    assert _cell(None, "test") == _cell(scheme(1.0, 1.0), "far") == "–"
