"""What the analyses report is what the model did: counts, and codes by direction."""

import pytest
import torch

from problem2 import dataset
from problem2.analysis import evaluation, extrapolation, span
from problem2.analysis.extrapolation import Point
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


def test_the_trained_directions_hold_the_trained_codes_and_not_the_later_ones():
    report = span.measure(64, 16)
    outside = report["share_outside"]
    assert report["directions"] < 16 and sum(outside[:16]) / 16 < 0.001 + 1e-6 and min(outside[64:]) > 0.3
    codes = torch.eye(4, dtype=torch.double)
    directions = span.trained_directions(codes[:2])
    assert span.share_outside(codes, directions).tolist() == pytest.approx([0, 0, 1, 1])


def test_other_schemes_are_drawn_where_the_courses_are_missing(tmp_path):
    points = {"rope": {"test": Point(0.9, 0.8, 1.0, False), "extrapolation/32": Point(0.5, 0.4, 0.6, True)}}
    extrapolation.draw_course(points, tmp_path / "curves.png", (8, 16), "")
    assert (tmp_path / "curves.png").exists()


def test_the_title_names_the_length_from_which_on_every_answer_is_constant():
    answers = {32: True, 64: False, 128: True, 256: True}
    sets = {f"extrapolation/{length}": Point(0.5, 0.4, 0.6, constant) for length, constant in answers.items()}
    sets |= {"test": Point(1, 1, 1, False), "adjacent/512": Point(0.5, 0.4, 0.6, False)}
    assert extrapolation.constant_from(sets) == 128
    assert extrapolation.title_of_course({"rope": sets}) == "One constant answer: rope from length 128 on"
    assert extrapolation.constant_from({"extrapolation/256": Point(0.6, 0.5, 0.7, False)}) is None


def test_cells_of_a_table_do_not_run_into_each_other():
    cell = evaluation.judge(torch.full((3,), -1.0).double(), torch.tensor([1, 0, 0]))
    details = {name: {"sets": {"test": cell, "extrapolation/1024": cell}} for name in ("t5", "randomized_rope")}
    header, first, second, note = extrapolation.findings({"schemes": details}).splitlines()
    assert first.split() == ["t5", *["66.7%", "(0%/100%)*"] * 2] and len(first) == len(second) >= len(header)
    assert "  66.7% (0%/100%)*  66.7% (0%/100%)*" in second and "collapsed" in note
