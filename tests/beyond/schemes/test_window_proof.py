"""The proof of the window model: it holds for a model that compares neighbours, and finds what another misses."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beyond.schemes import window_proof as proof
from tests.beyond.schemes.test_strict import make


class Comparer(torch.nn.Module):
    """A window model by hand: every position compares itself with its neighbours, and is right."""

    def __init__(self, blind_to: tuple[int, int] | None = None):
        super().__init__()
        self.scheme = make("window", "max").scheme
        self.blind_to = blind_to

    def votes(self, x, mask=None):
        down = torch.zeros(x.shape, dtype=torch.bool)
        steps = x[:, :-1] > x[:, 1:]
        if self.blind_to:
            steps &= (x[:, :-1] != self.blind_to[0]) | (x[:, 1:] != self.blind_to[1])
        down[:, :-1] |= steps
        down[:, 1:] |= steps
        vote = down.float() * 4 - 2
        return torch.stack([vote, -vote], -1), torch.ones_like(down)


def test_proof_holds_for_a_model_that_compares_and_finds_the_one_pair_another_does_not_see():
    report = proof.check(*proof.every_vote(Comparer()))
    assert report["holds"] and report["contexts"] == 1_020_000 and report["steps_down"] == 4950
    assert report["step_down_margin"] == 4 and report["ordered_margin"] == 4
    report = proof.check(*proof.every_vote(Comparer(blind_to=(57, 56))))
    assert not report["holds"] and report["missed_steps_down"] == 1 and report["false_alarms"] == 0
    assert (57, 56) in pairwise(report["quietest_unsorted"])


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_proof_finds_the_unsorted_sequence_whose_strongest_vote_is_weakest(seed):
    generator = torch.Generator().manual_seed(seed)
    middle, first, last = (torch.randn([3] * axes, generator=generator) for axes in (3, 2, 2))

    def strongest(sequence):
        ends = [first[sequence[:2]], last[sequence[-2:]]]
        return max(ends + [middle[triple] for triple in zip(sequence, sequence[1:], sequence[2:], strict=False)])

    votes, found = proof.quietest_unsorted(middle, first, last)
    claimed = min(votes[a, b] for a, b in ((1, 0), (2, 0), (2, 1)))
    assert found != sorted(found) and strongest(tuple(found)) == claimed
    others = (sequence for length in range(2, 7) for sequence in product(range(3), repeat=length))
    assert all(strongest(sequence) >= claimed for sequence in others if sequence != tuple(sorted(sequence)))


@pytest.mark.parametrize("causal", [False, True])
def test_the_bound_is_for_the_model_that_is_given_and_compared_with_what_it_computes(causal, monkeypatch):
    monkeypatch.setattr(proof, "COUNT", 12)  # values, so that it takes no time
    monkeypatch.setattr(proof, "VALUES", torch.arange(12))
    conditions = {"ordered_margin": 100.0, "step_down_margin": 100.0}  # as if both held
    monkeypatch.setattr(proof, "check", lambda *_: conditions)
    model = make("window", "max", causal, num_layers=1)
    computed = proof.every_vote(model)
    report = proof.check_rounding(model, computed)
    assert 0 < report["float32_distance_measured"] < report["float32"]["largest_radius"]
    assert report["float32"]["holds"] and report["float64"]["holds"]
    report = proof.check_rounding(model, [votes + 1 for votes in computed])
    assert not report["float32"]["holds"] and not report["float64"]["holds"]


def test_proof_is_only_for_models_whose_local_contexts_can_be_tried():
    untrained = proof.prove(make("window", "max", num_layers=1))
    assert not untrained["holds"] and "not right" in proof.in_words(untrained)
    assert proof.prove(make("window", "max", num_layers=2)) is None
    assert proof.prove(make("window", "mean", num_layers=1)) is None
    assert proof.prove(make("rope", "max", num_layers=1)) is None
