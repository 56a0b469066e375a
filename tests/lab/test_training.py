"""The loop: the right share of every batch, the right schedule, the best epoch kept, and no word lost when killed."""

import copy
import errno
import itertools
import json
import math
import os
import shutil
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from lab import checkpoint, device
from lab.files import UserError, write_bytes
from lab.training import Recipe, Task, evaluate, finished, make_optimizer, stopped, train, train_or_reuse


def score(model, batch):
    """Regression on one number; right is nearer than 0.5."""
    x, y = batch
    error = model(x).squeeze(-1) - y
    return error.square(), error.abs() < 0.5


def stops_after(steps: int):
    """`score`, until the user stops the training with Ctrl-C."""
    calls = 0

    def stops(model, batch):
        nonlocal calls
        calls += model.training
        if calls > steps:
            raise KeyboardInterrupt
        return score(model, batch)

    return stops


def a_task(rows=50, seed=0, **changes) -> Task:
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    parts = {name: (x, x.sum(1)) for name in ("train", "val", "test")}
    return Task(**{"kind": "toy", "score": score, **parts, **changes})


def run(tmp_path, task=None, epochs=3, resume=False, lr=1e-2, ema_decay=0.0, **settings):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    recipe = Recipe(epochs, 8, lr, warmup_steps=3, ema_decay=ema_decay)
    log = train(model, task or a_task(), recipe, {"seed": 5, **settings}, tmp_path, resume=resume)
    return model, log


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


def test_a_finished_run_is_kept_once_the_new_one_has_an_epoch(tmp_path, capsys):
    run(tmp_path)
    old = (tmp_path / "best_model.pth").read_bytes()

    with pytest.raises(KeyboardInterrupt, match="first epoch: nothing was written"):
        run(tmp_path, a_task(score=stops_after(4)))
    assert (tmp_path / "best_model.pth").read_bytes() == old and not (tmp_path / "previous").exists()
    capsys.readouterr()
    with pytest.raises(KeyboardInterrupt, match="--resume"):
        run(tmp_path, a_task(score=stops_after(11)))
    assert "a run of 3 epochs" in capsys.readouterr().out
    assert (tmp_path / "previous/best_model.pth").read_bytes() == old
    assert (tmp_path / "previous/training_log.json").exists() and not (tmp_path / "training_log.json").exists()


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@pytest.mark.parametrize("fault", [Killed, OSError])
def test_a_new_run_that_is_cut_off_at_any_change_of_a_file_never_mixes_with_the_old_one(tmp_path, monkeypatch, fault):
    """Before each change that the new run makes: it dies, or the disk is full from there on. Then it is resumed."""
    old, whole, new = tmp_path / "old", tmp_path / "whole", {"epochs": 2, "lr": 2e-2, "name": "new"}
    monkeypatch.setattr("lab.training.draw_training_curves", lambda _, path, *__: write_bytes(path, b"curves"))  # slow
    run(old, epochs=2, name="old")
    shutil.copytree(old, whole)
    _, expected = run(whole, **new)
    changes = {os: ("fsync", "replace", "unlink", "mkdir"), shutil: ("copy", "rmtree")}

    def train_until(folder, last, patched):
        """The number of changes made before one was refused."""
        made = 0

        def counting(function):
            def counted(*arguments, **keywords):
                nonlocal made
                if made >= last:
                    raise fault(errno.ENOSPC, "No space left on device")
                made += 1
                return function(*arguments, **keywords)

            return counted

        for module, names in changes.items():
            for name in names:
                patched.setattr(module, name, counting(getattr(module, name)))
        run(folder, **new)

    for last in itertools.count():
        folder = tmp_path / f"cut at {last}"
        shutil.copytree(old, folder)
        try:
            with monkeypatch.context() as patched:
                train_until(folder, last, patched)
            break
        except (fault, UserError):
            pass
        kept = {path.read_bytes() for path in folder.rglob("best_model.pth")}
        assert (old / "best_model.pth").read_bytes() in kept, f"cut at {last}: the old model is lost"
        last_pth = folder / "last.pth"
        untouched = last_pth.exists() and last_pth.read_bytes() == (old / "last.pth").read_bytes()
        _, log = run(folder, **new, resume=not untouched)
        assert log == expected, f"cut at {last}"
        for name in ("best_model.pth", "previous/best_model.pth", "previous/training_log.json"):
            assert (folder / name).read_bytes() == (whole / name).read_bytes(), f"cut at {last}: {name}"
    assert last >= 20


