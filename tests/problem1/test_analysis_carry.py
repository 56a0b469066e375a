"""Pairs of sums, patching, probes and prefixes: planted structure must be found, and nothing else."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab.hooks import replace
from problem1.analysis import attention_shift, patching, probes, summary
from problem1.analysis import carry_through_nines as nines
from problem1.analysis.carry_pairs import all_groups, make_group
from problem1.analysis.context import join, pick
from problem1.analysis.interventions import InterventionRunner
from problem1.dataset import carries, decoder_inputs, every_pair
from tests.problem1 import analysis_models
from tests.problem1.test_analysis_heads import by_forward_hook, columns, one_hot


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    return analysis_models.context(analysis_models.adder(), tmp_path_factory.mktemp("results"))


# --- pairs --------------------------------------------------------------------------------------------------------


@given(st.one_of(st.integers(1, 7), st.just(19)), st.data())
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
    assert [(group.digit, group.nines) for group in all_groups(3, 5)] == [
        ("thousands", 0),
        ("hundreds", 0),
        ("tens", 0),
        ("thousands", 1),
        ("hundreds", 1),
        ("thousands", 2),
    ]
    assert [group.name for group in all_groups(1, 5)] == ["tens, straight"]
    straight = [group.target for group in all_groups(19, 5) if group.nines == 0]
    assert straight[0] == 0 and straight[-1] == 18 and len(straight) == 6


def test_more_pairs_than_there_are_come_to_an_end():
    """Of one digit there are 36 pairs without a carry; 2,000 are drawn all the same."""
    group = make_group(1, target=0, nines=0, count=2_000)
    assert len(group.without) == 2_000 and len({tuple(row) for row in group.without.sources.tolist()}) <= 36


# --- patching -----------------------------------------------------------------------------------------------------


def experiment(model, clean, corrupted, target: int) -> patching.PatchingExperiment:
    return patching.PatchingExperiment(
        InterventionRunner(model, clean, len(clean)), InterventionRunner(model, corrupted, len(corrupted)), target
    )


def test_patching_a_run_into_itself_changes_nothing():
    model, sums = analysis_models.untrained(), analysis_models.rows(100)["test"]
    same = experiment(model, sums, sums, target=1)
    torch.testing.assert_close(same.clean.logits(same.patch(model.head_names())), same.clean.recorded.logits)


def test_patching_all_heads_gives_the_corrupted_run():
    model = analysis_models.adder()
    pairs = patching.make_experiment(model, make_group(2, target=1, nines=0, count=200))
    flips, moved = pairs.effect(pairs.patch(model.head_names()))
    assert flips.all()
    torch.testing.assert_close(moved, torch.ones_like(moved), atol=1e-3, rtol=0)
    # All that the source tells comes through cross-attention: these heads alone must do the same.
    cross = patching.stages(model.head_names())["all decoder cross"]
    torch.testing.assert_close(pairs.effect(pairs.patch(cross))[1], moved, atol=1e-3, rtol=0)
    assert not pairs.effect({})[0].any()
    assert not pairs.effect(pairs.patch(model.head_names()) | pairs.freeze(model.head_names()))[0].any()


def test_usable_pairs_are_chosen_without_running_them_again():
    model, calls = analysis_models.adder(), []
    handle = model.encoder[0].register_forward_hook(lambda *_: calls.append(1))
    assert patching.make_experiment(model, make_group(2, target=1, nines=0, count=200)) is not None
    handle.remove()
    assert len(calls) == 2  # the clean run and the corrupted one


def test_patching_equals_an_independent_implementation():
    model = analysis_models.adder()
    group = make_group(2, target=1, nines=0, count=60)
    keep = torch.ones(60, dtype=torch.bool)
    for sums in (group.without, group.carrying):
        with torch.no_grad():
            keep &= (model(sums.sources, decoder_inputs(sums.targets)).argmax(-1) == sums.targets)[:, 1]
    without, carrying = pick(group.without, keep), pick(group.carrying, keep)
    pairs = experiment(model, without, carrying, target=1)
    for head in model.head_names():
        module, own = columns(model, head)
        outputs = {}
        handle = module.output.register_forward_pre_hook(
            lambda _, x, outputs=outputs, own=own: outputs.update(corrupted=x[0][..., own])
        )
        with torch.no_grad():
            model(carrying.sources, decoder_inputs(carrying.targets))
        handle.remove()
        logits = by_forward_hook(model, without, {head: outputs["corrupted"]})
        torch.testing.assert_close(pairs.clean.logits(pairs.patch([head])), logits)
        flips = logits[:, 1].argmax(-1) == carrying.targets[:, 1]
        torch.testing.assert_close(pairs.effect(pairs.patch([head]))[0], flips)


class EarlyFeedsLate:
    """A stand-in for an experiment: the digit is the late head's, which follows the early one unless frozen."""

    def patch(self, heads, positions=None):
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


