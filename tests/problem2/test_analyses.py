"""What the analyses report is what the model did: counts, causes, proofs, means over seeds."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.files import UserError
from problem2 import dataset
from problem2.analysis import evaluation, extrapolation, mechanism, proof, span
from problem2.analysis.study_summary import as_table, sum_up
from tests.problem2.test_model import make


class Comparer(torch.nn.Module):
    """A window model by hand: every position compares itself with its neighbours, and is right."""

    def __init__(self, blind_to: tuple[int, int] | None = None):
        super().__init__()
        self.scheme = make("window").scheme
        self.blind_to = blind_to

    def votes(self, x, mask=None):
        down = torch.zeros(x.shape, dtype=torch.bool)
        steps = x[:, :-1] > x[:, 1:]
        if self.blind_to:
            steps &= (x[:, :-1] != self.blind_to[0]) | (x[:, 1:] != self.blind_to[1])
        down[:, :-1] |= steps
        down[:, 1:] |= steps
        vote = down.float() * 4 - 2
        return torch.stack([vote, -vote], -1), torch.ones_like(down)


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


def test_margins_do_not_depend_on_the_batches():
    model, rows = make("sinusoidal"), dataset.sample_rows(30, 8, 16, torch.Generator().manual_seed(0))
    whole = evaluation.margins(model, rows.sequences)
    torch.testing.assert_close(whole, evaluation.margins(model, rows.sequences, 7), atol=1e-6, rtol=1e-5)
    assert (whole > 0).tolist() == (model(rows.sequences).argmax(1) == 1).tolist()


def moved(model, condition):
    """The model with its tokens where a condition of mechanism.py wants them."""
    return mechanism.moved(model, mechanism.CONDITIONS[condition][1])


def test_relative_schemes_do_not_notice_a_shift_and_absolute_ones_do():
    rows = dataset.sample_rows(8, 16, 16, torch.Generator().manual_seed(0)).sequences
    for name in ("rope", "alibi", "t5", "window", "none", "sinusoidal", "learned", "onehot"):
        model = make(name, d_model=64)
        before = model(rows)
        with moved(model, "shifted"):
            same = torch.allclose(model(rows), before, atol=2e-3)
        assert same == (name not in ("sinusoidal", "learned", "onehot")), name
        assert torch.equal(model(rows), before), name  # an experiment leaves the model as it was


def test_where_the_tokens_are_put():
    model = make("learned")

    def positions(condition, length):
        with moved(model, condition):
            return model.scheme.positions(torch.tensor([length]), length)

    inside = positions("position interpolation", 256)
    assert inside[0] == 0 and abs(inside[-1] - 15) < 1e-4 and (inside.diff() > 0).all()
    assert positions("stretched", 16).tolist() == [*range(0, 256, 16)]
    assert positions("clamped", 20).tolist() == [*range(16), 15, 15, 15, 15]


def test_causes_follow_the_longest_sequence_of_training_and_use_what_is_known(tmp_path):
    model, sets = make("rope"), mechanism.test_sets(tmp_path, 4)
    assert [*sets] == [f"{kind}/{length}" for kind in ("extrapolation", "adjacent") for length in (4, 64)]
    report = mechanism.measure(model, sets, 4, {})
    assert [*report["adjacent"]] == [*mechanism.CONDITIONS]
    assert mechanism.measure(model, sets, 4, evaluation.predict(model, sets)) == report
    inverted = {"adjacent/64": -evaluation.margins(model, sets["adjacent/64"].sequences), "adjacent/4": torch.ones(3)}
    changed = mechanism.measure(model, sets, 4, inverted)
    assert [c for kind in report for c in report[kind] if report[kind][c] != changed[kind][c]] == ["as it is"]


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
    points = {"rope": {"test": (0.9, 0.8, 1.0, False), "extrapolation/32": (0.5, 0.4, 0.6, True)}}
    extrapolation.draw_course(points, tmp_path / "curves.png", (8, 16), "")
    assert (tmp_path / "curves.png").exists()


def test_the_title_names_the_length_from_which_on_every_answer_is_constant():
    answers = {32: True, 64: False, 128: True, 256: True}
    sets = {f"extrapolation/{length}": (0.5, 0.4, 0.6, constant) for length, constant in answers.items()}
    assert extrapolation.constant_from(sets | {"test": (1, 1, 1, False), "adjacent/512": (0.5, 0.4, 0.6, False)}) == 128
    assert extrapolation.constant_from({"extrapolation/256": (0.6, 0.5, 0.7, False)}) is None


def test_proof_holds_for_a_model_that_compares_and_finds_the_one_pair_another_does_not_see():
    report = proof.check(*proof.every_vote(Comparer()))
    assert report["holds"] and report["contexts"] == 1_020_000 and report["steps_down"] == 4950
    assert report["step_down_margin"] == 4 and report["ordered_margin"] == 4
    report = proof.check(*proof.every_vote(Comparer(blind_to=(57, 56))))
    assert not report["holds"] and report["missed_steps_down"] == 1 and report["false_alarms"] == 0
    assert (57, 56) in pairwise(report["quietest_unsorted"])


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_proof_finds_the_unsorted_sequence_whose_strongest_vote_is_weakest(seed):
    generator = torch.Generator().manual_seed(seed)
    middle, first, last = (torch.randn([3] * axes, generator=generator) for axes in (3, 2, 2))

    def strongest(sequence):
        ends = [first[sequence[:2]], last[sequence[-2:]]]
        return max(ends + [middle[triple] for triple in zip(sequence, sequence[1:], sequence[2:], strict=False)])

    votes, found = proof.quietest_unsorted(middle, first, last)
    claimed = min(votes[a, b] for a, b in ((1, 0), (2, 0), (2, 1)))
    assert found != sorted(found) and strongest(tuple(found)) == claimed
    others = (sequence for length in range(2, 7) for sequence in product(range(3), repeat=length))
    assert all(strongest(sequence) >= claimed for sequence in others if sequence != tuple(sorted(sequence)))


@pytest.mark.parametrize("causal", [False, True])
def test_the_bound_is_for_the_model_that_is_given_and_compared_with_what_it_computes(causal, monkeypatch):
    monkeypatch.setattr(proof, "COUNT", 12)  # values, so that it takes no time
    monkeypatch.setattr(proof, "VALUES", torch.arange(12))
    conditions = {"ordered_margin": 100.0, "step_down_margin": 100.0}  # as if both held
    monkeypatch.setattr(proof, "check", lambda *_: conditions)
    model = make("window", num_layers=1, pooling="max", causal=causal).eval()
    computed = proof.every_vote(model)
    report = proof.check_rounding(model, computed)
    assert 0 < report["float32_distance_measured"] < report["float32"]["largest_radius"]
    assert report["float32"]["holds"] and report["float64"]["holds"]
    report = proof.check_rounding(model, [votes + 1 for votes in computed])
    assert not report["float32"]["holds"] and not report["float64"]["holds"]


def test_proof_is_only_for_models_whose_local_contexts_can_be_tried():
    untrained = proof.prove(make("window", num_layers=1, pooling="max"))
    assert not untrained["holds"] and "not right" in proof.in_words(untrained)
    assert proof.prove(make("window", num_layers=2, pooling="max")) is None
    assert proof.prove(make("window", num_layers=1)) is None
    assert proof.prove(make("rope", num_layers=1, pooling="max")) is None


def test_cells_of_a_table_do_not_run_into_each_other():
    cell = evaluation.judge(torch.full((3,), -1.0).double(), torch.tensor([1, 0, 0]))
    details = {name: {"sets": {"test": cell, "extrapolation/1024": cell}} for name in ("t5", "randomized_rope")}
    header, first, second, note = extrapolation.as_table(details, (1024,)).splitlines()
    assert first.split() == ["t5", *["66.7%", "(0%/100%)*"] * 2] and len(first) == len(second) >= len(header)
    assert "  66.7% (0%/100%)*   66.7% (0%/100%)*" in second and "collapsed" in note


def a_run(seed, accuracy, collapsed=False, **settings):
    numbers = dict.fromkeys(("accuracy", "balanced_accuracy"), accuracy) | {"rows": 10, "interval_95": [0.1, 0.9]}
    numbers |= {name: {"accuracy": accuracy} for name in ("sorted", "unsorted")} | {"collapsed": collapsed}
    causes = {kind: dict.fromkeys(mechanism.CONDITIONS, numbers) for kind in ("extrapolation", "adjacent")}
    return {
        "settings": {"encoding": "rope", "config": {"protocol": "course", "seed": seed, "epochs": 2} | settings},
        "sets": {"test": numbers},
        "mechanism": causes,
        "training": {"val_acc": accuracy, "seed": seed, "data": str(seed)},
        "proof": None,
    }


def test_seeds_are_summed_up():
    runs = [a_run(3, 0.5, True), a_run(1, 1.0), a_run(2, 0.9)]
    summary = sum_up(runs)["course"]
    cell = summary["rope"]["sets"]["test"]
    assert summary["rope"]["seeds"] == [1, 2, 3] and abs(cell["mean"] - 0.8) < 1e-9 and cell["collapsed_seeds"] == 1
    assert (cell["min"], cell["max"]) == (0.5, 1.0) and abs(cell["sd"] - 0.2645751) < 1e-6
    assert as_table(summary, "adjacent").splitlines()[1].split() == ["rope", "3", "80.0%"]
    with pytest.raises(UserError, match="rope, course protocol: seeds 1 and 4 have different settings"):
        sum_up([*runs, a_run(4, 1.0, epochs=3)])
