"""Bounds on rounding: every evaluation lies inside them, and what cannot be bounded is refused."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from beyond.rounding.bounds import UNITS, Ball, NotBounded, Rounding, exp_errors, spectral_norm
from problem1.attention import MultiHeadAttention
from problem1.model import FeedForward


@pytest.fixture(autouse=True, scope="module")
def without_gradients():
    with torch.no_grad():
        yield


SEEDS = st.integers(0, 10**6)
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def distance(ball: Ball, computed: torch.Tensor) -> float:
    """The largest distance from the middle, as a share of the radius."""
    moved = (computed.double() - ball.middle).norm(dim=-1)
    return float((moved / (ball.norm if ball.folded is None else ball.largest)).max())


def random(seed: int, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def shuffled(x: torch.Tensor, linear: nn.Linear, seed: int, dtype: torch.dtype) -> torch.Tensor:
    """A linear layer whose products are added one by one, in a random order, the bias somewhere among them."""
    terms = torch.cat(
        [
            x.to(dtype).unsqueeze(-2) * linear.weight.to(dtype),
            linear.bias.to(dtype).expand(*x.shape[:-1], -1).unsqueeze(-1),
        ],
        -1,
    )
    total = torch.zeros_like(terms[..., 0])
    for index in torch.randperm(terms.shape[-1], generator=torch.Generator().manual_seed(seed)).tolist():
        total = total + terms[..., index]
    return total


@given(SEEDS, st.sampled_from([*UNITS]), st.sampled_from([1e-3, 1.0, 1e3]))
def test_a_linear_layer_in_any_order_lies_inside(seed, precision, scale):
    torch.manual_seed(seed)
    linear, x, rules = nn.Linear(24, 12), random(seed, 50, 24, scale=scale), Rounding(UNITS[precision])
    ball = rules.linear(rules.exact(x), linear)
    exact = x.double() @ linear.weight.double().T + linear.bias.double()
    assert distance(ball, exact) <= 1
    for order in range(3):
        assert distance(ball, shuffled(x, linear, order, DTYPES[precision])) <= 1
    heads = rules.linear(rules.exact(x), linear, 3)
    assert torch.equal(heads.middle.flatten(-2), ball.middle)
    assert distance(heads, exact.unflatten(-1, (3, -1))) <= 1


def norms(x: torch.Tensor, module: nn.LayerNorm, dtype: torch.dtype) -> list[torch.Tensor]:
    """torch's algorithm, two passes, mean(x²) - mean(x)², and the gain folded in first."""
    x, gain, bias = x.to(dtype), module.weight.to(dtype), module.bias.to(dtype)
    mean = x.mean(-1, keepdim=True)
    two_pass = 1 / ((x - mean).square().mean(-1, keepdim=True) + module.eps).sqrt()
    one_pass = 1 / (x.square().mean(-1, keepdim=True) - mean.square() + module.eps).sqrt()
    return [
        copy.deepcopy(module).to(dtype)(x),
        (x - mean) * two_pass * gain + bias,
        (x - mean) * one_pass * gain + bias,
        x * (gain * two_pass) + (bias - mean * (gain * two_pass)),
    ]


@given(SEEDS, st.sampled_from([*UNITS]), st.sampled_from([16, 64, 100]), st.floats(-3, 3))
def test_layer_norms_of_every_algorithm_lie_inside(seed, precision, size, shift):
    """Before and after the product that follows, where gain and centring are folded in."""
    module, linear = nn.LayerNorm(size), nn.Linear(size, 8)
    nn.init.normal_(module.weight), nn.init.normal_(module.bias)
    x, rules = random(seed, 40, size) + shift, Rounding(UNITS[precision])
    ball = rules.layer_norm(rules.exact(x), module)
    after = rules.linear(ball, linear)
    above, radius = rules.differences(ball, linear, torch.arange(40) % 8)
    for computed in norms(x, module, DTYPES[precision]):
        logits = shuffled(computed, linear, seed, DTYPES[precision]).double()
        assert distance(after, logits) <= 1
        moved = logits.gather(1, (torch.arange(40) % 8)[:, None]) - logits - above
        assert (moved.abs() <= radius)[above.isfinite()].all()


