"""The proof: nothing that can occur is left out, and it fails where the model does."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beyond.any_length import proof
from beyond.any_length.dataset import PAD, encode
from beyond.any_length.local_contexts import every_local_context, local_contexts_in
from beyond.any_length.place_value import PlaceValueTransformer
from beyond.any_length.proof import measure_locality


def met(pairs) -> set[tuple[int, ...]]:
    """Every local context in these sums, from the tensors that the model reads."""
    columns, targets = encode(pairs)
    return set(map(tuple, local_contexts_in(columns, targets)[targets != PAD].tolist()))


@pytest.fixture(scope="module")
def untrained():
    torch.manual_seed(0)
    return PlaceValueTransformer(d_model=16, num_heads=2, d_ff=32).eval()


def test_enumeration_equals_brute_force():
    """All sums of numbers of up to five digits 0, 1, 9: what they contain is what was enumerated, no less, no more."""
    numbers = [str(number) for number in range(100_000) if {*str(number)} <= {*"019"}]
    pairs = list(itertools.product(numbers, repeat=2))
    found = set().union(*(met(pairs[start : start + 20_000]) for start in range(0, len(pairs), 20_000)))
    assert found == set(every_local_context((0, 1, 9)))


@given(st.integers(0, 10**40), st.one_of(st.integers(0, 10**6), st.integers(0, 10**40)))
def test_no_sum_holds_a_local_context_that_is_not_enumerated(a, b):
    assert met([(str(a), str(b)), (str(10**30 - 1 - a % 10**30), str(a % 10**30 + 1))]) <= set(every_local_context())


def test_each_local_context_stands_in_the_sum_that_is_to_contain_it():
    expected = list(every_local_context().items())
    assert len(expected) == 254_190
    for context, pair in expected[:50] + expected[50::997]:
        assert tuple(context) in met([pair])
        assert max(map(len, pair)) <= 5 and all(number == str(int(number)) for number in pair)


def test_an_untrained_model_is_not_proven(untrained):
    result = proof.run(untrained, digits=(0, 1, 9), far=50, exp_step=4096)
    assert not result["proven_in_float32"] and not result["rounding"]["float64"]["holds"]
    assert not result["proven"] and result["failures"] > 0 and result["smallest_margin"] < 0
    assert result["covered"] == result["local_contexts"] == 1444
    assert sum(result["margin_histogram"]["counts"]) == result["local_contexts"]


def test_one_wrong_local_context_is_found(monkeypatch):
    """A model that is right in all local contexts but one: the proof finds that one."""
    wrong = list(every_local_context((0, 1, 9)))[777]

    class AllButOne(PlaceValueTransformer):
        def forward(self, columns, written):
            sides = [["".join(str(d) for d in side if d < 10)[::-1] for side in row.T.tolist()] for row in columns]
            right = encode(sides)[1]
            logits = torch.nn.functional.one_hot(right, 16) * 10.0
            here = (local_contexts_in(columns, right) == torch.tensor(wrong)).all(-1)
            return torch.where(here.unsqueeze(-1), -logits, logits)

    monkeypatch.setattr(proof, "measure_locality", lambda model: {"changed_from_outside": 0})
    bounded = {"rounding": {precision: {"holds": True} for precision in ("float64", "float32")}}
    monkeypatch.setattr(proof, "certify", lambda *_: ({}, bounded))
    found = proof.run(AllButOne(16, 2, 32), digits=(0, 1, 9), far=20, exp_step=4096)
    assert found["failures"] == 1 and not found["proven"] and found["steps_in_a_context_not_enumerated"] == 0
    assert found["smallest_margin"] == -10 and found["smallest_margin_at"]["local_context"] == str(wrong)


def test_locality_is_measured_and_a_wider_window_is_caught(untrained, monkeypatch):
    local = measure_locality(untrained, trials=20, digits=12)
    assert local["changed_from_outside"] == 0 and local["changed_from_inside_least"] == 20
    remember = PlaceValueTransformer.remember

    def wider(self, columns):
        keys, values = remember(self, columns)
        return keys + 1e-3 * keys.roll(2, dims=1), values

    monkeypatch.setattr(PlaceValueTransformer, "remember", wider)
    assert measure_locality(untrained, trials=20, digits=12)["changed_from_outside"] > 0
