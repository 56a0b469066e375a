"""How far does a model get up to the 32 characters it was trained on, and beyond?

Exact match at lengths of input: random operands, and the hardest ones, in which one carry runs through every digit.
Beyond that, shapes that no training row had: one operand far longer, or nothing but nines.
"""

from lab.statistics import wilson
from lab.training import evaluate
from problem1.text.dataset import MAX_CHARACTERS, Pairs, chain_pairs, encode, random_pairs, score, to_input

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
# Attention over all characters costs the square of their number; the classic schemes fail long before.
CLASSIC_LENGTHS = (8, 12, 16, 24, 32, 64, 128, 256, 512)
CELLS = 2**24  # numbers of one activation or attention pattern at once: 64 MB


def digits_at(characters: int) -> int:
    """32 -> 13: what remains for each operand beside " + " and " = "."""
    return (characters - 6) // 2


def exact_match(model, settings: dict, pairs: Pairs) -> dict:
    """{"right", "of", "share", "interval_95"}: greedy decoding's exact match (see `score` in dataset.py)."""
    rows = encode(pairs, settings["scheme"], settings["order"])
    width = rows[0].shape[1]
    per_symbol = 2 * settings["d_ff"] if settings["scheme"] == "place_value" else settings["num_heads"] * width
    batch = max(1, min(1024, CELLS // (width * per_symbol)))
    right = round(evaluate(model, rows, score, batch)[1] * len(pairs))
    return share(right, len(pairs))


def share(right: int, of: int) -> dict:
    return {"right": right, "of": of, "share": right / of, "interval_95": list(wilson(right, of))}


def by_length(model, settings: dict, most: int = 1000, seed: int = 7) -> dict[str, dict]:
    """{"32": {"digits": 13, "random": {…}, "chain": {…}}, …}: the same sums for every model, `most` of a kind."""
    lengths = [length for length in COUNTS if settings["scheme"] == "place_value" or length in CLASSIC_LENGTHS]
    out = {}
    for length in lengths:
        digits, (random_count, chain_count) = digits_at(length), (min(most, count) for count in COUNTS[length])
        out[str(length)] = {
            "digits": digits,
            "random": exact_match(model, settings, random_pairs(digits, random_count, seed + length)),
            "chain": exact_match(model, settings, chain_pairs(digits, chain_count, seed + length)),
        }
    return out


# --- shapes ------------------------------------------------------------------------------------------------------


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


def by_shape(model, settings: dict, most: int = 10_000) -> dict[str, dict]:
    """{"all nines twice": {…}, …}; classic schemes only on shapes within CLASSIC_LENGTHS."""
    shapes = {name: pairs()[:most] for name, pairs in SHAPES.items()}
    if settings["scheme"] != "place_value":
        longest = {name: max(len(to_input(pair)) for pair in pairs) for name, pairs in shapes.items()}
        shapes = {name: pairs for name, pairs in shapes.items() if longest[name] <= max(CLASSIC_LENGTHS)}
    return {name: exact_match(model, settings, pairs) for name, pairs in shapes.items()}


def run(model, settings: dict, most: int) -> dict:
    """The content of lengths.json."""
    lengths, shapes = by_length(model, settings, most), by_shape(model, settings, most)
    parts = [part[kind] for part in lengths.values() for kind in ("random", "chain")] + list(shapes.values())
    total = share(sum(part["right"] for part in parts), sum(part["of"] for part in parts))
    return {"training_characters": MAX_CHARACTERS, "lengths": lengths, "shapes": shapes, "in_all": total}
