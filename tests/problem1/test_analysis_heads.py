"""Ablation, patching and pruning against independent implementations, on models of known weights."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab.hooks import replace, split_name, zero
from problem1.analysis import ablation, patching, pruning, slimming
from problem1.analysis.attention_maps import as_sums
from problem1.analysis.carry_pairs import all_groups, make_group
from problem1.analysis.context import CLASSES, Trial, carry_classes, pick, share
from problem1.attention import MultiHeadAttention
from problem1.dataset import carries, decoder_inputs
from tests.problem1 import analysis_models


@pytest.fixture(scope="module")
def model():
    return analysis_models.untrained()


@pytest.fixture(scope="module")
def sums():
    return analysis_models.rows(100)["test"]


def columns(model, head: str) -> tuple[MultiHeadAttention, slice]:
    """The attention module of a head, and the columns of its output projection that are the head's."""
    name, number = split_name(head)
    module = next(m for m in model.modules() if isinstance(m, MultiHeadAttention) and m.name == name)
    width = module.output.in_features // module.num_heads
    return module, slice(number * width, (number + 1) * width)


def by_hook(model, sums, values: dict[str, torch.Tensor | float]) -> torch.Tensor:
    """Logits with heads' outputs overwritten just before the output projection: no HeadHooks involved."""
    handles = []
    for head, value in values.items():
        module, its = columns(model, head)

        def overwrite(_, inputs, its=its, value=value):
            changed = inputs[0].clone()
            changed[..., its] = value
            return (changed,)

        handles.append(module.output.register_forward_pre_hook(overwrite))
    with torch.no_grad():
        logits = model(sums.sources, decoder_inputs(sums.targets))
    for handle in handles:
        handle.remove()
    return logits


def without_weights(model, sums, head: str, transposed: bool = False) -> torch.Tensor:
    """Logits with the head's columns (or, wrongly, rows) of the output projection set to zero."""
    module, its = columns(model, head)
    kept = module.output.weight.detach().clone()
    with torch.no_grad():
        module.output.weight[(its, slice(None)) if transposed else (slice(None), its)] = 0
        logits = model(sums.sources, decoder_inputs(sums.targets))
        module.output.weight.copy_(kept)
    return logits


@pytest.mark.parametrize("head", analysis_models.untrained().head_names())
def test_zeroing_a_head_is_removing_its_columns_of_the_output_projection(model, sums, head):
    logits = Trial(model, sums).logits({head: zero})
    torch.testing.assert_close(logits, without_weights(model, sums, head))
    torch.testing.assert_close(logits, by_hook(model, sums, {head: 0.0}))
    # The two mistakes that are easy to make must show: the wrong axis, and the neighbouring head.
    assert not torch.allclose(logits, without_weights(model, sums, head, transposed=True), atol=1e-3)
    name, number = split_name(head)
    assert not torch.allclose(logits, without_weights(model, sums, f"{name}.head{1 - number}"), atol=1e-3)


def test_ablation_results_equal_those_of_an_independent_implementation(tmp_path):
    context = analysis_models.context(analysis_models.adder(), tmp_path)
    test = context.rows["test"]
    results = ablation.ablate_each(context)
    kept = {}
    for head in context.heads:
        module, its = columns(context.model, head)
        handle = module.output.register_forward_pre_hook(
            lambda _, inputs, head=head, its=its: kept.update({head: inputs[0][..., its].mean(0)})
        )
        with torch.no_grad():
            context.model(test.sources, decoder_inputs(test))
        handle.remove()
    rows = carry_classes(test)
    for head in context.heads:
        for kind, value in (("zero", 0.0), ("mean", kept[head])):
            right = by_hook(context.model, test, {head: value}).argmax(-1) == test.targets
            entry = results["heads"][head][kind]
            assert entry["accuracy"] == pytest.approx(right.all(1).double().mean().item())
            assert list(entry["by_digit"].values()) == pytest.approx(right.double().mean(0).tolist())
            for number, name in enumerate(CLASSES):
                members = right.all(1)[rows == number]
                expected = members.double().mean().item() if len(members) else None
                assert entry["by_carry"][name] == pytest.approx(expected)
    baseline = context.model.generate(test.sources, 3, 11)
    assert results["baseline"]["accuracy"] == pytest.approx((baseline == test.targets).all(1).double().mean().item())
    assert any(results["heads"][head]["zero"]["drop"] > 0.2 for head in context.heads)


def test_trials_in_batches_and_with_kept_memories_give_what_one_plain_pass_gives(model, sums):
    with torch.no_grad():
        plain = model(sums.sources, decoder_inputs(sums.targets))
    trial = Trial(model, sums, batch_size=33)
    encoder, decoder = "encoder.0.self.head1", "decoder.0.cross.head0"
    torch.testing.assert_close(trial.logits(), plain)
    for interventions in ({encoder: zero}, {encoder: zero, decoder: zero}, {decoder: zero}, {}):
        expected = by_hook(model, sums, dict.fromkeys(interventions, 0.0))
        torch.testing.assert_close(trial.logits(interventions), expected)
    patterns, outputs = trial.record()
    assert set(patterns) == set(outputs) == set(model.head_names())
    assert patterns[decoder].shape == (100, 3, 5)
    torch.testing.assert_close(patterns[decoder].sum(-1), torch.ones(100, 3))


