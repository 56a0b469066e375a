"""Attention from scratch against PyTorch's own: outputs, weights and gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lab.hooks import HeadHooks, replace
from problem1.attention import MultiHeadAttention, create_causal_mask, scaled_dot_product_attention

SHAPES = [(5, 8), (2, 5, 8), (2, 3, 5, 8), (2, 1, 3, 5, 8)]


def close(actual, expected, tolerance=2e-6):
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [None, torch.bool, torch.long, torch.float])
def test_agrees_with_torch_for_any_leading_dimensions_and_mask(shape, kind):
    torch.manual_seed(0)
    q, k = torch.randn(shape, requires_grad=True), torch.randn(*shape[:-2], 7, 8, requires_grad=True)
    v = torch.randn(*shape[:-2], 7, 6, requires_grad=True)
    mask = None if kind is None else torch.rand(shape[-2], 7) < 0.5
    if mask is not None:
        mask[..., 0] = True
    output, weights = scaled_dot_product_attention(q, k, v, None if kind is None else mask.to(kind))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    close(output, expected)
    close(weights.sum(-1), torch.ones(shape[:-1]))
    assert mask is None or (weights.masked_select(~mask) == 0).all()
    gradient = torch.randn_like(output)
    close(torch.autograd.grad(output, (q, k, v), gradient), torch.autograd.grad(expected, (q, k, v), gradient))


def test_nothing_to_attend_to_gives_zeros_and_finite_gradients():
    q, k, v = (torch.randn(1, 2, 3, 4, requires_grad=True) for _ in range(3))
    mask = torch.ones(3, 3)
    mask[1] = 0
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    assert (output[..., 1, :] == 0).all() and (weights[..., 1, :] == 0).all()
    output.square().sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v)) and (q.grad[..., 1, :] == 0).all()


@pytest.mark.parametrize("size", [1e-30, 1e4, 1e15])
def test_extreme_logits_stay_finite(size):
    q = k = torch.randn(2, 4, 8) * size
    output, weights = scaled_dot_product_attention(q, k, torch.randn(2, 4, 8), create_causal_mask(4)[0])
    assert torch.isfinite(output).all()
    close(weights.sum(-1), torch.ones(2, 4))


def test_causal_mask():
    mask = create_causal_mask(5)
    assert mask.shape == (1, 1, 5, 5)
    assert torch.equal(mask[0, 0].bool(), torch.ones(5, 5).tril().bool())


def pair(d_model=24, num_heads=3):
    """Our attention and PyTorch's, with the same random weights."""
    torch.manual_seed(1)
    ours, theirs = MultiHeadAttention(d_model, num_heads), nn.MultiheadAttention(d_model, num_heads, batch_first=True)
    copy_attention(ours, theirs)
    return ours, theirs


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
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
def test_multi_head_agrees_with_torch(roles, queries):
    """Outputs, weights, and gradients of inputs and parameters."""
    ours, theirs = pair()
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


def test_split_and_combine_are_inverse_and_keep_heads_in_columns():
    attention, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
    split = attention.split_heads(x)
    assert split.shape == (2, 3, 5, 4)
    assert torch.equal(split[:, 1], x[..., 4:8])
    assert torch.equal(attention.combine_heads(split), x)


def test_impossible_number_of_heads():
    with pytest.raises(ValueError, match="multiple"):
        MultiHeadAttention(10, 3)


def test_hooks_intervene_and_record():
    attention, x = MultiHeadAttention(12, 3, "here"), torch.randn(2, 5, 12)
    plain = HeadHooks()
    before, weights = attention(x, x, x, hooks=plain)
    close(before, attention(x, x, x)[0], 0)
    assert torch.equal(plain.pattern("here.head2"), weights[:, 2])
    doubled = HeadHooks({"here.head1": lambda output: 2 * output})
    attention(x, x, x, hooks=doubled)
    close(doubled.output("here.head1"), 2 * plain.output("here.head1"))
    value = torch.randn(5, 4)
    placed = HeadHooks({"here.head0": replace(value, [3])})
    attention(x, x, x, hooks=placed)
    assert torch.equal(placed.output("here.head0")[:, 3], value[3].expand(2, 4))
    assert torch.equal(placed.output("here.head0")[:, :3], plain.output("here.head0")[:, :3])
