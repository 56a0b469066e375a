"""Draw the addition problems (given): data/train.json, val.json and test.json, the same rows for everyone.

    347 + 159  ->  {"input": [3, 4, 7, 10, 1, 5, 9], "target": [0, 5, 0, 6]}

Most significant digit first; 10 stands for +; the sum is padded with zeros to one digit more than the numbers have.
"""

import argparse
import json
import random
from pathlib import Path

PLUS = 10


def to_digits(number: int, width: int) -> list[int]:
    """506, 4 -> [0, 5, 0, 6]"""
    return [int(digit) for digit in str(number).zfill(width)]


def make_rows(num_digits: int, size: int, seed: int) -> list[dict]:
    """`size` different pairs of numbers of `num_digits` digits, and their sums."""
    low = 10 ** (num_digits - 1)
    high = 10**num_digits - 1
    if size > (high - low + 1) ** 2:
        raise SystemExit(f"there are not {size:,} different pairs of {num_digits}-digit numbers")
    source = random.Random(seed)
    seen = set()
    rows = []
    while len(rows) < size:
        a = source.randint(low, high)
        b = source.randint(low, high)
        if (a, b) in seen:
            continue
        seen.add((a, b))
        problem = [*to_digits(a, num_digits), PLUS, *to_digits(b, num_digits)]
        rows.append({"input": problem, "target": to_digits(a + b, num_digits + 1)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw addition problems")
    parser.add_argument("--num-digits", type=int, default=3)
    parser.add_argument("--seed", type=int, default=641, help="of train.json; the other two take the next two")
    parser.add_argument("--train-size", type=int, default=10_000)
    parser.add_argument("--val-size", type=int, default=2_000)
    parser.add_argument("--test-size", type=int, default=2_000)
    parser.add_argument("--output-dir", type=Path, default=Path(__file__).resolve().parent / "data")
    given = parser.parse_args()
    given.output_dir.mkdir(parents=True, exist_ok=True)
    sizes = {"train": given.train_size, "val": given.val_size, "test": given.test_size}
    for number, (name, size) in enumerate(sizes.items()):
        rows = make_rows(given.num_digits, size, given.seed + number)
        path = given.output_dir / f"{name}.json"
        path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
        print(f"{path}: {len(rows):,} rows")


if __name__ == "__main__":
    main()
