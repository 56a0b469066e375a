"""The builder: the same bytes from the same files, nothing from outside in them, one sentence where it fails."""

import json
import re
import shutil

import numpy as np
import pytest
import torch

from lab.files import UserError, read_json, write_json
from report.explorer import build, every_sum
from tests.conftest import ROOT


@pytest.fixture
def quick(monkeypatch):
    """Without the minute that evaluating the rounded models takes."""
    monkeypatch.setattr(build, "evaluate", lambda *arguments: (0.0, 1.0))


def test_the_same_bytes_as_committed_and_nothing_from_outside(quick):
    """All bytes but the accuracy of the rounded models."""
    page, committed = build.page(build.Settings()), (ROOT / "report/explorer.html").read_text()
    rounded = re.compile(r'"rounded":\{.*?\}\}')
    assert rounded.sub("", page) == rounded.sub("", committed)
    assert len(committed.encode()) <= build.MOST_BYTES and str(ROOT) not in committed
    scripts = "\n".join(build.source(path.name) for path in build.HERE.glob("*.js"))
    own = ("random", "exp(", "sin(", "cos(", "pow", "log(", "tanh")  # what ECMAScript does not fix to the bit
    for word in [*(f"Math.{name}" for name in own), "eval(", "fetch(", "import("]:
        assert word not in scripts, word
    assert set(re.findall(r"https?://[\w.]+", scripts)) == {"http://www.w3.org"}  # the name of SVG, no address
    assert "{{" not in re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert set(re.findall(r'(?:src|href)="([^"]{1,8})', page)) <= {"data:ima", "#add", "#carry", "#length", "#sorted"}


def test_rounding_keeps_each_number_within_half_a_step():
    weights = {"matrix": torch.randn(40, 30) * torch.logspace(-3, 3, 40)[:, None], "bias": torch.randn(40)}
    texts, values = build.rounded(weights)
    steps = weights["matrix"].abs().amax(1, keepdim=True) / 127
    assert ((values["matrix"] - weights["matrix"]).abs() <= steps * 0.5001).all()
    assert torch.equal(values["bias"], weights["bias"])
    assert "i8" in texts["matrix"] and "f32" in texts["bias"]


def test_results_that_are_missing_or_of_a_model_that_cannot_add_get_one_sentence(refused, tmp_path):
    shutil.copytree(ROOT / "problem1/results", tmp_path / "results", ignore=shutil.ignore_patterns("carry", "seeds"))
    refused("report/explorer/build.py", "--results1", tmp_path / "results", words=["program.json", "run `make`"])
    write_json(tmp_path / "results/carry/program.json", {"program": None})
    refused("report/explorer/build.py", "--results1", tmp_path / "results", words=["cannot add", "run `make`"])


def test_a_page_that_is_too_large_is_refused(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "MOST_BYTES", 10_000)
    with pytest.raises(UserError, match="more than 10,000"):
        build.main(build.Settings(output=tmp_path / "page.html"))
    assert not (tmp_path / "page.html").exists()


def test_every_sum_of_a_first_number(tmp_path):
    pytest.importorskip("py_mini_racer", reason="mini-racer, which runs JavaScript, is not installed")
    every_sum.main(every_sum.Settings(output=tmp_path / "found.json", first=101))
    found = read_json(tmp_path / "found.json", "")
    assert found["pairs"] == 900 and found["errors"] == 0 and 0 < found["smallest_margin"] < np.inf
    packed = build.addition_model(ROOT / "problem1/results")[0]
    assert found["weights"] == build.weights_digest(packed["tensors"]) != build.weights_digest({"other": json.dumps(0)})
