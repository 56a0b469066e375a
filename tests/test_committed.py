"""The committed models of problem 1 give the committed numbers, and no committed result holds what is volatile."""

import re

import pytest
import torch

from beyond.any_length.checkpoint import load_model as load_text_model
from beyond.any_length.checkpoint import predict
from beyond.any_length.dataset import draw_pairs
from beyond.any_length.proof import run as prove
from lab.fast import Fast
from lab.files import read_json
from lab.hooks import head_names, zero
from lab.training import evaluate
from problem1.analysis.exhaustive import verify
from problem1.analysis.interventions import InterventionRunner
from problem1.checkpoint import load_model
from problem1.dataset import START, Sums, score
from problem1.generate_data import make_rows
from tests.conftest import ROOT

ADDITION, SORTING = ROOT / "problem1/results", ROOT / "problem2/results"
TEXT = ROOT / "beyond/any_length/results"


def course_rows(size: int, seed: int) -> Sums:
    rows = make_rows(3, size, seed)
    return Sums(torch.tensor([row["input"] for row in rows]), torch.tensor([row["target"] for row in rows]))


@pytest.fixture(scope="module")
def model():
    return load_model(ADDITION / "best_model.pth")[0]


def test_every_sum_is_right_again(model):
    """All 810,000 of them."""
    with Fast():
        found = verify(model, course_rows(10_000, 641))
    committed = read_json(ADDITION / "verification.json", "")
    for key in ("pairs", "errors", "by_carries", "by_longest_chain", "never_seen_in_training", "wrong_sums"):
        assert found[key] == committed[key], key
    assert found["errors"] == 0 and found["smallest_margin"] == pytest.approx(committed["smallest_margin"], abs=1e-2)


def test_the_test_accuracy_is_the_logs(model):
    test, log = course_rows(2_000, 643), read_json(ADDITION / "training_log.json", "")
    loss, accuracy = evaluate(model, (test.sources, test.targets), score)
    assert accuracy == log["test_acc"] and loss == pytest.approx(log["test_loss"], rel=1e-2)
    assert torch.equal(model.generate(test.sources, 4, START), test.targets)


def test_ablations_are_those_of_the_file(model):
    runner = InterventionRunner(model, course_rows(2_000, 643))
    committed = read_json(ADDITION / "head_analysis/ablation_results.json", "")
    assert list(committed["heads"]) == head_names(model)
    for head in committed["ranking"][:4] + committed["ranking"][-2:]:
        accuracy = runner.right_and_loss({head: zero})[0].all(1).double().mean().item()
        assert accuracy == pytest.approx(committed["heads"][head]["zero"]["accuracy"], abs=0.002), head


def test_the_text_model_is_proven_again():
    model, _ = load_text_model(TEXT / "best_model.pth")
    found, committed = prove(model, exp_step=4096), read_json(TEXT / "proof.json", "")
    assert found["failures"] == committed["failures"] == 0 and found["proven"] and found["proven_in_float32"]
    assert found["local_contexts"] == committed["local_contexts"]
    assert found["smallest_margin"] == pytest.approx(committed["smallest_margin"], abs=1e-2)
    pairs = draw_pairs({"test": 50}, 7, max_digits=60)["test"]
    assert [int(found.text) for found in predict(model, pairs)] == [int(a) + int(b) for a, b in pairs]


def test_no_committed_result_holds_what_differs_from_run_to_run():
    volatile = re.compile(r'"(seconds|threads|machine|date|python|device|code)":|' + re.escape(str(ROOT)))
    for path in [*ROOT.glob("*/results/**/*.json"), *ROOT.glob("beyond/*/results/**/*.json")]:
        if not path.name.endswith("timing.json") and "previous" not in path.parts:
            assert not volatile.search(path.read_text()), path
