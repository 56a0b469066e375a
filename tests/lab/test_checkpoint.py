"""A checkpoint that is not ours, not whole or not harmless is refused by name, without running what is in it."""

import os
import pickle

import pytest
import torch
from torch import nn

from lab import checkpoint
from lab.files import UserError


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "best_model.pth"
    checkpoint.save(path, {"kind": "here", "settings": {"d": 3}, "model": nn.Linear(3, 3).state_dict()})
    return path


def test_round_trip(good):
    loaded = checkpoint.load(good, "here")
    model = checkpoint.rebuild(lambda settings: nn.Linear(settings["d"], 3), loaded, good)
    assert torch.equal(model.weight, loaded["model"]["weight"])


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {"kind": "here", "settings": {}, "model": {"weight": x}}])
def test_code_in_a_pickle_is_refused_and_not_run(tmp_path, wrap):
    path, trace = tmp_path / "evil.pth", tmp_path / "trace"
    torch.save(wrap(Payload(trace)), path)
    with pytest.raises(UserError, match=r"evil\.pth holds Python objects"):
        checkpoint.load(path, "here")
    path.write_bytes(pickle.dumps(wrap(Payload(trace))))
    with pytest.raises(UserError, match=r"evil\.pth"):
        checkpoint.load(path, "here")
    assert not trace.exists()


@pytest.mark.parametrize("damage", [lambda good: good[: len(good) // 2], lambda good: b"not a checkpoint"])
def test_a_damaged_file_is_refused(good, damage):
    good.write_bytes(damage(good.read_bytes()))
    with pytest.raises(UserError, match=r"best_model\.pth is damaged"):
        checkpoint.load(good, "here")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], "not a checkpoint of this project"),
        ({"weight": torch.zeros(2)}, "not a checkpoint of this project"),
        ({"kind": "there", "settings": {}, "model": {}}, "of there, not of here"),
        ({"kind": "here", "settings": {}}, "lacks its settings or its weights"),
        ({"kind": "here", "settings": {"d": {}}, "model": {}}, "no plain values"),
    ],
)
def test_other_contents(tmp_path, content, words):
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(UserError, match=words):
        checkpoint.load(tmp_path / "x.pth", "here")


def linear(**changes):
    weights = {"weight": torch.zeros(3, 3), "bias": torch.zeros(3)} | changes
    return {name: value for name, value in weights.items() if value is not None}


def build(settings):
    return nn.Linear(settings["d"], 3)


@pytest.mark.parametrize(
    ("settings", "weights", "words"),
    [
        ({"d": 3}, linear(weight=torch.zeros(4, 3)), "size mismatch for weight"),
        ({"d": 3}, linear(bias=None), "Missing key"),
        ({"d": 3}, linear(extra=torch.zeros(1)), "Unexpected key"),
        ({"d": 3}, linear(bias=[0.0, 0.0, 0.0]), r"x\.pth does not fit"),
        ({"d": 3}, linear(bias=torch.full((3,), float("nan"))), "not finite"),
        ({"d": "three"}, linear(), r"x\.pth does not fit"),
        ({}, linear(), r"x\.pth does not fit"),
        ({"d": 2**60}, linear(), r"x\.pth does not fit"),
        ({"d": 2**40}, linear(), "size mismatch"),  # 12 TiB, if it were built
    ],
)
def test_settings_and_weights_that_do_not_fit(settings, weights, words):
    with pytest.raises(UserError, match=words):
        checkpoint.rebuild(build, {"settings": settings, "model": weights}, "x.pth")
