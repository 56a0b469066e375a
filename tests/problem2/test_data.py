"""The rows are everyone's rows, labels are true, and what is said to keep a label keeps it."""

import hashlib
import json
import random
from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.files import UserError
from problem2 import dataset, generate_data
from problem2.dataset import PAD
from problem2.model import create_model
from problem2.positional_encoding import SCHEMES

DIGESTS = {
    "train": "9b052998bdcf62e8",
    "val": "42fc946c9889770e",
    "test": "6abd4e7426eb488f",
    "extrapolation/test_len_32": "c728f00f5afef7d1",
    "extrapolation/test_len_64": "4211e3b819312334",
    "extrapolation/test_len_128": "5da6f74de845e43d",
    "extrapolation/test_len_256": "1a0c19b1916afdf0",
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    generate_data.generate(generate_data.Settings(generate_extrapolation=True, output_dir=folder))
    return folder


@pytest.mark.parametrize("name", DIGESTS)
def test_rows_are_those_of_the_course(data_dir, name):
    rows = json.loads((data_dir / f"{name}.json").read_text())
    assert hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("length", [16, 32, 64, 128, 256, 512, 1024])
def test_adjacent_negatives_have_one_step_down_and_nothing_else(data_dir, length):
    rows = json.loads((data_dir / "adjacent" / f"test_len_{length}.json").read_text())
    assert len(rows) == 500 and {row["length"] for row in rows} == {length}
    assert 200 < sum(row["is_sorted"] for row in rows) < 300
    for row in rows:
        values = row["sequence"]
        steps_down = [i for i in range(length - 1) if values[i] > values[i + 1]]
        assert len(steps_down) == 1 - row["is_sorted"]
        for i in steps_down:
            values[i], values[i + 1] = values[i + 1], values[i]
        assert values == sorted(values)


sequences = st.lists(st.lists(st.integers(0, 99), min_size=2, max_size=16), min_size=1, max_size=8)


@given(sequences, st.integers(0, 10**6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_relabelling_keeps_every_comparison(lists, seed, nearly_equal):
    if nearly_equal:  # narrow bands and many ties
        lists = [[value % 3 for value in values] for values in lists]
    rows = dataset.to_rows(lists)
    changed = dataset.relabel(rows.sequences, torch.Generator().manual_seed(seed))
    assert torch.equal(changed == PAD, rows.sequences == PAD) and changed.min() >= 0
    for before, after in zip(lists, changed.tolist(), strict=True):
        after = after[: len(before)]
        assert max(after) <= 99
        assert [a < b for a in after for b in after] == [a < b for a in before for b in before]


def test_relabelling_reaches_every_value_and_narrow_bands():
    rows = dataset.to_rows([[0, 1, 2, 3]] * 4000)
    changed = dataset.relabel(rows.sequences, torch.Generator().manual_seed(0))
    assert set(changed.flatten().tolist()) == set(range(100))
    assert ((changed[:, 3] - changed[:, 0]) == 3).any()


@given(sequences)
@settings(max_examples=60, deadline=None)
def test_reflection_is_its_own_inverse_and_keeps_the_label(lists):
    rows = dataset.to_rows(lists)
    turned = dataset.reflect(rows.sequences)
    assert torch.equal(dataset.label(turned), rows.labels)
    assert torch.equal(dataset.reflect(turned), rows.sequences)
    assert turned[0, : len(lists[0])].tolist() == [99 - value for value in reversed(lists[0])]


@given(sequences, st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_replacing_one_keeps_label_and_length_and_all_but_one_value(lists, seed):
    rows = dataset.to_rows(lists)
    changed = dataset.replace_one(rows.sequences, torch.Generator().manual_seed(seed))
    assert torch.equal(dataset.label(changed), rows.labels)
    assert torch.equal(changed == PAD, rows.sequences == PAD)
    for before, after in zip(lists, changed.tolist(), strict=True):
        after = after[: len(before)]
        assert min(before) <= min(after) and max(after) <= max(before)
        assert (Counter(before) - Counter(after)).total() <= 1


def test_replacing_moves_a_single_step_down():
    rows = dataset.to_rows([[0, 10, 20, 31, 30, 40, 50, 60]] * 4000)
    changed = dataset.replace_one(rows.sequences, torch.Generator().manual_seed(0))
    steps = dataset.descents(changed).long()
    assert set(steps.argmax(1).tolist()) == {2, 3, 4} and (steps.sum(1) == 1).all()


@given(sequences)
@settings(max_examples=60, deadline=None)
def test_labels_are_true(lists):
    assert dataset.to_rows(lists).labels.tolist() == [int(values == sorted(values)) for values in lists]


def test_only_the_default_folder_is_filled(tmp_path, monkeypatch, capsys):
    with pytest.raises(UserError, match="correct --data-dir"):
        dataset.load_or_generate(tmp_path / "typo")
    monkeypatch.setattr(dataset, "DEFAULT", tmp_path / "data")
    small = generate_data.Settings(train_size=5, val_size=4, test_size=3, output_dir=tmp_path / "data")
    monkeypatch.setattr(generate_data, "Settings", lambda: small)
    rows = dataset.load_or_generate(tmp_path / "data")
    assert {name: len(part.labels) for name, part in rows.items()} == {"train": 5, "val": 4, "test": 3}
    assert len([*tmp_path.rglob("*.json")]) == 3  # longer test sets are made when they are needed
    assert "generating" in capsys.readouterr().out
    (tmp_path / "data" / "val.json").unlink()
    with pytest.raises(UserError, match=r"val\.json does not exist"):
        dataset.load_or_generate(tmp_path / "data")


@pytest.mark.parametrize(
    "change, words",
    [
        ({"is_sorted": 0}, "must be 1 for this sequence"),
        ({"sequence": [1, 3, 2]}, "must be 0 for this sequence"),
        ({"is_sorted": None}, '"is_sorted" is None'),
        ({"length": 4}, '"length" is 4'),
        ({"sequence": [1, 2, 100]}, "holds 100"),
        ({"sequence": [1, 2, -1]}, "holds -1"),
        ({"sequence": [1, 2, 2.5]}, "whole number"),
        ({"sequence": []}, "at least one"),
        ({"sequence": "122"}, "must be a list"),
    ],
)
def test_a_bad_row_is_named(tmp_path, change, words):
    path, good = tmp_path / "train.json", {"sequence": [1, 2, 2], "is_sorted": 1, "length": 3}
    path.write_text(json.dumps([good, good | change]))
    with pytest.raises(UserError, match=rf"train\.json, row 2: .*{words}"):
        dataset.load(path)


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", '["x"]', '[{"sequence": [1]}]'])
def test_a_bad_file_is_refused(tmp_path, text):
    (tmp_path / "train.json").write_text(text)
    with pytest.raises(UserError, match=r"train\.json"):
        dataset.load(tmp_path / "train.json")


def test_inversions_are_pairs_in_the_wrong_order():
    rows = [[3, 15, 15, 41], [3, 41, 15, 15], [9, 7, 5, 5, 1], [2, 99]]
    assert dataset.inversions(dataset.to_rows(rows).sequences).tolist() == [0, 2, 9, 0]


def test_rows_are_drawn_by_class_alike_and_unsorted_ones_by_how_few_inversions_they_have():
    rows = dataset.to_rows([[1, 2, 3], [2, 1, 3], [3, 4, 1, 2], [5, 5, 6], [4, 5, 6]])
    weights = dataset.drawing_weights(rows)
    torch.testing.assert_close(weights, torch.tensor([1 / 3, 2 / 3, 1 / 3, 1 / 3, 1 / 3]).double())
    assert torch.isfinite(dataset.drawing_weights(rows.part([0, 3]))).all()  # one class alone


@given(sequences, st.integers(1, 5), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_batches_by_length_hold_the_same_rows(lists, batch_size, seed):
    rows = dataset.to_rows(lists)
    ordered, labels = dataset.batches_of_one_length(rows, batch_size, torch.Generator().manual_seed(seed))
    assert sorted(ordered.tolist()) == sorted(rows.sequences.tolist())
    assert torch.equal(labels, dataset.label(ordered))
    full = len(lists) // batch_size
    lengths = (ordered != PAD).sum(1)[: full * batch_size].view(full, batch_size)
    spans = sorted((row.min().item(), row.max().item()) for row in lengths)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))


def some_rows(count: int) -> dataset.Rows:
    """Random values at lengths 2 to 9."""
    source = random.Random(0)
    return dataset.to_rows([[source.randint(0, 99) for _ in range(source.randint(2, 9))] for _ in range(count)])


def test_batches_by_length_come_in_random_order_and_rows_left_over_last():
    rows = some_rows(66)
    orders = [dataset.batches_of_one_length(rows, 4, torch.Generator().manual_seed(seed))[0] for seed in (0, 1)]
    assert all(torch.equal(order[-2:], rows.sequences[-2:]) for order in orders)
    assert len({str((order != PAD).sum(1).tolist()) for order in orders}) == 2


@pytest.mark.parametrize("name", SCHEMES)
def test_padding_that_all_rows_share_changes_no_score(name):
    rows = some_rows(20)
    wider = torch.nn.functional.pad(rows.sequences, (0, 4), value=PAD)
    model = create_model(name, d_model=16, num_heads=2, d_ff=16).eval()
    widths = []
    model.register_forward_pre_hook(lambda module, inputs: widths.append(inputs[0].shape[1]))
    losses, correct = dataset.score(model, dataset.Rows(wider, rows.labels))
    again, same = dataset.score_without_padding(model, dataset.Rows(wider, rows.labels))
    torch.testing.assert_close(again, losses, atol=1e-5, rtol=1e-5)
    assert torch.equal(same, correct) and widths == [13, 9]
