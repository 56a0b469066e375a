"""Habits, probes, the hard case and the story: planted structure must be found, and nothing else."""

import copy

import pytest
import torch

from problem1.analysis import attention_shift, patching, probes
from problem1.analysis import attention_statistics as specialization
from problem1.analysis import carry_through_nines as nines
from problem1.analysis import summary as story
from problem1.analysis.attention_maps import as_sums
from problem1.analysis.carry_pairs import make_group
from problem1.analysis.context import join, pick
from problem1.dataset import carries, decoder_inputs, every_pair
from tests.problem1 import analysis_models


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    return analysis_models.context(analysis_models.adder(), tmp_path_factory.mktemp("results"))


SUMS = as_sums([(47, 92)] * 4, 2)  # the larger digit is b's in the tens, a's in the ones


def one_hot(rows: list[int], keys: int) -> torch.Tensor:
    """[1, Tq, Tk] each query looks at one key."""
    return torch.nn.functional.one_hot(torch.tensor(rows), keys).double().unsqueeze(0)


# Two-digit source: a10 a1 + b10 b1. Outputs: hundreds, tens, ones.
HABITS = [
    ("encoder.0.self.head0", [0, 1, 2, 3, 4], 5, {"itself": 1, "same column": 0, "operator": 0.2, "lower column": 0}),
    ("encoder.0.self.head0", [3, 4, 2, 0, 1], 5, {"itself": 0.2, "same column": 1, "lower column": 0}),
    ("encoder.0.self.head0", [3, 4, 2, 3, 4], 5, {"same column": 0.5, "same column, a": 0, "same column, b": 1}),
    ("decoder.0.cross.head1", [2, 0, 1], 5, {"same column": 1, "same column, a": 1, "same column, b": 0}),
    ("decoder.0.cross.head1", [2, 3, 1], 5, {"larger digit": 1, "smaller digit": 0}),
    ("decoder.0.cross.head1", [2, 0, 1], 5, {"larger digit": 0.5, "smaller digit": 0.5}),
    ("decoder.0.cross.head1", [2, 0, 2], 5, {"larger digit": 0, "smaller digit": 0.5}),
    ("encoder.0.self.head0", [1, 2, 2, 4, 2], 5, {"lower column": 1, "operator": 0.6}),
    ("decoder.0.cross.head1", [2, 0, 4], 5, {"same column": 1, "lower column": 0, "operator": 1 / 3}),
    ("decoder.0.cross.head1", [2, 1, 0], 5, {"same column": 0, "lower column": 1}),
    ("decoder.1.self.head0", [0, 0, 0], 3, {"start": 1, "itself": 0, "previous outputs": 0}),
    ("decoder.1.self.head0", [0, 1, 1], 3, {"start": 0, "itself": 0.5, "previous outputs": 1}),
]


@pytest.mark.parametrize("head, looks_at, keys, expected", HABITS)
def test_habits_of_planted_patterns(head, looks_at, keys, expected):
    found = specialization.habits(head, one_hot(looks_at, keys).expand(4, -1, -1), SUMS)
    for name, value in expected.items():
        assert found[name].tolist() == pytest.approx([value] * 4), name
    assert found["spread"].tolist() == pytest.approx([0.0] * 4)
    assert found["stability"].tolist() == pytest.approx([1.0] * 4)


def test_spread_and_stability():
    even = torch.full((1, 5, 5), 0.2, dtype=torch.double).expand(2, -1, -1)
    assert specialization.habits("encoder.0.self.head0", even, pick(SUMS, slice(2)))[
        "spread"
    ].tolist() == pytest.approx([1.0, 1.0])
    causal = torch.ones(3, 3, dtype=torch.double).tril()
    causal = (causal / causal.sum(1, keepdim=True)).expand(2, -1, -1)
    assert specialization.habits("decoder.0.self.head0", causal, pick(SUMS, slice(2)))[
        "spread"
    ].tolist() == pytest.approx([1.0, 1.0])
    turning = torch.cat([one_hot([0] * 5, 5), one_hot([4] * 5, 5)])  # half the rows look here, half there
    assert specialization.habits("encoder.0.self.head0", turning, pick(SUMS, slice(2)))[
        "stability"
    ].tolist() == pytest.approx([0.5, 0.5])


