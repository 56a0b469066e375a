"""A proof, not samples: the model adds right at every length, because it meets only finitely many local contexts.

Decoder position t reads six symbols and nothing else: both operands' digits at positions t and t-1, and the last two
symbols of the answer. So its logits are a function of that local context. Here every local context of sums of two
whole numbers is enumerated, the model runs on a short sum that contains it, and what it writes there is compared
with the right symbol. Exactness at every length follows by induction over positions; see ARGUMENT.

Computers round, and each library adds up in an order of its own. beyond/rounding/bounds.py bounds how far any such
evaluation can be from exact arithmetic, in float64 and in float32. `python beyond/any_length/check_proof.py` checks all
of it again.
"""

import copy
import hashlib
import math
from pathlib import Path

import torch
from torch import Tensor

from beyond.any_length.dataset import PAD, Pairs, decoder_inputs, encode, random_pairs
from beyond.any_length.float_bounds import Bound, bound
from beyond.any_length.local_contexts import DIGITS, codes, every_local_context, local_contexts_in, right_symbols
from beyond.any_length.place_value import PlaceValueTransformer
from beyond.rounding.bounds import ASSUMPTIONS, UNITS, NotBounded, exp_errors
from lab.figures import COLOURS, WIDTH, plt, save
from lab.statistics import margins

ARGUMENT = [
    "Locality: by construction the logits at position t depend on six symbols only: the two digits at position t, the "
    "two at position t-1 and the last two symbols of the answer. Tested: changing all other symbols changes no bit of "
    "the logits.",
    "Completeness: a local context is followed by one that depends on it and on the two digits of the next position "
    "alone. Starting from the first position, all that can follow are enumerated until nothing new appears.",
    "Coverage: in each local context the right symbol has the largest logit. The model is run on a short sum that "
    "contains it; and the difference between the right logit and each other one exceeds the radius of that difference.",
    "Rounding: a radius bounds how far any admissible evaluation (see assumptions) can be from the middle, whatever "
    "the order of summation. So every such evaluation has the same largest logit, at every position, in every batch.",
    "Induction: the local context of the first position holds no written symbol and is covered, so the first symbol "
    "is right. If all symbols below position t are right, the local context at position t is one of those enumerated, "
    "so its symbol is right too. The answer ends where the right answer ends, because the end is one of the symbols.",
]


@torch.inference_mode()
def run_on(model: PlaceValueTransformer, pairs: Pairs, batch: int = 4096) -> tuple[Tensor, Tensor, Tensor]:
    """Every step of these sums: codes of the local contexts [M], logit margins [M], logits [M, V]."""
    parts = []
    for start in range(0, len(pairs), batch):
        columns, targets = encode(pairs[start : start + batch])
        logits = model(columns, decoder_inputs(targets))
        steps = targets != PAD
        contexts = codes(local_contexts_in(columns, targets))
        parts.append((contexts[steps], margins(logits, targets)[steps], logits[steps]))
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


# --- the proof ---------------------------------------------------------------------------------------------------


def find(found: Tensor, contexts: Tensor) -> tuple[Tensor, Tensor]:
    """Codes [M] -> where they stand among the contexts [C, 6], for those that do; and which do [M]"""
    ordered, order = codes(contexts).sort()
    where = torch.searchsorted(ordered, found).clamp(max=len(ordered) - 1)
    known = ordered[where] == found
    return order[where[known]], known


def run(model: PlaceValueTransformer, digits: tuple[int, ...] = DIGITS, far: int = 9000, exp_step: int = 1) -> dict:
    """The content of proof.json. Fewer digits make a smaller claim: of numbers with these digits."""
    model.eval()
    expected = every_local_context(digits)
    contexts = list(expected)
    rows = torch.tensor(contexts)
    found, by_step, logits = run_on(model, list(expected.values()))
    index, known = find(found, rows)
    # The smallest margin seen in each context: 0 or less is a failure, infinite never seen.
    lowest = torch.full((len(rows),), torch.inf).scatter_reduce(0, index, by_step[known], "amin")
    covered, unexpected, worst = int(lowest.isfinite().sum()), int((~known).sum()), int(lowest.argmin())
    failures, locality = int((lowest <= 0).sum()), measure_locality(model)
    premises = covered == len(rows) and unexpected == failures == locality["changed_from_outside"] == 0
    bounds, certified = certify(model, rows, exp_step)
    rounding = certified["rounding"]
    measured = measure_rounding(model, rows, bounds, (index, logits[known]), far)
    inside = all(way["share_of_radius"] <= 1 for way in measured.values())
    return {
        "proven": premises and inside and rounding["float64"]["holds"],
        "proven_in_float32": premises and inside and rounding["float32"]["holds"],
        "local_contexts": len(contexts),
        "covered": covered,
        "steps_in_a_context_not_enumerated": unexpected,
        "sums": len(expected),
        "longest_operand": max(len(number) for pair in expected.values() for number in pair),
        "steps": len(found),
        "failures": failures,
        "smallest_margin": float(lowest[worst]),
        "smallest_margin_at": {"local_context": str(contexts[worst]), "sum": " + ".join(expected[contexts[worst]])},
        "measured": measured,
        "argument": ARGUMENT,
        "locality": locality,
        "margin_histogram": _histogram(lowest),
        **certified,
    }


