"""A transformer that says whether a sequence is sorted (given). Its attention is yours, from problem 1."""

import math
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "problem1"))  # last: problem 1 has a model.py, too

from attention import MultiHeadAttention
from positional_encoding import get_positional_encoding


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each after a layer norm."""

    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.attention_norm = nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        normed = self.attention_norm(x)
        attended, _ = self.attention(normed, normed, normed, mask)
        x = x + self.dropout(attended)
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class SortingClassifier(nn.Module):
    """tokens [batch, T] -> logits [batch, 2] of "not sorted" and "sorted": the mean over all real positions."""

    def __init__(
        self,
        vocab_size=101,
        d_model=64,
        num_heads=4,
        num_layers=2,
        d_ff=256,
        dropout=0.0,
        max_len=512,
        encoding_type="sinusoidal",
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)  # so that √d_model times a row has size 1
        self.positions = get_positional_encoding(encoding_type, d_model, max_len)
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, 2)

    def forward(self, x, mask=None):
        """mask [batch, T]: 1 at real tokens, 0 at padding; left out: all are real"""
        if mask is None:
            mask = torch.ones_like(x)
        hidden = self.positions(self.embedding(x) * math.sqrt(self.embedding.embedding_dim))
        for layer in self.layers:
            hidden = layer(hidden, mask[:, None, None, :])
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (self.norm(hidden) * weight).sum(1) / weight.sum(1)
        return self.output(mean)


def create_model(encoding_type, **kwargs):
    return SortingClassifier(encoding_type=encoding_type, **kwargs)
