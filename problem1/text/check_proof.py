"""Check results/text/proof.json again: numpy alone, and nothing of the code that trained, ran or proved the model.

    python problem1/text/check_proof.py [FOLDER]      # of best_model.pth and proof.json; exit code 1: refused

Enumerates the local contexts, reads the weights, bounds every logit in float64 and float32, and compares. It trusts
Python, numpy's double arithmetic with an exp as assumed, and what can only be read: that `model` below is the model
of place_value.py, the argument in proof.json, and its assumptions, which are printed and must be these word by word.
A value is a pair (middle, radius): in every admissible evaluation it is so near to the middle, in the 2-norm.
"""

import collections
import hashlib
import json
import math
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np

ASSUMPTIONS_SHA256 = "8f758cdfa576a64fff4bdeab29ebd76634393a94465b8a042d8c663bc17349ff"
BLANK, START, END, NONE, EPS, UP, TINY = 12, 13, 14, 15, 1e-5, 1 + 2.0**-30, 2.0**-100


def require(holds, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a PyTorch checkpoint. Nothing but float32 tensors and plain values is admitted."""
    archive = zipfile.ZipFile(path)
    root = next(name for name in archive.namelist() if name.endswith("data.pkl")).removesuffix("data.pkl")

    def tensor(storage, offset, shape, strides, *_):
        require(strides == tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))), "a weight is not contiguous")
        return storage[offset : offset + math.prod(shape)].reshape(shape)

    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            known = {"OrderedDict": collections.OrderedDict, "_rebuild_tensor_v2": tensor, "FloatStorage": None}
            require(name in known, f"the checkpoint wants {module}.{name}")
            return known[name]

        def persistent_load(self, identity):
            return np.frombuffer(archive.read(f"{root}data/{identity[2]}"), "<f4")

    return Reader(archive.open(root + "data.pkl")).load()["model"]


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


def take(x, index):
    return x[0][index], x[1][index]


class Bounds:
    def __init__(self, weights: dict[str, np.ndarray], unit: float):
        self.weights, self.unit, self.longest = weights, unit + 2.0**-53, 0.0  # 2⁻⁵³: the middle's own rounding

    def gamma(self, n):
        require(n * self.unit < 0.5, "too many roundings")
        return n * self.unit / (1 - n * self.unit) * UP

    def ball(self, middle, radius):
        require(np.all(radius < 1e30) and np.all(np.isfinite(middle)), "a radius is not finite")
        return middle, (radius + TINY) * UP

    def norm(self, x, name):
        """The error of the result is gain·(n, centred) + s·(middle - bias) + m·gain + f; `most` bounds the result."""
        (middle, radius), gain, bias = x, self.weights[name + ".weight"], self.weights[name + ".bias"]
        d, top, centred = len(gain), np.abs(gain).max(), middle - middle.mean(-1, keepdims=True)
        sigma, moved = np.sqrt((centred**2).mean(-1) + EPS), radius / math.sqrt(d) * UP
        low, rms = sigma * (1 - 2.0**-20) - moved, (size(middle) + radius) / math.sqrt(d) * UP
        require(np.all(low > 0) and np.all(rms < 100 * sigma), "a radius reaches sigma")
        n, slack = radius / low * UP, self.gamma(4 * d + 16)
        variance = slack * (rms / low) ** 2
        require(np.all(variance < 0.5), "a variance is small beside its rounding")
        s = (variance / 2 * (1 + 2 * variance) + self.gamma(5)) * UP
        m = slack * rms / low * (1 + s) * UP
        f = top * (s * (n + 2.0**-40) + self.gamma(6) * math.sqrt(d) * rms * (2 + slack) / low * (1 + s))
        f, middle = (f + self.gamma(2) * size(bias) + TINY) * UP, centred / sigma[..., None] * gain + bias
        most = size(middle) + top * n + s * size(middle - bias) + m * size(gain) + f
        return {"middle": middle, "gain": gain, "bias": bias, "n": n, "s": s, "m": m, "f": f, "most": most}

    def linear(self, x, name, rows=slice(None)):
        weight, bias = self.weights[name + ".weight"][rows], self.weights[name + ".bias"][rows]
        two, rounding = np.linalg.norm(weight, 2) * UP, self.gamma(weight.shape[1] + 1)
        absolute = np.linalg.norm(np.abs(weight), 2) * UP
        if isinstance(x, tuple):
            radius = two * x[1] + rounding * (absolute * (size(x[0]) + x[1]) + size(bias))
            return self.ball(x[0] @ weight.T + bias, radius)
        out, folded, slack = x["middle"] @ weight.T + bias, weight * x["gain"], 2.0**-40 * two * 16 * size(x["gain"])
        radius = (np.linalg.norm(folded - folded.mean(1, keepdims=True), 2) * UP + slack) * x["n"] + two * x["f"]
        radius += x["s"] * (size(out - weight @ x["bias"] - bias) + slack * x["most"])
        radius += x["m"] * (size(weight @ x["gain"]) + slack) + rounding * (absolute * x["most"] + size(bias))
        return self.ball(out, radius)

    def add(self, x, y):
        most = size(x[0]) + x[1] + size(y[0]) + y[1]
        return self.ball(x[0] + y[0], x[1] + y[1] + self.gamma(2) * most)

    def feed_forward(self, x, layer):
        middle, radius = self.linear(self.norm(x, layer + "feed_forward_norm"), layer + "feed_forward.inner")
        return self.add(x, self.linear((np.maximum(middle, 0), radius), layer + "feed_forward.outer"))

    def heads(self, x, name):
        rows = np.arange(len(self.weights[name + ".bias"])).reshape(-1, self.width)
        middles, radii = zip(*(self.linear(x, name, head) for head in rows), strict=True)
        return np.stack(middles, -2), np.stack(radii, -1)

    def attention(self, x, normed, memory, window, seen, name):
        """x [C, d] + what it attends to: the rows window [C, n] of memory, where seen"""
        q, rq = (part[:, None] for part in self.heads(normed, name + ".query"))
        (k, rk), (v, rv) = (take(self.heads(memory, f"{name}.{part}"), window) for part in ("key", "value"))
        if name + ".offsets" in self.weights:
            offsets = self.weights[name + ".offsets"][:, 0].swapaxes(0, 1)
            k, rk = self.add((k, rk), (offsets, 0 * offsets[..., 0]))
        e, n, seen = self.width, k.shape[1], seen[..., None]
        scores = np.where(seen, (q * k).sum(-1) / math.sqrt(e), -np.inf)
        p = np.exp(scores - scores.max(1, keepdims=True))
        p = p / p.sum(1, keepdims=True)
        apart, mq, mk = size(k - k.mean(1, keepdims=True)), size(q) + rq, size(k) + rk
        moved = (rq * apart + mq * rk + self.gamma(e + 4) * mq * mk + TINY) / math.sqrt(e) * UP
        moved = np.where(seen, moved, 0).max(1, keepdims=True)
        longest = np.where(seen, scores.max(1, keepdims=True) - scores, 0).max(1, keepdims=True) + 2 * moved
        rounded = (np.expm1(2 * self.unit * (longest + 2 * 4 * UP)) + self.gamma(2 * n + 5)) * 1.01  # 4 ulp of exp
        require(np.all(longest < 80) and np.all(rounded < 0.01), "weights of attention are too uncertain")
        self.longest = max(self.longest, longest.max())
        odds, others = np.expm1(2 * moved), sum(np.roll(p, i, 1) for i in range(1, n))
        change = p * others * odds / (1 + np.minimum(p, others) * odds) * UP
        out = (p[..., None] * v).sum(1)
        moved = change * size(v - v.mean(1, keepdims=True)) + (p + change) * (rv + rounded * (size(v) + rv))
        out, radius = self.ball(out, moved.sum(1))
        return self.add(x, self.linear((out.reshape(len(out), -1), size(radius)), name + ".output"))

    def model(self, contexts, right):
        """How far the right logit lies above each other one, and the radius of that difference: two of [C, V]"""
        self.width = self.weights["decoder.0.cross_attention.offsets"].shape[-1]
        table = self.weights["embedding.weight"] * math.sqrt(len(self.weights["decoder_norm.bias"]))
        embedded = table, size(table) * (0 if math.log2(table.shape[1]) % 2 == 0 else self.gamma(3))

        operand = [*range(10), BLANK]
        x = take(embedded, np.array([(a, b) for a in operand for b in operand]).ravel())  # two rows a position
        position, number = np.arange(0, 242, 2).repeat(2)[:, None] + [0, 1], np.zeros(16, int)
        normed = self.norm(x, "encoder.0.attention_norm")
        x = self.attention(x, normed, normed, position, position >= 0, "encoder.0.attention")
        memory = self.norm(self.feed_forward(x, "encoder.0."), "encoder_norm")

        number[operand] = 2 * np.arange(11)  # of a digit's rows
        a, b, a_below, b_below, last, before = contexts.T
        x, window = take(embedded, last), np.stack([before, last], 1)
        normed, memory_written = self.norm(x, "decoder.0.self_norm"), self.norm(embedded, "decoder.0.self_norm")
        x = self.attention(x, normed, memory_written, window, window != NONE, "decoder.0.self_attention")
        below, here = number[a_below] * 11 + number[b_below], number[a] * 11 + number[b]
        window, seen = np.stack([below, below + 1, here, here + 1], 1), np.stack([a_below, b_below, a, b], 1) != NONE
        x = self.attention(x, self.norm(x, "decoder.0.cross_norm"), memory, window, seen, "decoder.0.cross_attention")
        x = self.norm(self.feed_forward(x, "decoder.0."), "decoder_norm")

        weight, bias, gain = self.weights["output.weight"], self.weights["output.bias"], x["gain"]
        apart, logits = weight[right][:, None] - weight, x["middle"] @ weight.T + bias  # [C, V, d], [C, V]
        both, biases = size(weight[right])[:, None] + size(weight), bias[right][:, None] - bias
        above, folded = np.take_along_axis(logits, right[:, None], 1) - logits, apart * gain
        slack = 2.0**-40 * both * size(gain)
        n, s, m, f, most = (x[part][:, None] for part in ("n", "s", "m", "f", "most"))
        radius = n * (size(folded - folded.mean(-1, keepdims=True)) + slack) + m * (np.abs(apart @ gain) + slack)
        radius += f * size(apart) + s * (np.abs(above - apart @ x["bias"] - biases) + most * slack)
        radius += self.gamma(weight.shape[1] + 1) * (most * both + np.abs(bias) + np.abs(bias[right])[:, None]) + TINY
        own = np.arange(len(weight)) == right[:, None]
        return np.where(own, np.inf, above), np.where(own, 0, radius * UP)


def check(stated: dict, weights: dict[str, np.ndarray], digits=range(10)) -> None:
    digest = sha256(b"".join(name.encode() + weight.tobytes() for name, weight in sorted(weights.items())))
    require(digest == stated["weights_sha256"], "the checkpoint holds other weights than those proven")
    layers = {part for name in weights for part in name.split(".") if part.isdigit()}
    require(layers == {"0"}, "the checkpoint has other layers than one encoder's and one decoder's")
    require(sha256("\n".join(stated["assumptions"]).encode()) == ASSUMPTIONS_SHA256, "the assumptions are others")
    print("Assumed:", *stated["assumptions"], sep="\n- ")
    found = enumerate_contexts(digits)
    contexts, right = np.array(list(found)), np.array(list(found.values()))
    code = contexts @ 16 ** np.arange(6)
    contexts, right, code = contexts[code.argsort()], right[code.argsort()], np.sort(code).astype("<i4")
    same = stated["local_contexts"] == len(contexts) and stated["contexts_sha256"] == sha256(code.tobytes())
    require(same, f"the {len(contexts):,} local contexts are others")
    weights, proven = {name: weight.astype(float) for name, weight in weights.items()}, {}
    for precision, unit in (("float64", 2.0**-53), ("float32", 2.0**-24)):
        claim, bounds = stated["rounding"][precision], Bounds(weights, unit)
        proven[precision] = claim["holds"]
        if not claim["holds"]:
            continue
        parts = [bounds.model(contexts[i : i + 8192], right[i : i + 8192]) for i in range(0, len(contexts), 8192)]
        above, radius = (np.concatenate(part) for part in zip(*parts, strict=True))
        reserve, largest, share = (above - radius).min(), radius.max(), (radius / above).max()
        print(f"{precision}: in each of {len(contexts):,} contexts the right logit wins by at least {reserve:.4g}")
        require(0 < reserve >= claim["smallest_reserve"], f"{precision}: reserve {reserve:.4g}, not as stated")
        require(claim["largest_radius"] >= largest, f"{precision}: radius {largest:.4g}, more than stated")
        require(claim["largest_share_of_a_difference"] >= share, f"{precision}: share {share:.4g}, more than stated")
        require(-stated["exp"]["from"] >= bounds.longest, f"exp was not examined down to {-bounds.longest:.2f}")
        if precision == "float64":
            stamp, place = stated["fingerprint"], above.min(1) / stated["fingerprint"]["grid"] + 0.5
            clear = np.abs(place - np.round(place)) > radius.max(1) / stamp["grid"] + 1e-6
            same = clear.all() and sha256(np.floor(place).astype("<i4").tobytes()) == stamp["sha256"]
            require(same, "the margins have another fingerprint")
    errors = stated["exp"]["largest_error_in_ulp"]
    require({"torch", "numpy"} <= {*errors} and all(e <= 4 for e in errors.values()), "exp is less exact than assumed")
    require(proven["float64"] and stated["proven"] and stated["proven_in_float32"] == proven["float32"], "not proven")


if __name__ == "__main__":
    try:
        folder = Path((sys.argv[1:] or [Path(__file__).resolve().parents[1] / "results/text"])[0])
        check(json.loads((folder / "proof.json").read_text()), read_weights(folder / "best_model.pth"))
        print("The certificate holds.")
    except Exception as reason:  # whatever cannot be checked is refused
        sys.exit(f"refused: {type(reason).__name__}: {reason}")
