"""Attention from scratch, with the three places where a position can enter it: bias, rotation and window.

weights = softmax(rotate(Q) rotate(K)ᵀ / √d + bias),   output = weights V,   where the mask allows
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lab.fast import Linear
from lab.hooks import HeadHooks


def scaled_dot_product_attention(
    Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Q [..., Tq, d], K [..., Tk, d], V [..., Tk, dv] -> output [..., Tq, dv], weights [..., Tq, Tk].

    mask: 1 or True where a query may attend; bias: added to the scores; both broadcastable to the weights.
    A query that may attend to nothing gets weights and output zero (a plain softmax would give NaN).
    """
    # Scaling Q instead of the scores touches fewer numbers and keeps large ones from overflowing.
    scores = (Q / math.sqrt(Q.shape[-1])) @ K.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    no_choice = None  # [..., Tq, 1]: queries that may attend to nothing
    if mask is not None and not mask.all():  # one that leaves out nothing would cost a pass over the scores
        forbidden = mask == 0
        no_choice = forbidden.all(-1, keepdim=True)
        forbidden &= ~no_choice  # a softmax over nothing would be NaN: they get any weights here, and none below
        # Minus infinity is added, not filled in: half the work, as its gradient is nothing at all.
        scores += torch.zeros_like(forbidden, dtype=scores.dtype).masked_fill_(forbidden, -math.inf)
    # Where no gradient is wanted, nobody asks for the scores again: the weights take their place.
    weights = torch.softmax(scores, dim=-1, out=None if torch.is_grad_enabled() else scores)
    if no_choice is not None and no_choice.any():
        weights = weights.masked_fill(no_choice, 0.0)
    return weights @ V, weights


def create_causal_mask(seq_len: int, device: torch.device | str | None = None) -> Tensor:
    """[1, 1, T, T], 1 on and below the diagonal: position i may attend to 0 … i, never to what comes later."""
    return torch.ones(1, 1, seq_len, seq_len, device=device).tril()


class MultiHeadAttention(nn.Module):
    """`num_heads` attentions side by side, each on its own d_model / num_heads dimensions.

    `name` ("encoder.0.self") is what a HeadHooks knows this module by; see lab/heads.py.
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

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        rotate: Callable[[Tensor], Tensor] | None = None,
        hooks: HeadHooks | None = None,
    ) -> tuple[Tensor, Tensor]:
        """[B, Tq, d_model], [B, Tk, d_model] twice -> output [B, Tq, d_model], weights [B, H, Tq, Tk].

        mask (1 or True where a query may attend) and bias are broadcastable to the weights; `rotate` is applied
        to the queries and to the keys [B, H, T, d_head] by their places.
        """
        queries, keys = self.split_heads(self.query(query)), self.split_heads(self.key(key))
        if rotate is not None:
            queries, keys = rotate(queries), rotate(keys)
        heads, weights = scaled_dot_product_attention(queries, keys, self.split_heads(self.value(value)), mask, bias)
        if hooks is not None:
            heads = hooks(self.name, heads, weights)
        return self.output(self.combine_heads(heads)), weights
