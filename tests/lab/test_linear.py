"""Our linear layer against nn.Linear, with and without gradients, in every shape a model may ask for."""

import pytest
import torch
from torch import nn

from lab import linear
from lab.fast import Linear


def pair(inputs: int, outputs: int, bias: bool = True) -> tuple[Linear, nn.Linear]:
    ours, theirs = Linear(inputs, outputs, bias), nn.Linear(inputs, outputs, bias)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 64), (2, 7, 64), (3, 4, 0, 64), (0, 64), (64,), (1000, 3, 64)])
def test_same_as_torch(shape, bias):
    ours, theirs = pair(64, 48, bias)
    x = torch.randn(shape)
    with torch.no_grad():
        got, expected = ours(x), theirs(x)
    assert got.shape == expected.shape
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("rows", [slice(0, 16), slice(16, 48), slice(7, 8)])
def test_some_of_the_outputs_are_those_of_the_whole(rows, gradients, bias):
    ours, theirs = pair(64, 48, bias)
    x = torch.randn(2, 7, 64)
    with torch.set_grad_enabled(gradients):
        got, expected = ours(x, rows), theirs(x)[..., rows]
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    if gradients:
        mine, its = torch.autograd.grad(got.sum(), ours.weight), torch.autograd.grad(expected.sum(), theirs.weight)
        torch.testing.assert_close(mine, its, atol=1e-5, rtol=1e-5)


def test_a_view_that_skips_numbers():
    ours, theirs = pair(16, 8)
    x = torch.randn(16, 10, 6).transpose(0, 2)[::2]
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-5)


def test_training_is_torchs_to_the_bit():
    ours, theirs = pair(16, 8)
    x = torch.randn(5, 16)
    for layer in (ours, theirs):
        layer(x).square().sum().backward()
    assert ours.weight.grad.equal(theirs.weight.grad) and ours.bias.grad.equal(theirs.bias.grad)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_go_to_torch(dtype):
    ours, theirs = pair(16, 8)
    x = torch.randn(5, 16, dtype=dtype)
    with torch.no_grad():
        assert ours.to(dtype)(x).equal(theirs.to(dtype)(x))


def test_autocast_is_obeyed():
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert Linear(16, 8)(torch.randn(5, 16)).dtype == torch.bfloat16


def test_without_onednn(monkeypatch):
    monkeypatch.setattr(linear, "ONEDNN", False)
    ours, theirs = pair(16, 8)
    x = torch.randn(5, 16)
    with torch.no_grad():
        assert ours(x).equal(theirs(x))


def test_wrong_width_is_refused():
    with torch.no_grad(), pytest.raises(RuntimeError):
        Linear(16, 8)(torch.randn(5, 15))


@pytest.mark.skipif(not linear.ONEDNN, reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize("onednn", [True, False])
def test_answers_are_asked_of_onednn_and_gradients_of_torch(monkeypatch, onednn):
    monkeypatch.setattr(linear, "ONEDNN", onednn)
    asked, forward = [], linear.F.linear
    monkeypatch.setattr(linear.F, "linear", lambda *args: asked.append(1) or forward(*args))
    layer, x = Linear(16, 8), torch.randn(5, 16)
    layer(x)
    assert len(asked) == 1
    with torch.no_grad():
        layer(x)
    assert len(asked) == (1 if onednn else 2)
