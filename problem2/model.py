"""A transformer encoder that reads a sequence and answers one question about it. It knows no numbers, only tokens.

    tokens [B, T] -> embeddings -> layers of attention and feed-forward -> logits at each place -> pooled [B, 2]

Where and how positions come in is the scheme's business (positional_encoding.py).
"""

import math
from functools import partial

import torch
from torch import Tensor, nn

from lab.fast import Linear
from lab.hooks import HeadHooks
from problem2.attention import MultiHeadAttention, create_causal_mask
from problem2.dataset import PAD, VOCAB_SIZE
from problem2.positional_encoding import get_positional_encoding

POOLINGS = ("mean", "max")


class FeedForward(nn.Module):
    """Two layers on each place alone: [B, T, d_model] -> [B, T, d_ff] -> [B, T, d_model]"""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.inner = Linear(d_model, d_ff)
        self.outer = Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        # In place: one large tensor less to fill. As rows: what stands in a view autograd would copy first.
        hidden = torch.relu_(self.inner(x.flatten(0, -2)))
        return self.outer(self.dropout(hidden)).view(x.shape)


class EncoderLayer(nn.Module):
    """Every place looks at others, then thinks for itself (pre-norm): [B, T, d_model] -> the same."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, name: str = "encoder.0"):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, f"{name}.self")
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask=None, bias=None, rotate=None, hooks: HeadHooks | None = None) -> Tensor:
        normed = self.attention_norm(x)
        x = x + self.dropout(self.attention(normed, normed, normed, mask, bias, rotate, hooks)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class SortingClassifier(nn.Module):
    """Logits [B, 2] of "not sorted" and "sorted".

    pooling "mean" (the course's): the mean over all places. As the last layer is linear, it makes no difference
    whether features or logits are averaged; here it is logits, so that each place's vote can be read (`votes`).
    pooling "max": the place that speaks loudest for "not sorted" decides, as one violation is enough.
    Heads are called "encoder.0.self.head0" …; `hooks` reads and interventions them (lab/heads.py).
    """

    def __init__(
        self,
        vocab_size: int = VOCAB_SIZE,
        d_model: int = 64,
        num_heads: int = 4,
        num_layers: int = 2,
        d_ff: int = 256,
        dropout: float = 0.0,
        max_len: int = 5000,
        encoding_type: str = "sinusoidal",
        pooling: str = "mean",
        causal: bool = False,
    ):
        super().__init__()
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, not {pooling!r}")
        self.pooling, self.causal = pooling, causal
        self.embedding = nn.Embedding(vocab_size, d_model)
        # A random walk: close values start close together and far ones far apart, in about unit steps of √d.
        walk = torch.randn(vocab_size, d_model).cumsum(0)
        self.embedding.weight.data = (walk - walk.mean(0)) / walk.std() * d_model**-0.5
        self.scheme = get_positional_encoding(encoding_type, d_model, max_len, num_heads)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, dropout, f"encoder.{number}") for number in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.output = Linear(d_model, 2)

    def head_names(self) -> list[str]:
        """Every head, from the input to the output."""
        modules = [layer.attention for layer in self.layers]
        return [f"{module.name}.head{head}" for module in modules for head in range(module.num_heads)]

    def votes(self, x: Tensor, mask: Tensor | None = None, hooks: HeadHooks | None = None) -> tuple[Tensor, Tensor]:
        """tokens [B, T] -> logits at each place [B, T, 2], real places [B, T]"""
        real = (x != PAD) if mask is None else mask.reshape(x.shape) != 0
        width = x.shape[1]
        positions = self.scheme.positions(real.sum(1), width)
        allowed = real[:, None, None, :]
        visible = self.scheme.visible(width, x.device)
        if visible is not None:
            allowed = allowed & visible
        if self.causal:
            allowed = allowed & create_causal_mask(width, x.device).bool()
        bias, rotate = self.scheme.bias(positions), partial(self.scheme.rotate, positions=positions)
        hidden = self.scheme(self.embedding(x) * math.sqrt(self.embedding.embedding_dim), positions)
        for layer in self.layers:
            hidden = layer(hidden, allowed, bias, rotate, hooks)
        return self.output(self.norm(hidden)), real

    def forward(self, x: Tensor, mask: Tensor | None = None, hooks: HeadHooks | None = None) -> Tensor:
        """tokens [B, T] -> logits [B, 2]; mask [B, T] is 1 or True at real tokens (left out: all but padding)"""
        votes, real = self.votes(x, mask, hooks)
        if self.pooling == "mean":
            weight = real.unsqueeze(-1).to(votes.dtype)
            return (votes * weight).sum(1) / weight.sum(1).clamp(min=1)
        # What decides is how far "not sorted" is ahead; half of it on either side leaves the difference as it is.
        ahead = (votes[..., 0] - votes[..., 1]).masked_fill(~real, torch.finfo(votes.dtype).min)
        # While training the smooth maximum, which lets every place learn from every row; the largest one alone learns
        # slowly. Not for answers: it grows with the number of places, and long sequences would all be objected to.
        ahead = ahead.logsumexp(1) if self.training else ahead.amax(1)
        return torch.stack([ahead, -ahead], 1) / 2


def create_model(encoding_type: str, **kwargs) -> SortingClassifier:
    return SortingClassifier(encoding_type=encoding_type, **kwargs)