def test_a_misspelt_head_is_an_error_and_no_silent_nothing(model, sums):
    for name in ("encoder.0.self.head7", "decoder.5.cross.head0"):
        with pytest.raises(KeyError, match=name):
            Trial(model, sums).logits({name: zero})


def test_putting_a_run_into_itself_changes_nothing(model, sums):
    swap = patching.Swap(model, sums, sums, target=1)
    torch.testing.assert_close(swap.trial.logits(swap.put(model.head_names())), Trial(model, sums).logits())


def test_putting_all_of_another_run_in_gives_the_other_run():
    model = analysis_models.adder()
    group = make_group(2, target=1, nines=0, count=200)
    swap = patching.usable_swap(model, group)
    flips, shift = swap.effect(swap.put(model.head_names()))
    assert flips.all()
    torch.testing.assert_close(shift, torch.ones_like(shift), atol=1e-3, rtol=0)
    # All that the source tells comes through cross-attention: these heads alone must do the same.
    cross = patching.stages(model.head_names())["all decoder cross"]
    torch.testing.assert_close(swap.effect(swap.put(cross))[1], shift, atol=1e-3, rtol=0)
    assert not swap.effect({})[0].any()
    assert not swap.effect(swap.put(model.head_names()) | swap.hold(model.head_names()))[0].any()


def test_patching_equals_an_independent_implementation():
    model = analysis_models.adder()
    group = make_group(2, target=1, nines=0, count=60)
    keep = torch.ones(60, dtype=torch.bool)
    for one in (group.without, group.carrying):
        with torch.no_grad():
            keep &= (model(one.sources, decoder_inputs(one)).argmax(-1) == one.targets)[:, 1]
    without, carrying = pick(group.without, keep), pick(group.carrying, keep)
    swap = patching.Swap(model, without, carrying, target=1)
    for head in model.head_names():
        module, its = columns(model, head)
        said = {}
        handle = module.output.register_forward_pre_hook(
            lambda _, x, said=said, its=its: said.update(it=x[0][..., its])
        )
        with torch.no_grad():
            model(carrying.sources, decoder_inputs(carrying))
        handle.remove()
        logits = by_hook(model, without, {head: said["it"]})
        torch.testing.assert_close(swap.trial.logits(swap.put([head])), logits)
        torch.testing.assert_close(swap.effect(swap.put([head]))[0], logits[:, 1].argmax(-1) == carrying.targets[:, 1])


class EarlyFeedsLate:
    """A stand-in for a Swap: the digit is what the late head says, which follows the early one unless held."""

    def put(self, heads, positions=None):
        return dict.fromkeys(heads, "foreign")

    def hold(self, heads):
        return dict.fromkeys(heads, "own")

    def effect(self, interventions):
        flips = interventions.get("late", interventions.get("early", "own")) == "foreign"
        return torch.full((8,), flips), torch.full((8,), float(flips) - 0.1 * ("early" in interventions))


def test_what_others_bring_through_the_found_heads_does_not_count_as_theirs():
    swap = EarlyFeedsLate()
    heads = ["early", "late", "idle"]
    found = patching.found_set(swap, {head: swap.effect(swap.put([head])) for head in heads}, heads, heads)
    assert found["heads"] == ["late"]
    assert found["sufficient"]["share"] == 1.0 and found["others_instead"]["share"] == 0.0
    assert found["sufficient"]["n"] == 4  # measured on the half that the heads were not chosen on
    early_only = patching.found_set(swap, {"early": swap.effect(swap.put(["early"]))}, ["early"], heads)
    assert early_only["heads"] == ["early"] and early_only["sufficient"]["share"] == 1.0


def test_one_position_is_replaced_and_no_other():
    model, sums = analysis_models.untrained(), analysis_models.rows(50)["test"]
    outputs = torch.randn(50, 5, 16)
    edit = replace(outputs, [3])
    before = torch.zeros(50, 5, 16)
    after = edit(before)
    assert torch.equal(after[:, 3], outputs[:, 3])
    assert not after[:, [0, 1, 2, 4]].any() and not before.any()
    # A decoder position after the target cannot reach it: replacing there must not move it.
    swap = patching.Swap(model, sums, pick(sums, torch.randperm(50)), target=0)
    head = "decoder.0.cross.head0"
    untouched = swap.trial.logits(swap.put([head], [1, 2]))[:, 0]
    torch.testing.assert_close(untouched, Trial(model, sums).logits()[:, 0])


