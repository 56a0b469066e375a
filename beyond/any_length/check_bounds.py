"""How far rounding can move the logits of the text model: the bounds that check_proof.py computes, with numpy alone."""

import math

import numpy as np

BLANK, START, END, NONE, EPS, UP, TINY = 12, 13, 14, 15, 1e-5, 1 + 2.0**-30, 2.0**-100


def require(holds, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def size(x):
    return np.sqrt((x * x).sum(-1)) * UP


class Bounds:
    """Values are pairs (middle, radius): in every admissible evaluation a vector is so near to the middle."""

    def __init__(self, weights: dict[str, np.ndarray], unit: float):
        self.weights = {name: weight.astype(float) for name, weight in weights.items()}
        self.heads, _, _, self.width = weights["decoder.0.cross_attention.offsets"].shape
        self.unit, self.longest = unit + 2.0**-53, 0.0  # 2⁻⁵³: the middle's own rounding

    def gamma(self, n):
        require(n * self.unit < 0.5, "too many roundings")
        return n * self.unit / (1 - n * self.unit) * UP

    def ball(self, middle, radius):
        require(np.all(radius < 1e30) and np.all(np.isfinite(middle)), "a radius is not finite")
        return middle, (radius + TINY) * UP

    def add(self, x, y):
        return self.ball(x[0] + y[0], x[1] + y[1] + self.gamma(2) * (size(x[0]) + x[1] + size(y[0]) + y[1]))

    def norm(self, x, name):
        """(x - mean) / σ · gain + bias, and what it is off by: M e with ‖e‖ ≤ r, for each (M, r), by errors of x, of
        the mean and of the last sum; and `along`, or less, by the error of 1/σ."""
        middle, radius, eye = *x, np.eye(x[0].shape[1])
        if name is None:
            return middle, [(eye, radius)], 0 * middle
        gain, bias, root = self.weights[name + ".weight"], self.weights[name + ".bias"], math.sqrt(len(eye))
        centred, slack = middle - middle.mean(1, keepdims=True), self.gamma(4 * len(eye) + 16)
        sigma, rms = np.sqrt((centred**2).mean(1) + EPS), (size(middle) + radius) / root * UP
        low = sigma * (1 - 2.0**-20) - radius / root * UP
        variance = slack * (rms / low) ** 2
        require(np.all((low > 0) & (rms < 100 * sigma) & (variance < 0.5)), "a layer norm is too uncertain")
        scale, scaled = variance / 2 * (1 + 2 * variance) + self.gamma(5), centred / sigma[:, None] * gain
        moved = (radius / low + self.gamma(6) * root * rms * (2 + slack) / low) * (1 + scale) + scale * 2.0**-40
        mean, added = slack * rms / low * (1 + scale), self.gamma(2) * size(bias) + 0 * radius
        return scaled + bias, [(eye * gain, moved), (gain[:, None], mean), (eye, added)], scaled * scale[:, None]

    def product(self, x, norm, weight, bias, split=(), absolute=None):
        """weight · norm(x) + bias, [N, *split, e], and radii [N, *split]. absolute: |weight| and |bias| of all that is
        summed up. Rounding of what is off counts twice: it is multiplied here, too."""
        middle, errors, along = self.norm(x, norm)
        absolute, gamma = absolute or (abs(weight), abs(bias)), self.gamma(weight.shape[1] + 1)

        def spectral(matrix):
            return np.linalg.norm(matrix.reshape(*split, -1, matrix.shape[1]), 2, axis=(-2, -1))

        out, most = middle @ weight.T + bias, (abs(middle) + 2 * abs(along)) @ absolute[0].T + absolute[1]
        out, most, along = (part.reshape(len(out), *split, -1) for part in (out, most, along @ weight.T))
        radius = size(along) + gamma * size(most)
        for turn, r in errors:
            radius += np.multiply.outer(r, spectral(weight @ turn) + 2 * gamma * spectral(absolute[0] @ abs(turn)))
        return self.ball(out, radius * UP)

    def linear(self, x, norm, name, split=()):
        return self.product(x, norm, self.weights[name + ".weight"], self.weights[name + ".bias"], split)

    def feed_forward(self, x, layer):
        middle, radius = self.linear(x, layer + "feed_forward_norm", layer + "feed_forward.inner")
        return self.add(x, self.linear((np.maximum(middle, 0), radius), None, layer + "feed_forward.outer"))

    def attention(self, x, norm, memory, memory_norm, window, seen, name):
        """x [N, d] + what it attends to: the rows window [N, n] of memory, where seen"""
        q, rq = (part[:, None] for part in self.linear(x, norm, name + ".query", (self.heads,)))
        k, rk = (part[window] for part in self.linear(memory, memory_norm, name + ".key", (self.heads,)))
        v, rv = (part[window] for part in self.linear(memory, memory_norm, name + ".value", (self.heads,)))
        if name + ".offsets" in self.weights:
            offsets = self.weights[name + ".offsets"][:, 0].swapaxes(0, 1)
            k, rk = self.add((k, rk), (offsets, 0 * offsets[..., 0]))
        root, seen, mq, mk = math.sqrt(self.width), seen[..., None], size(q) + rq, size(k) + rk
        scores = np.where(seen, (q * k).sum(-1) / root, -np.inf)
        longest = np.where(seen, scores.max(1, keepdims=True) - scores, 0).max(1, keepdims=True)
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        out = (p[..., None] * v).sum(1, keepdims=True)
        # A number added to all scores changes no weight, and weights sum to 1: of keys and values, differences count.
        moved = rq * size(k - k.mean(1, keepdims=True)) + mq * rk + self.gamma(self.width + 4) * mq * mk + TINY
        moved = np.where(seen, moved / root * UP, 0).max(1, keepdims=True)
        rounded = np.expm1(2 * self.unit * (longest + 2 * moved + 2 * 4 * UP)) + self.gamma(2 * k.shape[1] + 5)
        require(np.all(longest + 2 * moved < 80) and np.all(rounded < 0.01), "weights of attention are too uncertain")
        self.longest = max(self.longest, (longest + 2 * moved).max())
        change = p * (1 - p + 2.0**-40) * np.expm1(2 * moved) * UP  # the odds of a weight move by exp(2 · moved)
        radius = change * size(v - out) + (p + change) * (rv + 1.01 * rounded * (size(v) + rv))
        heads = self.ball(out.reshape(len(out), -1), size(radius.sum(1)))
        return self.add(x, self.linear(heads, None, name + ".output"))

    def model(self, contexts, right):
        """How far the logit `right` lies above each other one, and the radius of that difference: two of [N, V - 1]"""
        table = self.weights["embedding.weight"] * math.sqrt(len(self.weights["decoder_norm.bias"]))
        embedded = table, size(table) * (0 if math.log2(table.shape[1]) % 2 == 0 else self.gamma(3))

        operand, norm, name = [*range(10), BLANK], "encoder.0.attention_norm", "encoder.0.attention"
        digits = np.array([(a, b) for a in operand for b in operand]).ravel()  # two rows for each of 121 positions
        x, window = [part[digits] for part in embedded], np.arange(0, 242, 2).repeat(2)[:, None] + [0, 1]
        memory = self.feed_forward(self.attention(x, norm, x, norm, window, window >= 0, name), "encoder.0.")

        x, window, norm = [part[contexts[:, 4]] for part in embedded], contexts[:, [5, 4]], "decoder.0.self_norm"
        x = self.attention(x, norm, embedded, norm, window, window != NONE, "decoder.0.self_attention")
        a, b, a_below, b_below = np.minimum(contexts[:, :4], 10).T  # a blank's number among the operands is 10
        here, below, seen = 2 * (11 * a + b), 2 * (11 * a_below + b_below), contexts[:, [2, 3, 0, 1]] != NONE
        window, name = np.stack([below, below + 1, here, here + 1], 1), "decoder.0.cross_attention"
        x = self.attention(x, "decoder.0.cross_norm", memory, "encoder_norm", window, seen, name)
        x = self.feed_forward(x, "decoder.0.")

        weight, bias = self.weights["output.weight"], self.weights["output.bias"]
        others, their_bias = np.delete(weight, right, 0), np.delete(bias, right)
        absolute = abs(weight[right]) + abs(others), abs(bias[right]) + abs(their_bias)
        apart = weight[right] - others, bias[right] - their_bias
        above, radius = self.product(x, "decoder_norm", *apart, (len(others),), absolute)
        return above[..., 0], radius
