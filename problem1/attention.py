"""Attention from scratch: each position asks all others a question and takes a weighted mean of their answers.

weights = softmax(Q Kᵀ / √d),   output = weights V          (Vaswani et al. 2017, section 3.2)
"""

import math
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.heads import HeadTap
from lab.linear import Linear

QUERIES, KEYS, VALUES = 0, 1, 2  # what MultiHeadAttention.project makes, in this order


def softmax(scores: Tensor) -> Tensor:
    """torch.softmax over the last dimension, which PyTorch computes slowly where that is shorter than a vector of
    the processor (16 numbers): there it is written out, shifted by the largest score so that nothing overflows."""
    if scores.shape[-1] == 0 or scores.shape[-1] >= 16:
        return torch.softmax(scores, dim=-1)
    weights = (scores - scores.detach().amax(-1, keepdim=True)).exp_()
    return weights / weights.sum(-1, keepdim=True)


def scaled_dot_product_attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Q [..., Tq, d], K [..., Tk, d], V [..., Tk, dv] -> output [..., Tq, dv], weights [..., Tq, Tk].

    mask: 1 or True where a query may attend, broadcastable to the weights. A query that may attend to nothing
    gets weights and output zero (a plain softmax over nothing would give NaN).
    """
    # Scaling Q instead of the scores touches fewer numbers and keeps large ones from overflowing.
    scores = (Q / math.sqrt(Q.shape[-1])) @ K.transpose(-2, -1)
    if mask is None:
        weights = softmax(scores)
        return weights @ V, weights
    forbidden = mask == 0
    weights = softmax(scores.masked_fill_(forbidden, torch.finfo(scores.dtype).min))
    if forbidden.all(-1).any():  # where everything is forbidden softmax is uniform, not zero
        weights = weights.masked_fill(forbidden, 0.0)
    return weights @ V, weights


def create_causal_mask(seq_len: int, device: torch.device | str | None = None) -> Tensor:
    """[1, 1, T, T], 1 on and below the diagonal: position i may attend to 0 … i, never to what comes later."""
    return torch.ones(1, 1, seq_len, seq_len, device=device).tril()


class MultiHeadAttention(nn.Module):
    """`num_heads` attentions side by side, each on its own d_model / num_heads dimensions.

    `name` ("encoder.0.self") is what a HeadTap knows this module by; see lab/heads.py.
    The projections to queries, keys and values stand below one another in one weight [3 d_model, d_model], so that
    self-attention makes all three in one product: three small ones cost a training step 4 to 8% more.
    """

    def __init__(self, d_model: int, num_heads: int, name: str = "attention"):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model ({d_model}) must be a multiple of num_heads ({num_heads})")
        self.num_heads, self.name = num_heads, name
        self.projections = Linear(d_model, 3 * d_model)
        self.output = Linear(d_model, d_model)
        for weight in (*self.projections.weight.chunk(3), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.projections.bias, self.output.bias):
            nn.init.zeros_(bias)

    def split_heads(self, x: Tensor) -> Tensor:
        """[B, T, d_model] -> [B, H, T, d_head]: head h is columns h·d_head … (h+1)·d_head - 1"""
        return x.view(*x.shape[:2], self.num_heads, x.shape[-1] // self.num_heads).transpose(1, 2)

    def combine_heads(self, x: Tensor) -> Tensor:
        """[B, H, T, d_head] -> [B, T, d_model]: the way back"""
        return x.transpose(1, 2).flatten(2)

    def project(self, x: Tensor, first: int = QUERIES, last: int = VALUES) -> tuple[Tensor, ...]:
        """[B, T, d_model] -> its queries, keys and values, or those from `first` to `last`: each [B, H, T, d_head]."""
        count, d_model = last - first + 1, x.shape[-1]
        rows = None if count == 3 else slice(first * d_model, (last + 1) * d_model)
        # split_heads of each part, in one step: a copy, but one that the products of queries, keys and values would
        # each make themselves, and more slowly.
        parts = self.projections(x, rows).view(*x.shape[:2], count, self.num_heads, d_model // self.num_heads)
        return parts.permute(2, 0, 3, 1, 4).contiguous().unbind()

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        tap: HeadTap | None = None,
    ) -> tuple[Tensor, Tensor]:
        """queries [B, H, Tq, d_head] over keys and values [B, H, Tk, d_head] -> [B, Tq, d_model], weights."""
        heads, weights = scaled_dot_product_attention(queries, keys, values, mask)
        if tap is not None:
            heads = tap(self.name, heads, weights)
        return self.output(self.combine_heads(heads)), weights

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        tap: HeadTap | None = None,
    ) -> tuple[Tensor, Tensor]:
        """[B, Tq, d_model], [B, Tk, d_model] twice -> output [B, Tq, d_model], weights [B, H, Tq, Tk].

        mask is broadcastable to the weights, 1 or True where a query may attend.
        """
        if query is key is value:
            return self.attend(*self.project(query), mask, tap)
        (queries,) = self.project(query, QUERIES, QUERIES)
        if key is value:
            return self.attend(queries, *self.project(key, KEYS, VALUES), mask, tap)
        (keys,), (values,) = self.project(key, KEYS, KEYS), self.project(value, VALUES, VALUES)
        return self.attend(queries, keys, values, mask, tap)
