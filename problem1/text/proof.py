"""A proof, not samples: the model adds right at every length, because it meets only finitely many local contexts.

Decoder position t reads six symbols and nothing else: both operands' digits at positions t and t-1, and the last two
symbols of the answer. So its logits are a function of that local context. Here every local context of sums of two
whole numbers is enumerated, the model runs on a short sum that contains it, and what it writes there is compared
with the right symbol. Exactness at every length follows by induction over positions; see ARGUMENT.

What remains is arithmetic in 32 bits: how far the logits of one local context move with position, batch and way of
computing is measured, and compared with the smallest logit margin. All of this runs on the CPU.
"""

import copy
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from lab.figures import COLOURS, LINES, plt, save
from lab.statistics import margins
from problem1.text.dataset import PAD, Pairs, decoder_inputs, encode, random_pairs
from problem1.text.local_contexts import DIGITS, KINDS, LocalContext, codes, every_local_context, local_contexts_in
from problem1.text.place_value import PlaceValueTransformer

ARGUMENT = [
    "Locality: by construction the logits at position t depend on six symbols only: the two digits at position t, the "
    "two at position t-1 and the last two symbols of the answer. Tested: changing all other symbols changes no bit of "
    "the logits.",
    "Completeness: a local context is followed by one that depends on it and on the two digits of the next position "
    "alone. Starting from the first position, all that can follow are enumerated until nothing new appears.",
    "Coverage: for each local context the model is run on a short sum that contains it; there the right symbol has "
    "the largest logit, by at least the smallest margin.",
    "Induction: the local context of the first position holds no written symbol and is covered, so the first symbol "
    "is right. If all symbols below position t are right, the local context at position t is one of those enumerated, "
    "so its symbol is right too. The answer ends where the right answer ends, because the end is one of the symbols.",
    "Finite precision: the logits of a local context are at every position the same expression of the same numbers; "
    "only the order in which a library adds up may differ, and with it the last bits. A wrong choice would need "
    "logits that move by half the smallest margin; the largest movement measured is smaller by the factor given.",
]


@torch.inference_mode()
def run_on(model: PlaceValueTransformer, pairs: Pairs, batch: int = 4096) -> tuple[Tensor, Tensor, Tensor]:
    """Every step of these sums: codes of the local contexts [M], logit margins [M], logits [M, V]."""
    parts = []
    for start in range(0, len(pairs), batch):
        columns, targets = encode(pairs[start : start + batch], "place_value", "reversed")
        logits = model(columns, decoder_inputs(targets))
        steps = targets != PAD
        contexts = codes(local_contexts_in(columns, targets))
        parts.append((contexts[steps], margins(logits, targets)[steps], logits[steps]))
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


# --- the proof ---------------------------------------------------------------------------------------------------


class Coverage(NamedTuple):
    """What a model did in each of C local contexts, over all sums that were to contain them."""

    margins: Tensor  # [C] the smallest logit margin seen: 0 or less is a failure, infinite never seen
    unexpected: int  # steps in a local context that was not enumerated
    steps: int
    movement: float  # the most that a logit of one local context differed between sums


def cover(model: PlaceValueTransformer, expected: dict[LocalContext, tuple[str, str]]) -> Coverage:
    """Run the model on every sum and sort its steps by their local contexts."""
    count = len(expected)
    found, by_step, logits = run_on(model, list(expected.values()))
    names, position = codes(torch.tensor(list(expected))).sort()
    where = torch.searchsorted(names, found).clamp(max=count - 1)
    known = names[where] == found
    index = position[where[known]]  # of each step, which local context it has
    lowest = torch.full((count,), torch.inf, dtype=by_step.dtype).scatter_reduce(0, index, by_step[known], "amin")
    return Coverage(lowest, int((~known).sum()), len(found), _spread(logits[known], index, count))


def run(model: PlaceValueTransformer, digits: tuple[int, ...] = DIGITS, far: int = 9000) -> dict:
    """The content of proof.json. Fewer digits make a smaller claim: of numbers with these digits."""
    model.eval()
    expected = every_local_context(digits)
    contexts = list(expected)
    lowest, unexpected, steps, movement = cover(model, expected)
    covered, worst = int(lowest.isfinite().sum()), int(lowest.argmin())
    smallest = float(lowest[worst])
    precision = {"same_context_in_other_sums": movement, **measure_precision(model, far)}
    largest = max(precision.values())
    locality = measure_locality(model)
    complete = covered == len(contexts) and unexpected == 0
    return {
        "proven": complete and smallest > 2 * largest and locality["changed_from_outside"] == 0,
        "local_contexts": len(contexts),
        "covered": covered,
        "steps_in_a_context_not_enumerated": unexpected,
        "sums": len(expected),
        "longest_operand": max(len(number) for pair in expected.values() for number in pair),
        "steps": steps,
        "failures": int((lowest <= 0).sum()),
        "smallest_margin": smallest,
        "smallest_margin_at": {"local_context": str(contexts[worst]), "sum": " + ".join(expected[contexts[worst]])},
        "precision": precision,
        "largest_movement": largest,
        "smallest_margin_over_twice_the_movement": smallest / (2 * largest) if largest and smallest > 0 else None,
        "locality": locality,
        "argument": ARGUMENT,
        "margin_histogram": _histogram(lowest, [context.kind for context in contexts]),
    }


