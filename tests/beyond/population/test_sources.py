"""Who hands each carry on: planted sources are found, whatever they are, and nothing else."""

from types import SimpleNamespace

import pytest
import torch

from beyond.population import runs, sources
from beyond.population.sources import CASES, SOURCES
from beyond.program.interchange import with_opposite_carries
from beyond.program.scrub import Batch
from problem1.checkpoint import load_model
from problem1.dataset import random_pairs
from problem1.train import Settings
from tests.problem1 import analysis_models


@pytest.fixture(scope="module")
def committed():
    return load_model(Settings.output_dir / "best_model.pth")[0]


@pytest.fixture(scope="module")
def batch(committed):
    return Batch(committed, random_pairs(3, 6000, seed=3))


@pytest.fixture(scope="module")
def draws(batch):
    return sources.draw(batch)


def test_draws_are_independent_and_many_columns_sum_to_9(draws):
    assert 0.38 < (draws.sums == 9).double().mean() < 0.46
    for case in CASES:
        here = sources.applies(draws, case)
        bits = torch.stack([bit for _, bit in sources.bits(draws, case)]).double()[:, here]
        assert here.sum() > 200 and (torch.corrcoef(bits) - torch.eye(len(bits))).abs().max() < 0.25
        assert (bits.mean(1) - 0.5).abs().max() < 0.3


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_planted_source_is_found_and_no_other(case, draws):
    """Digits written by arithmetic, with the carry of one source, or of one or the other by the toss of a coin."""
    own = draws.sums[:, case.digit, case.digit - 1] if case.digit else 0
    by_name = dict(sources.bits(draws, case))
    assert {*by_name} <= {*SOURCES}
    coin = torch.rand(len(draws.plus), generator=torch.Generator().manual_seed(0)) < 0.5
    for planted, bit in by_name.items():
        for other, alternative in by_name.items():
            carry = torch.where(coin, bit, alternative)
            written = torch.zeros_like(draws.plus)
            written[:, case.digit] = (own + carry) % 10
            found = sources.effects(draws, written, case)
            for name, (effect, half) in found["effects"].items():
                wanted = 1.0 if planted == other == name else 0.5 * (name in (planted, other)) * (planted != other)
                assert effect == pytest.approx(wanted, abs=2 * half + 1e-6), (planted, other, name)
            assert found["no_carry"] == 0


def test_a_digit_that_fits_neither_carry_is_counted_and_left_out(draws):
    case = CASES[0]
    own = draws.sums[:, 2, 1]
    carry = sources.bits(draws, case)[0][1]
    written = torch.zeros_like(draws.plus)
    written[:, 2] = (own + carry + 5 * (torch.arange(len(own)) % 4 == 0)) % 10
    found = sources.effects(draws, written, case)
    assert found["no_carry"] == pytest.approx(0.25, abs=0.03)
    assert found["effects"]["looked up"][0] == pytest.approx(1)


def test_a_model_with_a_source_forced_upon_it(batch, draws):
    """The committed model looks up. Made to see ones that send the carry which the memory of the tens holds, it hands
    on; and '+' does nothing either way."""
    case = CASES[2]
    before = sources.effects(draws, sources.write(batch, batch.memory, draws), case)["effects"]
    assert before["looked up"][0] > 0.9 and abs(before["handed on"][0]) < 0.05
    carrying, silent = ((batch.columns.sum[:, 2] > 9) == value for value in (True, False))
    rows = draws.rows.clone()
    for held, where in ((1, carrying), (0, silent & (batch.columns.sum[:, 2] < 9))):
        needed = (draws.carry_in[:, 1, 1] == held).nonzero().flatten()
        having = where.nonzero().flatten()
        rows[needed, 1, 2] = having[torch.randint(len(having), (len(needed),))]
    forced = SimpleNamespace(**(vars(draws) | {"rows": rows}))
    after = sources.effects(draws, sources.write(batch, batch.memory, forced), case)["effects"]
    assert after["handed on"][0] > 0.9 and abs(after["looked up"][0]) < 0.05
    assert abs(after["plus"][0]) < 0.05


def test_models_that_cannot_add_have_no_source_and_answer_wrong(committed):
    """Controls: an untrained model, and the committed one with the numbers of each matrix shuffled."""
    torch.manual_seed(0)
    shuffled = {
        name: value.flatten()[torch.randperm(value.numel())].view_as(value)
        for name, value in committed.state_dict().items()
    }
    settings = load_model(Settings.output_dir / "best_model.pth")[1]
    broken = runs.build(settings).eval()
    for state in (broken.state_dict(), shuffled):
        broken.load_state_dict(state)
        one = Batch(broken, random_pairs(3, 6000, seed=1))
        assert with_opposite_carries(one, one.memory).double().mean() < 0.01
        drawn = sources.draw(one)
        written = sources.write(one, one.memory, drawn)
        for case in CASES:
            found = sources.effects(drawn, written, case)
            assert case.digit == 0 or case.own_nine or found["no_carry"] > 0.5  # 0, 1 and 9 can fit by chance


def test_least_squares_has_the_coefficients_and_errors_of_a_known_case():
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(2, (4000, 2), generator=generator)
    wanted = 0.25 + 0.5 * values[:, 0] + 0.1 * torch.randn(4000, generator=generator)
    coefficients, covariance = sources.least_squares(values, wanted)
    assert coefficients.tolist() == pytest.approx([0.5, 0], abs=0.02)
    # Two groups of 2,000 whose values deviate by 0.1: their means differ by 0.5, give or take 0.1 √(1/2000 + 1/2000).
    assert covariance.diagonal().sqrt().tolist() == pytest.approx([0.1 * (2 / 2000) ** 0.5] * 2, rel=0.1)


def test_five_digits_have_a_case_for_each_digit_and_depth():
    cases = sources.every_case(5)
    assert len(cases) == 15 and cases[4].depth == 4
    one = Batch(analysis_models.untrained(num_digits=5), random_pairs(5, 3000, seed=1))
    drawn = sources.draw(one)
    for case in cases:
        assert sources.applies(drawn, case).any()
        names = [name for name, _ in sources.bits(drawn, case)]
        assert names.count("handed on") == case.depth and names.count("position") == case.digit
