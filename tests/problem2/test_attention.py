"""Attention with bias and mask against PyTorch's own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from lab.hooks import HeadHooks, zero
from problem2.attention import MultiHeadAttention, create_causal_mask, scaled_dot_product_attention


def close(actual, expected, tolerance=2e-6):
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=1e-4)


@given(st.integers(1, 6), st.integers(1, 6), st.booleans(), st.booleans(), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_agrees_with_torch(queries, keys, masked, biased, seed):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 3, t, 8, generator=generator) for t in (queries, keys, keys))
    mask = torch.rand(2, 1, queries, keys, generator=generator) < 0.6 if masked else torch.ones(queries, keys).bool()
    mask[..., 0] = True
    bias = torch.randn(3, queries, keys, generator=generator) if biased else torch.zeros(1)
    output, weights = scaled_dot_product_attention(q, k, v, mask if masked else None, bias if biased else None)
    expected = F.scaled_dot_product_attention(
        q, k, v, attn_mask=(bias + torch.zeros_like(weights)).masked_fill(~mask, -torch.inf)
    )
    close(output, expected)
    close(weights.sum(-1), torch.ones(2, 3, queries))
    assert (weights.masked_select(~mask.expand_as(weights)) == 0).all()


def lonely_row() -> torch.Tensor:
    """A mask [4, 5] of which one query may attend to nothing, one to all, two to some."""
    return torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]])


@pytest.mark.parametrize("mask", [None, torch.ones(4, 5), lonely_row()], ids=["no mask", "of ones", "lonely row"])
@pytest.mark.parametrize("size", [1.0, 1e4, 1e15])
def test_weights_are_finite_and_nothing_given_is_written_to(mask, size):
    q, k, v = torch.randn(2, 3, 4, 8) * size, torch.randn(2, 3, 5, 8) * size, torch.randn(2, 3, 5, 8)
    given = [q, k, v, torch.randn(3, 4, 5)] + ([] if mask is None else [mask])
    before = [tensor.clone() for tensor in given]
    output, weights = scaled_dot_product_attention(q, k, v, mask, given[3])
    assert output.isfinite().all() and weights.isfinite().all()
    expected = torch.ones(4) if mask is None else mask.any(-1).float()
    close(weights.sum(-1), expected.expand(2, 3, 4))
    assert all(torch.equal(old, new) for old, new in zip(before, given, strict=True))


def test_gradients_with_a_query_that_may_attend_to_nothing():
    """Checked by differences in float64; bias and all, every one finite."""
    shapes = ((2, 4, 3), (2, 5, 3), (2, 5, 2), (1, 4, 5))
    inputs = tuple(torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes)

    def outputs(q, k, v, bias):
        return scaled_dot_product_attention(q, k, v, lonely_row(), bias)

    assert torch.autograd.gradcheck(outputs, inputs)


@pytest.mark.parametrize("causal", [False, True])
def test_module_agrees_with_nn_multihead_attention(causal):
    torch.manual_seed(0)
    ours, theirs = MultiHeadAttention(16, 4), nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        for bias in (ours.query.bias, ours.key.bias, ours.value.bias, ours.output.bias):
            bias.normal_()
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    x = torch.randn(2, 5, 16)
    mask = create_causal_mask(5) if causal else None
    expected, weights = theirs(x, x, x, attn_mask=~mask[0, 0].bool() if causal else None, average_attn_weights=False)
    output, our_weights = ours(x, x, x, mask)
    close(output, expected)
    close(our_weights, weights)


def test_heads_split_and_combine_in_order():
    module, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
    heads = module.split_heads(x)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(heads[:, 1], x[..., 4:8]) and torch.equal(module.combine_heads(heads), x)


def test_a_head_can_be_recorded_and_ablated():
    torch.manual_seed(0)
    module, x = MultiHeadAttention(12, 3, "encoder.0.self"), torch.randn(2, 5, 12)
    hooks = HeadHooks(interventions={"encoder.0.self.head1": zero})
    output, weights = module(x, x, x, hooks=hooks)
    hooks.check()
    assert torch.equal(hooks.pattern("encoder.0.self.head2"), weights[:, 2])
    heads = weights @ module.split_heads(module.value(x))
    heads[:, 1] = 0
    close(output, module.output(module.combine_heads(heads)))
    assert not torch.allclose(output, module(x, x, x)[0])


def test_heads_must_share_the_width():
    with pytest.raises(ValueError, match="multiple"):
        MultiHeadAttention(10, 4)
