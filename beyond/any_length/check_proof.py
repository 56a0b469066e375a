"""Check results/proof.json again: numpy alone, and nothing of the code that trained, ran or proved the model.

    python beyond/any_length/check_proof.py [FOLDER]      # of best_model.pth and proof.json; exit code 1: refused

Enumerates the local contexts, reads the weights, bounds every logit in float64 and float32, and compares. It trusts
Python, numpy's double arithmetic with an exp as assumed, and what can only be read: that `Bounds.model` in
check_bounds.py is the model of place_value.py; the argument in proof.json, and its assumptions, word by word.
Every number of the certificate is computed again, but those named at the end, which were measured with PyTorch.
"""

import argparse
import collections
import json
import math
import pickle
import re
import sys
import zipfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

if sys.version_info < (3, 10) or find_spec("numpy") is None:
    print("error: this needs Python 3.10 or newer, with numpy: `pip install numpy`.", file=sys.stderr)
    sys.exit(2)

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from beyond.any_length.check_bounds import BLANK, END, NONE, START, Bounds, require

ASSUMPTIONS_SHA256 = "8f758cdfa576a64fff4bdeab29ebd76634393a94465b8a042d8c663bc17349ff"
ARGUMENT_SHA256 = "e40eb4fe9eeea5848fe3f50e87ff806ee64eeb3d2a2a91b4cf2debeaa561e16e"
# An entry of a checkpoint: the folder that all stand in, and what may stand there.
ENTRY = re.compile(r"([^/]+)/(data\.pkl|data/\d+|byteorder|version|\.data/serialization_id|\.\w+)")
SLACK = 1e-3  # how far margins computed in float32 may lie from those of the middle


def same(stated, right, what: str) -> None:
    require(type(stated) is type(right) and stated == right, f"{what} is {right}, not {stated}")


def within(stated, low: float, high: float, what: str) -> None:
    require(type(stated) in (int, float), f"{what} is no number")
    require(low <= stated <= high, f"{what} is {stated}, but lies between {low:.6g} and {high:.6g}")


def read_certificate(path: Path) -> dict:
    """JSON without anything that two readers could read in two ways: a key twice, NaN, infinity."""

    def once(pairs: list) -> dict:
        require(len({key for key, _ in pairs}) == len(pairs), f"{path} holds a key twice")
        return dict(pairs)

    def not_finite(text: str):
        raise ValueError(f"{path} holds {text}")

    content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once, parse_constant=not_finite)
    require(type(content) is dict, f"{path} holds no certificate")
    return content


def read_checkpoint(path: Path) -> dict:
    """The content of a PyTorch checkpoint, tensors as arrays. Nothing but float32 tensors and plain values is
    admitted, and no entry that another reader of the archive could take for one of these."""
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    entries = [ENTRY.fullmatch(name) for name in names]
    require(all(entries), "the checkpoint holds foreign entries")
    require(len({*names}) == len(names), "the checkpoint holds an entry twice")
    require(len({entry[1] for entry in entries}) == 1, "the checkpoint holds two folders")
    root = entries[0][1]
    if f"{root}/byteorder" in names:
        require(archive.read(f"{root}/byteorder") == b"little", "the checkpoint is not little-endian")
    require(archive.testzip() is None, "a byte of the checkpoint has changed")  # else read's own error

    def tensor(storage, offset, shape, strides, needs_gradient, hooks, *more):
        require(strides == tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))), "a weight is not contiguous")
        require(not hooks and not more, "a weight comes with more than its numbers")
        return storage[offset : offset + math.prod(shape)].reshape(shape)

    known = {
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): tensor,
        ("torch", "FloatStorage"): None,
    }

    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            require((module, name) in known, f"the checkpoint wants {module}.{name}")
            return known[module, name]

        def persistent_load(self, identity):
            return np.frombuffer(archive.read(f"{root}/data/{identity[2]}"), "<f4")

    return Reader(archive.open(f"{root}/data.pkl")).load()


