"""Pairs of sums, patching, roles: planted structure must be found, and nothing else."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab.hooks import head_names
from problem1.analysis import ablation, attention_statistics, patching, roles, summary
from problem1.analysis.carry_pairs import all_groups, make_group
from problem1.analysis.interventions import InterventionRunner
from tests.problem1 import analysis_models
from tests.problem1.test_analysis_heads import FEED_FORWARD, by_forward_hook, hooked, one_hot
from tests.problem1.test_data import check_row


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    return analysis_models.context(analysis_models.adder(), tmp_path_factory.mktemp("results"))


# --- pairs --------------------------------------------------------------------------------------------------------


@given(st.one_of(st.integers(1, 7), st.just(19)), st.data())
def test_pairs_differ_in_one_digit_and_exactly_the_wanted_carries(num_digits, data):
    """Of one digit there are 36 pairs without a carry; 50 are drawn all the same."""
    nines = data.draw(st.integers(0, min(2, num_digits - 1)))
    target = data.draw(st.integers(0, num_digits - 1 - nines))
    group = make_group(num_digits, target, nines, 50, seed=data.draw(st.integers(0, 5)))
    assert len(group.without) == len(group.carrying) == len(group.control) == 50
    for sums in (group.without, group.carrying, group.control):
        for source, answer in zip(sums.sources.tolist(), sums.targets.tolist(), strict=True):
            check_row(source, answer, num_digits)
    (a, b), (other_a, other_b), (control_a, _) = (s.operands() for s in (group.without, group.carrying, group.control))
    changed = torch.arange(num_digits) == target + nines  # one digit of a, and no other
    assert ((a != other_a) == changed).all() and ((a != control_a) == changed).all() and (b == other_b).all()
    answer, other, control = (sums.targets for sums in (group.without, group.carrying, group.control))
    assert (answer[:, :target] == other[:, :target]).all() and (
        answer[:, : target + 1] == control[:, : target + 1]
    ).all()
    assert ((answer[:, target] + 1) % 10 == other[:, target]).all()
    passed = slice(target, target + nines)
    assert ((a + b)[:, passed] == 9).all()
    assert (answer[:, 1:][:, passed] == 9).all() and (other[:, 1:][:, passed] == 0).all()


def test_every_digit_a_carry_can_reach_has_its_pairs():
    names = ["thousands, straight", "hundreds, straight", "tens, straight"]
    names += ["thousands, through one 9", "hundreds, through one 9", "thousands, through two 9s"]
    assert [group.name for group in all_groups(3, 5)] == names
    assert [group.name for group in all_groups(1, 5)] == ["tens, straight"]
    straight = [group.target for group in all_groups(19, 5) if group.nines == 0]
    assert straight[0] == 0 and straight[-1] == 18 and len(straight) == 6


# --- patching -----------------------------------------------------------------------------------------------------


def test_patching_all_heads_gives_the_corrupted_run():
    model = analysis_models.adder()
    pairs, _ = patching.make_experiment(model, make_group(2, target=1, nines=0, count=200))
    flips, moved = pairs.effect(pairs.patch(head_names(model)))
    assert flips.all()
    torch.testing.assert_close(moved, torch.ones_like(moved), atol=1e-3, rtol=0)
    # All that the source tells comes through cross-attention: these heads alone must do the same.
    cross = patching.stages(model)["all decoder cross"]
    torch.testing.assert_close(pairs.effect(pairs.patch(cross))[1], moved, atol=1e-3, rtol=0)
    frozen = pairs.patch(head_names(model)) | pairs.freeze(head_names(model))
    assert not pairs.effect({})[0].any() and not pairs.effect(frozen)[0].any()
    torch.testing.assert_close(pairs.clean.logits(pairs.freeze(cross)), pairs.clean.recorded.logits)


class EarlyFeedsLate:
    """A stand-in for an experiment: the digit is the late head's, which follows the early one unless frozen."""

    def patch(self, heads):
        return dict.fromkeys(heads, "corrupted")

    def freeze(self, heads):
        return dict.fromkeys(heads, "clean")

    def effect(self, interventions):
        flips = interventions.get("late", interventions.get("early", "clean")) == "corrupted"
        return torch.full((8,), flips), torch.full((8,), float(flips) - 0.1 * ("early" in interventions))


