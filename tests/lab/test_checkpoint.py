"""A checkpoint that is not ours, not whole or not harmless is refused by name, without running what is in it."""

import io
import os
import pickle
import random
import zipfile

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
    model = checkpoint.rebuild(lambda: nn.Linear(3, 3), loaded["model"], good)
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


def test_truncated_and_damaged_files(good):
    content, source = good.read_bytes(), random.Random(0)
    for _ in range(40):
        good.write_bytes(content[: source.randrange(len(content))])
        with pytest.raises(UserError, match=r"best_model\.pth"):
            checkpoint.load(good, "here")
    for rubbish in (b"", b"\x00" * 1000, b"PK\x03\x04", b"not a checkpoint"):
        good.write_bytes(rubbish)
        with pytest.raises(UserError, match=r"best_model\.pth is damaged"):
            checkpoint.load(good, "here")


def test_a_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.pth"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
        archive.writestr("archive/data/0", bytes(300 * 2**20))
    with pytest.raises(UserError, match=r"bomb\.pth unpacks to far more"):
        checkpoint.load(path, "here")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], "not a checkpoint of this project"),
        ({"weight": torch.zeros(2)}, "not a checkpoint of this project"),
        ({"kind": "there", "settings": {}, "model": {}}, "of there, not of here"),
        ({"kind": "here", "settings": {}}, "lacks its settings or its weights"),
    ],
)
def test_other_contents(tmp_path, content, words):
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(UserError, match=words):
        checkpoint.load(tmp_path / "x.pth", "here")


def test_missing(tmp_path):
    with pytest.raises(UserError, match=r"none\.pth does not exist: run train\.py first"):
        checkpoint.load(tmp_path / "none.pth", "here")


def linear(**changes):
    weights = {"weight": torch.zeros(3, 3), "bias": torch.zeros(3)} | changes
    return {name: value for name, value in weights.items() if value is not None}


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (linear(weight=torch.zeros(4, 3)), r"weight is \(4, 3\) instead of \(3, 3\)"),
        (linear(bias=None), "bias stands in only one"),
        (linear(extra=torch.zeros(1)), "extra stands in only one"),
        (linear(bias=[0.0, 0.0, 0.0]), "bias is list"),
        (linear(bias=torch.full((3,), float("nan"))), "not an ordinary tensor of finite"),
        (linear(bias=torch.zeros(3, dtype=torch.long)), "not an ordinary tensor"),
        (linear(weight=torch.zeros(1).expand(3, 3)), "not an ordinary tensor"),
    ],
)
def test_weights_that_do_not_fit(weights, words):
    with pytest.raises(UserError, match=words):
        checkpoint.rebuild(lambda: nn.Linear(3, 3), weights, "x.pth")


def test_an_absurd_size_takes_no_memory():
    buffer = io.BytesIO()
    torch.save(torch.zeros(1).expand(2**17, 2**17), buffer)  # 64 GiB on paper, a few bytes on disk
    weights = torch.load(io.BytesIO(buffer.getvalue()), weights_only=True)
    with pytest.raises(UserError, match="not an ordinary tensor"):
        checkpoint.rebuild(lambda: nn.Linear(2**17, 2**17, bias=False), {"weight": weights}, "x.pth")