def test_one_position_is_patched_and_no_other():
    model, sums = analysis_models.untrained(), analysis_models.rows(50)["test"]
    outputs, before = torch.randn(50, 5, 16), torch.zeros(50, 5, 16)
    after = replace(outputs, [3])(before)
    assert torch.equal(after[:, 3], outputs[:, 3])
    assert not after[:, [0, 1, 2, 4]].any() and not before.any()
    # A decoder position after the target cannot reach it: patching there must not move it.
    pairs = experiment(model, sums, pick(sums, torch.randperm(50)), target=0)
    untouched = pairs.clean.logits(pairs.patch(["decoder.0.cross.head0"], slice(1, 3)))[:, 0]
    torch.testing.assert_close(untouched, pairs.clean.recorded.logits[:, 0])


@pytest.fixture(scope="module")
def patched(context):
    groups = [make_group(2, target=1, nines=0, count=patching.PAIRS), make_group(2, 0, 1, patching.PAIRS)]
    return [patching.measure(context, group) for group in groups]


def test_patching_results_of_a_model_that_adds(patched):
    group = patched[0]
    assert group["pairs"] > 300 and group["digit"] == "tens"
    assert group["stages"]["all heads"]["flips"]["share"] == 1.0
    assert group["stages"]["all decoder cross"]["flips"]["share"] == 1.0
    found = group["minimal_sets"]["decoder cross"]
    assert found["sufficiency"]["share"] > 0.5 > found["complement_patched"]["share"]
    assert len(group["positions"]["encoder.0.self.head0"]) == 5
    assert len(group["positions"]["decoder.0.cross.head0"]) == 2  # later positions cannot matter
    low, high = group["heads"]["encoder.0.self.head0"]["logit_difference_interval_95"]
    assert low <= group["heads"]["encoder.0.self.head0"]["logit_difference"] <= high


# --- attention shift ----------------------------------------------------------------------------------------------


def test_a_pattern_that_does_not_move_has_no_shift(context):
    one = torch.softmax(torch.randn(6, 3, 5), -1)
    assert not attention_shift.distance(one, one).any()
    assert attention_shift.distance(one_hot([0, 1], 5), one_hot([0, 4], 5)).tolist() == [[0.0, 1.0]]
    found = attention_shift.measure(context, make_group(2, target=1, nines=0, count=60))
    assert set(found["heads"]) == set(context.heads)
    first = found["heads"]["decoder.0.self.head0"]  # reads the same digits with and without the carry
    assert first["moved"] == pytest.approx(0, abs=1e-6) and first["difference"] == pytest.approx(0, abs=1e-6)


# --- prefixes -----------------------------------------------------------------------------------------------------