def check_shapes(weights: dict[str, np.ndarray], width: int, heads: int, inner: int) -> None:
    """The tensors of one encoder and one decoder layer, no more and no less."""
    shapes = {"embedding.weight": (16, width), "output.weight": (16, width), "output.bias": (16,)}
    norms = ["encoder_norm", "decoder_norm", "encoder.0.attention_norm", "encoder.0.feed_forward_norm"]
    norms += ["decoder.0.self_norm", "decoder.0.cross_norm", "decoder.0.feed_forward_norm"]
    for norm in norms:
        shapes |= {norm + ".weight": (width,), norm + ".bias": (width,)}
    for attention in ("encoder.0.attention", "decoder.0.self_attention", "decoder.0.cross_attention"):
        for part in ("query", "key", "value", "output"):
            shapes |= {f"{attention}.{part}.weight": (width, width), f"{attention}.{part}.bias": (width,)}
    for attention, window in (("self", 2), ("cross", 4)):
        shapes[f"decoder.0.{attention}_attention.offsets"] = (heads, 1, window, width // heads)
    for layer in ("encoder.0.feed_forward", "decoder.0.feed_forward"):
        shapes |= {f"{layer}.inner.weight": (inner, width), f"{layer}.inner.bias": (inner,)}
        shapes |= {f"{layer}.outer.weight": (width, inner), f"{layer}.outer.bias": (width,)}
    other = [name for name in {*shapes, *weights} if name not in weights or weights[name].shape != shapes.get(name)]
    require(not other, f"the checkpoint has other layers than those proven: {', '.join(sorted(other)[:3])}")
    require(all(np.isfinite(weight).all() for weight in weights.values()), "a weight is not finite")


def enumerate_contexts(digits=range(10)) -> dict[tuple, tuple]:
    """(a, b, a below, b below, last, before) -> right symbol and a shortest sum, for every step of every sum."""
    found, seen = {}, set()
    steps = collections.deque((a, b, NONE, NONE, START, NONE, 0, "", "") for a in digits for b in digits)
    while steps:
        *context, carry, number_a, number_b = steps.popleft()
        a, b, _, _, last, _ = context
        numbers = [("" if d == BLANK else str(d)) + text for d, text in ((a, number_a), (b, number_b))]
        total = carry + sum(digit for digit in (a, b) if digit != BLANK)
        symbol = END if a == b == BLANK and not carry else total % 10
        whole = tuple("1" + text if text[0] == "0" and len(text) > 1 else text for text in numbers)
        require(found.setdefault(tuple(context), (symbol, whole))[0] == symbol, f"{context} has two right symbols")
        if symbol != END and (a, b, last, carry) not in seen:
            seen.add((a, b, last, carry))  # a number ends for good, and only the number 0 has 0 as its highest digit
            tops = [[BLANK] if d == BLANK else [*digits] + [BLANK] * (d > 0 or last == START) for d in (a, b)]
            steps += [(x, y, a, b, symbol, last, total // 10, *numbers) for x in tops[0] for y in tops[1]]
    return found


def in_words(context) -> str:
    symbols = [*"0123456789+= ", "<s>", "</s>", "nothing"]
    a, b, a_below, b_below, last, before = (symbols[token] for token in context)
    return f"digits [{a}] and [{b}], below these [{a_below}] and [{b_below}], written last [{before}] [{last}]"


FIELDS = [
    *("argument", "assumptions", "config", "contexts_sha256", "covered", "exp", "failures"),
    *("local_contexts", "locality", "longest_operand", "margin_histogram", "measured", "model", "proven"),
    *("proven_in_float32", "rounding", "seed", "smallest_margin", "smallest_margin_at", "steps"),
    *("steps_in_a_context_not_enumerated", "sums", "versions", "weights_sha256"),
]
FORMER = "fingerprint"  # of certificates made earlier: a digest of margins, which nobody reads any more


def check(stated: dict, content: dict, digits=range(10)) -> dict[str, tuple[float, float]]:
    """Refuses, or returns the smallest reserve and the largest radius by precision. `content`: of the checkpoint."""
    other = {*FIELDS} ^ ({*stated} - {FORMER})
    require(not other, f"the certificate lacks a field or has one more: {', '.join(sorted(other))}")
    settings, weights = content["settings"], content["model"]
    same(content["kind"], "problem1/text", "the checkpoint's kind")
    same(stated["model"], settings, "model (the checkpoint's settings)")
    same(stated["seed"], settings["seed"], "seed")
    check_shapes(weights, settings["d_model"], settings["num_heads"], settings["d_ff"])
    digest = sha256(b"".join(name.encode() + weight.tobytes() for name, weight in sorted(weights.items())))
    equal = digest.hexdigest() == stated["weights_sha256"]
    require(equal, "the checkpoint holds other weights than those proven")
    for name, right in (("assumptions", ASSUMPTIONS_SHA256), ("argument", ARGUMENT_SHA256)):
        require(sha256("\n".join(stated[name]).encode()).hexdigest() == right, f"the {name} are others")
    print("Assumed:", *stated["assumptions"], sep="\n- ")

    rounding = stated["rounding"]
    same(sorted(rounding), ["float32", "float64"], "rounding")
    require(stated["proven"] is True and rounding["float64"]["holds"] is True, "not proven in float64")
    require(stated["proven_in_float32"] is rounding["float32"]["holds"], "not proven in float32")

    found = sorted(enumerate_contexts(digits).items(), key=lambda item: item[0][::-1])
    contexts, right = np.array([context for context, _ in found]), np.array([symbol for _, (symbol, _) in found])
    digest = sha256((contexts @ 16 ** np.arange(6)).astype("<i4").tobytes()).hexdigest()
    same(stated["contexts_sha256"], digest, "the digest of local contexts")
    for name in ("local_contexts", "covered", "sums"):
        same(stated[name], len(found), f"{name}: the number of local contexts")
    for name in ("failures", "steps_in_a_context_not_enumerated"):
        same(stated[name], 0, name)
    sums = [pair for _, (_, pair) in found]
    same(stated["longest_operand"], max(len(number) for pair in sums for number in pair), "longest_operand")
    same(stated["steps"], sum(len(str(int(a) + int(b))) + 1 for a, b in sums), "steps")

    proven, longest, margins = {}, 0.0, None
    for precision, unit in (("float64", 2.0**-53), ("float32", 2.0**-24)):
        claim, bounds = rounding[precision], Bounds(weights, unit)
        if "reason" in claim:  # not bounded at all, so there are no numbers
            same(sorted(claim), ["holds", "reason"], f"rounding in {precision}")
            require(claim["holds"] is False, f"{precision}: holds for no reason")
            continue
        above, radius = np.empty((2, len(right), len(weights["output.bias"]) - 1))
        for symbol in {*right}:
            above[right == symbol], radius[right == symbol] = bounds.model(contexts[right == symbol], symbol)
        reserve, largest, longest = (above - radius).min(), radius.max(), max(longest, bounds.longest)
        if margins is None:  # of float64
            margins, tolerance = above.min(1), 2 * largest
        same(sorted(claim), ["holds", "largest_radius", "smallest_margin", "smallest_reserve"], precision)
        same(claim["holds"], bool(reserve > 0), f"whether it holds in {precision}")
        # Two programs bound the same: the stated radius may be half as large again, and is rounded to four digits.
        least, low = above.min(), (reserve - largest / 2) * (1 - 1e-3)
        within(claim["largest_radius"], largest, largest * 1.5, f"{precision}: the largest radius")
        within(claim["smallest_reserve"], low, reserve, f"{precision}: the smallest reserve")
        within(claim["smallest_margin"], least - tolerance, least + tolerance, f"{precision}: the smallest margin")
        if claim["holds"]:
            proven[precision] = reserve, largest
            print(f"{precision}: in each of {len(found):,} contexts the right logit wins by at least {reserve:.4g}")

    check_margins(stated, margins, found)
    check_measurements(stated, longest)
    return proven


def check_margins(stated: dict, margins: np.ndarray, found: list) -> None:
    """What the certificate says of margins as PyTorch computed them, in float32."""
    least = margins.min()
    print(f"wrong in {(margins < 0).sum():,} of {len(margins):,} contexts; the thinnest margin is {least:.4f}")
    within(stated["smallest_margin"], least - SLACK, least + SLACK, "smallest_margin")
    at = [found[index] for index in np.flatnonzero(margins <= least + SLACK)]
    places = [{"local_context": in_words(context), "sum": " + ".join(pair)} for context, (_, pair) in at]
    require(stated["smallest_margin_at"] in places, f"smallest_margin_at is {places[0]}")
    histogram = stated["margin_histogram"]
    same(sorted(histogram), ["counts", "edges"], "margin_histogram")
    edges, counts = histogram["edges"], histogram["counts"]
    same(edges, [number / 2 for number in range(len(counts) + 1)], "margin_histogram: edges")
    require(all(type(count) is int and count >= 0 for count in counts), "margin_histogram: counts are no numbers")
    for number, edge in enumerate(edges):
        low, high = (margins < edge - SLACK).sum(), (margins < edge + SLACK).sum()
        within(sum(counts[:number]), low, high, f"margin_histogram: the number of margins below {edge}")
    same(sum(counts), len(margins), "margin_histogram: the number of margins")


def check_measurements(stated: dict, longest: float) -> None:
    """What was measured with PyTorch must not contradict the proof, and is not computed again."""
    exp, errors = stated["exp"], stated["exp"]["largest_error_in_ulp"]
    same(sorted(exp), ["from", "largest_error_in_ulp", "values"], "exp")
    require(type(exp["from"]) is int and longest <= -exp["from"] <= 80, f"exp was not examined down to {-longest:.2f}")
    first, last = np.array([2.0**-30, -exp["from"]], "<f4").view("<i4").tolist()
    same(exp["values"], last - first + 1, f"exp: the number of float32 from {exp['from']} on")
    same(sorted(errors), ["numpy", "torch", "torch_softmax"], "exp")
    for error in errors.values():
        within(error, 0, 4, "the largest error of exp")
    require({"all_sums", "float64"} <= {*stated["measured"]}, "measured lacks a way to compute")
    for name, way in stated["measured"].items():
        precision = "float64" if name == "float64" else "float32"
        same(sorted(way), ["distance", "precision", "share_of_radius"], f"measured: {name}")
        same(way["precision"], precision, f"measured: {name}")
        within(way["share_of_radius"], 0, 1, f"measured: {name}")
        within(way["distance"], 0, stated["rounding"][precision].get("largest_radius", 0), f"measured: {name}")
    locality = stated["locality"]
    same(
        sorted(locality),
        ["changed_from_inside_least", "changed_from_outside", "symbols_changed_outside_in_each", "trials"],
        "locality",
    )
    same(locality["changed_from_outside"], 0, "locality: logits that changed from outside")
    same(locality["changed_from_inside_least"], locality["trials"], "locality: logits that changed from inside")
    print("Only stated: measurements with PyTorch (exp's errors, measured, locality), config, versions.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results = Path(__file__).resolve().parent / "results"
    parser.add_argument("folder", nargs="?", type=Path, default=results, help="default: %(default)s")
    folder = parser.parse_args().folder
    try:
        check(read_certificate(folder / "proof.json"), read_checkpoint(folder / "best_model.pth"))
        print("The certificate holds.")
    except ValueError as reason:
        sys.exit(f"refused: {reason}")
    except Exception as reason:  # whatever cannot be checked is refused
        sys.exit(f"refused: {type(reason).__name__}: {reason}")
