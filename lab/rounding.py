"""How far can rounding move what a transformer computes? Bounds that hold for any order of summation.

A `Ball` holds every value that a vector can take, in exact arithmetic or in any admissible evaluation: a middle, a
radius for each coordinate, and a radius in the 2-norm. `Rounding(unit)` has a rule for each operation; each rule
keeps the smaller of the two bounds. An evaluation is admissible if it does what ASSUMPTIONS says, with unit roundoff
2⁻²⁴ (float32) or 2⁻⁵³ (float64). Middles and radii are computed in double: the middle's own rounding is added to the
unit, and radii are rounded up. Whatever cannot be bounded raises NotBounded.

Sums of n products are bounded as in Higham 2002, chapter 3: off by at most γₙ Σ|wᵢxᵢ|, γₙ = n·unit / (1 - n·unit).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

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


@dataclass(frozen=True)
class Ball:
    """Vectors middle + e with |eᵢ| ≤ radiusᵢ and ‖e‖ ≤ norm.

    After a layer norm `folded` is set, (matrix, directions, loose), and e = matrix·n + Σ tₖ directionsₖ + f with
    ‖n‖ ≤ norm, |tₖ| ≤ 1, |fᵢ| ≤ looseᵢ: gain and centring wait there for the product that follows.
    """

    middle: Tensor  # [..., d]
    radius: Tensor  # [..., d]
    norm: Tensor  # [...]
    folded: tuple[Tensor, Tensor, Tensor] | None = None  # [d, d], [..., 2, d], [..., d]

    def __getitem__(self, index) -> "Ball":
        folded = self.folded and (self.folded[0], self.folded[1][index], self.folded[2][index])
        return Ball(self.middle[index], self.radius[index], self.norm[index], folded)

    def unsqueeze(self, dim: int) -> "Ball":
        """A new dimension, counted from the first."""
        return Ball(self.middle.unsqueeze(dim), self.radius.unsqueeze(dim), self.norm.unsqueeze(dim))

    @property
    def largest(self) -> Tensor:
        return self.middle.abs() + self.radius


def length(x: Tensor) -> Tensor:
    """2-norm over the last dimension, rounded up."""
    return x.square().sum(-1).sqrt() * UP


def spectral_norm(matrix: Tensor) -> Tensor:
    """At least the largest singular value: by ‖G‖₂ ≤ ‖Gᵏ‖^(1/k) for G = MᵀM and k = 2¹², which needs products only."""
    power, logarithm = matrix.T @ matrix, 0.0
    for doubling in range(13):
        size = power.square().sum().sqrt()
        if size == 0:
            return size
        logarithm += math.log(size) / 2**doubling
        power = (power / size) @ (power / size)
    return torch.tensor(math.exp(logarithm / 2) * UP, dtype=matrix.dtype)


class Rounding:
    """The rules for one unit roundoff."""

    def __init__(self, unit: float):
        self.unit = unit + 2.0**-53  # of the evaluation, and of the middle
        self.longest_exp = 0.0  # the largest argument (negated) that exp was given

    def gamma(self, count: int) -> float:
        if not count * self.unit < 0.5:
            raise NotBounded(f"sums of {count} terms with unit roundoff {self.unit:.1g}")
        return count * self.unit / (1 - count * self.unit) * UP

    def exact(self, middle: Tensor, relative: float = 0.0) -> Ball:
        """Numbers that every evaluation has in common, or that differ by so much."""
        radius = middle.abs() * relative
        return Ball(middle, radius, length(radius))

    def _ball(self, middle: Tensor, radius: Tensor, norm: Tensor, rounding: Tensor) -> Ball:
        """The smaller of the two bounds, once `rounding` [..., d] is added to both."""
        radius, norm = (radius + rounding + TINY) * UP, (norm + length(rounding + TINY)) * UP
        norm = torch.minimum(norm, length(radius))
        radius = torch.minimum(radius, norm.unsqueeze(-1))
        if not (norm < 1e30).all() or not middle.isfinite().all():  # NaN fails as well
            raise NotBounded(f"a radius of {norm.max():.1g}")
        return Ball(middle, radius, norm)

    def spread(self, x: Ball, weight: Tensor) -> tuple[Tensor, Tensor]:
        """How far weight · x can be from weight · middle, without rounding: by coordinate, in the 2-norm."""
        positive, matrix, rest = weight.abs(), weight, torch.zeros(())
        slack = 2.0**-40 * weight.norm()  # of the products below
        if x.folded is not None:
            matrix, directions, loose = x.folded
            slack, matrix = slack * matrix.norm(), weight @ matrix
            rest = (directions @ weight.T).abs().sum(-2) + 2.0**-40 * (directions.abs() @ positive.T).sum(-2)
            rest = rest + loose @ positive.T
        rows = x.norm.unsqueeze(-1) * (length(matrix) + slack) + rest
        norm = x.norm * (spectral_norm(matrix) + slack)
        return torch.minimum(x.radius @ positive.T, rows), norm + (length(rest) if x.folded is not None else 0)

    def linear(self, x: Ball, weight: Tensor, bias: Tensor) -> Ball:
        weight, bias = weight.double(), bias.double()
        rounding = self.gamma(len(weight.T) + 1) * (x.largest @ weight.abs().T + bias.abs())
        return self._ball(x.middle @ weight.T + bias, *self.spread(x, weight), rounding)

    def differences(self, x: Ball, weight: Tensor, bias: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """How far the right logit lies above each other one (infinite for itself), and the radius of that: [N, V]"""
        weight, bias = weight.double(), bias.double()
        rounding = self.gamma(len(weight.T) + 1) * (x.largest @ weight.abs().T + bias.abs())
        logits = x.middle @ weight.T + bias
        above, radius = torch.empty_like(logits), torch.empty_like(logits)
        for symbol in right.unique().tolist():
            rows = right == symbol
            spread = self.spread(x[rows], weight[symbol] - weight)[0]
            above[rows] = logits[rows][:, [symbol]] - logits[rows]
            above[rows, symbol] = torch.inf
            radius[rows] = (spread + rounding[rows] + rounding[rows][:, [symbol]] + TINY) * UP
        return above, radius

    def add(self, x: Ball, y: Ball) -> Ball:
        rounding = self.gamma(2) * (x.largest + y.largest)
        return self._ball(x.middle + y.middle, x.radius + y.radius, x.norm + y.norm, rounding)

    def relu(self, x: Ball) -> Ball:
        top = (x.middle + x.radius + 2.0**-40 * x.largest).clamp(min=0)  # 0 where the unit is off for certain
        return self._ball(x.middle.clamp(min=0), torch.minimum(x.radius, top), x.norm, torch.zeros_like(top))

    def layer_norm(self, x: Ball, module: nn.LayerNorm) -> Ball:
        """(x - mean) / σ · gain + bias, σ² = variance + eps.

        Centring is a projection, and σ moves by no more than ‖e‖/√d; from the middle to any x in the ball, the
        derivative of (x - mean) / σ is at most 1/σ.
        """
        size, gain, bias = x.middle.shape[-1], module.weight.double(), module.bias.double()
        centred = x.middle - x.middle.mean(-1, keepdim=True)
        sigma = (centred.square().mean(-1, keepdim=True) + module.eps).sqrt()
        moved = x.norm.unsqueeze(-1) / math.sqrt(size) * UP
        lowest = sigma * (1 - 2.0**-20) - moved
        root_mean_square = (x.middle.square().mean(-1, keepdim=True).sqrt() + moved) * UP
        if not ((lowest > 0) & (root_mean_square < 100 * sigma)).all():
            raise NotBounded("the radius reaches the standard deviation of what is normalised")
        normed, norm = centred / sigma, x.norm.unsqueeze(-1) / lowest
        radius = (x.radius + x.radius.mean(-1, keepdim=True) + normed.abs() * moved) / lowest
        radius = torch.minimum(radius, norm) * UP

        slack = self.gamma(4 * (size + 4))  # of mean and variance, see ASSUMPTIONS
        variance = slack * (root_mean_square / lowest).square()
        if not (variance < 0.5).all():
            raise NotBounded("the variance is small beside its rounding")
        scale = variance / 2 * (1 + 2 * variance) + self.gamma(5)  # of 1/σ, relative
        mean = slack * root_mean_square / lowest * (1 + scale)
        terms = (x.largest + root_mean_square * (1 + slack)) / lowest * (1 + scale)
        loose = gain.abs() * (scale * (radius + 2.0**-40) + self.gamma(6) * terms) + self.gamma(2) * bias.abs() + TINY
        directions = torch.stack([scale * normed * gain, mean * gain], -2) * UP
        matrix = gain.unsqueeze(-1) * (torch.eye(size, dtype=gain.dtype) - 1 / size)
        total = (gain.abs() * radius + directions.abs().sum(-2) + loose) * UP
        return Ball(normed * gain + bias, total, norm.squeeze(-1) * UP, (matrix, directions, loose * UP))

    def heads(self, x: Ball, linear: nn.Linear, count: int) -> Ball:
        """A linear layer, then split into heads: [..., d] -> [..., H, d_head]"""
        weights, biases = linear.weight.unflatten(0, (count, -1)), linear.bias.unflatten(0, (count, -1))
        parts = [self.linear(x, weight, bias) for weight, bias in zip(weights, biases, strict=True)]
        middle, radius = (torch.stack([getattr(p, name) for p in parts], -2) for name in ("middle", "radius"))
        return Ball(middle, radius, torch.stack([part.norm for part in parts], -1))

    def attention(self, q: Ball, k: Ball, v: Ball, mask: Tensor) -> Ball:
        """q [..., H, d_head], k and v [..., n, H, d_head], mask [..., n] -> all heads side by side [..., d]"""
        q, count, size, mask = q.unsqueeze(q.norm.ndim - 1), k.norm.shape[-2], k.middle.shape[-1], mask.unsqueeze(-1)
        scores = ((q.middle * k.middle).sum(-1) / math.sqrt(size)).masked_fill(~mask, -torch.inf)
        p = scores.softmax(-2)  # [..., n, H]
        # A number added to all scores changes no weight: of the keys, only what sets them apart counts for e of q.
        apart = k.middle - (p.unsqueeze(-1) * k.middle).sum(-3, keepdim=True)
        by_coordinate = (q.radius * apart.abs() + q.largest * k.radius).sum(-1)
        by_norm = q.norm * length(apart) + (length(q.middle) + q.norm) * k.norm
        rounding = self.gamma(size + 4) * (q.largest * k.largest).sum(-1) + TINY
        moved = (torch.minimum(by_coordinate, by_norm) + rounding) / math.sqrt(size) * UP
        moved = moved.masked_fill(~mask, 0).amax(-2, keepdim=True)  # [..., 1, H]
        longest = (scores.amax(-2, keepdim=True) - scores).masked_fill(~mask, 0).amax(-2, keepdim=True) + 2 * moved
        if not (longest < LONGEST_EXP).all():
            raise NotBounded("exp of a number below -80")
        self.longest_exp = max(self.longest_exp, longest.max().item())

        # Scores that move by no more than r change the odds of a weight by a factor of no more than exp(2r).
        odds = torch.expm1(2 * moved)
        others = (1 - torch.eye(count, dtype=p.dtype)) @ p  # 1 - p, without its rounding
        change = p * others * odds / (1 + torch.minimum(p, others) * odds) * UP
        exp_error = self.unit * longest + 2 * EXP_ULPS * self.unit * UP
        relative = (torch.expm1(2 * exp_error) + self.gamma(count + 4)) * 1.01
        if not (relative < 0.01).all():
            raise NotBounded("the weights of attention")
        rounded = relative * (p + change)
        total = (p + change + rounded) * UP

        middle = (p.unsqueeze(-1) * v.middle).sum(-3)
        # Weights sum to 1 before and after: of the values, only what sets them apart counts for their change.
        apart = v.middle - middle.unsqueeze(-3)
        distances = length(apart).masked_fill(~mask, 0)
        radius = (change.unsqueeze(-1) * apart.abs() + total.unsqueeze(-1) * v.radius).sum(-3)
        one_norm = 2 * torch.tanh(moved / 2).squeeze(-2)  # of the change
        norm = torch.minimum((change * distances).sum(-2), one_norm * distances.amax(-2)) + (total * v.norm).sum(-2)
        rounding = ((rounded + self.gamma(count + 1) * total).unsqueeze(-1) * v.largest).sum(-3)
        heads = self._ball(middle, radius, norm, rounding)
        return Ball(heads.middle.flatten(-2), heads.radius.flatten(-2), length(heads.norm))
