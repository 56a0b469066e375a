"""The proof: nothing that can occur is left out, and it fails where the model does."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab.files import UserError
from problem1.text.dataset import END, PAD, encode, right_answer, to_text
from problem1.text.local_contexts import KINDS, Situation, every_situation, situations_in
from problem1.text.place_value import LocalDecoderLayer, PlacesTransformer
from problem1.text.proof import cover, margins, measure_locality, prove


def met(pairs) -> set[tuple[int, ...]]:
    """Every situation in these sums, from the tensors that the model reads."""
    columns, targets = encode(pairs, "places", "reversed")
    return set(map(tuple, situations_in(columns, targets)[targets != PAD].tolist()))


@pytest.fixture(scope="module")
def untrained():
    torch.manual_seed(0)
    return PlacesTransformer(d_model=16, num_heads=2, d_ff=32).eval()


def test_enumeration_equals_brute_force():
    """All sums of numbers of up to five digits 0, 1, 9: what they contain is what was enumerated, no less, no more."""
    numbers = ["0"] + [
        "".join(digits)
        for length in range(1, 6)
        for digits in itertools.product("019", repeat=length)
        if digits[0] != "0"
    ]
    pairs = list(itertools.product(numbers, repeat=2))
    found = set().union(*(met(pairs[start : start + 20_000]) for start in range(0, len(pairs), 20_000)))
    assert found == set(every_situation((0, 1, 9)))


@given(st.integers(0, 10**40), st.one_of(st.integers(0, 10**6), st.integers(0, 10**40)))
def test_no_sum_holds_a_situation_that_is_not_enumerated(a, b):
    assert met([(to_text(a), to_text(b)), (to_text(10**30 - 1 - a % 10**30), to_text(a % 10**30 + 1))]) <= set(
        every_situation()
    )


def test_each_situation_stands_in_the_sum_that_is_to_contain_it():
    expected = list(every_situation().items())
    for situation, pair in expected[:50] + expected[50::997]:
        assert tuple(situation) in met([pair])
        assert max(map(len, pair)) <= 5


def test_kinds():
    kinds = [situation.kind for situation in every_situation((0, 1, 9))]
    assert set(kinds) == set(KINDS)
    assert kinds.count("first place") == 9
    assert len(every_situation()) == 254_190
    assert "nothing" in str(Situation(1, 2, PAD, PAD, 13, PAD))


def test_margins():
    logits = torch.tensor([[[1.0, 5.0, 3.0], [4.0, 0.0, 1.0]]])
    assert margins(logits, torch.tensor([[1, 2]])).tolist() == [[2.0, -3.0]]


def test_an_untrained_model_is_not_proven(untrained):
    result = prove(untrained, digits=(0, 1, 9), far=50)
    assert not result["proven"] and result["failures"] > 0 and result["smallest_margin"] < 0
    assert result["covered"] == result["situations"] == 1444
    assert sum(kind["failures"] for kind in result["by_kind"].values()) == result["failures"]
    assert sum(map(sum, result["margin_histogram"]["counts"].values())) == result["situations"]


def test_one_wrong_situation_is_found(untrained):
    """A model that is right but in a single situation: the proof finds that one."""
    wrong = list(every_situation((0, 1, 9)))[777]

    class AllButOne(PlacesTransformer):
        def forward(self, columns, written, hooks=None):
            right = columns.new_full((len(columns), columns.shape[1]), PAD)
            for row, (a, b) in enumerate(zip(*columns.unbind(2), strict=True)):
                pair = ["".join(str(d) for d in side.tolist() if d < 10)[::-1] for side in (a, b)]
                text = right_answer(tuple(pair))[::-1]
                right[row, : len(text)] = torch.tensor([int(digit) for digit in text])
                right[row, len(text)] = END
            logits = torch.nn.functional.one_hot(right, 16) * 10.0
            here = (situations_in(columns, right) == torch.tensor(wrong)).all(-1)
            return torch.where(here.unsqueeze(-1), -logits, logits)

    lowest, strangers, _, movement = cover(AllButOne(16, 2, 1, 32), every_situation((0, 1, 9)))
    assert strangers == 0 and movement == 0
    assert [situation for situation, margin in zip(every_situation((0, 1, 9)), lowest, strict=True) if margin <= 0] == [
        wrong
    ]


def test_locality_is_measured_and_a_wider_window_is_caught(untrained, monkeypatch):
    local = measure_locality(untrained, trials=20, digits=12)
    assert local["changed_from_outside"] == 0 and local["changed_from_inside_least"] == 20
    look_at = LocalDecoderLayer.look_at

    def look_further(self, memory):
        keys, values = look_at(self, memory)
        return keys + 1e-3 * keys.roll(2, dims=2), values

    monkeypatch.setattr(LocalDecoderLayer, "look_at", look_further)
    assert measure_locality(untrained, trials=20, digits=12)["changed_from_outside"] > 0


def test_more_layers_are_refused():
    with pytest.raises(UserError, match="2 decoder layers"):
        prove(PlacesTransformer(16, 2, 2, 32))
