"""Attention from scratch (Vaswani et al. 2017), with two ways for positions to enter it: bias and rotation.

Attention(Q, K, V) = softmax(rotate(Q) rotate(K)ᵀ / √d + bias) V, where the mask allows
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last dimension, where the mask is 1 or True; it is broadcastable to the scores.

    A query that may attend to nothing gets weights of zero, where a plain softmax would give NaN.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    forbidden = mask == 0
    # The lowest number there is, not -inf: a query that may attend to nothing would get NaN.
    scores = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1).masked_fill(forbidden, 0)


def scaled_dot_product_attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Q [..., Tq, d], K [..., Tk, d], V [..., Tk, dv] -> output [..., Tq, dv], weights [..., Tq, Tk].

    mask: 1 or True where a query may attend; bias: added to the scores; both broadcastable to the weights.
    """
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if bias is not None:
        scores = scores + bias
    weights = masked_softmax(scores, mask)
    return weights @ V, weights


class MultiHeadAttention(nn.Module):
    """`num_heads` attentions side by side, each on its own d_model / num_heads dimensions."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model ({d_model}) must be a multiple of num_heads ({num_heads})")
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def split_heads(self, x: Tensor) -> Tensor:
        """[B, T, d_model] -> [B, H, T, d_head]; head h has the columns h·d_head … (h+1)·d_head - 1"""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def combine_heads(self, x: Tensor) -> Tensor:
        """[B, H, T, d_head] -> [B, T, d_model], the inverse of split_heads"""
        return x.transpose(1, 2).flatten(2)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        rotate: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """query [B, Tq, d_model], key and value [B, Tk, d_model] -> output [B, Tq, d_model], weights [B, H, Tq, Tk].

        mask (1 or True where a query may attend) and bias (added to the scores) are broadcastable to the weights;
        `rotate` turns queries and keys [B, H, T, d_head] by angles that depend on their positions.
        """
        Q = self.split_heads(self.query(query))
        K = self.split_heads(self.key(key))
        V = self.split_heads(self.value(value))
        if rotate is not None:
            Q = rotate(Q)
            K = rotate(K)
        heads, weights = scaled_dot_product_attention(Q, K, V, mask, bias)
        return self.output(self.combine_heads(heads)), weights
