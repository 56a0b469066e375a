"""Attention from scratch. Write what raises NotImplementedError; then `python check.py attention`.

Build it from matrix products and softmax: no nn.MultiheadAttention, no nn.Transformer, no
F.scaled_dot_product_attention. Names of your own attributes are free.
"""

from torch import nn


def scaled_dot_product_attention(Q, K, V, mask=None):
    """softmax(Q Kᵀ / √d) V

    Q: [batch, …, Tq, d]; K: [batch, …, Tk, d]; V: [batch, …, Tk, d]
    mask: 1 (or True) where a query may attend, 0 where not; broadcastable to [batch, …, Tq, Tk]

    Returns the output [batch, …, Tq, d] and the weights [batch, …, Tq, Tk]; each row of weights adds up to 1.
    """
    raise NotImplementedError


def create_causal_mask(seq_len, device=None):
    """[1, 1, seq_len, seq_len]: 1 on and below the diagonal, 0 above. Position i may attend to 0 … i."""
    raise NotImplementedError


class MultiHeadAttention(nn.Module):
    """num_heads attentions side by side, each on d_k = d_model / num_heads dimensions."""

    def __init__(self, d_model, num_heads):
        """Projections of queries, keys, values and of the output. Refuse a d_model that is no multiple of num_heads."""
        super().__init__()
        raise NotImplementedError

    def split_heads(self, x):
        """[batch, T, d_model] -> [batch, num_heads, T, d_k]; head h gets columns h·d_k … (h+1)·d_k - 1"""
        raise NotImplementedError

    def combine_heads(self, x):
        """[batch, num_heads, T, d_k] -> [batch, T, d_model], the inverse of split_heads"""
        raise NotImplementedError

    def forward(self, query, key, value, mask=None):
        """query [batch, Tq, d_model]; key and value [batch, Tk, d_model]; mask as above, for [batch, num_heads, Tq, Tk]

        Returns the output [batch, Tq, d_model] and the weights [batch, num_heads, Tq, Tk].
        """
        raise NotImplementedError
