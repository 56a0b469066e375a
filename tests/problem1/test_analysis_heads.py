"""Interventions, ablation, pruning and attention statistics against independent implementations."""

from types import SimpleNamespace

import pytest
import torch

from lab.hooks import Head, head_names, zero
from problem1.analysis import ablation, pruning
from problem1.analysis import attention_statistics as statistics
from problem1.analysis.interventions import InterventionRunner
from problem1.analysis.rows import CARRY_CLASSES, carry_classes, sums_of
from problem1.attention import MultiHeadAttention
from problem1.dataset import decoder_inputs, every_pair
from tests.problem1 import analysis_models

FEED_FORWARD = ("encoder.0.feed_forward", "decoder.0.feed_forward")


@pytest.fixture(scope="module")
def model():
    return analysis_models.untrained()


@pytest.fixture(scope="module")
def sums():
    return analysis_models.rows(100)["test"]


def columns(model, head: str) -> tuple[MultiHeadAttention, slice]:
    """The attention module of a head, and the columns of its output layer that are the head's."""
    side, layer, kind, number = Head.parse(head)
    layer = getattr(model, side)[layer]
    module = layer.attention if side == "encoder" else getattr(layer, f"{kind}_attention")
    width = module.output.in_features // module.num_heads
    return module, slice(number * width, (number + 1) * width)


