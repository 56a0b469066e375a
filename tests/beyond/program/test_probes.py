"""Probes: planted structure must be found, and nothing else."""

import pytest
import torch

from beyond.program import probes
from problem1.dataset import every_pair
from tests.problem1 import analysis_models


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    return analysis_models.context(analysis_models.adder(), tmp_path_factory.mktemp("results"))


def test_probes_find_what_is_there_and_nothing_else():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(3, 1, 2_000, 10, generator=generator)  # three layers, one position
    labels = (vectors[1, 0, :, 4] > 0.3).float().unsqueeze(1)  # only in the second layer, on one axis
    vectors = vectors.transpose(1, 2)  # [L, N, T, d]
    fitted, scored = probes.prepare(vectors[:, :1_500], vectors[:, 1_500:])
    found = probes.accuracy(scored, probes.fit(fitted, labels[:1_500]), labels[1_500:])[:, 0]
    assert found[1] > 0.97 and found[[0, 2]].max() < 0.7


def test_the_control_measures_what_a_probe_can_memorise():
    """Random labels of digit pairs: read off a vector with an axis for each pair, not off two digits."""
    test = every_pair(2)
    labels = probes.random_labels(test)
    pairs = {}
    for row, (a, b) in enumerate(zip(*(operand[:, 1].tolist() for operand in test.operands()), strict=True)):
        assert pairs.setdefault((a, b), labels[row, 1].item()) == labels[row, 1].item()
    assert len(pairs) == 100 and 30 < sum(pairs.values()) < 70
    a, b = (operand[:, 1] for operand in test.operands())
    one_axis_each = torch.nn.functional.one_hot(10 * a + b, 100).float()
    two_digits = torch.stack([a, b], 1).float()
    for vectors, low, high in ((one_axis_each, 0.99, 1.01), (two_digits, 0.4, 0.75)):
        ready, _ = probes.prepare(*[vectors.view(1, len(test), 1, -1)] * 2)
        assert low < probes.accuracy(ready, probes.fit(ready, labels[:, 1:]), labels[:, 1:]).item() < high


def test_the_best_guess_from_one_digit():
    """A column of 5 and 5 to 9 carries: the larger a digit, the surer. For ones the best rule is a >= 5: 75 of 100."""
    test = every_pair(2)
    tens, ones = probes.guess_from_one_digit(test, test)
    assert ones == pytest.approx(0.75) and 0.7 < tens < 0.85


def test_residuals_are_the_models_own(context):
    model, sums = context.model, context.rows["test"]
    found = probes.residuals(model, sums)
    with torch.no_grad():
        torch.testing.assert_close(model.encoder_norm(found[-1]), model.encode(sums.sources))
        torch.testing.assert_close(found[0], model.embed(sums.sources))
    assert found.shape == (2, len(sums), 5, 32)


def test_probes_say_where_each_carry_can_be_read_first(context):
    results = probes.measure(context)
    assert [entry["carry"] for entry in results] == ["out of the tens", "out of the ones"]
    for entry in results:
        assert len(entry["best_by_layer"]) == len(entry["control_by_layer"]) == 2
    assert max(entry["best_by_layer"][-1] for entry in results) > max(entry["one_digit"] for entry in results) > 0.7
    planted = torch.tensor([[[0.5] * 5, [0.5, 0.6, 0.5, 0.97, 0.5]], [[0.9] * 5, [0.94] * 5]])
    first, never = (probes.first_readable(right, 2) for right in planted)
    assert (first["first_layer"], first["position"]) == ("after encoder.0", "b 10")
    assert never["first_layer"] is None and never["best_by_layer"] == pytest.approx([0.9, 0.94])


@pytest.mark.parametrize("test", [analysis_models.rows()["test"], every_pair(1)], ids=["two digits", "one digit"])
def test_no_pair_is_scored_that_a_probe_was_fitted_on(test):
    fitted, scored = ({tuple(row) for row in sums.sources.tolist()} for sums in probes.held_out_pairs(test))
    assert len(fitted) > 1 and len(scored) > 1 and not fitted & scored
