"""Attention from scratch against PyTorch's own: outputs, weights and gradients."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from lab.hooks import HeadHooks, replace, zero
from problem1.attention import MultiHeadAttention, create_causal_mask, scaled_dot_product_attention

SHAPES = [(5, 8), (2, 5, 8), (2, 3, 5, 8), (2, 1, 3, 5, 8)]


def close(actual, expected, tolerance=2e-6):
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("masked", [False, True])
def test_agrees_with_torch_for_any_leading_dimensions(shape, masked):
    torch.manual_seed(0)
    q, k = torch.randn(shape, requires_grad=True), torch.randn(*shape[:-2], 7, 8, requires_grad=True)
    v = torch.randn(*shape[:-2], 7, 6, requires_grad=True)
    mask = None
    if masked:
        mask = torch.rand(*shape[:-1], 7) < 0.5
        mask[..., 0] = True
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    close(output, expected)
    close(weights.sum(-1), torch.ones(shape[:-1]))
    assert not masked or (weights[~mask] == 0).all()
    gradient = torch.randn_like(output)
    close(torch.autograd.grad(output, (q, k, v), gradient), torch.autograd.grad(expected, (q, k, v), gradient))


@pytest.mark.parametrize("kind", [torch.bool, torch.long, torch.float])
def test_masks_of_any_kind_broadcast(kind):
    torch.manual_seed(0)
    q = k = v = torch.randn(2, 3, 4, 8)
    mask = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 1]])[:, None, None, :].to(kind)
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    close(output, F.scaled_dot_product_attention(q, k, v, attn_mask=mask.bool()))
    assert weights.shape == (2, 3, 4, 4)


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


def test_gradcheck_in_float64():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 4, dtype=torch.double, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]])
    assert torch.autograd.gradcheck(lambda *x: scaled_dot_product_attention(*x, mask), (q, k, v))


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


@given(st.integers(0, 2))
def test_zeroing_a_head_equals_removing_its_columns_of_the_output_projection(head):
    attention, x = MultiHeadAttention(12, 3, "here"), torch.randn(2, 5, 12)
    hooks = HeadHooks({f"here.head{head}": zero})
    edited, _ = attention(x, x, x, hooks=hooks)
    hooks.check()
    with torch.no_grad():
        columns = slice(4 * head, 4 * head + 4)
        wrong = MultiHeadAttention(12, 3)
        wrong.load_state_dict(attention.state_dict())
        wrong.output.weight[columns, :] = 0  # the published mistake: rows instead of columns
        attention.output.weight[:, columns] = 0
    close(edited, attention(x, x, x)[0])
    assert not torch.allclose(edited, wrong(x, x, x)[0], atol=1e-3)


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


def test_a_misspelt_head_is_noticed():
    hooks = HeadHooks({"here.head7": zero})
    x = torch.randn(1, 2, 12)
    MultiHeadAttention(12, 3, "here")(x, x, x, hooks=hooks)
    with pytest.raises(KeyError, match=r"here\.head7"):
        hooks.check()


def test_scores_are_divided_by_the_root_of_the_width():
    q, k = torch.zeros(1, 16), torch.zeros(2, 16)
    q[0, 0], k[0, 0] = 4.0, 4.0
    _, weights = scaled_dot_product_attention(q, k, torch.zeros(2, 1))
    assert weights[0, 0].item() == pytest.approx(1 / (1 + math.exp(-4)), abs=1e-6)
