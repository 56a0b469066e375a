"""The handed-out recipe is what its description says, and each mend changes one part of it."""

import math

import pytest
import torch

from beyond.published import handout
from beyond.schemes.strict import sample_rows
from problem2.dataset import PAD


def classifier(encoding="learned", **change):
    torch.manual_seed(0)
    return handout.Classifier(encoding, **change).eval()


def test_every_matrix_is_drawn_by_xavier_the_position_table_too():
    model = classifier()
    assert model.positions.table.shape == (300, 128)
    for name, matrix in model.named_parameters():
        if matrix.dim() > 1:
            assert matrix.std().item() == pytest.approx(math.sqrt(2 / sum(matrix.shape)), rel=0.05), name
    ratio = handout.code_size(model) / (model.embedding.weight.std().item() * math.sqrt(128))
    assert 1 / 20 < ratio < 1 / 12  # "a fifteenth"


def test_a_large_table_is_as_large_as_sinusoidal_codes_and_changes_nothing_else():
    small, large = classifier().state_dict(), classifier(large_table=True).state_dict()
    assert [name for name in small if not torch.equal(small[name], large[name])] == ["positions.table"]
    assert large["positions.table"].std().item() == pytest.approx(handout.code_size(classifier("sinusoidal")), rel=1e-4)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_layers_normalise_last_or_first(pre_norm):
    layer = classifier(pre_norm=pre_norm).layers[0]
    with torch.no_grad():
        means = layer(torch.randn(2, 9, 128) + 3, torch.ones(2, 1, 1, 9)).mean(-1)
    assert torch.allclose(means, torch.zeros(2, 9), atol=1e-5) != pre_norm


def test_padding_changes_no_answer():
    model = classifier()
    row = torch.tensor([[3, 15, 41, 27]])
    padded = torch.cat([row, torch.full((1, 3), PAD)], 1)
    with torch.no_grad():
        assert torch.allclose(model(row), model(padded), atol=1e-5)


def rows(count=64):
    generator = torch.Generator().manual_seed(0)
    return {name: sample_rows(count, 8, 10, generator) for name in ("train", "val", "test")}


@pytest.mark.parametrize("mend", handout.MENDS)
def test_a_run_with_each_mend(mend, tmp_path):
    found = handout.train_handout("learned", mend, 1, 1, tmp_path, rows())
    assert len(found["val_acc"]) == 1 and 0 <= found["test_acc"] <= 1
    again = handout.train_handout("learned", mend, 1, 1, tmp_path, rows())
    assert again == found


def test_rate_and_warm_up_reach_the_optimizer(tmp_path, monkeypatch):
    rates = []

    class Adam(torch.optim.Adam):
        def step(self):
            rates.append(self.param_groups[0]["lr"])
            super().step()

    monkeypatch.setattr(torch.optim, "Adam", Adam)
    for mend in ("as handed out", "rate of 2e-4", "warm-up"):
        handout.train_handout("learned", mend, 1, 1, tmp_path, rows())
    assert rates == pytest.approx([1e-3, 2e-4, 1e-3 / handout.WARM_UP])  # one step each


def test_a_run_ends_when_it_has_shown_that_it_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(handout, "ENOUGH", 0.0)
    assert len(handout.train_handout("learned", "as handed out", 1, 3, tmp_path, rows())["val_acc"]) == 1
