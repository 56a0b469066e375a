"""The report and its companion name a missing result, and state nothing that the results do not bear out."""

import json
import re
import shutil

import pytest

from lab.files import UserError
from report import build
from tests.conftest import ROOT

pytest.importorskip("typst")

SOURCES = REPORT, COMPANION = "report/report.typ", "beyond/beyond.typ"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A small repository with the report's style, and none of its results."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "REPORT", tmp_path / "report/report.typ")
    monkeypatch.setattr(build, "COMPANION", tmp_path / "beyond/beyond.typ")
    (tmp_path / "report").mkdir()
    shutil.copy(ROOT / "report/style.typ", tmp_path / "report")
    return tmp_path


@pytest.fixture
def typeset(repository):
    """typeset("text", errors=0): the bytes of a report with this text, in a small repository with one result."""

    def run(text: str, errors: int | None = 0, strict: bool = False) -> bytes:
        if errors is not None:
            (repository / "numbers.json").write_text(json.dumps({"errors": errors}))
        build.REPORT.write_text('#import "style.typ": *\n#let found = json("/numbers.json")\n' + text)
        build.main(build.Settings(repository / "report.pdf", repository / "beyond.pdf", strict))
        assert not (repository / "beyond.pdf").exists()
        return (repository / "report.pdf").read_bytes()

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


@pytest.mark.parametrize("source", SOURCES)
def test_a_text_reads_all_its_numbers(source):
    """No decimal stands in the text where a result should be read."""
    text = (ROOT / source).read_text()
    text = re.sub(r"\((?:arXiv )?\d{4}\.\d{5}\)", "", text)  # numbers of papers
    text = re.sub(r'#opened\("[^"]*"\)', "", text)  # links
    # In code a decimal follows an operator (a bound in a condition) or is a width; anywhere else it was typed by hand.
    assert re.findall(r"(?<![<>=*/+-] )(?<![\w.])\d+\.\d+(?!\d|fr|em|cm|pt|in)%?", text) == []
    assert len(build.results_read(ROOT / source)) > 10


@pytest.mark.parametrize("source", SOURCES)
def test_figures_are_printed_at_the_size_they_are_drawn_at(source):
    """What a figure calls 7 points is 7 points in print: a PDF has its size, a PNG gets the width of all figures."""
    text = (ROOT / source).read_text()
    images = re.findall(r"image\((\"/.*?)\)", text)
    drawn = [image for image in images if re.fullmatch(r'"/[\w./+-]+\.pdf"|"/[\w./+-]+\.png", width: 6\.3in', image)]
    assert drawn == images != []


@pytest.mark.parametrize("source", SOURCES)
def test_links_to_the_page_use_the_keys_that_it_documents(source):
    states = re.findall(r'#opened\("([^"]*)"\)', (ROOT / source).read_text())
    documented = re.findall(
        r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", (ROOT / "explorer/README.md").read_text(), re.M))
    )
    assert {part.partition("=")[0] for state in states for part in state.split("&")} <= {*documented}
    assert states or source == COMPANION


def test_a_claim_that_fails_stops_a_strict_build_only(typeset):
    claim = "#claim(found.errors == 0)[It is exact.]"
    assert typeset(claim, strict=True).startswith(b"%PDF")
    assert typeset(claim, errors=3).startswith(b"%PDF")
    with pytest.raises(UserError, match="not borne out"):
        typeset(claim, errors=3, strict=True)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("percent(0.9985, places: 2)", "99.85%"),
        ("percent(0.99996)", "> 99.9%"),
        ("percent(0.00001)", "< 0.1%"),
        ("at-least(0.9749)", "at least 97.4%"),
        ("at-least(0.975, places: 0)", "at least 97%"),
        ("at-least(0.29)", "at least 29.0%"),
        ("at-least(1)", "100%"),
        ("at-most(0.0151)", "at most 1.6%"),
        ("at-most(0.07)", "at most 7.0%"),
        ("at-most(0)", "none"),
        ("between((0.9749, 0.983, 1))", "97.4 to 100%"),
        ("between((0.5, 0.5))", "50.0%"),
        ("between((0.4879, 0.9751))", "48.7 to 97.6%"),
        ("fixed(5.3874, rounded: downwards)", "5.38"),
        ("fixed(0.00077435, places: 4, rounded: upwards)", "0.0008"),
        ("fixed(-2.077, places: 1, rounded: downwards)", "−2.1"),
        ("fixed(-0.001)", "0.00"),
        ("whole(810000)", "810,000"),
    ],
)
def test_lower_bounds_are_never_rounded_up_nor_upper_ones_down(typeset, written, expected):
    typeset(f'#assert.eq({written}, "{expected}")')


# A number in a results file, and another one that contradicts a sentence.
PLANTED = {
    "one wrong sum": (REPORT, "problem1/results/verification.json", ["errors"], 1),
    "one changed answer": (REPORT, "beyond/program/results/program.json", ["opposite_carries", "wrong"], 1),
    "a head that brings less": (
        REPORT,
        "problem1/results/carry/patching.json",
        ["groups", 1, "stages", "carrying heads", "flips", "share"],
        0.9,
    ),
    "a table that holds one length more": (
        REPORT,
        "problem2/results/extrapolation/accuracy_by_length.json",
        ["schemes", "learned", "642", "first_failure"],
        18,
    ),
    "slow waves that matter": (
        REPORT,
        "problem2/results/extrapolation/collapse.json",
        ["seeds", "642", "only slow true", "128", "balanced_accuracy"],
        0.97,
    ),
    "a sinusoidal model that sees order at 32": (
        REPORT,
        "problem2/results/extrapolation/extrapolation_details.json",
        ["schemes", "sinusoidal", "over_seeds", "sets", "extrapolation/32", "collapsed_seeds"],
        2,
    ),
    "RoPE with an answer at 64": (
        REPORT,
        "beyond/schemes/results/study.json",
        ["summary", "course", "rope", "sets", "extrapolation/64", "collapsed_seeds"],
        2,
    ),
    "a local context that is wrong": (COMPANION, "beyond/any_length/results/proof.json", ["failures"], 1),
    "a window that misses a swap": (
        COMPANION,
        "beyond/schemes/results/study.json",
        ["summary", "strict", "window", "sets", "adjacent/64", "min"],
        0.99,
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_number_stops_the_strict_build(repository, planted):
    source, file, keys, value = PLANTED[planted]
    for name in [source, *build.results_read(ROOT / source)]:
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, repository / name)
    content = json.loads((repository / file).read_text())
    at = content
    for key in keys[:-1]:
        at = at[key]
    assert at[keys[-1]] != value
    at[keys[-1]] = value
    (repository / file).write_text(json.dumps(content))
    with pytest.raises(UserError, match="not borne out"):
        build.typeset(repository / source, repository / "out.pdf", strict=True)


def test_the_committed_results_bear_out_every_sentence_and_give_the_committed_pdfs(tmp_path):
    names = {"report.pdf": ROOT / "report/report.pdf", "beyond.pdf": ROOT / "beyond/beyond.pdf"}
    build.main(build.Settings(tmp_path / "report.pdf", tmp_path / "beyond.pdf", strict=True))
    for name, committed in names.items():
        assert (tmp_path / name).read_bytes() == committed.read_bytes()
