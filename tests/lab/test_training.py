"""The loop: the right share of every batch, the right schedule, the best epoch kept."""

import copy
import itertools
import json
import math
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from lab import checkpoint, device
from lab.files import UserError
from lab.training import Recipe, Task, evaluate, make_optimizer, train
from tests.lab.toy import a_task, run, score, stops_after


def test_log_holds_what_the_contract_says(tmp_path):
    run(tmp_path)
    log = json.loads((tmp_path / "training_log.json").read_text())
    for name in ("train_loss", "train_acc", "val_loss", "val_acc"):
        assert len(log[name]) == 3 and all(isinstance(value, float) for value in log[name])
    assert isinstance(log["test_loss"], float) and 0 <= log["test_acc"] <= 1
    assert log["seed"] == 5 and log["config"]["seed"] == 5 and len(log["config"]["data"]) == 16
    assert set(log["versions"]) == {"torch", "numpy", "matplotlib"} and "+" not in log["versions"]["torch"]
    timing = json.loads((tmp_path / "timing.json").read_text())
    assert timing["threads"] == 1 and timing["seconds"] >= 0 and not set(timing) & set(log)
    assert (tmp_path / "training_curves.png").read_bytes().startswith(b"\x89PNG")
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


def test_same_seed_same_bits_and_another_seed_others(tmp_path):
    first, second = run(tmp_path / "a")[0], run(tmp_path / "b")[0]
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    torch.manual_seed(0)
    other = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    train(other, a_task(), Recipe(3, 8, 1e-2, 3), {"seed": 6}, tmp_path / "c")
    assert not torch.equal(first[0].weight, other[0].weight)


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
@pytest.mark.parametrize("stop_after", [1, 2, 4])
def test_stopped_and_resumed_is_the_same_to_the_bit(tmp_path, stop_after, ema_decay):
    whole, whole_log = run(tmp_path / "whole", epochs=5, ema_decay=ema_decay)
    with pytest.raises(KeyboardInterrupt, match="--resume"):  # 7 batches an epoch: in the middle of the next
        run(tmp_path / "parts", a_task(score=stops_after(stop_after * 7 + 3)), epochs=5, ema_decay=ema_decay)
    parts, parts_log = run(tmp_path / "parts", epochs=5, resume=True, ema_decay=ema_decay)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters(), strict=True))
    for name in ("train_loss", "val_loss", "val_acc", "test_loss", "best_epoch"):
        assert whole_log[name] == parts_log[name]


def test_validated_and_kept_is_the_ema_of_the_weights_which_leaves_the_steps_alone(tmp_path):
    seen = []  # the weights as each step finds them, which is how the step before left them

    def watching(model, batch):
        if model.training:
            seen.append(model.weight.detach().clone())
        return score(model, batch)

    recipe = Recipe(1, 8, 1e-1, ema_decay=0.6)
    model = nn.Linear(3, 1)
    plain = copy.deepcopy(model)
    log = train(model, a_task(score=watching), recipe, {"seed": 5}, tmp_path / "ema")
    mean, last = seen[0], checkpoint.load(tmp_path / "ema/last.pth", "toy")
    for step, weight in enumerate([*seen[1:], last["model"]["weight"]]):
        keep = min(0.6, (step + 1) / (step + 10))
        mean = keep * mean + (1 - keep) * weight
    kept = checkpoint.load(tmp_path / "ema/best_model.pth", "toy")["model"]
    torch.testing.assert_close(kept["weight"], mean)
    torch.testing.assert_close(last["average"]["weight"], mean)
    model.load_state_dict(kept)
    assert log["val_loss"][-1] == evaluate(model, a_task().val, score)[0]
    train(plain, a_task(), replace(recipe, ema_decay=0.0), {"seed": 5}, tmp_path / "plain")
    assert torch.equal(plain.weight, last["model"]["weight"]) and not torch.allclose(plain.weight, mean)


