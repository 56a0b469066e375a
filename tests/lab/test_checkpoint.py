"""A checkpoint that is not ours, not whole or not harmless is refused by name, without running what is in it."""

import os
import pickle
import zipfile

import pytest
import torch
from torch import nn

from lab import checkpoint
from lab.files import UserError
from problem1 import checkpoint as addition
from tests.archives import DISTURBED


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "best_model.pth"
    checkpoint.save(path, {"kind": "here", "settings": {"d": 3}, "model": nn.Linear(3, 3).state_dict()})
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", DISTURBED)
def test_an_archive_that_could_be_read_in_two_ways_is_refused(good, tmp_path, name):
    DISTURBED[name](good, tmp_path / "bad.pth")
    with pytest.raises(UserError, match=r"bad\.pth is damaged or not a PyTorch checkpoint"):
        checkpoint.load(tmp_path / "bad.pth", "here")


def test_of_two_archives_in_one_file_the_one_that_python_reads_is_loaded(good, tmp_path):
    with zipfile.ZipFile(good) as archive:
        seen = archive.read("archive/data/0")
    other = checkpoint.load(good, "here")
    other["model"] = {name: tensor + 1 for name, tensor in other["model"].items()}
    torch.save(other, tmp_path / "best_model.pth.other")
    (tmp_path / "both.pth").write_bytes((tmp_path / "best_model.pth.other").read_bytes() + good.read_bytes())
    loaded = checkpoint.load(tmp_path / "both.pth", "here")["model"]
    assert next(iter(loaded.values())).numpy().tobytes() == seen


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
        ({"kind": "here", "settings": {"dropout": float("nan")}, "model": {}}, "no plain values"),
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
        ({"d": 3}, linear(bias=torch.zeros(3, dtype=torch.float64)), "no float32"),
        ({"d": 3}, linear(bias=torch.zeros(3, dtype=torch.complex64)), "no float32"),
        ({"d": "three"}, linear(), r"x\.pth does not fit"),
        ({}, linear(), r"x\.pth does not fit"),
        ({"d": 2**60}, linear(), r"x\.pth does not fit"),
        ({"d": 2**40}, linear(), "size mismatch"),  # 12 TiB, if it were built
    ],
)
def test_settings_and_weights_that_do_not_fit(settings, weights, words):
    with pytest.raises(UserError, match=words):
        checkpoint.rebuild(build, {"settings": settings, "model": weights}, "x.pth")


@pytest.mark.parametrize("digits", [0, 4_000_000])
def test_operands_of_a_length_that_no_data_has(digits):
    settings = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8, "dropout": 0.0, "num_digits": 3}
    weights = addition.build(settings).state_dict()
    with pytest.raises(UserError, match=f"operands of {digits} digits"):
        checkpoint.rebuild(addition.build, {"settings": settings | {"num_digits": digits}, "model": weights}, "x.pth")


def test_the_hint_is_the_callers(tmp_path):
    (tmp_path / "x.pth").write_bytes(b"cut")
    with pytest.raises(UserError, match=r"damaged.*: do something else"):
        checkpoint.load(tmp_path / "x.pth", "kind", "do something else.")
