"""Rows of the text task: drawn as promised, disjoint, refused with a sentence when they are not what they claim."""

import json

import pytest
import torch

from beyond.any_length import dataset
from beyond.any_length.dataset import (
    BLANK,
    END,
    MAX_CHARACTERS,
    PAD,
    START,
    chain_pairs,
    decoder_inputs,
    draw_pairs,
    encode,
    generate,
    load,
    load_or_generate,
    random_pairs,
    right_answer,
    score,
    to_input,
)
from lab.files import UserError

SMALL = {"train": 3000, "val": 300, "test": 900}


@pytest.fixture(scope="module")
def parts():
    return draw_pairs(SMALL, seed=5)


def test_sums_beyond_the_limit_of_python():
    assert right_answer(("9" * 12_345, "1")) == "1" + "0" * 12_345


def test_sizes_and_shapes(parts):
    assert draw_pairs(SMALL, seed=5) == parts != draw_pairs(SMALL, seed=6)
    assert {name: len(pairs) for name, pairs in parts.items()} == SMALL
    lengths = {(len(a), len(b)) for a, b in parts["train"]}
    assert lengths == {(a, b) for a in range(1, 14) for b in range(1, 14)}
    counts = [sum(len(a) == digits for a, _ in parts["train"]) for digits in range(1, 14)]
    assert all(180 < count < 285 for count in counts)  # drawn evenly: 231 each
    assert {len(number) for pair in random_pairs(40, 50, seed=1) for number in pair} == {40}
    assert any("0" in pair for pair in parts["train"])
    assert max(len(to_input(pair)) for pairs in parts.values() for pair in pairs) == MAX_CHARACTERS


def test_no_sum_stands_in_two_sets_nor_twice_in_either_order():
    parts = draw_pairs({"train": 30, "val": 10, "test": 15}, seed=1, max_digits=1)  # all 55 that exist
    every = sorted(tuple(sorted(pair)) for pairs in parts.values() for pair in pairs)
    assert every == sorted((str(a), str(b)) for a in range(10) for b in range(a, 10))


def test_operands_stand_one_below_the_other_and_the_answer_units_first():
    grid, targets = encode([("123", "4567"), ("0", "9")])
    assert grid.shape == (2, 6, 2)
    assert grid[0, :, 0].tolist() == [3, 2, 1, BLANK, BLANK, BLANK]
    assert grid[0, :, 1].tolist() == [7, 6, 5, 4, BLANK, BLANK]
    assert grid[1, :, 0].tolist() == [0] + [BLANK] * 5
    assert targets.tolist() == [[0, 9, 6, 4, END, PAD], [9, END, PAD, PAD, PAD, PAD]]
    assert decoder_inputs(torch.tensor([[4, 6, END]])).tolist() == [[START, 4, 6]]


def test_score_takes_the_end_for_part_of_the_answer():
    targets = torch.tensor([[1, END, PAD], [1, 2, END]])
    logits = torch.nn.functional.one_hot(torch.tensor([[1, END, 3], [1, 2, 3]]), 16) * 10.0
    losses, right = score(lambda *_: logits, (None, targets))
    assert right.tolist() == [True, False]
    assert losses[0] < 0.01 < losses[1]


@pytest.mark.parametrize("digits", [1, 2, 13, 125])
def test_full_chains_carry_at_every_digit(digits):
    for a, b in chain_pairs(digits, 20, seed=digits):
        assert len(a) == len(b) == digits and len(right_answer((a, b))) == digits + 1
        carry = 0
        for x, y in zip(a[::-1], b[::-1], strict=True):
            carry = (int(x) + int(y) + carry) // 10
            assert carry == 1


def test_rows_are_generated_once_in_the_default_folder_and_read_back(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dataset, "DEFAULT", tmp_path)
    monkeypatch.setattr(dataset, "generate", lambda folder: generate(folder, {"train": 50, "val": 5, "test": 10}))
    first = load_or_generate(tmp_path)
    assert "generating" in capsys.readouterr().out
    assert load_or_generate(tmp_path) == first
    assert capsys.readouterr().out == ""
    row = json.loads((tmp_path / "test.json").read_text())[0]
    assert to_input(first["test"][0]) == row["input"] and right_answer(first["test"][0]) == row["target"]
    (tmp_path / "val.json").unlink()
    with pytest.raises(UserError, match=r"val\.json does not exist"):
        load_or_generate(tmp_path)
    with pytest.raises(UserError, match=r"typo/train\.json does not exist: correct it, or leave out --data-dir"):
        load_or_generate(tmp_path / "typo")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], ["at least one row"]),
        ([{"input": "1 + 2 = ", "target": "3"}, {"input": "1 + 2 = ", "target": "4"}], ["row 2", "'4'", "sum is 3"]),
        ([{"input": "01 + 2 = ", "target": "3"}], ["row 1", "'01 + 2 = '"]),
        ([{"input": f"{10**14} + {10**14} = ", "target": "3"}], ["row 1", "36 characters"]),
        ([7], ["row 1", "not of the form"]),
    ],
)
def test_wrong_rows_are_refused_by_number(tmp_path, rows, words):
    path = tmp_path / "train.json"
    path.write_text(json.dumps(rows))
    with pytest.raises(UserError) as refusal:
        load(path)
    assert all(word in str(refusal.value) for word in [str(path), *words])


def test_an_overlap_is_refused(tmp_path):
    for name, pair in (("train", ("1", "2")), ("val", ("5", "5")), ("test", ("2", "1"))):
        row = {"input": to_input(pair), "target": right_answer(pair)}
        (tmp_path / f"{name}.json").write_text(json.dumps([row]))
    with pytest.raises(UserError, match=r"2 \+ 1, which train.json holds too"):
        load_or_generate(tmp_path)
