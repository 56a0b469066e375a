"""Check results/proof.json again: numpy alone, and nothing of the code that trained, ran or proved the model.

    python beyond/any_length/check_proof.py [FOLDER]      # of best_model.pth and proof.json; exit code 1: refused

Enumerates the local contexts, reads the weights, bounds every logit in float64 and float32, and compares. It trusts
Python, numpy's double arithmetic with an exp as assumed, and what can only be read: that `model` below is the model
of place_value.py, the argument in proof.json, and its assumptions, which are printed and must be these word by word.
"""

import argparse
import collections
import json
import math
import pickle
import sys
import zipfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

if sys.version_info < (3, 10) or find_spec("numpy") is None:
    print("error: this needs Python 3.10 or newer, with numpy: `pip install numpy`.", file=sys.stderr)
    sys.exit(2)

import numpy as np

ASSUMPTIONS_SHA256 = "8f758cdfa576a64fff4bdeab29ebd76634393a94465b8a042d8c663bc17349ff"
BLANK, START, END, NONE, EPS, UP, TINY = 12, 13, 14, 15, 1e-5, 1 + 2.0**-30, 2.0**-100


def require(holds, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a PyTorch checkpoint. Nothing but float32 tensors and plain values is admitted."""
    archive = zipfile.ZipFile(path)
    root = archive.namelist()[0].partition("/")[0]

    def tensor(storage, offset, shape, strides, *_):
        require(strides == tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))), "a weight is not contiguous")
        return storage[offset : offset + math.prod(shape)].reshape(shape)

    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            known = {"OrderedDict": collections.OrderedDict, "_rebuild_tensor_v2": tensor, "FloatStorage": None}
            require(name in known, f"the checkpoint wants {module}.{name}")
            return known[name]

        def persistent_load(self, identity):
            return np.frombuffer(archive.read(f"{root}/data/{identity[2]}"), "<f4")

    return Reader(archive.open(f"{root}/data.pkl")).load()["model"]


def enumerate_contexts(digits=range(10)) -> dict[tuple, int]:
    """(a, b, a below, b below, last, before) -> right symbol, for every step of every sum of two whole numbers."""
    found, seen, steps = {}, set(), [(a, b, NONE, NONE, START, NONE, 0) for a in digits for b in digits]
    while steps:
        *context, carry = steps.pop()
        a, b, _, _, last, _ = context
        total = carry + sum(digit for digit in (a, b) if digit != BLANK)
        symbol = END if a == b == BLANK and not carry else total % 10
        require(found.setdefault(tuple(context), symbol) == symbol, f"{context} has two right symbols")
        if symbol != END and (a, b, last, carry) not in seen:
            seen.add((a, b, last, carry))  # a number ends for good, and only the number 0 has 0 as its highest digit
            tops = [[BLANK] if d == BLANK else [*digits] + [BLANK] * (d > 0 or last == START) for d in (a, b)]
            steps += [(x, y, a, b, symbol, last, total // 10) for x in tops[0] for y in tops[1]]
    return found


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


def check(stated: dict, weights: dict[str, np.ndarray], digits=range(10)) -> dict[str, tuple[float, float]]:
    """Refuses, or returns the smallest reserve and the largest radius by precision."""
    digest = sha256(b"".join(name.encode() + weight.tobytes() for name, weight in sorted(weights.items())))
    same = digest.hexdigest() == stated["weights_sha256"]
    require(same, "the checkpoint holds other weights than those proven")
    layers = {part for name in weights for part in name.split(".") if part.isdigit()}
    require(layers == {"0"}, "the checkpoint has other layers than one encoder's and one decoder's")
    same = sha256("\n".join(stated["assumptions"]).encode()).hexdigest() == ASSUMPTIONS_SHA256
    require(same, "the assumptions are others")
    print("Assumed:", *stated["assumptions"], sep="\n- ")
    errors, rounding, stamp = stated["exp"]["largest_error_in_ulp"], stated["rounding"], stated["fingerprint"]
    require({"torch", "numpy"} <= {*errors} and all(e <= 4 for e in errors.values()), "exp is less exact than assumed")
    require(stated["proven"] and rounding["float64"]["holds"], "not proven in float64")
    require(stated["proven_in_float32"] == rounding["float32"]["holds"], "not proven in float32")

    found = sorted(enumerate_contexts(digits).items(), key=lambda item: item[0][::-1])
    contexts, right = np.array([context for context, _ in found]), np.array([symbol for _, symbol in found])
    same = stated["contexts_sha256"] == sha256((contexts @ 16 ** np.arange(6)).astype("<i4").tobytes()).hexdigest()
    require(same and stated["local_contexts"] == len(found), f"the {len(found):,} local contexts are others")
    proven = {}
    for precision, unit in (("float64", 2.0**-53), ("float32", 2.0**-24)):
        claim, bounds = rounding[precision], Bounds(weights, unit)
        if not claim["holds"]:
            continue
        above, radius = np.empty((2, len(right), len(weights["output.bias"]) - 1))
        for symbol in {*right}:
            above[right == symbol], radius[right == symbol] = bounds.model(contexts[right == symbol], symbol)
        reserve, largest = proven[precision] = (above - radius).min(), radius.max()
        print(f"{precision}: in each of {len(found):,} contexts the right logit wins by at least {reserve:.4g}")
        require(0 < reserve >= claim["smallest_reserve"], f"{precision}: reserve {reserve:.4g}, not as stated")
        require(claim["largest_radius"] >= largest, f"{precision}: radius {largest:.4g}, more than stated")
        require(-stated["exp"]["from"] >= bounds.longest, f"exp was not examined down to {-bounds.longest:.2f}")
        if precision == "float64":
            place = above.min(1) / stamp["grid"] + 0.5
            clear = (abs(place - np.round(place)) > radius.max(1) / stamp["grid"] + 1e-6).all()
            same = stamp["sha256"] == sha256(np.floor(place).astype("<i4").tobytes()).hexdigest()
            require(clear and same, "the margins have another fingerprint")
    return proven


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results = Path(__file__).resolve().parent / "results"
    parser.add_argument("folder", nargs="?", type=Path, default=results, help="default: %(default)s")
    folder = parser.parse_args().folder
    try:
        check(json.loads((folder / "proof.json").read_text()), read_weights(folder / "best_model.pth"))
        print("The certificate holds.")
    except Exception as reason:  # whatever cannot be checked is refused
        sys.exit(f"refused: {type(reason).__name__}: {reason}")
