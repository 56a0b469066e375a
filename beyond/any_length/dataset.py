"""Addition as text: sums of whole numbers of 1 to 13 digits, as characters and as columns.

    input  "123 + 4567 = "     answer "4690"        at most 32 characters of input

The model reads the operands one below the other, as at school, the units first, a blank where a number has ended. A
digit's position is its place value: 0 for the units, 1 for the tens.

    position    0  1  2  3  4  5
    operands    3  2  1  ␣  ␣  ␣
                7  6  5  4  ␣  ␣
    answer      0  9  6  4  </s>

Rows stay decimal strings as long as possible: these have no length limit and can be read.
"""

import json
import random
import re
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lab.files import UserError, only_one, read_json, write_text

DIGITS = "0123456789"
SYMBOLS = [*DIGITS, "+", "=", " ", "<s>", "</s>", "<pad>"]
BLANK, START, END, PAD, VOCAB_SIZE = 12, 13, 14, 15, len(SYMBOLS)

DEFAULT = Path(__file__).resolve().parent / "data"  # where the rows are, if no other folder is named
MAX_DIGITS = 13
MAX_CHARACTERS = 32  # 13 + 13 digits, " + " and " = "
SIZES = {"train": 100_000, "val": 2_000, "test": 10_000}
SEED_OF_DATA = 641

Pairs = list[tuple[str, str]]  # operands as decimal strings without leading zeros
EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def right_answer(pair: tuple[str, str]) -> str:
    """The sum as Python's decimal module computes it: with int, a million digits would take a thousand times longer."""
    return str(EXACT.add(Decimal(pair[0]), Decimal(pair[1])))


def to_input(pair: tuple[str, str]) -> str:
    """("123", "4567") -> "123 + 4567 = " """
    return f"{pair[0]} + {pair[1]} = "


# --- rows on disk ------------------------------------------------------------------------------------------------


def draw_pairs(sizes: dict[str, int], seed: int, max_digits: int = MAX_DIGITS) -> dict[str, Pairs]:
    """Disjoint sets of sums. Lengths are drawn evenly and independently, so most pairs are unequal.

    No two of all the sums have the same operands, in either order: they are drawn as one set, mixed and cut up.
    """
    source, seen, pairs = random.Random(seed), set(), []
    while len(pairs) < sum(sizes.values()):
        a, b = (_draw_number(source, max_digits) for _ in range(2))
        if (a, b) not in seen:
            seen |= {(a, b), (b, a)}
            pairs.append((str(a), str(b)))
    source.shuffle(pairs)
    parts, start = {}, 0
    for name, size in sizes.items():
        parts[name], start = pairs[start : start + size], start + size
    return parts


def _draw_number(source: random.Random, max_digits: int) -> int:
    """Its number of digits first, then one of the numbers with so many: zero is one of those with one digit."""
    digits = source.randint(1, max_digits)
    return source.randrange(0 if digits == 1 else 10 ** (digits - 1), 10**digits)


def generate(data_dir: Path, sizes: dict[str, int] = SIZES, max_digits: int = MAX_DIGITS) -> None:
    """Write train.json, val.json and test.json."""
    with only_one(data_dir, "a script that writes data"):
        for name, pairs in draw_pairs(sizes, SEED_OF_DATA, max_digits).items():
            rows = [json.dumps({"input": to_input(pair), "target": right_answer(pair)}) for pair in pairs]
            write_text(Path(data_dir) / f"{name}.json", "[\n" + ",\n".join(rows) + "\n]\n")


def load_or_generate(data_dir: Path = DEFAULT) -> dict[str, Pairs]:
    """train, val and test. In the default folder, rows that are missing are generated; any other folder must hold
    all three files."""
    paths = {name: Path(data_dir) / f"{name}.json" for name in SIZES}
    if Path(data_dir) == DEFAULT and not any(path.exists() for path in paths.values()):
        print(f"no data in {data_dir} yet: generating it", flush=True)
        generate(data_dir)
    parts = {name: load(path) for name, path in paths.items()}
    trained = set(parts["train"]) | {(b, a) for a, b in parts["train"]}
    for name in ("val", "test"):
        shared = trained.intersection(parts[name])
        if shared:
            a, b = min(shared)
            raise UserError(f"{paths[name]} holds {a} + {b}, which train.json holds too: {_hint(data_dir)}")
    return parts


def _hint(data_dir: Path) -> str:
    if Path(data_dir) == DEFAULT:
        return f"remove the folder {data_dir}, and it is generated again."
    return "correct it, or leave out --data-dir."


