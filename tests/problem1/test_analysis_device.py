"""Every analysis with the model on another device than the rows: the same numbers, and no tensors mixed."""

import copy

import pytest
import torch

from problem1.analysis import (
    ablation,
    attention_maps,
    attention_statistics,
    examples,
    exhaustive,
    patching,
    probes,
    program,
    pruning,
)
from problem1.analysis.carry_pairs import make_group
from problem1.analysis.context import Context
from tests.fake_device import FakeDevice
from tests.problem1 import analysis_models


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for module, name, value in (
        (pruning, "STEPS", 3),
        (pruning, "FRESH", 100),
        (pruning, "DRAWS", 2),
        (probes, "FITTED_ON", 200),
        (program, "BATCH", 300),
        (program, "FITTED_ON", 300),
    ):
        monkeypatch.setattr(module, name, value)
    # The fused optimizer knows the names of real devices only.
    monkeypatch.setattr(pruning, "make_optimizer", lambda model, _: torch.optim.SGD(model.parameters(), foreach=False))


def single_ablations(context: Context) -> dict:
    lost = ablation.about_heads(context)
    curves = pruning.measure(context, lost)["curves"]["zero"]["greedy"]
    return {"lost": lost, "layers": ablation.about_layers(context), "curves": curves}


ANALYSES = {
    "exhaustive": lambda context: exhaustive.verify(context.model, context.rows["train"]),
    "examples": lambda context: examples.examine(context.model, *examples.select(context, 4)),
    "patterns": attention_maps.mean_patterns,
    "statistics": attention_statistics.measure,
    "ablation and pruning": single_ablations,
    "removal": lambda context: pruning.remove_and_fine_tune(context, context.heads[:1]),
    "patching": lambda context: patching.measure(context, make_group(2, target=1, nines=0, count=120)),
    "probes": probes.run,
    "program": lambda context: program.measure(context.model, sums=300, num_digits=2),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_gives_the_same_numbers_on_another_device(name, tmp_path):
    model, rows = copy.deepcopy(analysis_models.adder()), analysis_models.rows(60)
    expected = ANALYSES[name](Context(model, rows, tmp_path, 40, analysis_models.SETTINGS))
    with FakeDevice():
        there = copy.deepcopy(model).to(FakeDevice.name)
        found = ANALYSES[name](Context(there, rows, tmp_path, 40, analysis_models.SETTINGS))
    same(found, expected)


def test_the_other_device_refuses_float64():
    with FakeDevice(), pytest.raises(TypeError, match="float64"):
        torch.zeros(2).to(FakeDevice.name).double()


def same(found, expected) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-3)
    else:
        assert found == expected
