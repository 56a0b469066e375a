"""A proof, not samples: the model adds right at every length, because it can meet only finitely many situations.

Decoder position t reads six symbols and nothing else: both operands' digits at place t and at place t-1, and the
last two symbols of the answer. So its logits are a function of that situation. Here every situation that can occur
in the sum of two whole numbers is enumerated, the model is run on a short sum that contains it, and its answer there
is compared with the right one. Exactness at every length follows by induction over places; see ARGUMENT.

What is left is arithmetic in 32 bits: how far logits of one situation move with place, company and way of computing
is measured, and compared with the smallest margin between the right symbol and the next.
"""

import copy
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from lab.figures import COLOURS, LINES, plt, save
from lab.files import UserError
from problem1.text.dataset import PAD, Pairs, encode, random_pairs, written_before
from problem1.text.local_contexts import DIGITS, KINDS, Situation, codes, every_situation, situations_in
from problem1.text.place_value import PlacesTransformer

ARGUMENT = [
    "Locality: by construction the logits at place t depend on six symbols only: the two at place t, the two at "
    "place t-1 and the last two of the answer. Tested: changing all other symbols changes no bit of them.",
    "Completeness: a situation is followed by one that depends on it and on the two symbols of the next place alone. "
    "Starting from the first place, all that can follow are enumerated until nothing new appears.",
    "Coverage: for each situation the model is run on a short sum that contains it; there the right symbol has the "
    "largest logit, by at least the smallest margin.",
    "Induction: the situation of the first place holds no written symbol and is covered, so the first symbol is right. "
    "If all symbols below place t are right, the situation at place t is one of those enumerated, so its symbol is "
    "right too. The answer ends where the right answer ends, because the end is one of the symbols.",
    "Finite precision: the logits of a situation are at every place the same expression of the same numbers; only "
    "the order in which a library adds up may differ, and with it the last bits. A wrong choice would take logits that "
    "move by half the smallest margin; the largest movement measured is smaller by the factor given.",
]


def margins(logits: Tensor, targets: Tensor) -> Tensor:
    """How far the right symbol is ahead of the best wrong one: [N, T, V], [N, T] -> [N, T]"""
    safe = targets.unsqueeze(-1)
    right = logits.gather(-1, safe).squeeze(-1)
    return right - logits.scatter(-1, safe, -torch.inf).max(-1).values


@torch.inference_mode()
def run_on(model: PlacesTransformer, pairs: Pairs, batch: int = 4096) -> tuple[Tensor, Tensor, Tensor]:
    """Every step of these sums: codes of the situations [M], margins [M], logits [M, V]."""
    parts = []
    for start in range(0, len(pairs), batch):
        columns, targets = encode(pairs[start : start + batch], "places", "reversed")
        logits = model(columns, written_before(targets))
        steps = targets != PAD
        parts.append((codes(situations_in(columns, targets))[steps], margins(logits, targets)[steps], logits[steps]))
    found, ahead, logits = (torch.cat(part) for part in zip(*parts, strict=True))
    return found, ahead, logits


# --- the proof ---------------------------------------------------------------------------------------------------


class Coverage(NamedTuple):
    """What a model did in each of S situations, over all sums that were to contain them."""

    lowest: Tensor  # [S] the smallest margin seen: 0 or less is a failure, infinite never seen
    strangers: int  # steps in a situation that was not expected
    steps: int
    movement: float  # the most that a logit of one situation differed between sums


def cover(model: PlacesTransformer, expected: dict[Situation, tuple[str, str]]) -> Coverage:
    """Run the model on every sum and sort its steps by the situation they were in."""
    count = len(expected)
    found, ahead, logits = run_on(model, list(expected.values()))
    names, position = codes(torch.tensor(list(expected))).sort()
    where = torch.searchsorted(names, found).clamp(max=count - 1)
    known = names[where] == found
    index = position[where[known]]  # of each step, which situation it was
    lowest = torch.full((count,), torch.inf, dtype=ahead.dtype).scatter_reduce(0, index, ahead[known], "amin")
    return Coverage(lowest, int((~known).sum()), len(found), _spread(logits[known], index, count))