def _spread(logits: Tensor, index: Tensor, count: int) -> float:
    """The most that any logit of one local context differs between the sums that contain it: [M, V], [M]"""
    rows = index.unsqueeze(1).expand_as(logits)
    high = torch.full((count, logits.shape[1]), -torch.inf).scatter_reduce(0, rows, logits, "amax")
    low = torch.full((count, logits.shape[1]), torch.inf).scatter_reduce(0, rows, logits, "amin")
    return float((high - low).max())


def _histogram(lowest: Tensor, kinds: list[str]) -> dict:
    """How many local contexts of each kind have which margin, in steps of half a logit, for the figure."""
    top = float(lowest.max().ceil()) + 0.5
    bottom = min(0.0, float(lowest.min().floor()))
    bins = int((top - bottom) / 0.5)
    counts = {
        kind: torch.histc(lowest[[k == kind for k in kinds]], bins, bottom, bottom + bins * 0.5).int().tolist()
        for kind in KINDS
    }
    return {"edges": [bottom + 0.5 * number for number in range(bins + 1)], "counts": counts}


@torch.inference_mode()
def measure_precision(model: PlaceValueTransformer, high: int = 9000, low: int = 5, digits: int = 200) -> dict:
    """The largest difference of any logit when the same local contexts are computed in another way:

    at position 5 and at position 9,000; one symbol at a time, as in greedy decoding, and all at once; alone and
    in a batch; in 32 bits and in 64, where rounding is five hundred million times finer.
    """
    pairs = random_pairs(digits, 20, seed=9)
    apart, by_step = [], []
    for a, b in pairs:
        near, far = (_logits(model, (a + "0" * position, b + "0" * position)) for position in (low, high))
        apart.append(_difference(near[low:], far[high:]))
    for a, b in pairs[:3]:
        columns, _ = encode([(a + "0" * high, b + "0" * high)], "place_value", "reversed")
        symbols, by_symbol = model.generate(columns)
        by_step.append(_difference(by_symbol, margins(model(columns, decoder_inputs(symbols)), symbols)))
    together = run_on(model, pairs)[2]
    alone = _difference(together, torch.cat([_logits(model, pair) for pair in pairs]))
    some = list(every_local_context().values())[::20]
    exact = run_on(copy.deepcopy(model).double(), some)[2]
    rounding = _difference(run_on(model, some)[2], exact)
    return {
        f"position_{low}_against_position_{high}": max(apart),
        "step_by_step_against_all_at_once": max(by_step),
        "alone_against_in_a_batch": alone,
        "32_bits_against_64_bits": rounding,
    }


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def _logits(model: PlaceValueTransformer, pair: tuple[str, str]) -> Tensor:
    """Logits of every step of one sum, its end included: [T, V]"""
    columns, targets = encode([pair], "place_value", "reversed")
    return model(columns, decoder_inputs(targets))[0, : int((targets != PAD).sum())]


@torch.inference_mode()
def measure_locality(model: PlaceValueTransformer, trials: int = 200, digits: int = 60) -> dict:
    """Change every symbol outside the window of one position: no bit of its logits may change. As a check of the
    check, change one symbol inside the window: bits must change, whichever of the six it is."""
    generator = torch.Generator().manual_seed(0)
    columns, targets = encode(random_pairs(digits, trials, seed=1), "place_value", "reversed")
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
    """The logit margins of all local contexts by kind, and far to the left how much logits move."""
    edges, counts = numbers["margin_histogram"]["edges"], numbers["margin_histogram"]["counts"]
    figure, axes = plt.subplots(figsize=(9, 4))
    for number, (kind, heights) in enumerate(counts.items()):
        style = {"color": COLOURS[number], "linestyle": LINES[number], "linewidth": 1.6}
        axes.stairs(heights, edges, **style, label=f"{kind}: {sum(heights):,}")
    movement, smallest = numbers["largest_movement"], numbers["smallest_margin"]
    top = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top", "ha": "right"}
    for value, text in ((movement, "largest movement\nof a logit"), (smallest, "smallest\nmargin")):
        if value > 0:
            axes.axvline(value, color="#555555", linewidth=1)
            axes.annotate(f"{text}\n{value:.2g}", (value, 0.97), xytext=(-4, 0), fontsize=9, **top)
    axes.set(xscale="log", yscale="log", xlim=(1e-7, 100), ylim=(0.7, None))
    axes.set(xlabel="logits (logarithmic)", ylabel="local contexts")
    axes.legend(loc="center left", bbox_to_anchor=(0.27, 0.5), title="logit margin of the right symbol, by kind")
    save(
        figure,
        path,
        f"All {numbers['local_contexts']:,} local contexts of sums; wrong in {numbers['failures']:,}. "
        "A wrong symbol would need logits to move by half the smallest margin.",
    )
