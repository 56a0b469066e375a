"""Three ways to tell a transformer of positions.

Write what raises NotImplementedError; then `python check.py encodings`.
"""

from torch import nn


class SinusoidalPositionalEncoding(nn.Module):
    """x + PE with PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos(p / 10000^(2i/d))

    Position p has this code in sequences of every length. Beyond max_len, compute it from the formula.
    """

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        """[batch, T, d_model] -> the same"""
        raise NotImplementedError


class LearnedPositionalEncoding(nn.Module):
    """x + row p of a trained table [max_len, d_model]; positions beyond the table take its last row

    Start the table at random, about as large as sinusoidal codes (their size is 0.7).
    """

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        """[batch, T, d_model] -> the same"""
        raise NotImplementedError


class NoPositionalEncoding(nn.Module):
    """x, for comparison"""

    def __init__(self, d_model, max_len=5000):
        super().__init__()

    def forward(self, x):
        """[batch, T, d_model] -> the same"""
        raise NotImplementedError


def get_positional_encoding(name, d_model, max_len=5000):
    """The module of that name: "sinusoidal", "learned" or "none". Refuse any other name."""
    raise NotImplementedError


def visualize_positional_encoding(module, max_len=100, d_model=64):
    """What `module` adds to a sequence, as a NumPy array [max_len, d_model], to be drawn as a heatmap"""
    raise NotImplementedError