def prove(model: PlacesTransformer, digits: tuple[int, ...] = DIGITS, far: int = 9000) -> dict:
    """All that results/text/proof.json says of this model. Fewer digits make a smaller claim: of numbers with those."""
    if len(model.decoder) != 1:
        raise UserError(
            f"this model has {len(model.decoder)} decoder layers, and each after the first widens the window: "
            "the proof enumerates the situations of one. Train it with --num-layers 1."
        )
    model.eval()
    expected = every_situation(digits)
    order = list(expected)
    lowest, strangers, steps, movement = cover(model, expected)
    failures, covered = int((lowest <= 0).sum()), int(lowest.isfinite().sum())
    worst = int(lowest.argmin())
    smallest = float(lowest[worst])
    precision = {"same_situation_in_other_sums": movement, **measure_precision(model, far)}
    largest = max(precision.values())
    locality = measure_locality(model)
    complete = covered == len(order) and strangers == 0
    return {
        "proven": complete and smallest > 2 * largest and locality["changed_from_outside"] == 0,
        "situations": len(order),
        "covered": covered,
        "steps_in_a_situation_not_enumerated": strangers,
        "sums": len(expected),
        "longest_operand": max(len(number) for pair in expected.values() for number in pair),
        "steps": steps,
        "failures": failures,
        "smallest_margin": smallest,
        "smallest_margin_at": {"situation": str(order[worst]), "sum": " + ".join(expected[order[worst]])},
        "by_kind": {kind: _summary(lowest, [situation.kind == kind for situation in order]) for kind in KINDS},
        "precision": precision,
        "largest_movement": largest,
        "smallest_margin_over_twice_the_movement": smallest / (2 * largest) if largest else None,
        "locality": locality,
        "argument": ARGUMENT,
        "margin_histogram": _histogram(lowest, [situation.kind for situation in order]),
    }


def _summary(lowest: Tensor, chosen: list[bool]) -> dict:
    margin = lowest[torch.tensor(chosen)]
    return {
        "situations": len(margin),
        "failures": int((margin <= 0).sum()),
        "smallest_margin": float(margin.min()),
        "median_margin": float(margin.median()),
    }


def _spread(logits: Tensor, index: Tensor, count: int) -> float:
    """The most that any logit of one situation differs between the sums that contain it: [M, V], [M]"""
    rows = index.unsqueeze(1).expand_as(logits)
    high = torch.full((count, logits.shape[1]), -torch.inf).scatter_reduce(0, rows, logits, "amax")
    low = torch.full((count, logits.shape[1]), torch.inf).scatter_reduce(0, rows, logits, "amin")
    return float((high - low).max())


def _histogram(lowest: Tensor, kinds: list[str]) -> dict:
    """How many situations of each kind have which margin, in steps of half a logit, for the figure."""
    top = float(lowest.max().ceil()) + 0.5
    bottom = min(0.0, float(lowest.min().floor()))
    bins = int((top - bottom) / 0.5)
    counts = {
        kind: torch.histc(lowest[[k == kind for k in kinds]], bins, bottom, bottom + bins * 0.5).int().tolist()
        for kind in KINDS
    }
    return {"edges": [bottom + 0.5 * number for number in range(bins + 1)], "counts": counts}


@torch.inference_mode()
def measure_precision(model: PlacesTransformer, high: int = 9000, low: int = 5, digits: int = 200) -> dict[str, float]:
    """The largest difference of any logit when the same situations are computed in another way:

    at place 5 and at place 9,000; one symbol at a time, as in greedy decoding, and all at once; alone and among
    others; in 32 bits and in 64, where rounding is five hundred million times finer.
    """
    pairs = random_pairs(digits, 20, seed=9)
    apart, by_step = [], []
    for a, b in pairs:
        near, far = (_logits(model, (a + "0" * place, b + "0" * place)) for place in (low, high))
        apart.append(_difference(near[low:], far[high:]))
    for a, b in pairs[:3]:
        columns, _ = encode([(a + "0" * high, b + "0" * high)], "places", "reversed")
        symbols, logits = model.generate(columns)
        by_step.append(_difference(logits, model(columns, written_before(symbols))))
    together = run_on(model, pairs)[2]
    alone = _difference(together, torch.cat([_logits(model, pair) for pair in pairs]))
    some = list(every_situation().values())[::20]
    exact = run_on(copy.deepcopy(model).double(), some)[2]
    rounding = _difference(run_on(model, some)[2], exact)
    return {
        f"place_{low}_against_place_{high}": max(apart),
        "step_by_step_against_all_at_once": max(by_step),
        "alone_against_in_a_batch": alone,
        "32_bits_against_64_bits": rounding,
    }


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def _logits(model: PlacesTransformer, pair: tuple[str, str]) -> Tensor:
    """Logits of every step of one sum, its end included: [T, V]"""
    columns, targets = encode([pair], "places", "reversed")
    return model(columns, written_before(targets))[0, : int((targets != PAD).sum())]


