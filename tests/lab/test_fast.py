"""accelerate() changes no number beyond rounding, and nothing of what a checkpoint holds."""

import copy

import pytest
import torch
from torch import nn

import problem1.attention
import problem2.attention
from lab import fast
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


def gradients(model, inputs) -> list[torch.Tensor]:
    model.train()(*inputs).square().mean().backward()
    return [parameter.grad for parameter in model.parameters()]


def test_outputs_and_gradients_move_by_rounding_only(case):
    model, accelerated, inputs = case
    with torch.no_grad():
        torch.testing.assert_close(accelerated(*inputs), model(*inputs), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradients(accelerated, inputs), gradients(model, inputs), atol=1e-5, rtol=1e-4)


def test_nothing_else_changes_and_slow_down_takes_everything_back(case):
    model, accelerated, inputs = case
    assert list(accelerated.state_dict()) == list(model.state_dict())  # so checkpoints fit both
    kinds = [type(module) for module in model.modules()]
    fast_kinds = [FastLinear if kind is nn.Linear else kind for kind in kinds]
    assert [type(module) for module in accelerated.modules()] == fast_kinds
    slow_down(accelerated)
    assert [type(module) for module in accelerated.modules()] == kinds
    assert all(map(torch.equal, gradients(accelerated, inputs), gradients(model, inputs)))


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


@needs_onednn
def test_onednn_computes_every_product_of_a_layer(case, onednn_calls):
    _, accelerated, inputs = case
    with torch.no_grad():
        accelerated(*inputs)
    layers = sum(isinstance(module, FastLinear) for module in accelerated.modules())
    assert len(onednn_calls) == layers
    accelerated(*inputs).sum().backward()
    assert len(onednn_calls) == 4 * layers  # the same again, and two more for the gradients


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
@pytest.mark.parametrize(
    ("rows", "device", "dtype", "autocast"),
    [
        (4, "cpu", torch.float32, False),  # too small to be worth it
        (5, "cpu", torch.float64, False),
        (5, "cpu", torch.bfloat16, False),
        (5, "cpu", torch.float32, True),
        (5, "meta", torch.float32, False),
    ],
)
def test_what_stays_with_torch(rows, device, dtype, autocast, onednn_calls, monkeypatch):
    monkeypatch.setattr(fast, "WORTH_IT", 5 * 16 * 8)
    layer, x = nn.Linear(16, 8, device=device, dtype=dtype), torch.zeros(rows, 16, device=device, dtype=dtype)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        assert accelerate(layer)(x).dtype == (torch.bfloat16 if autocast else dtype)
        assert not onednn_calls
    with torch.no_grad():
        accelerate(nn.Linear(16, 8))(torch.zeros(5, 16))
    assert len(onednn_calls) == 1


def test_without_onednn(monkeypatch):
    monkeypatch.setattr(fast, "ONEDNN", False)
    layer, x = nn.Linear(16, 8), torch.randn(5, 16)
    with torch.no_grad():
        assert torch.equal(accelerate(copy.deepcopy(layer))(x), layer(x))
