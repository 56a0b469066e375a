"""What the analyses report is what the model did: counts, and codes by direction."""

import torch

from problem2 import dataset
from problem2.analysis import evaluation, extrapolation
from tests.problem2.test_model import make


def test_judge_counts_by_class_and_names_the_collapsed():
    labels = torch.tensor([1, 1, 0, 0, 0])
    report = evaluation.judge(torch.tensor([2.0, -1.0, -1.0, 3.0, -0.5]).double(), labels)
    assert report["rows"] == 5 and abs(report["accuracy"] - 3 / 5) < 1e-6 and not report["collapsed"]
    assert report["sorted"]["accuracy"] == 1 / 2 and report["unsorted"]["accuracy"] == 2 / 3
    assert report["interval_95"][0] < 0.6 < report["interval_95"][1]
    assert abs(report["unsorted"]["margin_mean"] - 0.5) < 1e-6
    assert abs(report["balanced_accuracy"] - (1 / 2 + 2 / 3) / 2) < 1e-9
    dead = evaluation.judge(torch.full((5,), -1.0).double(), labels)
    assert dead["balanced_accuracy"] == 0.5
    assert dead["collapsed"] and abs(dead["accuracy"] - 0.6) < 1e-6
    alive = evaluation.judge(torch.full((3,), -1.0).double(), torch.zeros(3, dtype=torch.long))
    assert not alive["collapsed"]  # all rows are unsorted: one class is the right one


def test_logits_do_not_depend_on_the_batches():
    model, rows = make("sinusoidal"), dataset.to_rows([[3, 15, 41], [1, 2, 3, 3], [99, 0]] * 10)
    whole = evaluation.logit_differences(model, rows.sequences)
    torch.testing.assert_close(whole, evaluation.logit_differences(model, rows.sequences, 7), atol=1e-6, rtol=1e-5)
    assert (whole > 0).tolist() == (model(rows.sequences).argmax(1) == 1).tolist()


def test_scores_depend_on_distance_alone_exactly_when_the_product_commutes_with_the_rotations():
    codes = make("sinusoidal", d_model=8, num_heads=2).scheme.code(torch.arange(40).double())
    a, b = torch.randn(2, 4, dtype=torch.double)
    blocks = [torch.tensor([[x, y], [-y, x]]) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    scores = codes @ torch.block_diag(*blocks).double() @ codes.T
    for offset in (-5, 0, 7):
        assert scores.diagonal(offset).std() < 1e-6
    assert (scores.diagonal(3) - scores.diagonal(-3)).abs().max() > 1e-3  # J tells left from right
    other = codes @ torch.randn(8, 8, dtype=torch.double) @ codes.T
    assert other.diagonal(5).std() > 1e-2


def test_cells_of_a_table_do_not_run_into_each_other():
    cell = evaluation.judge(torch.full((3,), -1.0).double(), torch.tensor([1, 0, 0]))
    details = {name: {"sets": {"test": cell, "extrapolation/1024": cell}} for name in ("t5", "randomized_rope")}
    header, first, second, note = extrapolation.findings({"schemes": details}).splitlines()
    assert first.split() == ["t5", *["66.7%*"] * 2] and len(first) == len(second) >= len(header)
    assert second.endswith("66.7%*") and "one class" in note