def test_what_others_bring_through_the_chosen_heads_does_not_count_as_theirs():
    pairs, heads = EarlyFeedsLate(), ["early", "late", "idle"]
    single = {head: pairs.effect(pairs.patch([head])) for head in heads}
    found = patching.minimal_set(pairs, single, pairs.effect(pairs.patch(heads)), heads)
    assert found["heads"] == ["late"]
    assert found["sufficiency"]["share"] == 1.0 and found["complement_patched"]["share"] == 0.0
    assert found["sufficiency"]["n"] == 4  # measured on the half that the heads were not chosen on
    early = {"early": single["early"]}
    found = patching.minimal_set(pairs, early, single["early"], heads)
    assert found["heads"] == ["early"] and found["sufficiency"]["share"] == 1.0


@pytest.fixture(scope="module")
def patched(context):
    groups = [make_group(2, target=1, nines=0, count=patching.PAIRS), make_group(2, 0, 1, patching.PAIRS)]
    return [patching.measure(context, group) for group in groups]


def test_patching_and_ablation_equal_an_independent_implementation(context, patched):
    model, group = context.model, make_group(2, target=1, nines=0, count=patching.PAIRS)
    pairs, usable = patching.make_experiment(model, group)
    clean, corrupted = (sums[usable] for sums in group.clean_and_corrupted())
    outputs = hooked(model, corrupted, {})[1]
    for name in (*context.heads, *FEED_FORWARD):
        logits = by_forward_hook(model, clean, {name: outputs[name]})
        torch.testing.assert_close(pairs.clean.logits(pairs.patch([name])), logits)
        flips = logits[:, 1].argmax(-1) == corrupted.targets[:, 1]
        assert torch.equal(pairs.effect(pairs.patch([name]))[0], flips)
        if name in context.heads:
            found = patched[0]["heads"][name]
            assert found["flips"]["share"] == pytest.approx(flips.double().mean().item())
            wrong = by_forward_hook(model, clean, {name: 0.0}).argmax(-1)[:, 1] != clean.targets[:, 1]
            assert found["wrong_without"]["zero"]["share"] == pytest.approx(wrong.double().mean().item())
            assert found["wrong_without"]["mean"]["n"] == len(clean) == patched[0]["pairs"] > 300
    torch.testing.assert_close(pairs.clean.logits({}), by_forward_hook(model, clean, {}))  # nothing stays behind
    assert patched[0]["stages"]["all decoder cross"]["flips"]["share"] == 1.0
    chosen = patched[0]["minimal_sets"]["decoder cross"]
    assert chosen["sufficiency"]["share"] > 0.5 > chosen["complement_patched"]["share"]


def test_attention_that_moves_stands_beside_what_is_flipped(context, patched):
    one = torch.softmax(torch.randn(6, 3, 5), -1)
    assert not patching.distance(one, one).any()
    assert patching.distance(one_hot([0, 1], 5), one_hot([0, 4], 5)).tolist() == [[0.0, 1.0]]
    first = patched[0]["heads"]["decoder.0.self.head0"]["attention"]  # reads the same digits with and without the carry
    assert first["moved"] == pytest.approx(0, abs=1e-6) and first["difference"] == pytest.approx(0, abs=1e-6)
    # The same from plain runs of the sums without and with the carry, and of the control, on the pairs not chosen on.
    group = make_group(2, target=1, nines=0, count=patching.PAIRS)
    runs = [InterventionRunner(context.model, part) for part in (group.without, group.carrying, group.control)]
    right = [(run.recorded.logits.argmax(-1) == run.sums.targets)[:, 1] for run in runs[:2]]
    rows = (right[0] & right[1]).nonzero().flatten()[1::2]
    without, carrying, control = (run.recorded.patterns["decoder.0.cross.head1"][rows, 1] for run in runs)
    found = patched[0]["heads"]["decoder.0.cross.head1"]["attention"]
    assert found["moved"] == pytest.approx((without - carrying).abs().sum(-1).mean().item() / 2, abs=1e-5)
    assert found["moved_without_carry"] == pytest.approx((without - control).abs().sum(-1).mean().item() / 2, abs=1e-5)


# --- roles and summary ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everything(context, patched):
    return {
        "ablation": {"layers": ablation.about_layers(context), **ablation.about_heads(context)},
        "attention_statistics": attention_statistics.measure(context),
        "patching": {"groups": patched},
    }