def test_resuming_with_nothing_there_starts_and_resuming_a_finished_run_changes_nothing(tmp_path, capsys):
    _, first = run(tmp_path, resume=True)
    assert "starting from the beginning" in capsys.readouterr().out
    _, second = run(tmp_path, resume=True)
    assert first == second


def test_resume_refuses_other_settings_and_other_rows(tmp_path):
    run(tmp_path, width=8)
    with pytest.raises(UserError, match=r"trained with width = 8, not 9"):
        run(tmp_path, resume=True, width=9)
    with pytest.raises(UserError, match=r"trained with data ="):
        run(tmp_path, a_task(seed=1), resume=True, width=8)


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    calls = 0

    def explodes(model, batch):
        nonlocal calls
        calls += model.training
        losses, right = score(model, batch)
        return losses * (math.nan if calls > 10 else 1), right

    with pytest.raises(UserError, match=r"no longer finite \(epoch 2, step 11 of 21\).*lower --lr"):
        run(tmp_path, a_task(score=explodes))
    for name in ("best_model.pth", "last.pth"):
        weights = checkpoint.load(tmp_path / name, "toy")["model"]
        assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_kept_and_tested_are_the_latest_weights_with_the_highest_validation_accuracy(tmp_path):
    shares = iter([0.5, 0.9, 0.7, 0.9, 0.8])  # of the validation rows, an epoch each

    def scripted(model, batch):
        losses, right = score(model, batch)
        share = None if model.training else next(shares, None)
        return losses, right if share is None else torch.arange(len(right)) < share * len(right)

    _, log = run(tmp_path, a_task(score=scripted), epochs=5)
    saved = checkpoint.load(tmp_path / "best_model.pth", "toy")
    assert saved["epoch"] == log["best_epoch"] == 4
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    model.load_state_dict(saved["model"])
    loss, accuracy = evaluate(model, a_task().test, score)
    assert loss == pytest.approx(log["test_loss"]) and accuracy == log["test_acc"]


def test_warm_up_and_cosine():
    recipe = Recipe(10, 32, 1e-3, warmup_steps=10)
    rates = [recipe.lr_at(step, 200) for step in range(200)]
    assert rates[0] == pytest.approx(1e-4) and rates[9] == pytest.approx(1e-3) == max(rates)
    assert all(a > b for a, b in itertools.pairwise(rates[10:])) and rates[-1] < 1e-6
    assert Recipe(1, 8, 1e-3).lr_at(0, 1) > 0


@pytest.mark.parametrize("batch_size", [1, 7, 50, 1000])
def test_evaluation_does_not_depend_on_the_batch(batch_size):
    torch.manual_seed(0)
    model, task = nn.Linear(3, 1), a_task()
    loss, accuracy = evaluate(model, task.val, score, batch_size)
    losses, right = score(model, task.val)
    assert loss == pytest.approx(losses.mean().item(), rel=1e-6) and accuracy == right.sum().item() / 50


class Points(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


def test_rows_keep_their_kind_from_the_task_to_the_model(tmp_path):
    def named_score(model, points):
        return score(model, (points.x, points.y))

    def named_augment(points, generator):
        return Points(points.x + 1, points.y)

    parts = {name: Points(*part) for name, part in vars(a_task()).items() if name in ("train", "val", "test")}
    named, _ = run(tmp_path / "a", Task("toy", **parts, score=named_score, augment=named_augment))
    plain, _ = run(tmp_path / "b", a_task(augment=lambda rows, generator: (rows[0] + 1, rows[1])))
    assert torch.equal(named[0].weight, plain[0].weight)


def test_weight_decay_spares_vectors():
    groups = make_optimizer(nn.Linear(3, 2), Recipe(1, 8, 1e-3)).param_groups
    assert [len(group["params"]) for group in groups] == [1, 1]
    assert groups[0]["weight_decay"] == 0.5 and groups[1]["weight_decay"] == 0.0


def test_impossible_devices():
    for name in ("quantum", "meta"):
        with pytest.raises(UserError, match=f"--device {name}") as refused:
            device.start(name)
        assert len(str(refused.value)) < 250
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="--device cuda"):
            device.start("cuda")
