"""accelerate() changes no number beyond rounding, and nothing of what a checkpoint holds."""

import copy

import pytest
import torch
from torch import nn

import problem1.attention
import problem2.attention
from lab import checkpoint, fast
from lab.fast import FastLinear, accelerate, slow_down
from problem1.model import Seq2SeqTransformer
from problem2.model import create_model

needs_onednn = pytest.mark.skipif(not fast.ONEDNN, reason="this PyTorch has no oneDNN")


def addition():
    return Seq2SeqTransformer(13), (torch.randint(0, 10, (32, 7)), torch.randint(0, 10, (32, 4)))


def sorting():
    return create_model("sinusoidal", d_ff=128), (torch.randint(0, 100, (32, 16)),)


@pytest.fixture(params=[addition, sorting], ids=["addition", "sorting"])
def case(request):
    """A model, the same accelerated, and inputs."""
    torch.manual_seed(0)
    model, inputs = request.param()
    return model.eval(), accelerate(copy.deepcopy(model)), inputs


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch):
    monkeypatch.setattr(fast, "WORTH_IT", 1)


@pytest.fixture
def onednn_calls(monkeypatch):
    """One entry for every product that oneDNN is given."""
    calls, product = [], fast.torch.ops.mkldnn._linear_pointwise
    monkeypatch.setattr(fast.torch.ops.mkldnn, "_linear_pointwise", lambda *args: calls.append(1) or product(*args))
    return calls


def test_outputs_move_by_rounding_only(case):
    model, accelerated, inputs = case
    with torch.no_grad():
        torch.testing.assert_close(accelerated(*inputs), model(*inputs), atol=1e-5, rtol=1e-5)


def test_every_linear_layer_is_accelerated_and_nothing_else_changes(case):
    model, accelerated, _ = case
    for (name, ours), (_, theirs) in zip(model.named_modules(), accelerated.named_modules(), strict=True):
        assert type(theirs) is (FastLinear if type(ours) is nn.Linear else type(ours)), name


def test_gradients_move_by_rounding_only(case):
    model, accelerated, inputs = case
    for either in (model, accelerated):
        either.train()(*inputs).square().mean().backward()
    for (name, ours), theirs in zip(model.named_parameters(), accelerated.parameters(), strict=True):
        torch.testing.assert_close(theirs.grad, ours.grad, atol=1e-5, rtol=1e-4, msg=name)


def test_slow_down_takes_everything_back(case):
    model, accelerated, inputs = case
    slow_down(accelerated)
    assert [type(module) for module in accelerated.modules()] == [type(module) for module in model.modules()]
    for either in (model, accelerated):
        either.train()(*inputs).square().mean().backward()
    for ours, theirs in zip(model.parameters(), accelerated.parameters(), strict=True):
        assert torch.equal(theirs.grad, ours.grad)


@pytest.mark.parametrize("keys", [1, 4, 7, 15, 16, 30])
@pytest.mark.parametrize("attention", [problem1.attention, problem2.attention], ids=["addition", "sorting"])
def test_softmax_and_its_gradient(attention, keys):
    scores, wanted = torch.randn(3, 2, 5, keys) * 30, torch.randn(3, 2, 5, keys)
    some = torch.rand(3, 1, 5, keys) < 0.7
    some[0, 0, 0] = False  # nothing may be attended to
    for mask in (None, some, some.int(), some[:, :, :1], torch.ones(5, keys).tril()):
        both = []
        for function in (fast.masked_softmax, attention.masked_softmax):
            leaf = scores.clone().requires_grad_()
            weights = function(leaf, mask)
            (weights * wanted).sum().backward()
            both.append((weights.detach(), leaf.grad))
        torch.testing.assert_close(both[0], both[1], atol=1e-6, rtol=1e-5)
        assert mask is None or not (both[0][0] * (mask == 0)).any()


def test_a_checkpoint_goes_in_and_out(case, tmp_path):
    model, accelerated, inputs = case
    assert list(accelerated.state_dict()) == list(model.state_dict())
    content = {"kind": "test", "settings": {}, "model": accelerated.state_dict()}
    checkpoint.save(tmp_path / "best_model.pth", content)
    loaded = checkpoint.load(tmp_path / "best_model.pth", "test")
    plain = checkpoint.rebuild(lambda settings: copy.deepcopy(model), loaded, tmp_path)
    with torch.no_grad():
        assert torch.equal(plain(*inputs), model(*inputs))


@needs_onednn
def test_onednn_computes_every_product_of_a_layer(case, onednn_calls):
    _, accelerated, inputs = case
    with torch.no_grad():
        accelerated(*inputs)
    layers = sum(isinstance(module, FastLinear) for module in accelerated.modules())
    assert len(onednn_calls) == layers
    accelerated(*inputs).sum().backward()
    assert len(onednn_calls) == 4 * layers  # the same again, and two more for the gradients


@needs_onednn
def test_small_products_stay_with_torch(onednn_calls, monkeypatch):
    monkeypatch.setattr(fast, "WORTH_IT", 5 * 16 * 8)
    layer = accelerate(nn.Linear(16, 8))
    with torch.no_grad():
        layer(torch.randn(4, 16))
        assert not onednn_calls
        layer(torch.randn(5, 16))
    assert len(onednn_calls) == 1


@pytest.mark.parametrize("shape", [(5, 16), (2, 7, 16), (3, 4, 0, 16), (0, 16), (16,), (100, 3, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_every_shape(shape, bias):
    layer, x = nn.Linear(16, 8, bias), torch.randn(shape)
    skips = torch.randn(*shape[:-1], 32)[..., ::2]  # a view that skips numbers
    with torch.no_grad():
        fast_layer = accelerate(copy.deepcopy(layer))
        for y in (x, skips):
            torch.testing.assert_close(fast_layer(y), layer(y), atol=1e-5, rtol=1e-5)


@needs_onednn
@pytest.mark.parametrize("device, dtype", [("cpu", torch.float64), ("cpu", torch.bfloat16), ("meta", torch.float32)])
def test_other_precisions_and_devices_stay_with_torch(device, dtype, onednn_calls):
    layer, x = nn.Linear(16, 8, device=device, dtype=dtype), torch.zeros(5, 16, device=device, dtype=dtype)
    with torch.no_grad():
        assert accelerate(layer)(x).dtype == dtype
        with torch.autocast("cpu", torch.bfloat16):
            assert device == "meta" or accelerate(nn.Linear(16, 8))(torch.randn(5, 16)).dtype == torch.bfloat16
    assert not onednn_calls


def test_without_onednn(monkeypatch):
    monkeypatch.setattr(fast, "ONEDNN", False)
    layer, x = nn.Linear(16, 8), torch.randn(5, 16)
    with torch.no_grad():
        assert torch.equal(accelerate(copy.deepcopy(layer))(x), layer(x))
