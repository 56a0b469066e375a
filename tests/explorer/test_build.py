"""The builder: the same bytes from the same files, nothing from outside in them, one sentence where it fails."""

import json
import re
import shutil

import numpy as np
import pytest
import torch

from explorer import build, every_sum
from lab.files import UserError, read_json, write_json
from tests.conftest import ROOT

PANELS = ("#add", "#program", "#carry", "#length", "#sorted", "#waves")


def test_the_same_bytes_as_committed_and_nothing_from_outside(monkeypatch):
    """All bytes but the accuracy of the rounded models, which takes a minute."""
    monkeypatch.setattr(build, "evaluate", lambda *arguments: (0.0, 1.0))
    page, committed = build.page(), (ROOT / "explorer/explorer.html").read_text()
    rounded = re.compile(r'"rounded":\{.*?\}\}')
    assert rounded.sub("", page) == rounded.sub("", committed)
    assert len(committed.encode()) <= 3_000_000 and str(ROOT) not in committed
    scripts = "\n".join(build.source(path.name) for path in build.HERE.glob("*.js"))
    own = ("random", "exp(", "sin(", "cos(", "pow", "log(", "tanh")  # what ECMAScript does not fix to the bit
    for word in [*(f"Math.{name}" for name in own), "eval(", "fetch(", "import("]:
        assert word not in scripts, word
    assert set(re.findall(r"https?://[\w.]+", scripts)) == {"http://www.w3.org"}  # the name of SVG, no address
    assert "{{" not in re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert set(re.findall(r'(?:src|href)="([^"]{1,8})', page)) <= {"data:ima", *PANELS}


def test_rounding_keeps_each_number_within_half_a_step():
    weights = {"matrix": torch.randn(40, 30) * torch.logspace(-3, 3, 40)[:, None], "bias": torch.randn(40)}
    texts, values = build.rounded(weights)
    steps = weights["matrix"].abs().amax(1, keepdim=True) / 127
    assert ((values["matrix"] - weights["matrix"]).abs() <= steps * 0.5001).all()
    assert torch.equal(values["bias"], weights["bias"])
    assert "i8" in texts["matrix"] and "f32" in texts["bias"]


def test_results_that_are_missing_or_of_a_model_that_cannot_add_get_one_sentence(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "problem1/results", tmp_path / "results", ignore=shutil.ignore_patterns("carry"))
    for name, place in (("RESULTS1", "results"), ("PROGRAM", "program"), ("PAGE", "explorer.html")):
        monkeypatch.setattr(build, name, tmp_path / place)
    with pytest.raises(UserError, match=r"patching\.json.*`make help`"):
        build.main()
    write_json(tmp_path / "results/carry/patching.json", {"groups": []})
    write_json(tmp_path / "program/program.json", {"program": None})
    with pytest.raises(UserError, match=r"cannot add: run `make beyond`"):
        build.main()


def test_every_sum_of_a_first_number(tmp_path, monkeypatch):
    pytest.importorskip("py_mini_racer", reason="mini-racer, which runs JavaScript, is not installed")
    monkeypatch.setattr(every_sum, "OUTPUT", tmp_path / "found.json")
    every_sum.main(end=101)
    found = read_json(tmp_path / "found.json", "")
    assert found["pairs"] == 900 and found["errors"] == 0 and 0 < found["smallest_margin"] < np.inf
    packed = build.addition_model()[0]
    assert found["weights"] == build.weights_digest(packed["tensors"]) != build.weights_digest({"other": json.dumps(0)})
