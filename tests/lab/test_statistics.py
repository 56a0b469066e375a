"""Intervals hold what they promise."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab.statistics import bootstrap, margins, proportion, wilson


def test_wilson_of_published_examples():
    """Newcombe (1998), table I: 81 of 263 and 0 of 20."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(20, 20) == pytest.approx((0.8389, 1.0), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 5000), st.data())
def test_wilson_holds_the_share_and_mirrors(trials, data):
    successes = data.draw(st.integers(0, trials))
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    mirrored = wilson(trials - successes, trials)
    assert (1 - high, 1 - low) == pytest.approx(mirrored, abs=1e-9)


def test_bootstrap_agrees_with_the_normal_interval_and_comes_again():
    samples = torch.randn(400, 3, generator=torch.Generator().manual_seed(0)) + torch.tensor([0.0, 1.0, 5.0])
    low, high = bootstrap(samples)
    half = 1.96 * samples.std(0) / 20
    torch.testing.assert_close(low, (samples.mean(0) - half).double(), atol=0.02, rtol=0)
    torch.testing.assert_close(high, (samples.mean(0) + half).double(), atol=0.02, rtol=0)
    torch.manual_seed(1)
    assert torch.equal(bootstrap(samples)[0], low)  # whatever was drawn before


def test_a_proportion_and_its_interval():
    assert proportion(torch.tensor([True] * 81 + [False] * 182)) == {
        "share": 81 / 263,
        "interval_95": pytest.approx([0.2553, 0.3662], abs=1e-4),
        "n": 263,
    }
    assert proportion(torch.zeros(0, dtype=torch.bool)) == {"share": None, "interval_95": None, "n": 0}


def test_a_margin_is_the_right_logit_less_the_best_wrong_one():
    logits = torch.tensor([[[1.0, 4.0, 2.0], [0.0, -1.0, 3.0]]])
    assert margins(logits, torch.tensor([[1, 0]])).tolist() == [[2.0, -3.0]]