def test_the_summary_holds_the_numbers_of_the_others(context, patched, everything):
    found = summary.collect(everything)
    assert found["groups"][0]["minimal_sets"] == patched[0]["minimal_sets"]
    assert [about["head"] for about in found["heads"]] == everything["ablation"]["ranking"]
    for about in found["heads"]:
        assert about["most_flips"]["share"] == max(group["heads"][about["head"]]["flips"]["share"] for group in patched)
        assert about["zero"] == everything["ablation"]["heads"][about["head"]]["zero"]["drop"]
    assert set(found["claims"]["layers_and_feed_forward"]) == {
        *("encoder.0.self", "decoder.0.self", "decoder.0.cross", "decoder.0.attention"),
        *("encoder.0.feed_forward", "decoder.0.feed_forward"),
    }
    text = summary.as_text(found)
    for group in patched:
        share = group["minimal_sets"]["decoder cross"]["sufficiency"]["share"]
        assert any(line.startswith(group["name"]) and f"{100 * share:.1f}% (" in line for line in text.splitlines())
    assert "D0.cross." in text and "decoder.0.cross" not in text and 1 <= len(summary.in_detail(found)) <= 4


def planted_head(zero: float, mean: float, flips: float, moves: float) -> tuple[dict, dict]:
    """A head by its ablation, and by its patching in one group of 100 pairs."""
    kinds = {kind: {"drop": drop, "by_digit": {"ones": 1 - drop}} for kind, drop in (("zero", zero), ("mean", mean))}
    flips = {"share": flips, "interval_95": [max(0.0, flips - 0.02), flips + 0.02], "n": 100}
    return kinds, {"flips": flips, "attention": {"difference": moves}, "wrong_without": {}}


def test_roles_and_lessons_follow_from_the_numbers():
    planted = {
        "encoder.0.self.head0": planted_head(0.9, 0.8, 0.1, 0.0),
        "decoder.0.self.head0": planted_head(0.5, 0.0, 0.0, 0.1),  # a position signal
        "decoder.0.self.head1": planted_head(0.0, 0.0, 0.0, 0.6),  # looks elsewhere, to no effect
        "decoder.0.cross.head0": planted_head(0.0, 0.0, 0.9, 0.3),  # enough, but not needed
    }
    heads = {head: kinds for head, (kinds, _) in planted.items()}
    lost = {"heads": heads, "ranking": list(heads), "baseline": {"by_digit": {"ones": 1.0}}}
    attends = {"description": "x, positional", "main_target": "lower column", "shape": "vertical"}
    stage = {"flips": {"share": 0.0}, "logit_difference": 0.0}
    group = {"name": "tens, straight", "pairs": 100, "stages": {"all decoder self": stage}}
    group["heads"] = {head: measured for head, (_, measured) in planted.items()}
    layers = dict.fromkeys(("encoder.0.self", "decoder.0.attention"), heads["encoder.0.self.head0"])
    found = roles.collect(lost, layers, {"heads": dict.fromkeys(heads, attends)}, [group])
    assert [about["role"] for about in found["heads"]] == [
        "needed; takes part in a carry",
        "needed, but its mean suffices; brings no carry",
        "not needed alone; brings no carry",
        "not needed alone; brings a carry",
    ]
    assert [lesson["label"] for lesson in found["lessons"].values()] == ["D0.self.0", "D0.self.1", "D0.cross.0"]
    assert found["lessons"]["needed_but_brings_nothing"]["digits_lost"] == {"ones": 0.5}
    assert found["claims"]["lower_digit"]["bring_a_carry_and_look_there"] == ["D0.cross.0"]
    assert found["claims"]["vertical_and_diagonal"]["vertical"]["needed"] == ["E0.0"]
    nothing = roles.collect(lost, layers, {"heads": dict.fromkeys(heads, attends)}, [])["lessons"]
    assert nothing["flips_but_is_not_needed"] is None


def test_pairs_that_a_model_gets_wrong_are_not_measured(tmp_path):
    context = analysis_models.context(analysis_models.untrained(), tmp_path)
    group = patching.measure(context, make_group(2, target=1, nines=0, count=100))
    assert not context.meaningful and group["pairs"] == 0 and "too few" in group["reason"]
