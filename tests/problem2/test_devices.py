"""Nothing mixes devices: every analysis runs on models of another device, and gives the same numbers."""

import json

import pytest
import torch

from beyond.schemes import strict
from lab.training import evaluate, take
from problem2 import dataset
from problem2.analysis import evaluation
from problem2.analysis.context import Context
from problem2.analyze import analyse as analyse_all
from problem2.analyze import classify
from problem2.positional_encoding import SCHEMES
from tests.fake_device import FakeDevice
from tests.problem2.test_model import make


def make_fast(name, **changes):
    return make(name, num_layers=1, max_len=300, **changes)


def analyse(folder, models, data_dir, device):
    rows = dict.fromkeys(("train", "val", "test"), strict.sample_rows(20, 2, 4, torch.Generator().manual_seed(0)))
    sets = evaluation.test_sets(data_dir, (20,), rows)
    trained = {name: {0: model} for name, model in models.items()}
    analyse_all(Context(trained, sets, (20,), (2, 4), folder, {}, batch_size=64))
    classify(models, [1, 5, 3], device)
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}


def test_analyses_run_where_the_models_are(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation, "load_test_set", lambda *which: dataset.load_test_set(*which).part(slice(20)))
    schemes = {name: make_fast(name) for name in SCHEMES}
    expected = analyse(tmp_path / "cpu", schemes, tmp_path / "data", "cpu")
    with FakeDevice(), torch.no_grad():
        schemes = {name: model.to(FakeDevice.name) for name, model in schemes.items()}
        found = analyse(tmp_path / "device", schemes, tmp_path / "data", FakeDevice.name)
        assert all(p.device.type == "meta" for model in schemes.values() for p in model.parameters())
    assert set(found) == set(expected)
    assert found["extrapolation_results.json"] == expected["extrapolation_results.json"]


@pytest.mark.parametrize("change", [dataset.augment, strict.resample])
def test_training_batches_stay_on_their_device(change):
    rows = strict.sample_rows(16, 8, 16, torch.Generator().manual_seed(0))
    models = {name: make_fast(name) for name in SCHEMES}
    with FakeDevice(), torch.no_grad():
        batch = change(take(rows, slice(None), "meta"), torch.Generator().manual_seed(0))
        assert type(batch) is dataset.Rows
        assert all(tensor.device.type == "meta" for tensor in batch)
        for model in models.values():
            losses, correct = dataset.score(model.to(FakeDevice.name).train(), batch)
            assert losses.device.type == correct.device.type == "meta"
            evaluate(model, rows, dataset.score)
