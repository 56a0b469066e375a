"""The handed-out recipe is what its description says, and each mend changes one part of it."""

import math
from dataclasses import replace

import pytest
import torch

from beyond.published import handout
from beyond.schemes.strict import sample_rows
from grading.grade import grade
from problem2.dataset import PAD
from tests.grading.submissions import EPOCHS, EXPECTED, PROBLEM2, change, checkpoint, valid
from tests.grading.with_issues import LEARNED


def classifier(version="first", encoding="learned", **change):
    torch.manual_seed(0)
    return handout.Classifier(encoding, replace(handout.VERSIONS[version], **change)).eval()


@pytest.mark.parametrize(("version", "shape"), [("first", (512, 64)), ("second", (300, 128))])
def test_every_matrix_is_drawn_by_xavier_the_position_table_too(version, shape):
    model = classifier(version)
    assert model.positions.table.shape == shape
    for name, matrix in model.named_parameters():
        if matrix.dim() > 1:
            wanted = math.sqrt(2 / sum(matrix.shape))
            assert matrix.std().item() == pytest.approx(wanted, rel=0.05 if matrix.numel() > 500 else 0.2), name
    sizes = model.sizes()
    assert sizes["positions"] == pytest.approx(sizes["embeddings"] / 15, rel=0.1)  # "a fifteenth"


def test_a_large_table_is_as_large_as_sinusoidal_codes_and_changes_nothing_else():
    small, large = classifier().state_dict(), classifier(large_table=True)
    differ = [name for name, tensor in large.state_dict().items() if not torch.equal(small[name], tensor)]
    assert differ == ["positions.table"]
    wanted = classifier(encoding="sinusoidal").sizes()["positions"]
    assert large.sizes()["positions"] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_layers_normalise_last_or_first(pre_norm):
    layer = classifier(pre_norm=pre_norm).layers[0]
    with torch.no_grad():
        means = layer(torch.randn(2, 9, 64) + 3, torch.ones(2, 1, 1, 9)).mean(-1)
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


def run(folder, monkeypatch, version="first", mend="as handed out", **change):
    monkeypatch.setitem(handout.VERSIONS, version, replace(handout.VERSIONS[version], **({"epochs": 1} | change)))
    return handout.train_handout(version, mend, "learned", 1, folder, rows())


@pytest.mark.parametrize("mend", handout.MENDS)
def test_a_run_with_each_mend_is_the_same_twice(mend, tmp_path, monkeypatch):
    found = run(tmp_path, monkeypatch, mend=mend)
    assert len(found["val_acc"]) == 1 and 0 <= found["test_acc"] <= 1
    assert run(tmp_path, monkeypatch, mend=mend) == found


def test_every_mend_is_tried():
    assert {mend for tried in handout.TRIED.values() for mend in tried} == {*handout.MENDS}


def test_rate_and_warm_up_reach_the_optimizer(tmp_path, monkeypatch):
    rates = []

    class Adam(torch.optim.Adam):
        def step(self):
            rates.append(self.param_groups[0]["lr"])
            super().step()

    monkeypatch.setattr(torch.optim, "Adam", Adam)
    for mend in ("as handed out", "rate of 2e-4", "warm-up"):
        run(tmp_path, monkeypatch, "second", mend)  # one step
    assert rates == pytest.approx([1e-3, 2e-4, 1e-3 / 200])


def test_a_run_ends_when_it_is_good_enough_or_gets_no_better(tmp_path, monkeypatch):
    assert len(run(tmp_path, monkeypatch, epochs=3, enough=0.0)["val_acc"]) == 1
    # At a rate of 0 nothing gets better after the first epoch.
    assert len(run(tmp_path, monkeypatch, epochs=9, enough=1.1, give_up=2, lr=0.0)["val_acc"]) == 3


@pytest.mark.parametrize(("mend", "named"), [("as handed out", True), ("large table", False)])
@pytest.mark.parametrize("version", handout.VERSIONS)
def test_the_grader_names_the_small_table_of_a_run_that_stayed_at_one_class(version, mend, named, tmp_path):
    folder = valid(tmp_path)
    change(folder, LEARNED, test_acc=0.49, val_acc=[0.494] * EPOCHS, train_acc=[0.5] * EPOCHS, config={})
    weights = classifier(version, **handout.MENDS[mend]).state_dict()
    checkpoint(folder, f"{PROBLEM2}/learned/best_model.pth", 0.494, model=weights)
    issues = {issue.name for issue in grade(folder, EXPECTED).issues}
    assert ("small-position-table" in issues) == named
