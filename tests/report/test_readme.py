"""README shows what the committed results hold."""

import pytest

from lab.files import read_json
from report import readme
from report.readme import README, cell
from tests.conftest import ROOT, run


def test_the_readme_shows_the_numbers_of_the_committed_results(tmp_path, monkeypatch):
    """A README in which a number is gone is the committed one after it was written again."""
    text = README.read_text(encoding="utf-8")
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    readme.README.write_text(text.replace("**0 errors", ""), encoding="utf-8")
    readme.main()
    assert readme.README.read_text(encoding="utf-8") == text


def test_the_share_of_swapped_rows_is_of_swapped_rows_alone():
    """Not the balanced accuracy, half of which is of sorted rows."""
    found = read_json(ROOT / readme.FILES["sorting"], "")["schemes"]
    line = next(line for line in README.read_text(encoding="utf-8").splitlines() if "one swap of neighbours" in line)
    for scheme in ("window", "sinusoidal"):
        unsorted = found[scheme]["sets"]["adjacent/16"]["unsorted"]
        noticed = round(unsorted["accuracy"] * unsorted["rows"])
        assert scheme in line and f"{100 * noticed / unsorted['rows']:.2f}%" in line


def test_cells_never_round_up_to_100_and_mark_constant_answers():
    assert cell({"mean": 1.0, "collapsed_seeds": 0}, 3) == "100%"
    assert cell({"mean": 0.999999, "collapsed_seeds": 2}, 3) == "99.9%"
    assert cell({"mean": 0.546, "collapsed_seeds": 3}, 3) == "54.6% †"


def test_where_encodings_fail_and_why_is_said_as_the_results_have_it():
    results = read_json(ROOT / readme.FILES["by_length"], "")
    assert "sinusoidal at length 19 to 21, learned at length 17" in readme.where_they_fail(results)
    for numbers in results["schemes"]["learned"].values():
        numbers["first_failure"] = None
    assert "learned" not in readme.where_they_fail(results)
    collapse = read_json(ROOT / readme.FILES["collapse"], "")
    assert "the 5 fastest of its 16 waves" in readme.why_it_collapses(collapse)
    collapse["seeds"]["643"]["slow squeezed"]["32"]["constant"] = False
    assert readme.why_it_collapses(collapse) == "these runs do not tell"


@pytest.mark.parametrize(("flag", "code", "words"), [("--help", 0, "usage"), ("--x", 2, "--x")])
def test_a_script_without_flags_explains_itself_and_refuses_any(flag, code, words):
    done = run("report/readme.py", flag)
    assert done.returncode == code and words in done.stdout + done.stderr and "Traceback" not in done.stderr