@given(st.integers(1, 7), st.data())
def test_pairs_differ_in_one_digit_and_exactly_the_wanted_carries(num_digits, data):
    nines = data.draw(st.integers(0, min(2, num_digits - 1)))
    target = data.draw(st.integers(0, num_digits - 1 - nines))
    group = make_group(num_digits, target, nines, 20, seed=data.draw(st.integers(0, 5)))
    assert len(group.without) == len(group.carrying) == len(group.control) == 20
    for row in range(20):
        numbers = []
        for sums in (group.without, group.carrying, group.control):
            source, answer = sums.sources[row].tolist(), sums.targets[row].tolist()
            a, b = source[:num_digits], source[num_digits + 1 :]
            assert a[0] and b[0]
            assert int("".join(map(str, a))) + int("".join(map(str, b))) == int("".join(map(str, answer)))
            numbers.append((a, b, answer))
        (a, b, answer), (other_a, other_b, other), (control_a, _, control) = numbers
        changed = [column for column in range(num_digits) if a[column] != other_a[column]]
        assert changed == [target + nines] and b == other_b
        assert [column for column in range(num_digits) if a[column] != control_a[column]] == changed
        assert answer[:target] == other[:target] == control[:target]  # all before the target agrees
        assert (answer[target] + 1) % 10 == other[target] and answer[target] == control[target]
        assert all(a[column] + b[column] == 9 for column in range(target, target + nines))
        assert all(answer[place] == 9 and other[place] == 0 for place in range(target + 1, target + 1 + nines))


def test_every_digit_a_carry_can_reach_has_its_pairs():
    assert [(group.place, group.nines) for group in all_groups(3, 5)] == [
        ("thousands", 0),
        ("hundreds", 0),
        ("tens", 0),
        ("thousands", 1),
        ("hundreds", 1),
        ("thousands", 2),
    ]
    assert [group.name for group in all_groups(1, 5)] == ["tens, straight"]


def test_carry_classes_of_sums_worked_out_by_hand():
    sums = as_sums([(123, 456), (129, 456), (629, 456), (189, 456), (445, 555), (999, 999)], 3)
    names = [CLASSES[number] for number in carry_classes(sums).tolist()]
    assert names == ["no carry", "one carry", "separate carries", "carry chain", "carry chain", "carry chain"]
    assert carries(sums)[2].tolist() == [True, False, True]


class TwoThatStandInForEachOther:
    """Heads a and b do the same, c does nothing, d is needed: right as long as d and one of a, b are there."""

    sums = range(10)

    def right(self, interventions):
        broken = "d" in interventions or {"a", "b"} <= set(interventions)
        return torch.full((10, 2), not broken), float(broken) + sum(
            {"a": 0.1, "b": 0.2, "c": 0.3}.get(head, 0) for head in interventions
        )


def test_heads_that_can_go_alone_but_not_together_are_told_apart():
    interventions = dict.fromkeys("abcd", zero)
    progress = type("Progress", (), {"update": lambda self: None})()
    trial = TwoThatStandInForEachOther()
    order = pruning.greedy_order(trial, interventions, progress)
    assert order[:2] == ["a", "c"]  # by its loss alone b would come before c, but not once a is gone
    curve = pruning.along(trial, interventions, order)
    assert [point["share"] for point in curve] == [1.0, 1.0, 1.0, 0.0, 0.0]
    alone = {head: {"zero": {"drop": 1.0 if head == "d" else 0.0, "loss_increase": 0.0}} for head in interventions}
    curves = {
        "greedy": {"exact_match": curve},
        "one_by_one": {"exact_match": pruning.along(trial, interventions, ["a", "b", "c", "d"])},
        "random": [[1.0, 1.0, 0.0, 0.0, 0.0]],
    }
    found = pruning.dispensable({"heads": alone, "baseline": {"accuracy": 1.0}}, curves, "zero")
    assert (found["alone"], found["together"]) == (3, 2)
    assert (found["alone_share"], found["together_share"]) == (0.75, 0.5)
    assert found["all_those_together"] == 0.0
    assert found["together_in_order_of_single_ablation"] == 1


def test_a_head_that_is_cut_out_equals_zeroing_it_and_stays_out_while_training_goes_on():
    heads = ["encoder.0.self.head1", "decoder.0.cross.head0"]
    sums = analysis_models.rows(64)
    model = analysis_models.untrained(seed=2)
    expected = Trial(model, sums["test"]).logits(dict.fromkeys(heads, zero))
    slimming.cut_out(model, heads)
    torch.testing.assert_close(Trial(model, sums["test"]).logits(), expected)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    slimming.fine_tune(model, sums["train"], steps=5)
    assert any(not torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    after = Trial(model, sums["test"])
    torch.testing.assert_close(after.logits(dict.fromkeys(heads, zero)), after.logits())
    for head in heads:
        module, its = columns(model, head)
        assert not module.output.weight[:, its].any()
        for part in (*module.projections.weight.chunk(3), *module.projections.bias.chunk(3)):  # queries, keys, values
            assert not part[its].any() and part.any()


def test_shares_have_intervals_and_nothing_counted_has_none():
    assert share(torch.tensor([True, True, False, True]))["share"] == 0.75
    assert share(torch.zeros(0, dtype=torch.bool)) == {"share": None, "interval_95": None, "n": 0}