def hooked(model, sums, values: dict[str, torch.Tensor | float]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Logits, and the outputs of all heads and feed-forward layers, some of them overwritten: no Hooks involved."""
    handles, outputs = [], {}
    for head in head_names(model):
        module, own = columns(model, head)

        def before_output_layer(_, inputs, head=head, own=own):
            changed = inputs[0].clone()
            changed[..., own] = values.get(head, changed[..., own])
            outputs[head] = changed[..., own]
            return (changed,)

        handles.append(module.output.register_forward_pre_hook(before_output_layer))
    for name in FEED_FORWARD:

        def after(_, inputs, output, name=name):
            outputs[name] = output * 0 + values.get(name, output)
            return outputs[name]

        handles.append(model.get_submodule(name).register_forward_hook(after))
    with torch.no_grad():
        logits = model(sums.sources, decoder_inputs(sums.targets))
    for handle in handles:
        handle.remove()
    return logits, outputs


def by_forward_hook(model, sums, values: dict[str, torch.Tensor | float]) -> torch.Tensor:
    return hooked(model, sums, values)[0]


def without_weights(model, sums, head: str, transposed: bool = False) -> torch.Tensor:
    """Logits with the head's columns (or, wrongly, rows) of the output layer set to zero."""
    module, own = columns(model, head)
    before = module.output.weight.detach().clone()
    with torch.no_grad():
        module.output.weight[(own, slice(None)) if transposed else (slice(None), own)] = 0
        logits = model(sums.sources, decoder_inputs(sums.targets))
        module.output.weight.copy_(before)
    return logits


@pytest.mark.parametrize("head", head_names(analysis_models.untrained()))
def test_zero_ablation_is_removing_the_columns_of_the_output_layer(model, sums, head):
    logits = InterventionRunner(model, sums).logits({head: zero})
    torch.testing.assert_close(logits, without_weights(model, sums, head))
    torch.testing.assert_close(logits, by_forward_hook(model, sums, {head: 0.0}))
    # The two mistakes that are easy to make must show: the wrong axis, and the neighbouring head.
    assert not torch.allclose(logits, without_weights(model, sums, head, transposed=True), atol=1e-3)
    place = Head.parse(head)
    neighbour = place._replace(number=1 - place.number).name
    assert not torch.allclose(logits, without_weights(model, sums, neighbour), atol=1e-3)


def test_runs_in_batches_and_with_memories_used_again_give_what_one_plain_pass_gives(model, sums):
    with torch.no_grad():
        plain = model(sums.sources, decoder_inputs(sums.targets))
    runner = InterventionRunner(model, sums, batch_size=33)
    encoder, decoder = "encoder.0.self.head1", "decoder.0.cross.head0"
    torch.testing.assert_close(runner.logits(), plain)
    others = [{name: zero} for name in FEED_FORWARD]
    for interventions in ({encoder: zero}, {encoder: zero, decoder: zero}, {decoder: zero}, *others, {}):
        expected = by_forward_hook(model, sums, dict.fromkeys(interventions, 0.0))
        torch.testing.assert_close(runner.logits(interventions), expected)
    patterns, outputs = runner.recorded.patterns, runner.recorded.outputs
    assert set(patterns) == set(head_names(model))
    assert set(outputs) == {*head_names(model), *FEED_FORWARD}
    assert patterns[decoder].shape == (100, 3, 5)
    torch.testing.assert_close(patterns[decoder].sum(-1), torch.ones(100, 3))


def test_a_misspelt_head_is_an_error_and_no_silent_nothing(model, sums):
    for name in ("encoder.0.self.head7", "decoder.5.cross.head0", "encoder.0.feedforward"):
        with pytest.raises(KeyError, match=name):
            InterventionRunner(model, sums).logits({name: zero})


def test_ablation_results_equal_those_of_an_independent_implementation(tmp_path):
    context = analysis_models.context(analysis_models.adder(), tmp_path)
    test = context.rows["test"]
    results = ablation.about_heads(context)
    outputs, rows = hooked(context.model, test, {})[1], carry_classes(test)
    for head in context.heads:
        for kind, value in (("zero", 0.0), ("mean", outputs[head].mean(0))):
            right = (by_forward_hook(context.model, test, {head: value}).argmax(-1) == test.targets).double()
            entry, whole = results["heads"][head][kind], right.amin(1)
            assert entry["accuracy"] == pytest.approx(whole.mean().item())
            assert list(entry["by_digit"].values()) == pytest.approx(right.mean(0).tolist())
            for number in rows.unique().tolist():
                expected = whole[rows == number].mean().item()
                assert entry["by_carry"][CARRY_CLASSES[number]] == pytest.approx(expected)
    baseline = context.model.generate(test.sources, 3, 11)
    assert results["baseline"]["accuracy"] == pytest.approx((baseline == test.targets).all(1).double().mean().item())
    assert any(results["heads"][head]["zero"]["drop"] > 0.2 for head in context.heads)


class HalfRight:
    """Right on every other row, whatever head "useless" does; without "useful", on a quarter of the rows less."""

    def right_and_loss(self, interventions=()):
        row = torch.arange(400)
        right = (row % 2 == 0) & (("useful" not in interventions) | (row % 8 < 4))
        return right.unsqueeze(1).expand(-1, 3), 1.0


def test_intervals_of_losses_are_those_of_pairs_of_runs():
    """A baseline of 50% is not exact, but a head whose ablation changes nothing loses exactly nothing."""
    heads, means = ("useless", "useful"), torch.zeros(1)
    context = SimpleNamespace(
        test=HalfRight(), rows={"test": every_pair(2)[:400]}, mean_outputs=dict.fromkeys(heads, means)
    )
    baseline, found = ablation.measure(context, {head: [head] for head in heads})
    useless, useful = (found[head]["zero"] for head in heads)
    assert baseline["accuracy"] == 0.5 and useless["drop"] == 0 and useless["drop_interval_95"] == [0.0, 0.0]
    (low, high), share = useful["drop_interval_95"], useful["drop"]
    assert 0 < low < share == 0.25 < high
    # Rows that are lost, and none that is won: a binomial share.
    assert (high - low) / 2 == pytest.approx(1.96 * (share * (1 - share) / 400) ** 0.5, rel=0.15)


class TwoThatStandInForEachOther:
    """Heads a and b do the same, c does nothing, d is needed: right as long as d and one of a, b are there."""

    sums = range(10)

    def right_and_loss(self, interventions):
        broken = "d" in interventions or {"a", "b"} <= set(interventions)
        return torch.full((10, 2), not broken), float(broken) + sum(
            {"a": 0.1, "b": 0.2, "c": 0.3}.get(head, 0) for head in interventions
        )


def test_heads_that_can_go_alone_but_not_together_are_told_apart():
    runner, heads = TwoThatStandInForEachOther(), list("abcd")
    order = pruning.greedy_order(runner, heads)
    assert order[:2] == ["a", "c"]  # by its loss alone b would come before c, but not once a is gone
    curve = pruning.along(runner, order)
    assert [point["share"] for point in curve] == [1.0, 1.0, 1.0, 0.0, 0.0]
    alone = {head: {"drop": 1.0 if head == "d" else 0.0, "loss_increase": 0.0} for head in heads}
    curves = {
        "greedy": {"exact_match": curve},
        "all_harmless": {"share": 0.0},
        "random": [[1.0, 0.995, 0.0, 0.0], [1.0, 0.9999, 0.9999, 0.0]],
    }
    found = pruning.prunable(alone, curves)
    assert (found["alone"], found["together"]) == (3, 2)
    assert (found["alone_share"], found["together_share"]) == (0.75, 0.5)
    assert found["exact_match_without_all_of_those"] == 0.0 and found["together_random_harmless_median"] == 1.5
    assert pruning.removable([1.0, 0.9, 0.5], 0.5) == 1 and not pruning.within(0.5, 0.5)  # less than that, as alone
    medians = {name: entry["random_harmless_median"] for name, entry in found["by_threshold"].items()}
    assert medians == {"one_point": 1.5, "tenth_of_a_point": 1, "no_error": 0}


def test_a_removed_head_equals_zeroing_it_and_stays_out_while_training_goes_on():
    heads = ["encoder.0.self.head1", "decoder.0.cross.head0"]
    sums = analysis_models.rows(64)
    model = analysis_models.untrained(seed=2)
    expected = InterventionRunner(model, sums["test"]).logits(dict.fromkeys(heads, zero))
    pruning.remove_heads(model, heads)
    torch.testing.assert_close(InterventionRunner(model, sums["test"]).logits(), expected)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    pruning.fine_tune(model, sums["train"], steps=5)
    assert any(not torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    after = InterventionRunner(model, sums["test"])
    torch.testing.assert_close(after.logits(dict.fromkeys(heads, zero)), after.logits())
    for head in heads:
        module, own = columns(model, head)
        assert not module.output.weight[:, own].any()
        for layer in (module.query, module.key, module.value):
            for part in (layer.weight, layer.bias):
                assert not part[own].any() and part.any()


def test_carry_classes_of_sums_worked_out_by_hand():
    sums = sums_of([(123, 456), (129, 456), (629, 456), (189, 456), (445, 555), (999, 999)], 3)
    names = [CARRY_CLASSES[number] for number in carry_classes(sums).tolist()]
    assert names == ["no carry", "one carry", "separate carries", "carry chain", "carry chain", "carry chain"]


# --- attention statistics ---------------------------------------------------------------------------------------


def one_hot(rows: list[int], keys: int) -> torch.Tensor:
    """[1, Tq, Tk] each query attends to one key."""
    return torch.nn.functional.one_hot(torch.tensor(rows), keys).double().unsqueeze(0)


# Two-digit source: a10 a1 + b10 b1. Outputs: hundreds, tens, ones.
PLANTED = [
    ("encoder.0.self.head0", [0, 1, 2, 3, 4], 5, {"own position": 1, "same column": 0, "operator": 0.2}),
    ("encoder.0.self.head0", [3, 4, 2, 0, 1], 5, {"own position": 0.2, "same column": 1, "lower column": 0}),
    ("encoder.0.self.head0", [3, 4, 2, 3, 4], 5, {"same column": 0.5}),
    ("decoder.0.cross.head1", [2, 0, 1], 5, {"same column": 1, "diagonal": 2 / 3}),
    ("decoder.0.cross.head1", [2, 2, 2], 5, {"operator": 1, "vertical": 1, "diagonal": 1 / 3}),
    ("encoder.0.self.head0", [1, 2, 2, 4, 2], 5, {"lower column": 1, "operator": 0.6}),
    ("decoder.0.cross.head1", [2, 0, 4], 5, {"same column": 1, "lower column": 0, "operator": 1 / 3}),
    ("decoder.0.cross.head1", [2, 1, 0], 5, {"same column": 0, "lower column": 1}),
    ("decoder.1.self.head0", [0, 0, 0], 3, {"start token": 1, "own position": 0, "earlier outputs": 0}),
    ("decoder.1.self.head0", [0, 1, 1], 3, {"start token": 0, "own position": 0.5, "earlier outputs": 1}),
    ("decoder.1.self.head0", [0, 1, 2], 3, {"own position": 1, "diagonal": 1, "vertical": 0.5}),
]


@pytest.mark.parametrize("head, attends_to, keys, expected", PLANTED)
def test_statistics_of_planted_patterns(head, attends_to, keys, expected):
    found = statistics.statistics(Head.parse(head), one_hot(attends_to, keys).expand(4, -1, -1), 2)
    for name, value in expected.items():
        assert found[name].tolist() == pytest.approx([value] * 4), name
    assert found["entropy"].tolist() == pytest.approx([0.0] * 4)
    assert found["variability"].tolist() == pytest.approx([0.0] * 4)


def test_entropy_and_variability():
    encoder, decoder = Head("encoder", 0, "self", 0), Head("decoder", 0, "self", 0)
    even = torch.full((1, 5, 5), 0.2, dtype=torch.double).expand(2, -1, -1)
    assert statistics.statistics(encoder, even, 2)["entropy"].tolist() == pytest.approx([1.0, 1.0])
    causal = torch.ones(3, 3, dtype=torch.double).tril()
    causal = (causal / causal.sum(1, keepdim=True)).expand(2, -1, -1)
    assert statistics.statistics(decoder, causal, 2)["entropy"].tolist() == pytest.approx([1.0, 1.0])
    turning = torch.cat([one_hot([0] * 5, 5), one_hot([4] * 5, 5)])  # one sum attends here, the other there
    found = statistics.statistics(encoder, turning, 2)["variability"]
    assert found.tolist() == pytest.approx([0.5, 0.5])


def test_descriptions_follow_from_the_numbers():
    def described(**means: float) -> dict:
        names = {name.replace("_", " "): {"mean": mean} for name, mean in means.items()}
        others = {"variability": 0.3, "entropy": 0.2, "vertical": 0.1, "diagonal": 0.1}
        return statistics.describe({name: {"mean": mean} for name, mean in others.items()} | names)

    assert described(same_column=0.9, lower_column=0.1)["description"] == "same column (0.90), content-dependent"
    assert described(same_column=0.9, variability=0.01)["kind"] == "positional"
    assert described(same_column=0.9, vertical=0.8)["shape"] == "vertical"
    assert described(same_column=0.9, vertical=0.6)["shape"] is None
    assert described(operator=0.3, same_column=0.2)["main_target"] == "no main target"
    assert described(same_column=0.9, entropy=0.95)["main_target"] == "uniform"
