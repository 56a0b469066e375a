"""The committed model gives the committed numbers."""

import pytest
import torch

from lab.files import read_json
from lab.hooks import zero
from lab.provenance import ROOT
from lab.training import evaluate
from problem1.analysis.context import Trial
from problem1.analysis.exhaustive import verify
from problem1.dataset import Sums, encode, score
from problem1.generate_data import make_rows
from problem1.train import load_model

RESULTS = ROOT / "problem1/results"


def course_rows(size: int, seed: int) -> Sums:
    rows = make_rows(3, size, seed)
    return Sums(torch.tensor([row["input"] for row in rows]), torch.tensor([row["target"] for row in rows]))


@pytest.fixture(scope="module")
def model():
    return load_model(RESULTS / "best_model.pth")[0]


def test_no_error_among_all_pairs(model):
    """All 810,000 of them, again."""
    found, committed = verify(model, course_rows(10_000, 641)), read_json(RESULTS / "verification.json", "")
    for key in ("pairs", "errors", "by_carries", "by_longest_chain", "never_seen_in_training", "wrong_sums"):
        assert found[key] == committed[key], key
    assert found["errors"] == 0 and found["smallest_margin"] == pytest.approx(committed["smallest_margin"], abs=1e-2)


def test_test_accuracy_is_the_logs(model):
    test, log = course_rows(2_000, 643), read_json(RESULTS / "training_log.json", "")
    loss, accuracy = evaluate(model, (test.sources, test.targets), score)
    assert accuracy == log["test_acc"] and loss == pytest.approx(log["test_loss"], rel=1e-2)


def test_greedy_decoding_answers_as_reported(model):
    test = course_rows(2_000, 643)
    assert torch.equal(model.generate(test.sources, 4, 11), test.targets)


def test_ablations_are_those_of_the_file(model):
    trial = Trial(model, course_rows(2_000, 643))
    committed = read_json(RESULTS / "head_analysis/ablation_results.json", "")
    assert list(committed["heads"]) == model.head_names()
    for head in committed["ranking"][:6] + committed["ranking"][-3:]:
        accuracy = trial.right({head: zero})[0].all(1).double().mean().item()
        assert accuracy == pytest.approx(committed["heads"][head]["zero"]["accuracy"], abs=0.002), head


def test_some_sums_by_hand(model):
    a, b = torch.tensor([347, 445, 999, 100]), torch.tensor([159, 555, 999, 899])
    sums = encode(a, b, 3)
    assert model.generate(sums.sources, 4, 11).tolist() == [[0, 5, 0, 6], [1, 0, 0, 0], [1, 9, 9, 8], [0, 9, 9, 9]]