ROW = re.compile(r"(0|[1-9][0-9]*) \+ (0|[1-9][0-9]*) = ")


def load(path: Path) -> Pairs:
    """The sums of one file, every row checked: a wrong sum would teach a wrong model."""
    hint = _hint(Path(path).parent)
    rows = read_json(path, hint)
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path} must hold a list of at least one row: {hint}")
    return [_pair(row, f"{path}, row {number}", hint) for number, row in enumerate(rows, 1)]


def _pair(row, where: str, hint: str) -> tuple[str, str]:
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("input", "target")):
        complaint = 'not of the form {"input": "12 + 3 = ", "target": "15"}'
    elif len(row["input"]) > MAX_CHARACTERS:
        complaint = f'"input" has {len(row["input"])} characters, more than {MAX_CHARACTERS}'
    elif not (match := ROW.fullmatch(row["input"])):
        complaint = f'"input" is {row["input"]!r}, not two whole numbers as in "12 + 3 = "'
    elif row["target"] != (right := right_answer(match.groups())):
        complaint = f'"target" is {row["target"]!r}, but the sum is {right}'
    else:
        return match.groups()
    raise UserError(f"{where}: {complaint}; {hint}")


# --- rows as tensors ---------------------------------------------------------------------------------------------


def to_tokens(numbers: list[str], width: int, fill: int) -> Tensor:
    """Digits, which are their own tokens, filled up on the right: [N, width]"""
    characters = np.frombuffer("".join(number.ljust(width) for number in numbers).encode(), dtype=np.uint8)
    tokens = np.where(characters == ord(" "), np.uint8(fill), characters - ord("0"))
    return torch.from_numpy(tokens.astype(np.int64)).reshape(len(numbers), width)


def columns(pairs: Pairs) -> Tensor:
    """Operands by position, the units first: [N, P, 2], blank beyond their ends.

    Two positions more than the longest operand has digits: one for the last carry, one for the end of the answer.
    """
    positions = 2 + max(len(number) for pair in pairs for number in pair)
    operands = [to_tokens([pair[side][::-1] for pair in pairs], positions, BLANK) for side in (0, 1)]
    return torch.stack(operands, dim=2)


def encode(pairs: Pairs) -> tuple[Tensor, Tensor]:
    """What the model reads, [N, P, 2], and what it should write, units first, with the END: [N, P], padded."""
    sources, texts = columns(pairs), [right_answer(pair) for pair in pairs]
    targets = to_tokens([text[::-1] for text in texts], sources.shape[1], PAD)
    targets[torch.arange(len(texts)), torch.tensor([len(text) for text in texts])] = END
    return sources, targets


def decoder_inputs(targets: Tensor) -> Tensor:
    """What the decoder reads while it predicts `targets`: the start token, then all symbols but the last."""
    return torch.cat([torch.full_like(targets[:, :1], START), targets[:, :-1]], 1)


def score(model, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Loss and exact match of each row: [B], [B]. As in problem1/dataset.py, exact match of greedy decoding."""
    sources, targets = batch
    logits = model(sources, decoder_inputs(targets))
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none", ignore_index=PAD)
    counts = targets != PAD
    return losses.sum(1) / counts.sum(1), ((logits.argmax(-1) == targets) | ~counts).all(1)


# --- sums to measure with ----------------------------------------------------------------------------------------


def random_pairs(digits: int, count: int, seed: int) -> Pairs:
    """Both operands of exactly `digits` digits, each digit but the first drawn evenly from 0 to 9."""
    source, first = random.Random(seed), DIGITS if digits == 1 else DIGITS[1:]

    def draw() -> str:
        return source.choice(first) + "".join(source.choices(DIGITS, k=digits - 1))

    return [(draw(), draw()) for _ in range(count)]


def chain_pairs(digits: int, count: int, seed: int) -> Pairs:
    """A carry through every digit: the units make 10 to 18, every other pair of digits makes 9 and passes it on."""
    source = random.Random(seed)
    complements = str.maketrans(DIGITS, DIGITS[::-1])

    def draw() -> tuple[str, str]:
        above = "".join(source.choices(DIGITS, k=digits - 1))
        if above:
            above = source.choice("12345678") + above[1:]  # neither operand may begin with a zero
        units = source.randint(1, 9)
        return f"{above}{units}", f"{above.translate(complements)}{source.randint(10 - units, 9)}"

    return [draw() for _ in range(count)]