def certify(model: PlaceValueTransformer, contexts: Tensor, exp_step: int = 1) -> tuple[dict[str, Bound], dict]:
    """What check_proof.py checks: the bounds, what they rest on, and digests of what they were computed from."""
    bounds, rounding = {}, {}
    for name, unit in UNITS.items():
        try:
            bounds[name] = bound(model, contexts, right_symbols(contexts), unit)
            rounding[name] = _summary(bounds[name])
        except NotBounded as error:
            rounding[name] = {"holds": False, "reason": f"not bounded: {error}"}
    longest = max((found.longest_exp for found in bounds.values()), default=1.0)
    return bounds, {
        "rounding": rounding,
        "assumptions": ASSUMPTIONS,
        "exp": exp_errors(math.ceil(longest), exp_step),
        "weights_sha256": digest_of_weights(model),
        "contexts_sha256": _sha256(codes(contexts).sort().values),
    }


def _summary(found: Bound) -> dict:
    """The reserve rounded down and the radius rounded up, to four digits."""
    reserve, radius = float(found.reserve.min()), float(found.radius.max())
    return {
        "holds": reserve > 0,
        "smallest_margin": float(found.margins.min()),
        "smallest_reserve": four_digits(reserve, up=False),
        "largest_radius": four_digits(radius, up=True),
    }


def four_digits(value: float, up: bool) -> float:
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 3) if value else 1.0
    return float(f"{(math.ceil if up else math.floor)(value / step) * step:.4g}")


# --- digests -----------------------------------------------------------------------------------------------------


def _sha256(integers: Tensor) -> str:
    return hashlib.sha256(integers.numpy().astype("<i4").tobytes()).hexdigest()


