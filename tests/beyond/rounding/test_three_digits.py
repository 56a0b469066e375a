"""The bound for three digits: float64 evaluations lie inside; a model that is wrong or not bounded is said to be."""

import copy

import pytest
import torch

from beyond.rounding import analyze as rounding
from beyond.rounding.bounds import UNITS, NotBounded, Rounding
from problem1.checkpoint import load_model
from problem1.dataset import decoder_inputs, every_pair
from problem1.model import Seq2SeqTransformer
from tests.beyond.any_length.test_rounding import in_another_order
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def model():
    return load_model(ROOT / "problem1/results/best_model.pth")[0].double()


@pytest.fixture(scope="module")
def few():
    return every_pair(3)[::9_001]


@torch.no_grad()
def test_every_float64_evaluation_lies_inside(model, few):
    """torch all at once, one row at a time, and with the hidden units in another order."""
    rules = Rounding(UNITS["float64"])
    x = rounding._hidden(model, few.sources, decoder_inputs(few.targets), rules)
    above, radius = rules.differences(x, model.output, few.targets.flatten())
    inputs = decoder_inputs(few.targets)
    together = model(few.sources, inputs)
    alone = torch.cat([model(few.sources[i : i + 1], inputs[i : i + 1]) for i in range(len(few))])
    other = in_another_order(model, 0)(few.sources, inputs)
    for logits in (together, alone, other):
        logits = logits.flatten(0, 1)
        differences = logits.gather(1, few.targets.flatten().unsqueeze(1)) - logits
        wrong = above.isfinite()
        assert ((differences - above).abs()[wrong] <= radius[wrong]).all()
    assert (differences - above).abs()[wrong].max() > 0


def test_the_model_is_right_on_other_machines(model, few, monkeypatch):
    monkeypatch.setattr(rounding, "every_pair", lambda digits: few)
    found = rounding.verify(copy.deepcopy(model).float(), 3)
    assert found["holds"] and found["pairs"] == len(few) and found["largest_radius"] < 0.1
    assert found["smallest_reserve"] > 0 and len(found["float32_distance"]) == 8
    assert max(found["float32_distance"].values()) < 1e-3
    assert "every float64 evaluation" in rounding.findings(found)

    def refuse(*arguments):
        raise NotBounded("a radius of 1e+40")

    monkeypatch.setattr(rounding, "bound", refuse)
    found = rounding.verify(model, 3)
    assert not found["holds"] and "a radius of 1e+40" in rounding.findings(found)


def test_an_untrained_model_is_not_said_to_be_right(few, monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(rounding, "every_pair", lambda digits: few)
    found = rounding.verify(Seq2SeqTransformer(13, 16, 2, 1, 1, 32).eval(), 3)
    assert not found["holds"] and "not shown" in rounding.findings(found)
