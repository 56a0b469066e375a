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
    """

    def __init__(self, d_model: int, num_heads: int, name: str = "attention"):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model ({d_model}) must be a multiple of num_heads ({num_heads})")
        self.num_heads, self.name = num_heads, name
        self.query = Linear(d_model, d_model)
        self.key = Linear(d_model, d_model)
        self.value = Linear(d_model, d_model)
        self.output = Linear(d_model, d_model)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def split_heads(self, x: Tensor) -> Tensor:
        """[B, T, d_model] -> [B, H, T, d_head]"""
        # A copy, but one that the products of queries, keys and values would each make themselves, and more slowly.
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2).contiguous()

    def combine_heads(self, x: Tensor) -> Tensor:
        """[B, H, T, d_head] -> [B, T, d_model]: head h fills columns h·d_head … (h+1)·d_head - 1"""
        return x.transpose(1, 2).flatten(2)

    def keys_and_values(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """What is attended to, ready for `attend`: each [B, H, Tk, d_head]. Computed once, it can be kept."""
        return self.split_heads(self.key(key)), self.split_heads(self.value(value))

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        tap: HeadTap | None = None,
    ) -> tuple[Tensor, Tensor]:
        """query [B, Tq, d_model] over keys and values [B, H, Tk, d_head] -> [B, Tq, d_model], weights."""
        queries = self.split_heads(self.query(query))
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
        return self.attend(query, *self.keys_and_values(key, value), mask, tap)
