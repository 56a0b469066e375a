"""Position schemes: how a transformer learns of the order of its tokens. Each is one small class, one interface.

A scheme says where each token stands, and lets that enter the model in one or two of four ways. It overrides what it
uses:

    positions(lengths, width)  where each token stands: 0, 1, 2, …      the randomized ones
    code(positions)            added to the embeddings                  sinusoidal, learned, onehot
    rotation(positions)        of queries and keys, by an angle         rope
    bias(positions)            added to the attention scores            t5, alibi, window
    visible(width)             which positions may be attended to       alibi (one direction a head), window

Positions are given as numbers, so that an experiment may put a token anywhere: at a position never seen, at a fraction
between two.

A further scheme is one more class and one more line in SCHEMES: train.py and analyze.py know it then. One that is to
stay also needs its line in the Makefile (OTHERS), its formula in explorer/sorting_model.js, a row in the report's table
of schemes, and its runs in beyond/schemes/study.py and beyond/published/contradictions.py. What a scheme does at
positions that training never had is said in its docstring: "Beyond:".
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


class PositionScheme(nn.Module):
    """No positions at all, and the interface of all schemes."""

    def __init__(self, d_model: int, max_len: int = 5000, num_heads: int = 4):
        super().__init__()
        self.d_model = d_model
        self.max_len = max_len
        self.num_heads = num_heads

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        """The position of each token, for rows of `lengths` [B] padded to `width`: [width] or [B, width]."""
        return torch.arange(width, device=lengths.device)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """[B, T, d_model] -> x + the code of each position; left out: positions 0, 1, 2, …"""
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        code = self.code(positions)
        return x if code is None else x + code

    def code(self, positions: Tensor) -> Tensor | None:
        """[...] -> [..., d_model], added to the embeddings"""
        return None

    def rotation(self, positions: Tensor) -> Callable[[Tensor], Tensor] | None:
        """[T] or [B, T] -> what turns queries and keys [B, H, T, d_head]"""
        return None

    def bias(self, positions: Tensor) -> Tensor | None:
        """[T] or [B, T] -> [H, T, T] or [B, H, T, T], added to the scores of each head"""
        return None

    def visible(self, width: int, device: torch.device | str | None = None) -> Tensor | None:
        """[1 or H, T, T] True where a query (row) may attend to a key (column), by their order alone"""
        return None


class NoPositionalEncoding(PositionScheme):
    """Order is invisible: the same values in any order give the same answer. Beyond: nothing ends."""


class SinusoidalPositionalEncoding(PositionScheme):
    """x + PE with PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos(p / 10000^(2i/d)) (Vaswani et al. 2017).

    Beyond: computed, not looked up, so every position has a code, also beyond max_len and between two integers.
    """

    def code(self, positions: Tensor) -> Tensor:
        angles = positions.unsqueeze(-1) * frequencies(self.d_model, positions.device)  # [..., ceil(d_model / 2)]
        pairs = torch.stack([angles.sin(), angles.cos()], -1)
        return pairs.flatten(-2)[..., : self.d_model]  # an odd width lacks the last cosine


def frequencies(size: int, device=None) -> Tensor:
    """[ceil(size / 2)] radians a position turns each pair of dimensions by: from 1 down towards 1/10000"""
    return torch.exp(torch.arange(0, size, 2, device=device) * (-math.log(10_000.0) / size))


class LearnedPositionalEncoding(PositionScheme):
    """x + a row of a trained table. Beyond: positions past the table take its last row.

    A row that no training sequence was long enough to use keeps its random direction; weight decay only shrinks it.
    """

    def __init__(self, d_model: int, max_len: int = 5000, num_heads: int = 4):
        super().__init__(d_model, max_len, num_heads)
        self.table = nn.Parameter(torch.randn(max_len, d_model) * 0.7)  # as large as a sinusoidal code

    def code(self, positions: Tensor) -> Tensor:
        return self.table[positions.long().clamp(0, self.max_len - 1)]


class OneHotPositionalEncoding(PositionScheme):
    """x + a fixed code in which position p sets dimension p alone, to the length that a sinusoidal code has.

    Beyond: there are only d_model different codes, so position p takes that of p modulo d_model.
    """

    def code(self, positions: Tensor) -> Tensor:
        one_hot = nn.functional.one_hot(positions.long() % self.d_model, self.d_model)
        return one_hot * math.sqrt(self.d_model / 2)


class RotaryPositionalEncoding(PositionScheme):
    """Pairs of dimensions of queries and keys turned by p · frequency, so that their product depends on the
    distance alone (RoPE, Su et al. 2021). Beyond: every angle can be computed, nothing ends."""

    def __init__(self, d_model: int, max_len: int = 5000, num_heads: int = 4):
        super().__init__(d_model, max_len, num_heads)
        d_head = d_model // num_heads
        if d_head % 2:
            raise ValueError(f"rope turns pairs of dimensions: d_model / num_heads must be even, not {d_head}")

    def rotation(self, positions: Tensor) -> Callable[[Tensor], Tensor]:
        angles = positions.unsqueeze(-1) * frequencies(self.d_model // self.num_heads, positions.device)
        if angles.ndim == 3:  # [B, T, d_head / 2]: the same for all heads
            angles = angles.unsqueeze(1)
        turns = torch.complex(angles.cos(), angles.sin())

        def rotate(heads: Tensor) -> Tensor:
            # A pair of dimensions is one complex number, and a complex product turns it.
            pairs = torch.view_as_complex(heads.unflatten(-1, (-1, 2)))
            return torch.view_as_real(pairs * turns).flatten(-2)

        return rotate


class AlibiPositionalEncoding(PositionScheme):
    """A penalty on distance, slope · |i - j|, with the slopes 2^(-8h/H) for h = 1 … H (Press et al. 2022).

    The paper's model sees only earlier tokens. Here distance alone would not tell a sequence from its mirror
    image, so heads have directions: even ones attend to themselves and to what comes before, odd ones to themselves
    and to what comes after.
    Beyond: every distance has its penalty, nothing ends.
    """

    def bias(self, positions: Tensor) -> Tensor:
        distance = (positions.unsqueeze(-1) - positions.unsqueeze(-2)).abs()
        numbers = torch.arange(1, self.num_heads + 1, device=positions.device)
        slopes = 2.0 ** (-8.0 * numbers / self.num_heads)
        return -distance.unsqueeze(-3) * slopes[:, None, None]

    def visible(self, width: int, device: torch.device | str | None = None) -> Tensor:
        before = torch.ones(width, width, device=device, dtype=torch.bool).tril()
        after = before.T
        return torch.stack([before if head % 2 == 0 else after for head in range(self.num_heads)])


class T5PositionalEncoding(PositionScheme):
    """A trained bias for each head and bucket of j - i (Raffel et al. 2020): 16 buckets a side, one for each of the
    distances 0 … 7, the others growing with the logarithm of the distance.

    Beyond: distances from 91 on share the last bucket. A bucket that no training sequence reached keeps its random
    direction; weight decay only shrinks it.
    """

    BUCKETS = 32
    FARTHEST = 128
    # The bias is GAIN times the table. Adam moves an entry by about the learning rate a step, whatever its size: as
    # it is, a bias would take thousands of steps to leave one key alone.
    GAIN = 8.0

    def __init__(self, d_model: int, max_len: int = 5000, num_heads: int = 4):
        super().__init__(d_model, max_len, num_heads)
        # Random, so that heads differ and left differs from right: from zeros it takes thousands of steps to part.
        self.table = nn.Parameter(torch.randn(self.BUCKETS, num_heads) / self.GAIN)

    def bias(self, positions: Tensor) -> Tensor:
        bucket = t5_bucket(relative_positions(positions), self.BUCKETS, self.FARTHEST)
        return self.GAIN * self.table[bucket].movedim(-1, -3)  # [..., T, T, H] -> [..., H, T, T]


def relative_positions(positions: Tensor) -> Tensor:
    """[..., T] -> [..., T, T] j - i; a fraction is rounded away from 0, so that left stays left."""
    difference = positions.unsqueeze(-2) - positions.unsqueeze(-1)
    return (difference.sign() * difference.abs().ceil()).long()


def t5_bucket(relative: Tensor, buckets: int = 32, farthest: int = 128) -> Tensor:
    """j - i -> bucket: the first half for keys at or before the query, the second for keys after it."""
    side = buckets // 2
    exact = side // 2  # smaller distances have a bucket each
    distance = relative.abs()
    # 0 at the first distance that shares its bucket, 1 at the farthest
    growth = torch.log(distance.clamp(min=1) / exact) / math.log(farthest / exact)
    shared = (exact + (growth * (side - exact)).long()).clamp(max=side - 1)
    return torch.where(distance < exact, distance, shared) + side * (relative > 0)


class WindowPositionalEncoding(PositionScheme):
    """A token attends to itself and to the neighbours within REACH positions, with a trained bias for each head and
    offset, which is what tells left from right. Beyond: nothing ends, and however long the sequence is, no query
    ever has more keys than in training."""

    REACH = 1

    def __init__(self, d_model: int, max_len: int = 5000, num_heads: int = 4):
        super().__init__(d_model, max_len, num_heads)
        # Random, so that heads differ from the start in where they look.
        self.table = nn.Parameter(torch.randn(num_heads, 2 * self.REACH + 1))

    def bias(self, positions: Tensor) -> Tensor:
        offset = relative_positions(positions).clamp(-self.REACH, self.REACH)
        # An offset of -REACH has the first column of the table; the heads come before the two positions.
        return self.table[:, offset + self.REACH].movedim(0, -3)

    def visible(self, width: int, device: torch.device | str | None = None) -> Tensor:
        index = torch.arange(width, device=device)
        distance = (index[:, None] - index).abs()
        return (distance <= self.REACH).unsqueeze(0)


class RandomPositions:
    """Mixed into a scheme: in training a row of L tokens takes a random set of L positions out of 0 … SPAN - 1, all
    sets equally likely, in order (Ruoss et al. 2023). So all positions and distances occur although all sequences
    are short.

    In evaluation positions are spread evenly over the span, so that the result is always the same.
    Beyond: more than SPAN tokens are spread just as evenly, at fractions; a table gives neighbours the same row.
    """

    SPAN = 512

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        lengths = lengths.unsqueeze(1)
        index = torch.arange(width, device=lengths.device)
        if not self.training or width > self.SPAN:
            return (index + 0.5) * self.SPAN / lengths.clamp(min=1)
        # The places of the `width` largest of SPAN random numbers: drawn without replacement.
        drawn = torch.rand(len(lengths), self.SPAN, device=lengths.device).topk(width).indices
        drawn = drawn.masked_fill(index >= lengths, self.SPAN)  # padding comes last
        return drawn.sort(1).values


class RandomizedPositionalEncoding(RandomPositions, SinusoidalPositionalEncoding):
    """Sinusoidal codes at random ordered positions, two and a half times as large, as models then err less.

    So it differs from `sinusoidal` in the size of its codes as well as in its positions.
    """

    SIZE = 2.5

    def code(self, positions: Tensor) -> Tensor:
        return super().code(positions) * self.SIZE


class RandomizedLearnedPositionalEncoding(RandomPositions, LearnedPositionalEncoding):
    """A trained table at random ordered positions: every one of its first SPAN rows is trained, if seldom.

    Unlike that of `learned`, the table starts as a random walk, close positions close together, so that what is
    learned of one row helps the next, and three and a half times as large as a sinusoidal code, as neighbouring
    rows differ little. The two schemes differ in this as well as in their positions.
    """

    def __init__(self, d_model: int, max_len: int = 5000, num_heads: int = 4):
        super().__init__(d_model, max_len, num_heads)
        walk = torch.randn(max_len, d_model)[: self.SPAN].cumsum(0)
        walk = (walk - walk.mean(0)) / walk.std()
        self.table.data[: self.SPAN] = walk * 0.5**0.5 * 3.5  # an entry of a sinusoidal code is about 0.5**0.5


class RandomizedRotaryPositionalEncoding(RandomPositions, RotaryPositionalEncoding):
    """RoPE at random ordered positions."""


SCHEMES: dict[str, type[PositionScheme]] = {
    "sinusoidal": SinusoidalPositionalEncoding,
    "learned": LearnedPositionalEncoding,
    "none": NoPositionalEncoding,
    "randomized": RandomizedPositionalEncoding,
    "rope": RotaryPositionalEncoding,
    "alibi": AlibiPositionalEncoding,
    "t5": T5PositionalEncoding,
    "window": WindowPositionalEncoding,
    "onehot": OneHotPositionalEncoding,
    "randomized_learned": RandomizedLearnedPositionalEncoding,
    "randomized_rope": RandomizedRotaryPositionalEncoding,
}
HOMEWORK = ("sinusoidal", "learned", "none")  # those that the course asks for


def get_positional_encoding(name: str, d_model: int, max_len: int = 5000, num_heads: int = 4) -> PositionScheme:
    if name not in SCHEMES:
        raise ValueError(f"no position scheme is called {name!r}; there are {', '.join(SCHEMES)}")
    return SCHEMES[name](d_model, max_len, num_heads)


@torch.no_grad()
def visualize_positional_encoding(module: PositionScheme, max_len: int = 100, d_model: int = 64) -> np.ndarray:
    """What `module` adds to the embeddings of a sequence: [max_len, d_model], to be drawn as a heatmap."""
    device = next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
    nothing = torch.zeros(1, max_len, d_model, device=device)
    return module(nothing)[0].cpu().numpy()
