"""How far does a model get up to the 32 characters it was trained on, and beyond?

Exact match at lengths of input: random operands, and the hardest ones, in which one carry runs through every digit.
Beyond that, shapes that no training row had: one operand far longer, or nothing but nines.
"""

from beyond.any_length.dataset import MAX_CHARACTERS, Pairs, chain_pairs, encode, random_pairs, score
from lab.statistics import wilson
from lab.training import evaluate

# characters of input -> (random sums, full-carry-chain sums); operands have (characters - 6) / 2 digits
COUNTS = {
    8: (500, 100),
    12: (500, 100),
    16: (500, 100),
    24: (500, 100),
    32: (1000, 200),
    64: (1000, 200),
    128: (1000, 200),
    256: (1000, 200),
    512: (200, 100),
    1024: (200, 100),
    2006: (100, 100),
}


def unequal_pairs(count: int, short: int, long: int, seed: int) -> Pairs:
    """One operand of `short` digits, the other of `long`, in either order."""
    pairs = zip(random_pairs(short, count, seed), random_pairs(long, count, seed + 1), strict=True)
    return [(a, b) if number % 2 else (b, a) for number, ((a, _), (b, _)) in enumerate(pairs)]


SHAPES = {
    "1 digit and 3,000 digits": lambda: unequal_pairs(50, 1, 3000, 1),
    "1 to 13 digits and 125 digits": lambda: [
        pair for short in range(1, 14) for pair in unequal_pairs(20, short, 125, short)
    ],
    "all nines plus one": lambda: [("9" * digits, "1") for digits in range(1, 301)],
    "all nines twice": lambda: [("9" * digits, "9" * digits) for digits in range(1, 301)],
    "every pair below 100": lambda: [(str(a), str(b)) for a in range(100) for b in range(100)],
}


def exact_match(model, pairs: Pairs) -> dict:
    """Greedy decoding's exact match (see `score` in dataset.py), of some 262,144 positions at once."""
    rows = encode(pairs)
    batch = max(1, min(1024, 2**18 // rows[0].shape[1]))
    return share(round(evaluate(model, rows, score, batch)[1] * len(pairs)), len(pairs))


def share(right: int, of: int) -> dict:
    return {"right": right, "of": of, "share": right / of, "interval_95": list(wilson(right, of))}


def run(model, most: int) -> dict:
    """The content of lengths.json: at most `most` sums of a kind, the same for every model."""
    lengths = {}
    for length, (random_count, chain_count) in COUNTS.items():
        digits, seed = (length - 6) // 2, 7 + length  # six characters are " + " and " = "
        lengths[str(length)] = {
            "digits": digits,
            "random": exact_match(model, random_pairs(digits, min(most, random_count), seed)),
            "chain": exact_match(model, chain_pairs(digits, min(most, chain_count), seed)),
        }
    shapes = {name: exact_match(model, pairs()[:most]) for name, pairs in SHAPES.items()}
    parts = [part[kind] for part in lengths.values() for kind in ("random", "chain")] + list(shapes.values())
    total = share(sum(part["right"] for part in parts), sum(part["of"] for part in parts))
    return {"training_characters": MAX_CHARACTERS, "lengths": lengths, "shapes": shapes, "in_all": total}
