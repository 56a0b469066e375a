"""Draw the addition problems: data/train.json, val.json and test.json, the same rows as everyone has.

    347+159  ->  {"input": [3, 4, 7, 10, 1, 5, 9], "target": [0, 5, 0, 6]}

Most significant digit first, 10 stands for +, and the sum is padded with zeros to one digit more than the
operands have. Operands have exactly --num-digits digits (no leading zero). Train, val and test are drawn with
seeds --seed, --seed+1 and --seed+2; within a file no pair occurs twice.
"""

import random
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

from lab.files import UserError, only_one, write_text
from lab.settings import LARGEST_SEED, parse, run, setting

HERE = Path(__file__).resolve().parent
PLUS = 10
LONGEST = 100  # digits of an operand, in data and in checkpoints


@dataclass(frozen=True)
class Settings:
    num_digits: int = setting(3, "digits of each operand", minimum=1, maximum=LONGEST)
    seed: int = setting(
        641, "seed of train.json; val.json and test.json take the next two", minimum=0, maximum=LARGEST_SEED
    )
    train_size: int = setting(10_000, "rows of train.json", minimum=1, maximum=10_000_000)
    val_size: int = setting(2_000, "rows of val.json", minimum=1, maximum=10_000_000)
    test_size: int = setting(2_000, "rows of test.json", minimum=1, maximum=10_000_000)
    output_dir: Path = setting(HERE / "data", "folder for the three files", metavar="DIR")


def to_digits(number: int, width: int) -> list[int]:
    """506, 4 -> [0, 5, 0, 6]"""
    return [int(digit) for digit in str(number).zfill(width)]


def make_row(a: int, b: int, num_digits: int) -> dict:
    """347, 159 -> {"input": [3, 4, 7, 10, 1, 5, 9], "target": [0, 5, 0, 6]}"""
    return {
        "input": to_digits(a, num_digits) + [PLUS] + to_digits(b, num_digits),
        "target": to_digits(a + b, num_digits + 1),
    }


def make_rows(num_digits: int, size: int, seed: int) -> list[dict]:
    """`size` different pairs (a, b), as the course's own generator draws them."""
    low = 10 ** (num_digits - 1)
    high = 10**num_digits - 1
    available = (high - low + 1) ** 2
    if size > available:
        raise UserError(
            f"{size:,} different pairs of {num_digits}-digit numbers do not exist, only {available:,}: "
            "ask for fewer rows or more digits."
        )
    source = random.Random(seed)
    seen = set()
    rows = []
    while len(rows) < size:
        pair = source.randint(low, high), source.randint(low, high)
        if pair in seen:
            continue
        seen.add(pair)
        rows.append(make_row(*pair, num_digits))
    return rows


def write_rows(path: Path, rows: list[dict]) -> None:
    """One row on each line: a JSON list that can also be read by eye."""
    lines = [f'{{"input": {row["input"]}, "target": {row["target"]}}}' for row in rows]
    write_text(path, "[\n" + ",\n".join(lines) + "\n]\n")


def generate(settings: Settings) -> None:
    sizes = {"train": settings.train_size, "val": settings.val_size, "test": settings.test_size}
    files = {}
    for number, (name, size) in enumerate(sizes.items()):
        files[name] = make_rows(settings.num_digits, size, settings.seed + number)
    with only_one(settings.output_dir, "a script that writes data"):
        for name, rows in files.items():
            write_rows(settings.output_dir / f"{name}.json", rows)
            print(f"{settings.output_dir / name}.json: {len(rows):,} rows")
    in_train = {tuple(row["input"]) for row in files["train"]}
    for name in ("val", "test"):
        shared = sum(tuple(row["input"]) in in_train for row in files[name])
        print(f"{shared:,} of the {len(files[name]):,} pairs in {name}.json also stand in train.json")


if __name__ == "__main__":
    run(lambda: generate(parse(Settings, __doc__)))
