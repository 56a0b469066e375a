"""What becomes of a run: kept when a new one replaces it, whole when that is cut off, resumed, reused."""

import errno
import itertools
import json
import math
import os
import shutil

import pytest
import torch
from torch import nn

from lab.files import UserError, write_bytes
from lab.training import Recipe, finished, stopped, train_or_reuse
from tests.lab.toy import a_task, run, score, stops_after


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


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="/dev/zero, which never ends, is not there")
def test_a_device_in_the_place_of_a_log_is_not_copied(tmp_path, monkeypatch):
    def copy(path, to):
        assert path.is_file(), "would never end"
        shutil.copyfile(path, to)

    monkeypatch.setattr("lab.previous.shutil.copy", copy)
    run(tmp_path)
    (tmp_path / "training_log.json").unlink()
    (tmp_path / "training_log.json").symlink_to("/dev/zero")
    run(tmp_path)
    assert (tmp_path / "training_log.json").is_file() and (tmp_path / "previous/best_model.pth").is_file()


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
    assert "held a run of 1 epoch, 10.00%" in said and "holds a better one, a run of 3 epochs, 100.00%" in said
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
