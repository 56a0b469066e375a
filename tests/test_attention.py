"""Attention from scratch, of both problems, against PyTorch's own: outputs, weights and gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import problem1.attention
import problem2.attention

SHAPES = [(5, 8), (2, 5, 8), (2, 3, 5, 8), (2, 1, 3, 5, 8)]


@pytest.fixture(params=[problem1.attention, problem2.attention], ids=["problem1", "problem2"])
def attention(request):
    return request.param


def close(actual, expected, tolerance=2e-6):
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [None, torch.bool, torch.long, torch.float])
def test_agrees_with_torch_for_any_leading_dimensions_and_mask(attention, shape, kind):
    torch.manual_seed(0)
    q, k = torch.randn(shape, requires_grad=True), torch.randn(*shape[:-2], 7, 8, requires_grad=True)
    v = torch.randn(*shape[:-2], 7, 6, requires_grad=True)
    mask = None if kind is None else torch.rand(shape[-2], 7) < 0.5
    if mask is not None:
        mask[..., 0] = True
    output, weights = attention.scaled_dot_product_attention(q, k, v, None if kind is None else mask.to(kind))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    close(output, expected)
    close(weights.sum(-1), torch.ones(shape[:-1]))
    assert mask is None or (weights.masked_select(~mask) == 0).all()
    gradient = torch.randn_like(output)
    close(torch.autograd.grad(output, (q, k, v), gradient), torch.autograd.grad(expected, (q, k, v), gradient))


@given(st.integers(1, 6), st.integers(1, 6), st.booleans(), st.integers(0, 10**6))
def test_a_bias_is_added_to_the_scores(queries, keys, masked, seed):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 3, t, 8, generator=generator) for t in (queries, keys, keys))
    bias = torch.randn(3, queries, keys, generator=generator)
    mask = torch.rand(2, 1, queries, keys, generator=generator) < 0.6 if masked else torch.ones(queries, keys).bool()
    mask[..., 0] = True
    output, _ = problem2.attention.scaled_dot_product_attention(q, k, v, mask if masked else None, bias)
    close(output, F.scaled_dot_product_attention(q, k, v, attn_mask=torch.where(mask, bias, -torch.inf)))


def lonely_row() -> torch.Tensor:
    """A mask [4, 5] of which one query may attend to nothing, one to all, two to some."""
    return torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]])


@pytest.mark.parametrize("mask", [None, torch.ones(4, 5), lonely_row()], ids=["no mask", "of ones", "lonely row"])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e4, 1e15])
def test_weights_are_finite_and_nothing_given_is_written_to(attention, mask, size):
    q, k, v = torch.randn(2, 3, 4, 8) * size, torch.randn(2, 3, 5, 8) * size, torch.randn(2, 3, 5, 8)
    given = [q, k, v] + ([] if mask is None else [mask])
    before = [tensor.clone() for tensor in given]
    output, weights = attention.scaled_dot_product_attention(q, k, v, mask)
    assert output.isfinite().all() and weights.isfinite().all()
    expected = torch.ones(4) if mask is None else mask.any(-1).float()
    close(weights.sum(-1), expected.expand(2, 3, 4))
    assert all(torch.equal(old, new) for old, new in zip(before, given, strict=True))


def test_gradients_with_a_query_that_may_attend_to_nothing(attention):
    """Checked by differences in float64, every one finite."""
    shapes = [(2, 4, 3), (2, 5, 3), (2, 5, 2)] + [(1, 4, 5)] * (attention is problem2.attention)  # its bias
    inputs = tuple(torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes)

    def outputs(q, k, v, *bias):
        return attention.scaled_dot_product_attention(q, k, v, lonely_row(), *bias)

    assert torch.autograd.gradcheck(outputs, inputs)


def test_causal_mask():
    assert torch.equal(problem1.attention.create_causal_mask(5).bool(), torch.ones(1, 1, 5, 5).tril().bool())


def copy_attention(ours, theirs: nn.MultiheadAttention) -> None:
    """Give both the same random weights."""
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        parts = zip(theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True)
        for linear, (weight, bias) in zip((ours.query, ours.key, ours.value), parts, strict=True):
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
        ours.output.load_state_dict(theirs.out_proj.state_dict())


# Queries, keys and values: self-attention, memory as keys and values, three different ones, and two odd pairs.
INPUTS = {"self": "xxx", "cross": "xyy", "three": "xyz", "queries are keys": "yyx", "queries are values": "yxy"}


@pytest.mark.parametrize("roles", INPUTS.values(), ids=INPUTS.keys())
@pytest.mark.parametrize("queries", [1, 6])
def test_multi_head_agrees_with_torch(attention, roles, queries):
    """Outputs, weights, and gradients of inputs and parameters."""
    torch.manual_seed(1)
    ours, theirs = attention.MultiHeadAttention(24, 3), nn.MultiheadAttention(24, 3, batch_first=True)
    copy_attention(ours, theirs)
    shapes = {"x": queries if roles == "xyy" else 6, "y": 6, "z": 6}
    inputs = {name: torch.randn(2, length, 24, requires_grad=True) for name, length in shapes.items()}
    query, key, value = (inputs[name] for name in roles)
    allowed = torch.rand(2, 1, query.shape[1], 6) < 0.6
    allowed[..., 0] = True
    output, weights = ours(query, key, value, allowed)
    blocked = ~allowed.expand(2, 3, -1, 6).reshape(6, -1, 6)
    expected, expected_weights = theirs(query, key, value, attn_mask=blocked, average_attn_weights=False)
    close(output, expected)
    close(weights, expected_weights)
    gradient, used = torch.randn_like(output), [inputs[name] for name in sorted(set(roles))]
    projections = (ours.query, ours.key, ours.value)
    parameters = [linear.weight for linear in projections] + [linear.bias for linear in projections]
    found = torch.autograd.grad(output, [*used, *parameters, ours.output.weight], gradient)
    others = [theirs.in_proj_weight, theirs.in_proj_bias, theirs.out_proj.weight]
    *wanted, weight, bias, out = torch.autograd.grad(expected, used + others, gradient)
    close(found, (*wanted, *weight.chunk(3), *bias.chunk(3), out), 1e-5)


def test_split_and_combine_are_inverse_and_keep_heads_in_columns(attention):
    module, x = attention.MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
    heads = module.split_heads(x)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(heads[:, 1], x[..., 4:8]) and torch.equal(module.combine_heads(heads), x)


def test_impossible_number_of_heads(attention):
    with pytest.raises(ValueError, match="multiple"):
        attention.MultiHeadAttention(10, 3)
