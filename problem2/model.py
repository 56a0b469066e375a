"""A transformer encoder that reads a sequence and says whether it is sorted. Numbers are
tokens to it: their order is to be learned, though close values start with close embeddings.

    tokens [B, T] -> embeddings -> layers of attention and feed-forward -> logits of each position -> pooled [B, 2]

Where and how positions enter is up to the position scheme (positional_encoding.py).
"""

import math

import torch
from torch import Tensor, nn

try:
    from problem2.attention import MultiHeadAttention
    from problem2.positional_encoding import get_positional_encoding
except ModuleNotFoundError:  # for a script in this folder that says `from model import …`
    from attention import MultiHeadAttention
    from positional_encoding import get_positional_encoding


class FeedForward(nn.Module):
    """Two layers applied to each position alone: [B, T, d_model] -> [B, T, d_ff] -> [B, T, d_model]"""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(torch.relu(self.inner(x))))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each after a layer norm: [B, T, d_model] -> the same."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.attention_norm = nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask=None, bias=None, rotate=None) -> Tensor:
        normed = self.attention_norm(x)
        x = x + self.dropout(self.attention(normed, normed, normed, mask, bias, rotate)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class SortingClassifier(nn.Module):
    """tokens [B, T] -> logits [B, 2] of "not sorted" and "sorted". The last token of the vocabulary is padding.

    The answer is the mean over all positions. As the last layer is linear, the mean of logits is the logits of the
    mean; here logits are pooled, so that the vote of each position can be read (`votes`).
    """

    def __init__(
        self,
        vocab_size: int = 101,
        d_model: int = 64,
        num_heads: int = 4,
        num_layers: int = 2,
        d_ff: int = 256,
        dropout: float = 0.0,
        max_len: int = 5000,
        encoding_type: str = "sinusoidal",
    ):
        super().__init__()
        self.pad = vocab_size - 1
        self.embedding = nn.Embedding(vocab_size, d_model)
        # A random walk over the values: close values start close together and far ones far apart. The entries
        # that the first layer sees are of size 2, so that values stand out from sinusoidal codes, whose size is 0.7.
        walk = torch.randn(vocab_size, d_model).cumsum(0)
        walk = (walk - walk.mean(0)) / walk.std()
        self.embedding.weight.data = walk * 2 * d_model**-0.5
        self.scheme = get_positional_encoding(encoding_type, d_model, max_len, num_heads)
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff, dropout) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, 2)

    def attention_mask(self, real: Tensor) -> Tensor | None:
        """real tokens [B, T] -> what may be attended to, broadcastable to [B, H, T, T]; None if everything may"""
        padding = None if real.all() else real[:, None, None, :]
        visible = self.scheme.visible(real.shape[1], real.device)
        return both(padding, visible)

    def votes(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """tokens [B, T] -> logits of each position [B, T, 2], real tokens [B, T]"""
        if mask is None:
            mask = x != self.pad
        real = mask.reshape(x.shape) != 0
        allowed = self.attention_mask(real)
        positions = self.scheme.positions(real.sum(1), x.shape[1])
        bias = self.scheme.bias(positions)
        rotate = self.scheme.rotation(positions)
        embedded = self.embedding(x) * math.sqrt(self.embedding.embedding_dim)
        hidden = self.scheme(embedded, positions)
        for layer in self.layers:
            hidden = layer(hidden, allowed, bias, rotate)
        return self.output(self.norm(hidden)), real

    def pool(self, votes: Tensor, real: Tensor) -> Tensor:
        """logits of each position [B, T, 2], real tokens [B, T] -> their mean [B, 2]"""
        weight = real.unsqueeze(-1).to(votes.dtype)
        return (votes * weight).sum(1) / weight.sum(1).clamp(min=1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """tokens [B, T] -> logits [B, 2]; mask [B, T] is 1 or True at real tokens (left out: all but padding)"""
        votes, real = self.votes(x, mask)
        return self.pool(votes, real)


def both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """What two masks allow; None allows everything."""
    if one is None:
        return other
    if other is None:
        return one
    return one & other


def create_model(encoding_type: str, **kwargs) -> SortingClassifier:
    return SortingClassifier(encoding_type=encoding_type, **kwargs)
