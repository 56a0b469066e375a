"""Pairs of sums, patching, the table of heads: planted structure must be found, and nothing else."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab.hooks import head_names
from problem1.analysis import ablation, attention_statistics, patching, summary
from problem1.analysis.carry_pairs import all_groups, make_group
from tests.problem1 import analysis_models
from tests.problem1.test_analysis_heads import FEED_FORWARD, by_forward_hook, hooked
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
    pairs = patching.make_experiment(model, make_group(2, target=1, nines=0, count=200))
    whole = pairs.effect(pairs.patch(head_names(model)))
    assert whole["flips"]["share"] == 1 and whole["logit_difference"] == pytest.approx(1, abs=1e-3)
    # All that the source tells comes through cross-attention: these heads alone must do the same.
    cross = patching.stages(model)["all decoder cross"]
    by_cross = pairs.effect(pairs.patch(cross))
    assert by_cross["flips"] == whole["flips"]
    assert by_cross["logit_difference"] == pytest.approx(1, abs=1e-3)
    frozen = pairs.patch(head_names(model)) | pairs.freeze(head_names(model))
    for nothing in ({}, frozen):
        effect = pairs.effect(nothing)
        assert effect["flips"]["share"] == 0 and effect["logit_difference"] == pytest.approx(0, abs=1e-3)
    torch.testing.assert_close(pairs.clean.logits(pairs.freeze(cross)), pairs.clean.recorded.logits)


@pytest.fixture(scope="module")
def patched(context):
    return patching.measure_all(context)


def test_patching_equals_an_independent_implementation(context, patched):
    model = context.model
    found = patched["groups"][0]
    group = make_group(2, found["target"], found["nines"], patching.PAIRS)
    column = group.target
    clean, corrupted = group.clean_and_corrupted()
    right = [by_forward_hook(model, sums, {}).argmax(-1) == sums.targets for sums in (clean, corrupted)]
    usable = (right[0] & right[1])[:, column]
    clean, corrupted = clean[usable], corrupted[usable]
    before, outputs = hooked(model, clean, {})
    others = hooked(model, corrupted, {})[1]

    def flips(values: dict) -> float:
        logits = by_forward_hook(model, clean, values)
        return (logits.argmax(-1) == corrupted.targets)[:, column].double().mean().item()

    for name in context.heads:
        assert found["heads"][name]["flips"]["share"] == pytest.approx(flips({name: others[name]}))
    for name in FEED_FORWARD:
        assert found["stages"][name]["flips"]["share"] == pytest.approx(flips({name: others[name]}))
    assert found["pairs"] == len(clean) > 300 and found["stages"]["all decoder cross"]["flips"]["share"] == 1
    carrying = patched["carrying_heads"]
    together = {head: others[head] for head in carrying}
    held = others | {head: outputs[head] for head in carrying}
    held = {head: held[head] for head in context.heads}  # no feed-forward layer is patched
    assert found["stages"]["carrying heads"]["flips"]["share"] == pytest.approx(flips(together))
    assert found["stages"]["all other heads"]["flips"]["share"] == pytest.approx(flips(held))
    torch.testing.assert_close(by_forward_hook(model, clean, {}), before)  # nothing stays behind


def test_carrying_heads_bring_a_carry_and_another_digit_does_not(context, patched):
    assert [group["name"] for group in patched["groups"]] == ["hundreds, straight", "tens, straight"] + [
        "hundreds, through one 9"
    ]
    straight = patched["groups"][1]
    assert straight["stages"]["carrying heads"]["flips"]["share"] > 0.5 > straight["control"]["share"]
    most = {}
    for head in context.heads:
        most[head] = max(group["heads"][head]["flips"]["share"] for group in patched["groups"])
    expected = {head for head, share in most.items() if "cross" in head and share >= patching.BRINGS}
    assert set(patched["carrying_heads"]) == expected
    assert patched["carrying_heads"][0] == max(expected, key=most.get)


def test_carrying_heads_flip_a_twentieth_of_the_pairs_in_some_case():
    shares = {
        "encoder.0.self.head0": (1.0, 1.0),  # what it brings must come through cross-attention, too
        "decoder.0.cross.head0": (0.04, 0.06),
        "decoder.0.cross.head1": (0.9, 0.0),
        "decoder.0.cross.head2": (0.04, 0.04),
    }
    groups = []
    for case in range(2):
        groups.append({"heads": {head: {"flips": {"share": share[case]}} for head, share in shares.items()}})
    carrying = ["decoder.0.cross.head1", "decoder.0.cross.head0"]
    assert patching.find_carrying(list(shares), groups) == carrying and patching.find_carrying(list(shares), []) == []


def test_pairs_that_a_model_gets_wrong_are_not_measured(tmp_path):
    context = analysis_models.context(analysis_models.untrained(), tmp_path)
    results = patching.run(context)
    assert not context.meaningful and results["carrying_heads"] == []
    assert all(group["pairs"] == 0 and "too few" in group["reason"] for group in results["groups"])
    assert "too few" in patching.findings(results)


# --- the table of heads -------------------------------------------------------------------------------------------


def test_the_table_holds_the_numbers_of_the_others(context, patched):
    lost = ablation.about_heads(context)
    heads = summary.collect(lost, attention_statistics.measure(context), patched["groups"])
    assert [about["head"] for about in heads] == lost["ranking"]
    for about in heads:
        flips = [group["heads"][about["head"]]["flips"]["share"] for group in patched["groups"]]
        assert about["most_flips"]["share"] == max(flips)
        assert about["zero"] == lost["heads"][about["head"]]["zero"]["drop"]
        assert about["mean"] == lost["heads"][about["head"]]["mean"]["drop"]
    text = summary.as_text({"heads": heads})
    shown = [about for about in heads if about["shown"]]
    assert all(sum(line.startswith(f"{about['label']} ") for line in text.splitlines()) == 1 for about in shown)
    assert f"{len(heads) - len(shown)} others" in text and "decoder.0.cross" not in text
    assert set(lost["layers"]) == {
        *("encoder.0.self", "decoder.0.self", "decoder.0.cross", "decoder.0.attention"),
        *("encoder.0.feed_forward", "decoder.0.feed_forward"),
    }


PLANTED = {  # head: points lost (zero, mean), flips, main target; what it does
    "encoder.0.self.head0": (0.9, 0.8, 0.1, "same column", "pairs a column's digits"),
    "decoder.0.self.head0": (0.5, 0.0, 0.0, "start token", "its mean suffices"),
    "decoder.0.cross.head0": (0.3, 0.2, 0.9, "lower column", "fetches the carry"),
    "decoder.0.cross.head1": (0.2, 0.2, 0.0, "same column", "reads the column it writes"),
    "decoder.0.self.head2": (0.1, 0.1, 0.0, "own position", "needed"),
    "decoder.1.cross.head0": (0.0, 0.0, 0.9, "lower column", "fetches the carry, too"),
    "decoder.1.cross.head1": (0.0, 0.0, 0.1, "lower column", "helps to fetch the carry"),
    "decoder.1.cross.head2": (0.0, 0.0, 0.0, "same column", "can be removed alone"),
}


def planted(groups: list[str]) -> list[dict]:
    heads = {}
    attends = {}
    flipped = {}
    for head, (zero, mean, flips, target, _) in PLANTED.items():
        heads[head] = {"zero": {"drop": zero}, "mean": {"drop": mean}}
        attends[head] = {"description": f"{target} (0.9)", "main_target": target}
        flipped[head] = {"flips": {"share": flips, "interval_95": [0.0, 1.0], "n": 100}}
    lost = {"heads": heads, "ranking": list(heads)}
    measured = [{"name": name, "pairs": 100, "heads": flipped} for name in groups]
    return summary.collect(lost, {"heads": attends}, [*measured, {"name": "too few", "pairs": 0}])


def test_what_a_head_does_follows_from_the_numbers():
    heads = planted(["tens, straight"])
    assert [about["does"] for about in heads] == [does for *_, does in PLANTED.values()]
    assert all(len(about["does"].split()) <= 6 for about in heads)
    assert [about["head"] for about in heads if not about["shown"]] == ["decoder.1.cross.head2"]
    assert {about["most_flips"]["group"] for about in heads} == {"tens, straight"}
    # In the figure each thing that heads do is shown once, by the head that costs most.
    twice = []
    for about in heads:
        twice += [about, about | {"head": "another"}]
    chosen = summary.in_detail(twice)
    assert list(chosen) == list(PLANTED)[: summary.DETAILED]
    without = planted([])
    assert [about["most_flips"]["group"] for about in without] == [None] * len(PLANTED)
    assert without[5]["does"] == "can be removed alone"