def test_probes_find_what_is_there_and_nothing_in_shuffled_labels():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(3, 1, 2_000, 10, generator=generator)  # three layers, one position
    labels = (vectors[1, 0, :, 4] > 0.3).float().unsqueeze(1)  # only in the second layer, on one axis
    vectors = vectors.transpose(1, 2)  # [L, N, T, d]
    fitted, scored = probes.prepare(vectors[:, :1_500], vectors[:, 1_500:])
    found = probes.accuracy(scored, probes.fit(fitted, labels[:1_500]), labels[1_500:])[:, 0]
    assert found[1] > 0.97 and found[[0, 2]].max() < 0.7
    shuffled = labels[torch.randperm(2_000, generator=generator)]
    control = probes.accuracy(scored, probes.fit(fitted, shuffled[:1_500]), shuffled[1_500:])
    assert control.max() < 0.7


def test_residuals_are_the_models_own(context):
    sums = context.rows["test"]
    found = probes.residuals(context.model, sums)
    with torch.no_grad():
        logits = context.model.output(context.model.decoder_norm(found["decoder"][-1]))
        torch.testing.assert_close(logits, context.model(sums.sources, decoder_inputs(sums.targets)))
    assert found["encoder"].shape == (2, len(sums), 5, 32) and found["decoder"].shape == (2, len(sums), 3, 32)


def test_probe_tables_have_a_cell_for_every_carry_layer_and_position(context):
    results = probes.probe(context)
    assert results["carries"] == ["out of the tens", "out of the ones"]
    encoder = torch.tensor(results["sides"]["encoder"]["accuracy"])
    assert encoder.shape == (2, 2, 5) and (encoder > 0.4).all()
    assert encoder[:, -1].max() > encoder[:, 0].max()  # a digit alone does not tell the carry, later layers do
    share = carries(context.rows["test"])[:, 1].double().mean().item()
    assert results["majority"][1] == pytest.approx(max(share, 1 - share), abs=0.02)
    assert torch.tensor(results["sides"]["decoder"]["control_held_out"]).max() < 0.75


def test_no_pair_is_scored_that_a_probe_was_fitted_on():
    for test in (analysis_models.rows()["test"], every_pair(1)):
        fitted, scored = probes.held_out_pairs(test)
        assert len(fitted) > 1 and len(scored) > 1
        rows = {tuple(row) for row in fitted.sources.tolist()}
        assert not any(tuple(row) in rows for row in scored.sources.tolist())