def digest_of_weights(model: PlaceValueTransformer) -> str:
    """Names in alphabetical order, each followed by its numbers as float32."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(name.encode() + weight.numpy().astype("<f4").tobytes())
    return digest.hexdigest()


# --- measurements ------------------------------------------------------------------------------------------------


@torch.inference_mode()
def measure_rounding(
    model: PlaceValueTransformer, contexts: Tensor, bounds: dict[str, Bound], steps: tuple[Tensor, Tensor], far: int
) -> dict[str, dict]:
    """How far logits are from the middle of their context when they are computed in different ways, and which share
    of the radius that is: on all sums (`steps`: which context, which logits), at high positions, one symbol at a time
    as in greedy decoding, in float64."""
    ways = {}

    def measure(name: str, precision: str, index: Tensor, logits: Tensor) -> None:
        middles, parts = bounds[precision].logits, zip(index.split(2**16), logits.split(2**16), strict=True)
        distance = torch.cat([(part.double() - middles[rows]).abs().amax(1) for rows, part in parts])
        record(name, precision, distance, bounds[precision].logit_radius[index])

    def record(name: str, precision: str, distance: Tensor, radius: Tensor) -> None:
        share = float((distance / radius).max())
        ways[name] = {"precision": precision, "distance": float(distance.max()), "share_of_radius": share}

    if "float32" in bounds:
        measure("all_sums", "float32", *steps)
        pairs = [(a + "0" * far, b + "0" * far) for a, b in random_pairs(200, 3, seed=9)]
        found, _, logits = run_on(model, pairs)
        index, known = find(found, contexts)
        measure(f"positions_up_to_{far}", "float32", index, logits[known])
        columns, targets = encode(pairs[:1])
        index, known = find(codes(local_contexts_in(columns, targets)).flatten(), contexts)
        found = bounds["float32"]
        margins = model.generate(columns)[1][0][: len(known)][known]  # in greedy decoding there are margins only
        record("one_symbol_at_a_time", "float32", (margins - found.margins[index]).abs(), found.radius.amax(1)[index])
    if "float64" in bounds:
        some = list(every_local_context().values())[::20]
        found, _, logits = run_on(copy.deepcopy(model).double(), some)
        index, known = find(found, contexts)
        measure("float64", "float64", index, logits[known])
    return ways


def _histogram(lowest: Tensor) -> dict:
    """How many local contexts have which margin, in steps of half a logit, for the figure."""
    top = float(lowest.max().ceil()) + 0.5
    bottom = min(0.0, float(lowest.min().floor()))
    bins = int((top - bottom) / 0.5)
    counts = torch.histc(lowest, bins, bottom, bottom + bins * 0.5).int().tolist()
    return {"edges": [bottom + 0.5 * number for number in range(bins + 1)], "counts": counts}


@torch.inference_mode()
def measure_locality(model: PlaceValueTransformer, trials: int = 200, digits: int = 60) -> dict:
    """Change every symbol outside the window of one position: no bit of its logits may change. As a check of the
    check, change one symbol inside the window: bits must change, whichever of the six it is."""
    generator = torch.Generator().manual_seed(0)
    columns, targets = encode(random_pairs(digits, trials, seed=1))
    written = decoder_inputs(targets)
    position = torch.randint(2, digits, (trials,), generator=generator)
    rows, at = torch.arange(trials), torch.arange(columns.shape[1])
    logits = model(columns, written)[rows, position]
    # Position t reads the symbol written at t-1, so its window is t-1 and t in both sequences.
    inside = (at == position[:, None]) | (at == position[:, None] - 1)

    noise = (columns + torch.randint(1, 10, columns.shape, generator=generator)) % 10
    noisy_written = (written + torch.randint(1, 10, written.shape, generator=generator)) % 10
    outside = model(torch.where(inside.unsqueeze(2), columns, noise), torch.where(inside, written, noisy_written))
    changed_inside = []
    for offset in (0, 1):
        for side in (0, 1):
            changed = columns.clone()
            changed[rows, position - offset, side] = noise[rows, position - offset, side]
            changed_inside.append(model(changed, written)[rows, position])
        changed = written.clone()
        changed[rows, position - offset] = noisy_written[rows, position - offset]
        changed_inside.append(model(columns, changed)[rows, position])
    return {
        "trials": trials,
        "symbols_changed_outside_in_each": 3 * (columns.shape[1] - 2),
        "changed_from_outside": int((outside[rows, position] != logits).any(1).sum()),
        "changed_from_inside_least": min(int((other != logits).any(1).sum()) for other in changed_inside),
    }


def draw(numbers: dict, path: Path) -> None:
    """The logit margins of all local contexts, and to the left how far rounding can move them."""
    edges, counts = numbers["margin_histogram"]["edges"], numbers["margin_histogram"]["counts"]
    figure, axes = plt.subplots(figsize=(WIDTH, 2.4))
    axes.stairs(counts, edges, color=COLOURS[0], fill=True)
    lines = [(numbers["smallest_margin"], "smallest\nmargin", "left")]
    for name, found in numbers["rounding"].items():
        lines.append((found.get("largest_radius", 0), f"largest radius\nin {name}", "right"))
    if "all_sums" in numbers["measured"]:
        lines.append((numbers["measured"]["all_sums"]["distance"], "measured\nin float32", "right"))
    style = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top", "fontsize": 7.5}
    for value, text, side in lines:
        if value > 0:
            axes.axvline(value, color="#555555", linewidth=1)
            beside = (-4 if side == "right" else 4, 0)
            axes.annotate(f"{text}\n{value:.2g}", (value, 0.98), xytext=beside, ha=side, **style)
    axes.set(xscale="log", yscale="log", xlim=(1e-11, 100), ylim=(0.7, 2e6))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="logits (logarithmic)", ylabel="local contexts")
    if numbers["proven_in_float32"]:
        most = numbers["rounding"]["float32"]["largest_radius"]
        figure.suptitle(f"Every margin is over {int(numbers['smallest_margin'] / most)} times what rounding can take")
    save(
        figure,
        path,
        f"All {numbers['local_contexts']:,} local contexts of sums; wrong in {numbers['failures']:,}. No evaluation in "
        "float64, in whatever order it adds, moves a margin by more than its radius.",
        vector=True,
    )