class ByOperands(torch.nn.Module):
    """Computes every digit from the operands, whatever is written."""

    def __init__(self):
        super().__init__()
        self.anchor = torch.nn.Parameter(torch.zeros(1))

    def head_names(self):
        return []

    def encode(self, sources, hooks=None):
        return sources

    def digits(self, prefixes, sources):
        number = (sources[:, 0] + sources[:, 3]) * 10 + sources[:, 1] + sources[:, 4]
        return [number // 100, number // 10 % 10, number % 10]

    def decode(self, prefixes, memory, hooks=None):
        return torch.nn.functional.one_hot(torch.stack(self.digits(prefixes, memory), 1), 13).float()


class ByPrefix(ByOperands):
    """Reads the carry off the digit before."""

    def digits(self, prefixes, sources):
        return [prefixes[:, 0] * 0, 9 - 9 * prefixes[:, 1].clamp(0, 1), prefixes[:, 2] * 0]


@pytest.mark.parametrize("model, key", [(ByOperands(), "follows_operands"), (ByPrefix(), "follows_prefix")])
def test_a_prefix_conflict_tells_operands_from_written_digits(tmp_path, model, key):
    found = nines.prefix_conflict(analysis_models.context(model, tmp_path), make_group(2, target=0, nines=1, count=40))
    assert found["digit"] == "tens" and found[key]["share"] == 1.0
    assert found["follows_operands"]["share"] + found["follows_prefix"]["share"] == 1.0
    assert found["follows_prefix_self_attention_frozen"] == found["follows_prefix"]


def test_frozen_self_attention_equals_an_independent_implementation(context):
    group = make_group(2, target=0, nines=1, count=200)
    found = nines.prefix_conflict(context, group)["follows_prefix_self_attention_frozen"]
    model, kept = context.model, {}
    sums, others = (join(parts) for parts in ((group.without, group.carrying), (group.carrying, group.without)))
    layer = model.decoder[0].self_attention.output
    handle = layer.register_forward_pre_hook(lambda _, inputs: kept.update(clean=inputs))
    with torch.no_grad():
        model(sums.sources, decoder_inputs(sums.targets))
    handle.remove()
    handle = layer.register_forward_pre_hook(lambda _, inputs: kept["clean"])
    with torch.no_grad():
        digits = model(sums.sources, decoder_inputs(others.targets)).argmax(-1)[:, 1]
    handle.remove()
    assert found["share"] == pytest.approx((digits == others.targets[:, 1]).double().mean().item())


# --- probes -------------------------------------------------------------------------------------------------------


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
    model, sums = context.model, context.rows["test"]
    found = probes.residuals(model, sums)
    with torch.no_grad():
        logits = model.output(model.decoder_norm(found["decoder"][-1]))
        torch.testing.assert_close(logits, model(sums.sources, decoder_inputs(sums.targets)))
        torch.testing.assert_close(model.encoder_norm(found["encoder"][-1]), model.encode(sums.sources))
        torch.testing.assert_close(found["encoder"][0], model.embed(sums.sources))
    assert found["encoder"].shape == (2, len(sums), 5, 32) and found["decoder"].shape == (2, len(sums), 3, 32)


def test_probe_tables_have_a_cell_for_every_carry_layer_and_position(context):
    results = probes.measure(context)
    assert results["carries"] == ["out of the tens", "out of the ones"]
    encoder = torch.tensor(results["sides"]["encoder"]["accuracy"])
    assert encoder.shape == (2, 2, 5) and (encoder > 0.4).all()
    assert encoder[:, -1].max() > encoder[:, 0].max()  # a digit alone does not tell the carry, later layers do
    share = carries(context.rows["test"])[:, 1].double().mean().item()
    assert results["majority"][1] == pytest.approx(max(share, 1 - share), abs=0.02)
    assert torch.tensor(results["sides"]["decoder"]["control_held_out"]).max() < 0.75
    first = probes.first_readable({**results, "sides": {"encoder": {"layers": ["x", "y"], "accuracy": [
        [[0.5] * 5, [0.5, 0.6, 0.5, 0.97, 0.5]], [[0.9] * 5, [0.94] * 5]
    ]}}})  # fmt: skip
    assert (first[0]["first_layer"], first[0]["position"]) == ("y", "b 10") and first[1]["first_layer"] is None


def test_no_pair_is_scored_that_a_probe_was_fitted_on():
    for test in (analysis_models.rows()["test"], every_pair(1)):
        fitted, scored = probes.held_out_pairs(test)
        assert len(fitted) > 1 and len(scored) > 1
        rows = {tuple(row) for row in fitted.sources.tolist()}
        assert not any(tuple(row) in rows for row in scored.sources.tolist())


# --- summary ------------------------------------------------------------------------------------------------------


def test_the_summary_holds_the_numbers_of_the_others(context, patched):
    prefixes = nines.measure(context)
    shift = {"groups": [attention_shift.measure(context, group) for group in all_groups(2, 60)]}
    drops = {"a": (0.8, 0.7), "b": (0.6, 0.001), "c": (0.0, 0.0)}
    heads = {head: {"zero": {"drop": zero}, "mean": {"drop": mean}} for head, (zero, mean) in drops.items()}
    lost = {"meaningful": True, "heads": heads, "ranking": list(heads)}
    about = {"meaningful": True, "warning": None}
    found = about | summary.collect(
        lost, {"prunable": None}, {"groups": patched}, probes.measure(context), prefixes, shift
    )
    assert found["mean_suffices"] == ["b"]
    tens, through = found["groups"]
    assert tens["minimal_sets"] == patched[0]["minimal_sets"] and tens["prefix_conflict"] is None
    assert through["prefix_conflict"] == prefixes["prefix_conflict"][0]
    head = tens["attention_shift"]["head"]
    assert tens["attention_shift"]["flips"] == patched[0]["heads"][head]["flips"]
    text = summary.as_text(found)
    for group in patched:
        cell = group["minimal_sets"]["decoder cross"]
        line = next(line for line in text.splitlines() if line.startswith(group["name"]))
        assert f"{100 * cell['sufficiency']['share']:.1f} (" in line and line.endswith(", ".join(cell["heads"]))
    assert "80.00" in text and "all others (1)" in text


def test_pairs_that_a_model_gets_wrong_are_not_measured(tmp_path):
    context = analysis_models.context(analysis_models.untrained(), tmp_path)
    group = patching.measure(context, make_group(2, target=1, nines=0, count=100))
    assert not context.meaningful and group["pairs"] == 0 and "too few" in group["reason"]
