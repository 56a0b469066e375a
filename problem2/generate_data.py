"""Draw the sorted-or-not problems: data/train.json, val.json and test.json, the same rows as everyone has.

    {"sequence": [3, 15, 27, 41, 41, 58, 76, 90], "is_sorted": 1, "length": 8}
    {"sequence": [3, 58, 27, 41, 41, 15, 76, 90], "is_sorted": 0, "length": 8}

Half of the rows are sorted (equal neighbours allowed); in the others max(2, L // 3) random pairs of positions were
swapped. With --generate-extrapolation longer test sets are made too: extrapolation/test_len_L.json, of the same
kind, and adjacent/test_len_L.json, where an unsorted row differs from a sorted one by a single swap of two
neighbours, the mildest disorder there is.
"""

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

from lab.files import UserError, only_one, write_text
from lab.settings import LARGEST_SEED, parse, run, setting

HERE = Path(__file__).resolve().parent
LARGEST = 99  # values are 0 … 99
TEST_ROWS = 500  # rows of each test set of one length
COURSE_LENGTHS = (32, 64, 128, 256)
# Of the longer test sets, by their folder: the lengths that --generate-extrapolation makes; and what is added to the
# seed, beside the length, so that each file has a seed of its own.
LENGTHS = {"extrapolation": (*COURSE_LENGTHS, 512, 1024), "adjacent": (16, *COURSE_LENGTHS, 512, 1024)}
SEED_OFFSETS = {"extrapolation": 1000, "adjacent": 2000}


@dataclass(frozen=True)
class Settings:
    seed: int = setting(
        641, "seed of train.json; val.json and test.json take the next two", minimum=0, maximum=LARGEST_SEED
    )
    train_size: int = setting(10_000, "rows of train.json", minimum=1, maximum=10_000_000)
    val_size: int = setting(2_000, "rows of val.json", minimum=1, maximum=10_000_000)
    test_size: int = setting(2_000, "rows of test.json", minimum=1, maximum=10_000_000)
    min_train_len: int = setting(8, "shortest sequence of the three files", minimum=2, maximum=100_000)
    max_train_len: int = setting(16, "longest sequence of the three files", minimum=2, maximum=100_000)
    generate_extrapolation: bool = setting(False, "make the longer test sets as well")
    output_dir: Path = setting(HERE / "data", "folder for the files", metavar="DIR")


def shuffle_some(values: list[int], source: random.Random) -> None:
    """The course's negatives: max(2, L // 3) swaps of any two positions, in place."""
    for _ in range(max(2, len(values) // 3)):
        i, j = source.sample(range(len(values)), 2)
        values[i], values[j] = values[j], values[i]
    if is_sorted(values):
        values[0], values[-1] = values[-1], values[0]


def swap_neighbours(values: list[int], source: random.Random) -> None:
    """The mildest negatives: one swap of two neighbours that differ, in place."""
    steps = [i for i in range(len(values) - 1) if values[i] != values[i + 1]]
    if steps:  # a row of equal values cannot be put out of order
        i = source.choice(steps)
        values[i], values[i + 1] = values[i + 1], values[i]


def is_sorted(values: list[int]) -> bool:
    return values == sorted(values)


def make_rows(shortest: int, longest: int, size: int, seed: int, disorder=shuffle_some) -> list[dict]:
    """`size` rows; with `shuffle_some` exactly those of the course's own generator."""
    source = random.Random(seed)
    rows = []
    for _ in range(size):
        length = source.randint(shortest, longest)
        stays_sorted = source.random() < 0.5
        values = sorted(source.randint(0, LARGEST) for _ in range(length))
        if not stays_sorted:
            disorder(values, source)
        rows.append({"sequence": values, "is_sorted": int(is_sorted(values)), "length": length})
    return rows


def test_set(kind: str, length: int, seed: int = 641, size: int = TEST_ROWS) -> list[dict]:
    """The rows of kind/test_len_{length}.json; kind is "extrapolation" or "adjacent"."""
    disorder = swap_neighbours if kind == "adjacent" else shuffle_some
    return make_rows(length, length, size, seed + SEED_OFFSETS[kind] + length, disorder)


def write_rows(path: Path, rows: list[dict]) -> None:
    """One row on each line: a JSON list that can also be read by eye."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    write_text(path, f"[\n{lines}\n]\n")
    count_sorted = sum(row["is_sorted"] for row in rows)
    print(f"{path}: {len(rows):,} rows, {count_sorted:,} of them sorted")


def generate(settings: Settings) -> None:
    if settings.min_train_len > settings.max_train_len:
        raise UserError(
            f"--min-train-len {settings.min_train_len} is above --max-train-len {settings.max_train_len}: swap them."
        )
    sizes = {"train": settings.train_size, "val": settings.val_size, "test": settings.test_size}
    with only_one(settings.output_dir, "a script that writes data"):
        for number, (name, size) in enumerate(sizes.items()):
            rows = make_rows(settings.min_train_len, settings.max_train_len, size, settings.seed + number)
            write_rows(settings.output_dir / f"{name}.json", rows)
        if settings.generate_extrapolation:
            for kind, lengths in LENGTHS.items():
                for length in lengths:
                    path = settings.output_dir / kind / f"test_len_{length}.json"
                    write_rows(path, test_set(kind, length, settings.seed))


if __name__ == "__main__":
    run(lambda: generate(parse(Settings, __doc__)))