@given(SEEDS, st.sampled_from([*UNITS]))
def test_inputs_anywhere_in_a_ball_lead_into_the_next(seed, precision):
    """Layer norm, attention with a mask, feed-forward: of inputs moved by as much as the ball allows."""
    torch.manual_seed(seed)
    dtype, rules, size = DTYPES[precision], Rounding(UNITS[precision]), 16
    attention, feed, norm, norm2 = (
        MultiHeadAttention(size, 2),
        FeedForward(size, 32),
        nn.LayerNorm(size),
        nn.LayerNorm(size),
    )
    x, reach = random(seed, 30, 3, size), 10.0 ** -random(seed, 1).abs().clamp(max=3).item() * 1e-2
    mask = torch.tensor([[True, False, False], [True, True, False], [True, True, True]])
    start = Ball(x.double(), torch.full((30, 3), reach))
    normed = rules.layer_norm(start, norm)
    q, k, v = (rules.linear(normed, part, 2) for part in (attention.query, attention.key, attention.value))
    ball = rules.add(start, rules.linear(rules.attention(q, k[:, None], v[:, None], mask), attention.output))
    ball = rules.feed_forward(ball, norm2, feed)
    modules = [copy.deepcopy(module).to(dtype) for module in (norm, attention, norm2, feed)]
    for attempt in range(3):
        push = random(seed + attempt, 30, 3, size)
        moved = (x + push / push.norm(dim=-1, keepdim=True) * reach * 0.9).to(dtype)
        normed = modules[0](moved)
        y = moved + modules[1](normed, normed, normed, mask)[0]
        assert distance(ball, (y + modules[3](modules[2](y)))) <= 1


def test_the_spectral_norm_is_never_too_small():
    for seed in range(20):
        matrix = random(seed, 3 + seed, 10).double()
        exact = torch.linalg.matrix_norm(matrix, 2).item()
        assert exact <= spectral_norm(matrix) <= 1.002 * exact
    assert spectral_norm(torch.zeros(3, 4, dtype=torch.float64)) == 0


def test_what_cannot_be_bounded_is_refused():
    rules, norm = Rounding(UNITS["float32"]), nn.LayerNorm(16)
    x = random(0, 2, 16).double()
    with pytest.raises(NotBounded, match="terms"):
        rules.gamma(2**23)
    with pytest.raises(NotBounded, match="standard deviation"):
        rules.layer_norm(Ball(x, torch.tensor([0.0, 8.0])), norm)
    with pytest.raises(NotBounded, match="standard deviation"):
        rules.layer_norm(rules.exact(x * 1e-3 + 100), norm)
    with pytest.raises(NotBounded, match="radius"):
        rules.linear(Ball(x, torch.tensor([0.0, math.nan])), nn.Linear(16, 4))
    with pytest.raises(NotBounded):
        rules.linear(rules.exact(x * torch.nan), nn.Linear(16, 4))
    with pytest.raises(NotBounded, match="exp"):
        one = Ball(torch.full((1, 2, 1, 4), 10.0).double() * torch.tensor([[[[1]], [[-1]]]]), torch.zeros(1, 2, 1))
        rules.attention(Ball(one.middle[:, 0], one.norm[:, 0]), one, one, torch.ones(2, dtype=torch.bool))


def test_exp_is_measured():
    found = exp_errors(9.0, step=4096)
    assert found["from"] == -9 and found["values"] > 60_000
    assert all(0.4 < error < 4 for error in found["largest_error_in_ulp"].values())
    assert np.float32(2.0**-24) == UNITS["float32"]
