"""The position schemes of the text task.

place_value   a digit's position is its place value, attention is local       (place_value.py)
sinusoidal    the fixed waves of Vaswani et al. 2017, one for each character
learned       a free vector for each character's position
none          no positions: only the causal mask of the decoder gives order
"""

import torch
from torch import Tensor, nn

from problem1.model import PositionalEncoding, Seq2SeqTransformer
from problem1.text.dataset import PAD, VOCAB_SIZE

CLASSIC = ("sinusoidal", "learned", "none")
SCHEMES = ("place_value", *CLASSIC)
LONGEST = 2100  # positions in the tables of the classic schemes


class LearnedPositions(nn.Module):
    """x + a free vector for each position. Those beyond the training length keep their random first values."""

    def __init__(self, d_model: int, max_len: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(max_len, d_model) * 0.1)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x + self.table[start : start + x.shape[1]]


class NoPositions(nn.Module):
    """x alone."""

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x


class ClassicTransformer(Seq2SeqTransformer):
    """The encoder and decoder of the digits task over characters, with one of three position schemes."""

    def __init__(self, scheme: str, d_model: int, num_heads: int, num_layers: int, d_ff: int, dropout: float):
        super().__init__(VOCAB_SIZE, d_model, num_heads, num_layers, num_layers, d_ff, dropout, LONGEST)
        self.position = {
            "sinusoidal": lambda: PositionalEncoding(d_model, LONGEST, dropout),
            "learned": lambda: LearnedPositions(d_model, LONGEST),
            "none": NoPositions,
        }[scheme]()

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """characters [B, S], written before [B, T] -> logits [B, T, vocab]; padding of the source is masked."""
        return super().forward(src, tgt, (src != PAD)[:, None, None, :])