@torch.inference_mode()
def measure_locality(model: PlacesTransformer, trials: int = 200, digits: int = 60) -> dict:
    """Change every symbol outside the window of one position: no bit of its logits may change. As a check of the
    check, change one symbol inside the window: bits must change, whichever of the six it is."""
    generator = torch.Generator().manual_seed(0)
    columns, targets = encode(random_pairs(digits, trials, seed=1), "places", "reversed")
    written = written_before(targets)
    place = torch.randint(2, digits, (trials,), generator=generator)
    rows, at = torch.arange(trials), torch.arange(columns.shape[1])
    logits = model(columns, written)[rows, place]
    # Position t is fed the symbol of place t-1, so its windows are t-1 and t in both sequences.
    inside = (at == place[:, None]) | (at == place[:, None] - 1)

    noise = (columns + torch.randint(1, 10, columns.shape, generator=generator)) % 10
    noisy_written = (written + torch.randint(1, 10, written.shape, generator=generator)) % 10
    outside = model(torch.where(inside.unsqueeze(2), columns, noise), torch.where(inside, written, noisy_written))[
        rows, place
    ]
    changed_inside = []
    for offset in (0, 1):
        for side in (0, 1):
            changed = columns.clone()
            changed[rows, place - offset, side] = noise[rows, place - offset, side]
            changed_inside.append(model(changed, written)[rows, place])
        changed = written.clone()
        changed[rows, place - offset] = noisy_written[rows, place - offset]
        changed_inside.append(model(columns, changed)[rows, place])
    return {
        "trials": trials,
        "symbols_changed_outside_in_each": 3 * (columns.shape[1] - 2),
        "changed_from_outside": int((outside != logits).any(1).sum()),
        "changed_from_inside_least": min(int((other != logits).any(1).sum()) for other in changed_inside),
    }


def draw(numbers: dict, path: Path) -> None:
    """From proof.json: the margins of all situations by kind, and far to the left how much logits move."""
    edges, counts = numbers["margin_histogram"]["edges"], numbers["margin_histogram"]["counts"]
    figure, axes = plt.subplots(figsize=(9, 4))
    for number, (kind, heights) in enumerate(counts.items()):
        label = f"{kind}: {numbers['by_kind'][kind]['situations']:,}"
        axes.stairs(heights, edges, color=COLOURS[number], linestyle=LINES[number], linewidth=1.6, label=label)
    movement, smallest = numbers["largest_movement"], numbers["smallest_margin"]
    for value, text in ((movement, "largest movement\nof a logit"), (smallest, "smallest\nmargin")):
        if value > 0:
            axes.axvline(value, color="#555555", linewidth=1)
            axes.annotate(
                f"{text}\n{value:.2g}",
                (value, 0.97),
                xycoords=("data", "axes fraction"),
                va="top",
                ha="right",
                xytext=(-4, 0),
                textcoords="offset points",
                fontsize=9,
            )
    axes.set(xscale="log", yscale="log", xlim=(1e-7, 100), ylim=(0.7, None))
    axes.set(xlabel="logits (logarithmic)", ylabel="situations")
    axes.legend(loc="center left", bbox_to_anchor=(0.27, 0.5), title="lead of the right symbol, by kind of situation")
    save(
        figure,
        path,
        f"All {numbers['situations']:,} situations that a place of a sum can be in; {numbers['failures']} answered "
        "wrong. A wrong symbol would need logits to move by half the smallest margin.",
    )
