"""Hard sums: what they are made of, and that training rows alone hold them."""

import random

import pytest
import torch

from beyond.population.hard_sums import HARD, hard_pairs, make_hard, make_hard_rows
from problem1.dataset import carries, encode
from tests.problem1.test_data import check_row


def test_a_share_of_the_rows_is_hard():
    rows = make_hard_rows(8, 1000, seed=1, hard_share=0.5)
    nines = [sum(a + b == 9 for a, b in zip(row["input"][:8], row["input"][9:], strict=True)) for row in rows]
    assert 150 < sum(count >= 5 for count in nines) < 300
    for row in rows:
        check_row(row["input"], row["target"], 8)
    assert len({tuple(row["input"]) for row in rows}) == 1000


@pytest.mark.parametrize("num_digits", [1, 2, 9])
def test_hard_rows_have_columns_of_9_or_repeated_ones_and_keep_their_length(num_digits):
    source, low, high = random.Random(0), 10 ** (num_digits - 1), 10**num_digits - 1
    made = []
    for _ in range(300):
        a, b = source.randint(low, high), source.randint(low, high)
        hard = make_hard(a, b, source)
        assert low <= min(hard) and max(hard) <= high
        old, new = ([*zip(str(first), str(second), strict=True)] for first, second in ((a, b), hard))
        changed = [y for x, y in zip(old, new, strict=True) if x != y]
        assert len(set(changed)) <= 1 or all(int(x) + int(y) == 9 for x, y in changed)
        made.append(len(changed))
    assert min(made) == 0 and max(made) == num_digits


@pytest.mark.parametrize("num_digits", [1, 4, 20])
def test_hard_pairs_are_sums_with_equally_many_of_each_kind(num_digits):
    sums, kind = hard_pairs(num_digits, 7000, seed=1)
    a, b = sums.operands()
    assert torch.equal(encode(a, b).targets, sums.targets) and min(a[:, 0].min(), b[:, 0].min()) > 0
    assert kind.bincount(minlength=len(HARD)).tolist() == [1000] * len(HARD)
    assert torch.equal(hard_pairs(num_digits, 7000, seed=1)[0].sources, sums.sources)


def test_runs_of_hard_pairs_have_every_length_and_place_with_and_without_a_carry():
    sums, kind = hard_pairs(6, 21_000, seed=1)
    a, b = sums.operands()
    column = {
        "column sums of 9": a + b == 9,
        "carries": carries(sums),
        "9s over 0s": ((a == 9) & (b == 0)) | ((a == 0) & (b == 9)),
        "0s in one operand": (a == 0) | (b == 0),
        "0s in both operands": (a == 0) & (b == 0),
        "scattered sums of 9": a + b == 9,
    }
    carry = torch.cat([carries(sums), torch.zeros(len(sums), 1, dtype=torch.bool)], 1)
    for name, holds in column.items():
        first = 0 if "9s" not in name and "0s" not in name else 1  # no operand begins with 0
        for start in range(first, 6):
            for end in range(start + 1, 7):
                run = holds[:, start:end].all(1) & (kind == HARD.index(name))
                if name != "carries":
                    assert end == 6 or (run & carry[:, end]).any(), (name, start, end)
                    assert (run & ~carry[:, end]).any(), (name, start, end)
                assert run.any(), (name, start, end)
    same = ((a[:, 2] == a[:, 3]) & (b[:, 2] == b[:, 3])).double()
    assert same[kind == HARD.index("one column repeated")].mean() > 0.25 > 0.15 > same[kind == 0].mean()
