"""Clamped distances: the scores of tokens that stand far apart are those of tokens at the reach."""

import pytest
import torch

from beyond.schemes import distances, strict
from tests.problem2.test_model import make

ROWS = strict.sample_rows(6, 24, 24, torch.Generator().manual_seed(0)).sequences


def trained(name):
    model = make(name, d_model=64)
    for parameter in model.parameters():  # so that positions matter much
        parameter.data *= 2
    return model


@pytest.mark.parametrize("name", ["rope", "t5"])
def test_a_reach_as_long_as_the_row_changes_nothing_and_a_short_one_does(name):
    model = trained(name)
    before = model(ROWS)
    with distances.clamped(model, 23):
        torch.testing.assert_close(model(ROWS), before, atol=1e-3, rtol=1e-3)
    with distances.clamped(model, 5):
        assert (model(ROWS) - before).abs().max() > 0.01
    assert torch.equal(model(ROWS), before)  # as before when the block ends


@pytest.mark.parametrize("name", ["rope", "t5"])
def test_beyond_the_reach_scores_are_those_at_the_reach(name):
    model = trained(name)
    attention, scheme, reach = model.layers[0].attention, model.scheme, 5
    x = torch.randn(1, 12, 64)

    def scores(positions):
        """of the token at 0 as query and all as keys, at these positions"""
        rotate, bias = scheme.rotation(positions), scheme.bias(positions)
        return attention(x, x, x, bias=bias, rotate=rotate)[1][0, :, 0].log()

    with distances.clamped(model, reach):
        if name == "rope":
            found = model.layers[0].attention(x, x, x, rotate=scheme.rotation(torch.arange(12)))[1][0, :, 0].log()
        else:
            found = scores(torch.arange(12))
    expected = scores(torch.arange(12).clamp(max=reach))  # seen from the token at 0 these are clamped distances
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_clamping_every_wave_alone_is_not_clamping_one():
    model = trained("rope")
    waves = 64 // 4 // 2
    with distances.clamped(model, 5):
        whole = model(ROWS)
    with distances.clamped(model, 5, tuple(range(waves))):
        torch.testing.assert_close(model(ROWS), whole, atol=1e-4, rtol=1e-4)
    with distances.clamped(model, 5, (0,)):
        assert (model(ROWS) - whole).abs().max() > 0.01
    before = model(ROWS)
    with distances.clamped(model, 5, ()):
        torch.testing.assert_close(model(ROWS), before, atol=1e-3, rtol=1e-3)


def test_without_turning_waves_order_is_invisible():
    model = trained("rope")
    before = model(ROWS)
    turned = ROWS[:, torch.randperm(24, generator=torch.Generator().manual_seed(0))]
    with distances.only_turning(model, ()):
        torch.testing.assert_close(model(ROWS), model(turned), atol=1e-3, rtol=1e-3)
    with distances.only_turning(model, tuple(range(8))):
        torch.testing.assert_close(model(ROWS), before, atol=1e-3, rtol=1e-3)


def test_a_bias_that_grows_with_distance_stops_at_the_reach():
    scheme = make("alibi").scheme
    bias = distances.clamped_bias(scheme, torch.arange(9), 3)
    assert torch.equal(bias[0, 0], -0.25 * torch.arange(9).clamp(max=3)) and torch.equal(bias, bias.transpose(1, 2))


def test_only_rope_and_t5_are_asked_about():
    assert distances.measure(make("alibi"), strict.sample_rows(4, 8, 16), 16) is None
