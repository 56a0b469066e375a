"""The report stops at a missing or outdated result and names it; every number comes from a file."""

import json
import re

import pytest

from lab.files import UserError
from lab.provenance import ROOT, changed_code, code, code_digest
from report import build

pytest.importorskip("typst")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A small repository with one result and a report that reads it."""
    (tmp_path / "problem1/results").mkdir(parents=True)
    (tmp_path / "problem1/results/numbers.json").write_text(json.dumps({"errors": 0, "code": {}}))
    source = tmp_path / "report.typ"
    source.write_text('#let it = json("/problem1/results/numbers.json")\nErrors: #it.errors')
    monkeypatch.setattr(build, "ROOT", tmp_path)
    return build.Settings(source, tmp_path / "report.pdf")


def test_builds_from_what_is_there(results):
    build.main(results)
    assert results.output.read_bytes().startswith(b"%PDF")


def test_a_missing_result_is_named(results, tmp_path):
    (tmp_path / "problem1/results/numbers.json").unlink()
    with pytest.raises(UserError, match=r"problem1/results/numbers\.json.*does not exist.*make problem1"):
        build.main(results)
    assert not results.output.exists()


def test_a_result_of_other_code_is_named(results, tmp_path):
    content = {"errors": 0, "code": {"lab/training.py": "0" * 16}}
    (tmp_path / "problem1/results/numbers.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"numbers\.json is out of date, lab/training\.py has changed"):
        build.main(results)


def test_a_key_that_is_gone_is_one_sentence(results):
    results.source.write_text('#let it = json("/problem1/results/numbers.json")\nErrors: #it.mistakes')
    with pytest.raises(UserError, match="cannot be typeset"):
        build.main(results)


def test_the_report_reads_all_its_numbers():
    """No digits stand in the text where a result should be read: what is left are the task's own constants."""
    text = (ROOT / "report/report.typ").read_text()
    prose = re.sub(r"#[a-z-]+\([^\n]*\)|#\w[\w.()\", :-]*", "", text)
    decimals = re.findall(r"(?<![\w.])\d+\.\d+%?", prose)
    layout = set(re.findall(r"\d+\.\d+(?=fr|em|cm|pt)", text)) | {"0.01"}  # widths; the one-point rule
    assert set(decimals) <= layout, set(decimals) - layout
    assert len(build.results_read(ROOT / "report/report.typ")) > 10


def test_comments_and_docstrings_do_not_make_a_result_outdated(tmp_path):
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text('"""One."""\n\n\ndef f(x):\n    """Doc."""\n    return x + 1\n')
    second.write_text('"""Two."""\n# why\ndef f(x):\n    return x + 1  # more\n')
    assert code_digest(first) != code_digest(second)  # a docstring in place of nothing leaves a `pass`
    second.write_text('"""Two."""\n# why\ndef f(x):\n    """Other."""\n    return x + 1  # more\n')
    assert code_digest(first) == code_digest(second)
    second.write_text('"""Two."""\n\n\ndef f(x):\n    """Other."""\n    return x + 2\n')
    assert code_digest(first) != code_digest(second)


def test_changed_code_names_modules_that_changed_or_went():
    now = code()
    assert "lab/heads.py" not in changed_code(now)
    assert changed_code({**now, "lab/gone.py": "0" * 16}) == ["lab/gone.py"]
