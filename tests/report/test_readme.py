"""README, and those of beyond/, show what the committed results hold."""

import re

import pytest

from lab.files import read_json
from report import readme
from report.readme import FILES, README, cell
from report.sentences import at_least, at_most, claim, down, span, up
from tests.conftest import ROOT, run

TOPS = ("starter", "grading", "beyond", "explorer", "benchmarks", "tests")
WRITTEN = ["README.md", *(f"beyond/{name}/README.md" for name in ("program", "population", "rounding", "any_length"))]


def test_the_readmes_show_the_numbers_of_the_committed_results(tmp_path, monkeypatch):
    """READMEs whose numbers are gone are the committed ones after they were written again."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in WRITTEN}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(
            re.sub(r"(<!-- [\w ]+: make readme -->\n).*?(<!-- end)", r"\1\2", text, flags=re.S)
        )
        assert (tmp_path / name).read_text() != text
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    readme.main()
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in WRITTEN} == texts


def test_no_sentence_of_the_committed_readmes_is_contradicted_by_results():
    assert [name for name in WRITTEN if "not reproduced in this run" in (ROOT / name).read_text()] == []


def test_the_share_of_swapped_rows_is_of_swapped_rows_alone():
    """Not the balanced accuracy, half of which is of sorted rows."""
    course = read_json(ROOT / FILES["study"], "")["summary"]["course"]
    lines = README.read_text(encoding="utf-8").splitlines()
    for scheme in ("window", "sinusoidal"):
        line = next(line for line in lines if line.startswith(f"| {scheme} |"))
        assert line.endswith(f"| {100 * course[scheme]['sets']['adjacent/16']['unsorted']:.0f}% |")


def test_cells_never_round_up_to_100_and_mark_constant_answers():
    assert cell({"mean": 1.0, "collapsed_seeds": 0}, [1, 2, 3]) == "100%"
    assert cell({"mean": 0.999999, "collapsed_seeds": 0}, [1, 2, 3]) == "99.9%"
    assert cell({"mean": 0.546, "collapsed_seeds": 3}, [1, 2, 3]) == "54.6% †"
    assert cell({"mean": 0.501, "collapsed_seeds": 2}, [1, 2, 3]) == "50.1% †²"


def test_bounds_are_rounded_outwards():
    assert (down(0.9749), up(0.9749), down(0.29), up(0.29)) == ("97.4%", "97.5%", "29%", "29%")
    assert (at_least(0.9759), at_least(1.0), at_most(0.0151), at_most(0)) == (
        "at least 97.5%",
        "100%",
        "at most 1.6%",
        "none",
    )
    assert (span([17, 17]), span([19, 21, 20])) == ("17", "19 to 21")


def test_a_sentence_that_does_not_hold_says_so():
    assert claim(True, "It adds.") == "It adds."
    assert claim(False, "It adds.") == "(not reproduced in this run: It adds.)"


@pytest.mark.parametrize(("flag", "code", "words"), [("--help", 0, "usage"), ("--x", 2, "--x")])
def test_a_script_without_flags_explains_itself_and_refuses_any(flag, code, words):
    done = run("report/readme.py", flag)
    assert done.returncode == code and words in done.stdout + done.stderr and "Traceback" not in done.stderr


DOCUMENTS = [ROOT / "README.md", *(path for top in TOPS for path in sorted((ROOT / top).rglob("*.md")))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(path):
    links = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    inside = [link.partition("#")[0] for link in links if "://" not in link]
    assert [link for link in inside if not (path.parent / link).exists()] == []
