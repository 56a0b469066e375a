"""How far can rounding move what a transformer computes? Bounds that hold for any order of summation.

A `Ball` holds every value that a vector can take, in exact arithmetic and in any admissible evaluation: a middle, and
how far from it in the 2-norm. `Rounding(unit)` has a rule for each operation. An evaluation is admissible if it does
what ASSUMPTIONS says, with unit roundoff 2⁻²⁴ (float32) or 2⁻⁵³ (float64). Middles and radii are computed in double:
the middle's own rounding is added to the unit, and radii are rounded up. What cannot be bounded raises NotBounded.

A sum of n products is off by at most γₙ Σ|wᵢxᵢ| ≤ γₙ ‖w‖‖x‖, with γₙ = n·unit / (1 - n·unit) (Higham 2002, ch. 3).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

UNITS = {"float64": 2.0**-53, "float32": 2.0**-24}
UP = 1 + 2.0**-30  # more than the rounding of the few hundred double operations behind one radius
TINY = 2.0**-100  # more than all that underflow can take from one result
EXP_ULPS = 4
LONGEST_EXP = 80  # exp(-80) is a normal number in float32

ASSUMPTIONS = [
    "Arithmetic is IEEE 754 binary32 or binary64, rounded to nearest; numbers below the smallest normal may become 0. "
    "No product is computed in a shorter format (TF32, bfloat16).",
    "A sum of products is computed from these products, in any order and any grouping, with or without fused "
    "multiply-add.",
    f"exp is within {EXP_ULPS} units in the last place, and 0 for what is masked. Softmax computes exp(x - max), their "
    "sum, and the quotients.",
    "Layer norm over d numbers takes a mean within g·mean|x| and a variance within g·mean(x²) of the exact ones, "
    "g = γ of 4(d + 4); then adds eps, takes the root and the reciprocal, and scales in at most 5 further roundings. "
    "This holds for the two-pass formula and for mean(x²) - mean(x)².",
    "Embedding, scaling of scores, ReLU, sums, and products are those of the model's formulas, in their order; a "
    "constant such as 1/√d may be rounded, and a division may be a product with a rounded reciprocal.",
]


class NotBounded(ArithmeticError):
    """The radius of some value is too large for the next operation to be bounded."""


def length(x: Tensor) -> Tensor:
    """2-norm over the last dimension, rounded up."""
    return torch.linalg.vector_norm(x, dim=-1) * UP


def spectral_norm(matrix: Tensor) -> float:
    """At least the largest singular value: by ‖G‖₂ ≤ ‖Gᵏ‖^(1/k) for G = MᵀM and k = 2¹², which needs products only."""
    power, logarithm = min(matrix.T @ matrix, matrix @ matrix.T, key=len), 0.0
    for doubling in range(13):
        size = float(power.norm())
        if size == 0:
            return 0.0
        logarithm += math.log(size) / 2**doubling
        power = (power / size) @ (power / size)
    return math.exp(logarithm / 2) * UP


def centred(matrix: Tensor) -> Tensor:
    return matrix - matrix.mean(-1, keepdim=True)


@dataclass(frozen=True)
class Folded:
    """What a layer norm leaves to the product that follows: of a ball's vectors, x - middle is

    gain·(n - mean of n) + s·(middle - bias) + m·gain + f with ‖n‖ ≤ norm, |s| ≤ scale, |m| ≤ mean, ‖f‖ ≤ loose.
    """

    gain: Tensor  # [d]
    bias: Tensor  # [d]
    scale: Tensor  # [...] relative error of 1/σ
    mean: Tensor  # [...] error of the mean over σ
    loose: Tensor  # [...]


@dataclass(frozen=True)
class Ball:
    middle: Tensor  # [..., d]
    norm: Tensor  # [...] ‖x - middle‖ is no larger, unless `folded` says otherwise
    folded: Folded | None = None

    def __getitem__(self, index) -> "Ball":
        f = self.folded
        folded = f and Folded(f.gain, f.bias, f.scale[index], f.mean[index], f.loose[index])
        return Ball(self.middle[index], self.norm[index], folded)

    @cached_property
    def largest(self) -> Tensor:
        """At least ‖x‖"""
        if self.folded is None:
            return length(self.middle) + self.norm
        f = self.folded
        moved = f.gain.abs().max() * self.norm + f.scale * length(self.middle - f.bias) + f.mean * length(f.gain)
        return length(self.middle) + moved + f.loose


class Rounding:
    """The rules for one unit roundoff."""

    def __init__(self, unit: float):
        self.unit = unit + 2.0**-53  # of the evaluation, and of the middle
        self.longest_exp = 0.0  # the largest argument (negated) that exp was given
        self.known: dict[tuple, Tensor] = {}  # norms of matrices

    def gamma(self, count: int) -> float:
        if not count * self.unit < 0.5:
            raise NotBounded(f"sums of {count} terms with unit roundoff {self.unit:.1g}")
        return count * self.unit / (1 - count * self.unit) * UP

    def exact(self, middle: Tensor, relative: float = 0.0) -> Ball:
        """Numbers that every evaluation has in common, or that differ by so much."""
        middle = middle.double()
        return Ball(middle, length(middle) * relative)

    def _ball(self, middle: Tensor, norm: Tensor) -> Ball:
        norm = (norm + TINY) * UP
        if not (norm < 1e30).all():  # NaN fails as well, here or, where a middle is NaN, in the next operation
            raise NotBounded(f"a radius of {norm.max():.1g}")
        return Ball(middle, norm)

    def _norms(self, module: nn.Linear, heads: int, f: Folded | None) -> Tensor:
        """Of the rows of each head, six numbers [6, H], each computed once; with the gain of the layer norm in it."""
        key = (id(module), heads, f and id(f.gain))
        if key not in self.known:
            weight, bias = module.weight.double(), module.bias.double()
            rows = []
            for w, b in zip(weight.unflatten(0, (heads, -1)), bias.unflatten(0, (heads, -1)), strict=True):
                row, slack = [spectral_norm(w), spectral_norm(w.abs()), float(length(b))], 0.0
                if f is not None:
                    slack = float(2.0**-40 * w.norm() * length(f.gain))  # rounding of the products of matrices here
                    row += [spectral_norm(centred(w * f.gain)) + slack, float(length(w @ f.gain)) + slack, slack]
                rows.append(row)
            self.known[key] = torch.tensor(rows, dtype=torch.float64).T
        return self.known[key]

    def linear(self, x: Ball, module: nn.Linear, heads: int | None = None) -> Ball:
        """A linear layer: [..., d] -> [..., d_out], or split into heads [..., H, d_head]"""
        f, count, norms = x.folded, heads or 1, self._norms(module, heads or 1, x.folded)
        middle = F.linear(x.middle, module.weight.double(), module.bias.double()).unflatten(-1, (count, -1))
        norm, largest = x.norm.unsqueeze(-1), x.largest.unsqueeze(-1)
        rounding = self.gamma(module.in_features + 1) * (norms[1] * largest + norms[2])
        if f is None:
            norm = norms[0] * norm + rounding
        else:
            constant = F.linear(f.bias, module.weight.double(), module.bias.double()).unflatten(-1, (count, -1))
            scale, mean, loose = (part.unsqueeze(-1) for part in (f.scale, f.mean, f.loose))
            norm = norms[3] * norm + mean * norms[4] + norms[0] * loose + rounding
            norm = norm + scale * (length(middle - constant) + norms[5] * largest)
        out = self._ball(middle, norm)
        return out if heads else Ball(out.middle.squeeze(-2), out.norm.squeeze(-1))

    def differences(self, x: Ball, module: nn.Linear, right: Tensor) -> tuple[Tensor, Tensor]:
        """How far the right logit lies above each other one (infinite for itself), and the radius of that: [N, V]

        For x [N, d] after a layer norm.
        """
        weight, bias, f = module.weight.double(), module.bias.double(), x.folded
        logits = x.middle @ weight.T + bias
        above, radius = torch.full_like(logits, torch.inf), torch.zeros_like(logits)
        for symbol in right.unique().tolist():
            rows, wrong = right == symbol, torch.arange(len(weight)) != symbol
            apart, both = weight[symbol] - weight, length(weight[symbol]) + length(weight)
            slack = 2.0**-40 * both * length(f.gain)
            here, constant = logits[rows][:, [symbol]] - logits[rows], apart @ f.bias + bias[symbol] - bias
            parts = (x.norm, length(centred(apart * f.gain)) + slack), (f.mean, (apart @ f.gain).abs() + slack)
            parts += (f.loose, length(apart)), (f.scale * x.largest, slack)
            moved = sum(left[rows].unsqueeze(1) * by for left, by in parts)
            moved = moved + f.scale[rows].unsqueeze(1) * (here - constant).abs()
            size = x.largest[rows].unsqueeze(1) * both + bias.abs() + bias[symbol].abs()
            moved = (moved + self.gamma(module.in_features + 1) * size + TINY) * UP
            above[rows] = torch.where(wrong, here, torch.inf)
            radius[rows] = torch.where(wrong, moved, 0)
        return above, radius

    def add(self, x: Ball, y: Ball) -> Ball:
        return self._ball(x.middle + y.middle, x.norm + y.norm + self.gamma(2) * (x.largest + y.largest))

    def layer_norm(self, x: Ball, module: nn.LayerNorm) -> Ball:
        """(x - mean) / σ · gain + bias, σ² = variance + eps.

        Centring is a projection, and σ moves by no more than ‖e‖/√d; from the middle to any x in the ball, the
        derivative of (x - mean) / σ is at most 1/σ.
        """
        size, root = x.middle.shape[-1], math.sqrt(x.middle.shape[-1])
        if id(module) not in self.known:
            self.known[id(module)] = module.weight.double(), module.bias.double()
        gain, bias = self.known[id(module)]
        middle = centred(x.middle)
        sigma = ((torch.linalg.vector_norm(middle, dim=-1) / root).square() + module.eps).sqrt()
        moved, rms = x.norm / root * UP, x.largest / root * UP  # rms: at least √mean(x²), and so at least |mean|
        lowest = sigma * (1 - 2.0**-20) - moved
        if not ((lowest > 0) & (rms < 100 * sigma)).all():
            raise NotBounded("the radius reaches the standard deviation of what is normalised")
        norm, slack = x.norm / lowest * UP, self.gamma(4 * (size + 4))  # see ASSUMPTIONS
        variance = slack * (rms / lowest).square()
        if not (variance < 0.5).all():
            raise NotBounded("the variance is small beside its rounding")
        scale = variance / 2 * (1 + 2 * variance) + self.gamma(5)  # of 1/σ, relative
        mean = slack * rms / lowest * (1 + scale)
        terms = root * rms * (2 + slack) / lowest * (1 + scale)  # of x/σ and mean/σ, in the 2-norm
        loose = gain.abs().max() * (scale * (norm + 2.0**-40) + self.gamma(6) * terms) + self.gamma(2) * length(bias)
        folded = Folded(gain, bias, scale * UP, mean * UP, (loose + TINY) * UP)
        return Ball(middle / sigma.unsqueeze(-1) * gain + bias, norm, folded)

    def feed_forward(self, x: Ball, norm: nn.LayerNorm, module: nn.Module) -> Ball:
        """x + outer(relu(inner(norm(x)))): relu moves nothing further apart, and rounds nothing."""
        inner = self.linear(self.layer_norm(x, norm), module.inner)
        return self.add(x, self.linear(Ball(inner.middle.clamp(min=0), inner.norm), module.outer))

    def attention(self, q: Ball, k: Ball, v: Ball, mask: Tensor, bias: Tensor | None = None) -> Ball:
        """q [..., H, d_head], k and v [..., n, H, d_head], mask [..., n] -> all heads side by side [..., d]

        bias [n, H] is added to the scores.
        """
        count, size, mask = k.norm.shape[-2], k.middle.shape[-1], mask.unsqueeze(-1)
        scores = torch.einsum("...he,...nhe->...nh", q.middle, k.middle) / math.sqrt(size)
        if bias is not None:
            scores = scores + bias.double()
        scores = scores.masked_fill(~mask, -torch.inf)
        p = scores.softmax(-2)  # [..., n, H]
        # A number added to all scores changes no weight: of the keys, only what sets them apart counts for e of q.
        norm, largest = q.norm.unsqueeze(-2), q.largest.unsqueeze(-2)
        apart = length(k.middle - k.middle.mean(-3, keepdim=True))
        moved = norm * apart + largest * k.norm + self.gamma(size + 4) * largest * k.largest
        moved = (moved + TINY) / math.sqrt(size)
        if bias is not None:
            moved = moved + self.gamma(2) * (largest * k.largest / math.sqrt(size) + bias.double().abs())
        moved = (moved * UP).masked_fill(~mask, 0).amax(-2, keepdim=True)  # [..., 1, H]
        longest = (scores.amax(-2, keepdim=True) - scores).masked_fill(~mask, 0).amax(-2, keepdim=True) + 2 * moved
        exp_error = self.unit * longest + 2 * EXP_ULPS * self.unit * UP
        rounded = (torch.expm1(2 * exp_error) + self.gamma(2 * count + 5)) * 1.01  # of weights and of their product
        if not ((longest < LONGEST_EXP) & (rounded < 0.01)).all():
            raise NotBounded("exp of a number below -80, or weights that are too uncertain")
        self.longest_exp = max(self.longest_exp, longest.max().item())

        # Scores that move by no more than r change the odds of a weight by a factor of no more than exp(2r).
        odds, others = torch.expm1(2 * moved), (1 - torch.eye(count, dtype=p.dtype)) @ p  # others: 1 - p
        change = p * others * odds / (1 + torch.minimum(p, others) * odds) * UP
        # Weights sum to 1 before and after: of the values, only what sets them apart counts for their change.
        apart = length(v.middle - v.middle.mean(-3, keepdim=True))
        moved = (change * apart + (p + change) * (v.norm + rounded * v.largest)).sum(-2)
        heads = self._ball(torch.einsum("...nh,...nhe->...he", p, v.middle), moved)
        return Ball(heads.middle.flatten(-2), length(heads.norm))


def exp_errors(longest: float, step: int = 1) -> dict:
    """The largest error of exp in units in the last place, over every `step`-th float32 from -longest to -2⁻³⁰.

    That of softmax holds the rounding of its division as well.
    """
    first, last = (int(torch.tensor(x, dtype=torch.float32).view(torch.int32)) for x in (2.0**-30, longest))
    worst, batch = {"torch": 0.0, "torch_softmax": 0.0, "numpy": 0.0}, 3 * 2**16
    for start in range(first, last + 1, batch * step):
        x = -torch.arange(start, start + batch * step, step).clamp(max=last).int().view(torch.float32)
        exact = x.double().exp()
        last_place = torch.exp2(torch.frexp(exact).exponent.double() - 24)
        weights = torch.cat([torch.zeros(len(x) // 3, 1), x.view(-1, 3)], 1).softmax(1).double()
        computed = x.exp(), (weights[:, 1:] / weights[:, :1]).flatten(), torch.from_numpy(np.exp(x.numpy()))
        for name, values in zip(worst, computed, strict=True):
            worst[name] = max(worst[name], float(((values - exact).abs() / last_place).max()))
    return {"from": -longest, "values": len(range(first, last + 1, step)), "largest_error_in_ulp": worst}
