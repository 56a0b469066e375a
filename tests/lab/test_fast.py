"""Fast() changes no number beyond rounding, nothing that has gradients, and nothing after it has ended."""

import pytest
import torch
from torch import nn

from lab import fast
from lab.fast import Fast
from problem1.model import Seq2SeqTransformer
from problem2.model import create_model

needs_onednn = pytest.mark.skipif(not fast.ONEDNN, reason="this PyTorch has no oneDNN")


def addition():
    return Seq2SeqTransformer(13), (torch.randint(0, 10, (32, 7)), torch.randint(0, 10, (32, 4)))


def sorting():
    return create_model("sinusoidal", d_ff=128), (torch.randint(0, 100, (32, 12)),)


@pytest.fixture(params=[addition, sorting], ids=["addition", "sorting"])
def case(request):
    """A model and its inputs."""
    torch.manual_seed(0)
    model, inputs = request.param()
    return model.eval(), inputs


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch):
    monkeypatch.setattr(fast, "WORTH_IT", 1)


@pytest.fixture
def calls(monkeypatch):
    """An entry for each product that oneDNN is given, and for each softmax by its formula."""
    calls = {"product": 0, "softmax": 0}
    product, softmax = torch.ops.mkldnn._linear_pointwise, fast._softmax

    def counted(name, function):
        def call(*args):
            calls[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", counted("product", product))
    monkeypatch.setattr(fast, "_softmax", counted("softmax", softmax))
    return calls


@needs_onednn
@torch.no_grad()
def test_every_product_and_softmax_is_replaced_and_outputs_move_by_rounding_only(case, calls):
    model, inputs = case
    plain = model(*inputs)
    assert calls == {"product": 0, "softmax": 0}
    with Fast():
        torch.testing.assert_close(model(*inputs), plain, atol=1e-5, rtol=1e-5)
    assert calls["product"] == sum(isinstance(module, nn.Linear) for module in model.modules())
    attentions = [module for module in model.modules() if type(module).__name__ == "MultiHeadAttention"]
    assert attentions
    assert calls["softmax"] == len(attentions)
    assert torch.equal(model(*inputs), plain)  # the context has ended


def test_what_has_gradients_is_left_alone(case, calls):
    model, inputs = case

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        model(*inputs).square().mean().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    plain = gradients()
    with Fast():
        assert all(map(torch.equal, gradients(), plain))
    assert calls == {"product": 0, "softmax": 0}


@pytest.mark.parametrize("keys", [1, 4, 7, 15, 16, 30])
@torch.no_grad()
def test_softmax_of_any_length_and_size(keys):
    scores = torch.randn(3, 2, 5, keys) * 30
    scores[0, 0, 0] = torch.finfo(torch.float32).min
    with Fast():
        weights = torch.softmax(scores, dim=-1)
    torch.testing.assert_close(weights, torch.softmax(scores, dim=-1), atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_softmax_over_another_dimension_stays_with_torch(calls):
    scores = torch.randn(4, 5)
    with Fast():
        assert torch.equal(torch.softmax(scores, dim=0), torch.softmax(scores, 0))
        torch.nn.functional.linear(scores, scores)  # without a bias argument


@pytest.mark.parametrize("shape", [(5, 16), (2, 7, 16), (3, 4, 0, 16), (0, 16), (16,), (100, 3, 16)])
@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_products_of_every_shape(shape, bias):
    layer, x = nn.Linear(16, 8, bias), torch.randn(shape)
    skips = torch.randn(*shape[:-1], 32)[..., ::2]  # a view that skips numbers
    for y in (x, skips):
        plain = layer(y)
        with Fast():
            torch.testing.assert_close(layer(y), plain, atol=1e-5, rtol=1e-5)


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
def test_what_stays_with_torch(rows, device, dtype, autocast, calls, monkeypatch):
    monkeypatch.setattr(fast, "WORTH_IT", 5 * 16 * 8)
    layer, x = nn.Linear(16, 8, device=device, dtype=dtype), torch.zeros(rows, 16, device=device, dtype=dtype)
    with Fast(), torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        assert layer(x).dtype == (torch.bfloat16 if autocast else dtype)
    assert calls["product"] == 0
    with Fast(), torch.no_grad():
        nn.Linear(16, 8)(torch.zeros(5, 16))
    assert calls["product"] == 1


@torch.no_grad()
def test_without_onednn(monkeypatch):
    monkeypatch.setattr(fast, "ONEDNN", False)
    layer, x = nn.Linear(16, 8), torch.randn(5, 16)
    plain = layer(x)
    with Fast():
        assert torch.equal(layer(x), plain)