def test_belief_tells_operands_from_written_digits(tmp_path):
    """A model that ignores what is written must follow the operands; one that reads only that, the digits."""
    group = make_group(2, target=0, nines=1, count=40)

    class ByOperands(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.anchor = torch.nn.Parameter(torch.zeros(1))

        def head_names(self):
            return []

        def forward(self, sources, prefixes, hooks=None):
            number = (sources[:, 0] + sources[:, 3]) * 10 + sources[:, 1] + sources[:, 4]
            digits = torch.stack([number // 100, number // 10 % 10, number % 10], 1)
            return torch.nn.functional.one_hot(digits, 13).float()

    class ByWrittenDigits(ByOperands):
        def forward(self, sources, prefixes, hooks=None):
            digits = torch.stack([prefixes[:, 0] * 0, 9 - 9 * prefixes[:, 1].clamp(0, 1), prefixes[:, 2] * 0], 1)
            return torch.nn.functional.one_hot(digits, 13).float()

    for model, key in ((ByOperands(), "follows_operands"), (ByWrittenDigits(), "follows_written_digits")):
        found = nines.belief(analysis_models.context(model, tmp_path), group)
        assert found["digit"] == "tens"
        assert found[key]["share"] == 1.0
        assert found["follows_operands"]["share"] + found["follows_written_digits"]["share"] == 1.0
        assert found["follows_written_digits_without_self_attention"] == found["follows_written_digits"]


def test_belief_without_self_attention_equals_an_independent_implementation(context):
    group = make_group(2, target=0, nines=1, count=200)
    found = nines.belief(context, group)["follows_written_digits_without_self_attention"]
    model, kept = context.model, {}
    asked, told = (join(parts) for parts in ((group.without, group.carrying), (group.carrying, group.without)))
    projection = model.decoder[0].self_attention.output
    handle = projection.register_forward_pre_hook(lambda _, inputs: kept.update(it=inputs))
    with torch.no_grad():
        model(asked.sources, decoder_inputs(asked))
    handle.remove()
    handle = projection.register_forward_pre_hook(lambda _, inputs: kept["it"])
    with torch.no_grad():
        digits = model(asked.sources, decoder_inputs(told)).argmax(-1)[:, 1]
    handle.remove()
    assert found["share"] == pytest.approx((digits == told.targets[:, 1]).double().mean().item())


def it(share: float) -> dict:
    return {"share": share, "interval_95": [share, share], "n": 100}


def belief(operands: float, written: float, without: float) -> dict:
    names = ("follows_operands", "follows_written_digits", "follows_written_digits_without_self_attention")
    return {"name": "x", "digit": "tens"} | dict(zip(names, map(it, (operands, written, without)), strict=True))


def test_a_carry_read_off_the_answer_is_told_with_its_way():
    assert "found anew" in " ".join(story.believed([belief(0.9, 0.1, 0.1)]))
    directly = " ".join(story.believed([belief(0.1, 0.9, 0.8)]))
    assert "read off the answer" in directly and "not needed" in directly and "80.0" in directly
    assert "It is self-attention that brings it" in " ".join(story.believed([belief(0.1, 0.9, 0.2)]))
    assert story.believed([belief(0.4, 0.4, 0.4)]) == []


def test_a_pattern_that_does_not_move_has_no_shift(context):
    one = torch.softmax(torch.randn(6, 3, 5), -1)
    assert not attention_shift.distance(one, one).any()
    assert attention_shift.distance(one_hot([0, 1], 5), one_hot([0, 4], 5)).tolist() == [[0.0, 1.0]]
    found = attention_shift.shifts(context, make_group(2, target=1, nines=0, count=60))
    assert set(found["heads"]) == set(context.heads)
    first = found["heads"]["decoder.0.self.head0"]  # reads the same digits with and without the carry
    assert first["moved"] == pytest.approx(0, abs=1e-6) and first["difference"] == pytest.approx(0, abs=1e-6)


@pytest.fixture(scope="module")
def measured(context):
    group = patching.measure(context, make_group(2, target=1, nines=0, count=patching.PAIRS))
    through = patching.measure(context, make_group(2, target=0, nines=1, count=patching.PAIRS))
    return {
        "patching": {"groups": [group, through]},
        "probes": probes.probe(context),
        "nines": nines.hard_cases(context),
    }


def test_patching_results_hold_what_the_summary_needs(measured):
    group = measured["patching"]["groups"][0]
    assert group["pairs"] > 300 and group["place"] == "tens"
    assert group["stages"]["all heads"]["flips"]["share"] == 1.0
    assert group["stages"]["all decoder cross"]["flips"]["share"] == 1.0
    assert group["sets"]["cross heads"]["sufficient"]["share"] > 0.5
    assert group["sets"]["cross heads"]["others_instead"]["share"] < 0.5
    assert len(group["positions"]["encoder.0.self.head0"]["flips"]) == 5
    assert len(group["positions"]["decoder.0.cross.head0"]["flips"]) == 2  # later positions cannot matter
    low, high = group["heads"]["encoder.0.self.head0"]["shift_interval_95"]
    assert low <= group["heads"]["encoder.0.self.head0"]["shift"] <= high


def test_the_story_is_told_from_the_numbers(context, measured):
    shift = {"groups": [attention_shift.shifts(context, make_group(2, target=1, nines=0, count=60))]}
    told = " ".join(story.tell(context, ABLATION, measured["patching"], measured["probes"], measured["nines"], shift))
    group = measured["patching"]["groups"][0]
    assert f"The carry into the tens enters through {story.listed(group['sets']['cross heads']['heads'])}" in told
    assert story.percent(story.pooled([group], "cross heads", "sufficient")) in told
    assert all(head in told for head in group["sets"]["cross heads"]["heads"])
    assert "The usual story" in told


@pytest.mark.parametrize(
    "share, words", [(0.01, "is contradicted"), (0.3, "is not the main way"), (0.9, "As the usual")]
)
def test_the_usual_story_is_judged_by_its_measured_share(measured, share, words):
    groups = copy.deepcopy(measured["patching"]["groups"])
    groups[1]["stages"]["all decoder self"]["flips"] = {"share": share, "interval_95": [share, share], "n": 100}
    groups[0]["stages"]["all decoder self"]["flips"] = {"share": 0.0, "interval_95": [0.0, 0.01], "n": 100}
    assert words in story.usual_story(groups, [])
    if share < 0.05:
        assert "holds in one respect only" in story.usual_story(groups, [belief(0.1, 0.9, 0.2)])


def test_no_conclusion_is_drawn_from_insufficient_heads(measured):
    groups = copy.deepcopy(measured["patching"]["groups"])
    groups[0]["sets"]["cross heads"]["sufficient"] = {"share": 0.2, "interval_95": [0.1, 0.3], "n": 100}
    assert "no small set of heads" in story.entries(groups)[0] and "20.0 ± 10.0%" in story.entries(groups)[0]


def test_a_pattern_that_moves_without_effect_is_called_no_cause(measured):
    groups = measured["patching"]["groups"]
    heads = {"quiet": {"difference": 0.1, "moved": 0.1, "moved_without_carry": 0.0}}
    heads["loud"] = {"difference": 0.8, "moved": 0.9, "moved_without_carry": 0.1}
    shift = {"groups": [{"name": "tens, straight", "heads": heads}]}
    for share, moral in ((0.0, True), (0.9, False)):
        flips = {"share": share, "interval_95": [share, share], "n": 100}
        changed = [{**groups[0], "heads": {"loud": {"flips": flips}}}]
        told = story.shifted(shift, changed)
        assert "is loud (tens, straight: 90%" in told and ("no cause" in told) == moral
    assert story.shifted(shift, []).endswith("when only the digit changes).")


def drops(zero: float, mean: float) -> dict:
    return {"zero": {"drop": zero}, "mean": {"drop": mean}}


ABLATION = {"heads": {"a": drops(0.8, 0.7), "b": drops(0.6, 0.001), "c": drops(0.0, 0.0), "d": drops(0.1, 0.0)}}


def test_a_head_that_is_needed_for_its_mean_only_is_no_computation():
    assert "set to zero, b costs 60.0 points of accuracy, but 0.1" in story.constants(ABLATION)
    assert story.constants(ABLATION).endswith("the same holds for d.")
    assert story.constants({"heads": {"a": drops(0.8, 0.7), "c": drops(0.0, 0.0)}}) == ""


def test_other_ways_are_not_hidden(measured):
    groups = copy.deepcopy(measured["patching"]["groups"][:1])
    groups[0]["sets"]["cross heads"]["others_instead"] = {"share": 0.6, "interval_95": [0.5, 0.7], "n": 100}
    assert "other ways beside" in story.entries(groups)[0]
    groups[0]["sets"]["cross heads"]["others_instead"] = {"share": 0.0, "interval_95": [0.0, 0.1], "n": 100}
    assert "other ways beside" not in story.entries(groups)[0]


def test_a_model_that_cannot_add_gets_a_warning_for_a_story(tmp_path):
    context = analysis_models.context(analysis_models.untrained(), tmp_path)
    assert not context.meaningful
    assert story.tell(context, {}, {}, {}, {}, {}) == [context.warning]
    group = patching.measure(context, make_group(2, target=1, nines=0, count=100))
    assert group["pairs"] == 0