def test_a_checkpoint_of_another_run_is_not_taken_for_the_best(tmp_path):
    run(tmp_path, epochs=1)
    first = (tmp_path / "best_model.pth").read_bytes()
    run(tmp_path, epochs=3, lr=2e-2)
    (tmp_path / "best_model.pth").write_bytes(first)
    with pytest.raises(UserError, match=r"best_model\.pth is not of epoch \d of this run"):
        run(tmp_path, epochs=3, lr=2e-2, resume=True)


def test_short_runs_do_not_push_a_better_one_out_of_previous(tmp_path, capsys):
    def right(share):
        return lambda model, batch: (score(model, batch)[0], torch.arange(len(batch[0])) < share * len(batch[0]))

    run(tmp_path, a_task(score=right(1.0)), epochs=3)
    best = (tmp_path / "best_model.pth").read_bytes()
    for share in (0.5, 0.1, 0.2):
        run(tmp_path, a_task(score=right(share)), epochs=1)
        said = capsys.readouterr().out
        assert (tmp_path / "previous/best_model.pth").read_bytes() == best
    assert "held a run of 1 epochs, 10.00%" in said and "holds a better one, a run of 3 epochs, 100.00%" in said
    run(tmp_path, a_task(score=right(1.0)), epochs=2)
    run(tmp_path, a_task(score=right(1.0)), epochs=1)
    assert len(json.loads((tmp_path / "previous/training_log.json").read_text())["val_acc"]) == 2


def test_a_run_is_reused_when_it_has_ended_and_resumed_when_it_was_stopped(tmp_path, capsys):
    def train_it(task=None, **settings) -> dict:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 1))
        return train_or_reuse(model, task or a_task(), Recipe(3, 8, 1e-2, 3), {"seed": 5} | settings, tmp_path)

    with pytest.raises(KeyboardInterrupt):
        train_it(a_task(score=stops_after(14)))  # two epochs have 14 steps
    log = train_it()
    assert "resuming after epoch 2" in capsys.readouterr().out and len(log["val_acc"]) == 3
    assert train_it() == json.loads((tmp_path / "training_log.json").read_text())
    assert "epoch" not in capsys.readouterr().out
    for other in ({"width": 8}, {"task": a_task(seed=1)}):
        train_it(**other)
        assert "epoch   1/3" in capsys.readouterr().out


def test_a_finished_run_is_found_by_its_settings_but_not_before_its_curves_are_drawn(tmp_path, monkeypatch):
    def stops(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt, match="stopped by you"):
        patched.setattr("lab.training.draw_training_curves", stops)
        run(tmp_path, width=8)
    assert finished(tmp_path, {"seed": 5}) is None and stopped(tmp_path, {"seed": 5, "width": 8})
    _, log = run(tmp_path, resume=True, width=8)
    assert finished(tmp_path, {"seed": 5, "width": 8})["test_loss"] == log["test_loss"]
    for other in ({"seed": 5, "width": 9}, {"seed": 5, "colour": None, "height": 1}):
        assert finished(tmp_path, other) is None and not stopped(tmp_path, other)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda saved: saved.pop("optimizer"),
        lambda saved: saved["model"].pop("0.weight"),
        lambda saved: saved["log"]["val_loss"].pop(),
        lambda saved: saved["log"]["val_acc"].__setitem__(0, math.nan),
        lambda saved: saved["average"].clear(),
        lambda saved: saved["optimizer"]["state"][0].update(exp_avg=torch.zeros(2, 2)),
        lambda saved: saved["optimizer"].update(param_groups=torch.ones(2)),
        lambda saved: saved["optimizer"]["param_groups"][0].update(betas="x"),
        lambda saved: saved["optimizer"]["state"].pop(0),
        lambda saved: saved["optimizer"]["state"][0].pop("exp_avg_sq"),
    ],
)
def test_a_damaged_state_is_not_resumed(tmp_path, spoil):
    run(tmp_path, ema_decay=0.9)
    saved = torch.load(tmp_path / "last.pth", weights_only=True)
    spoil(saved)
    torch.save(saved, tmp_path / "last.pth")
    with pytest.raises(UserError, match=r"last\.pth is not complete"):
        run(tmp_path, epochs=4, resume=True, ema_decay=0.9)
