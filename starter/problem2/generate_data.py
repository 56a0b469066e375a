"""Draw the sorted-or-not problems (given): data/train.json, val.json, test.json, the same rows for everyone.

    {"sequence": [3, 15, 27, 41, 41, 58, 76, 90], "is_sorted": 1, "length": 8}
    {"sequence": [3, 58, 27, 41, 41, 15, 76, 90], "is_sorted": 0, "length": 8}

Half of the rows are sorted (equal neighbours allowed); in the others a few pairs of positions were swapped.
With --generate-extrapolation also data/extrapolation/test_len_L.json, for L = 32, 64, 128 and 256.
"""

import argparse
import json
import random
from pathlib import Path

LONGER = (32, 64, 128, 256)


def make_rows(shortest: int, longest: int, size: int, seed: int) -> list[dict]:
    source = random.Random(seed)
    rows = []
    for _ in range(size):
        length = source.randint(shortest, longest)
        stays_sorted = source.random() < 0.5
        values = sorted(source.randint(0, 99) for _ in range(length))
        if not stays_sorted:
            for _ in range(max(2, length // 3)):
                i, j = source.sample(range(length), 2)
                values[i], values[j] = values[j], values[i]
            if values == sorted(values):  # the swaps have undone each other
                values[0], values[-1] = values[-1], values[0]
        rows.append({"sequence": values, "is_sorted": int(values == sorted(values)), "length": length})
    return rows


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    print(f"{path}: {len(rows):,} rows, {sum(row['is_sorted'] for row in rows):,} of them sorted")


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw sorted-or-not problems")
    parser.add_argument("--seed", type=int, default=641, help="of train.json; the other two take the next two")
    parser.add_argument("--train-size", type=int, default=10_000)
    parser.add_argument("--val-size", type=int, default=2_000)
    parser.add_argument("--test-size", type=int, default=2_000)
    parser.add_argument("--min-train-len", type=int, default=8)
    parser.add_argument("--max-train-len", type=int, default=16)
    parser.add_argument("--generate-extrapolation", action="store_true", help="the longer test sets, too")
    parser.add_argument("--output-dir", type=Path, default=Path(__file__).resolve().parent / "data")
    given = parser.parse_args()
    sizes = {"train": given.train_size, "val": given.val_size, "test": given.test_size}
    for number, (name, size) in enumerate(sizes.items()):
        rows = make_rows(given.min_train_len, given.max_train_len, size, given.seed + number)
        write(given.output_dir / f"{name}.json", rows)
    for length in LONGER if given.generate_extrapolation else ():
        rows = make_rows(length, length, 500, given.seed + 1000 + length)
        write(given.output_dir / "extrapolation" / f"test_len_{length}.json", rows)


if __name__ == "__main__":
    main()
