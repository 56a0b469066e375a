"""The rows are the course's rows, other sizes work, and what is wrong in a file is found and named."""

import hashlib
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab.files import UserError
from problem1.analysis.rows import sums_of
from problem1.dataset import (
    Sums,
    carries,
    every_pair,
    load,
    longest_chain,
    random_pairs,
    sampling_weights,
    seen_in,
    swap_columns,
)
from problem1.generate_data import make_rows


def check_row(source: list[int], target: list[int], num_digits: int) -> None:
    """Two operands of so many digits, none of which begins with 0, and their sum."""
    a, b = source[:num_digits], source[num_digits + 1 :]
    assert source[num_digits] == 10 and len(a) == len(b) == num_digits and a[0] > 0 and b[0] > 0
    numbers = [int("".join(map(str, tokens))) for tokens in (a, b, target)]
    assert numbers[0] + numbers[1] == numbers[2] and len(target) == num_digits + 1


def digest(rows) -> str:
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()[:16]


def test_default_files_have_the_contract_digests(script, tmp_path):
    result = script("problem1/generate_data.py", "--output-dir", "data")
    assert result.returncode == 0, result.stderr
    found = {
        name: digest(json.loads((tmp_path / f"data/{name}.json").read_text())) for name in ("train", "val", "test")
    }
    assert found == {"train": "25d38dcf7bba9b2a", "val": "c3bfe9078e880005", "test": "b80bf64532333431"}
    assert "25 of the 2,000 pairs in test.json also stand in train.json" in result.stdout


@pytest.mark.parametrize(("num_digits", "count"), [(1, 81), (2, 40), (12, 40), (30, 40)])
def test_other_numbers_of_digits(num_digits, count):
    """All 81 pairs of one digit, too."""
    rows = make_rows(num_digits, count, seed=3)
    for row in rows:
        check_row(row["input"], row["target"], num_digits)
    assert len({tuple(row["input"]) for row in rows}) == count


def test_generator_refuses_what_cannot_be(refused, tmp_path):
    refused("problem1/generate_data.py", "--num-digits", 1, "--output-dir", "data", words=["10,000", "only 81"])
    assert not (tmp_path / "data/train.json").exists()


@given(st.lists(st.tuples(st.integers(100, 999), st.integers(100, 999)), min_size=1, max_size=20))
def test_tensors_hold_the_same_sums_as_python(pairs):
    sums = sums_of(pairs, 3)
    for row, (a, b) in enumerate(pairs):
        assert sums.sources[row].tolist() == [*map(int, str(a)), 10, *map(int, str(b))]
        assert sums.targets[row].tolist() == [*map(int, str(a + b).zfill(4))]


@pytest.mark.parametrize("num_digits", [1, 3, 17, 40])
def test_random_pairs_of_any_number_of_digits(num_digits):
    sums = random_pairs(num_digits, 300, seed=1)
    for source, target in zip(sums.sources.tolist(), sums.targets.tolist(), strict=True):
        check_row(source, target, num_digits)
    assert torch.equal(sums.sources, random_pairs(num_digits, 300, seed=1).sources)
    assert sums.sources[:, 0].unique().tolist() == list(range(1, 10))


def test_every_pair_is_there_once():
    sums = every_pair(2)
    assert len(sums) == 8100 and len(sums.sources.unique(dim=0)) == 8100


def test_carries_and_chains_of_worked_examples():
    pairs = [(347, 159), (445, 555), (999, 101), (123, 456), (905, 905)]
    sums = sums_of(pairs, 3)
    expected = [[0, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 0, 1]]
    assert carries(sums).int().tolist() == expected
    assert longest_chain(carries(sums)).tolist() == [2, 3, 3, 0, 1]


def test_swapping_columns_keeps_every_sum_and_makes_every_arrangement():
    sums = every_pair(2)
    sources, targets = swap_columns((sums.sources, sums.targets), torch.Generator().manual_seed(0))
    a, b = Sums(sources, targets).operands()
    assert torch.equal(((a + b) * torch.tensor([10, 1])).sum(1), (targets * torch.tensor([100, 10, 1])).sum(1))
    assert torch.equal((a + b), sum(sums.operands()))  # column by column
    one = sums_of([(347, 159)] * 400, 3)
    made = swap_columns((one.sources, one.targets), torch.Generator().manual_seed(0))[0]
    assert len(made.unique(dim=0)) == 8


def test_pairs_that_training_can_have_shown():
    trained = sums_of([(12, 34), (30, 40)], 2)
    pairs = sums_of([(12, 34), (34, 12), (14, 32), (40, 30), (12, 35), (13, 24)], 2)
    assert seen_in(pairs, trained).tolist() == [True, True, True, True, False, False]


def test_rows_with_columns_of_9_or_10_weigh_more():
    sums = sums_of([(123, 456), (145, 455), (123, 786), (550, 459)], 3)  # columns 5 7 9; 5 9 10; 8 10 9; 9 10 9
    assert sampling_weights(sums, 4.0).tolist() == [5.0, 25.0, 25.0, 125.0]
    assert sampling_weights(sums, 0.0).tolist() == [1.0] * 4


GOOD = {"input": [3, 4, 7, 10, 1, 5, 9], "target": [0, 5, 0, 6]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[{", "not valid JSON"),
        ('{"input": []}', "list of at least one row"),
        (json.dumps([GOOD, {"input": GOOD["input"]}]), "row 2"),
        (json.dumps([GOOD, "347+159"]), "row 2"),
        (json.dumps([{**GOOD, "input": [3, 4, 12, 10, 1, 5, 9]}]), "holds 12"),
        (json.dumps([{**GOOD, "input": [3, 4, -7, 10, 1, 5, 9]}]), "holds -7"),
        (json.dumps([{**GOOD, "input": [3, 4, True, 10, 1, 5, 9]}]), "whole numbers"),
        (json.dumps([{**GOOD, "target": [0, 5, 0, 7]}]), r"347 \+ 159 is \[0, 5, 0, 6\]"),
        (json.dumps([{**GOOD, "target": [5, 0, 6]}]), r"347 \+ 159 is \[0, 5, 0, 6\]"),
        (json.dumps([{**GOOD, "input": [3, 4, 10, 1, 5, 9]}]), "same number of digits"),
        (json.dumps([{**GOOD, "input": [10]}]), "one 10"),
        (json.dumps([GOOD, {"input": [1, 10, 2], "target": [0, 3]}]), "3 tokens where the rows before have 7"),
        (json.dumps([{"input": [9] * 5000 + [10] + [9] * 5000, "target": [1] * 5001}]), "5,000 digits, more than 100"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_malformed_rows_are_named(tmp_path, content, words):
    (tmp_path / "train.json").write_text(content)
    with pytest.raises(UserError, match=words) as refusal:
        load(tmp_path, "train")
    assert str(tmp_path / "train.json") in str(refusal.value) and "generate_data.py" in str(refusal.value)
