"""The place-value model: local by construction, the same step by step as all at once, linear in length."""

import pytest
import torch

from beyond.any_length import place_value
from beyond.any_length.dataset import PAD, chain_pairs, columns, decoder_inputs, encode, random_pairs, score
from beyond.any_length.place_value import PlaceValueTransformer
from lab.statistics import margins


@pytest.fixture
def model():
    torch.manual_seed(0)
    return PlaceValueTransformer(d_model=16, num_heads=2, d_ff=32).eval()


def test_it_is_attention_over_everything_masked_to_the_windows(model):
    """The oracle: the same weights in one long sequence, each query's window given by a mask."""
    sources, targets = encode(random_pairs(9, 4, seed=1))
    written, layer = decoder_inputs(targets), model.decoder[0]
    count = written.shape[1]
    at = torch.arange(count)

    def attend(attention, x, keys, slots):
        """`slots` [T, keys]: the slot in which a query sees a key, -1 where it does not."""
        Q, K, V = (attention.split_heads(y) for y in (attention.query(x), attention.key(keys), attention.value(keys)))
        offsets = attention.offsets[:, 0, slots.clamp(min=0)]  # [H, T, keys, d_head]
        scores = (Q.unsqueeze(3) * (K.unsqueeze(2) + offsets)).sum(-1) / K.shape[-1] ** 0.5
        weights = scores.masked_fill(slots < 0, -torch.inf).softmax(-1)
        return attention.output(attention.combine_heads(weights @ V))

    with torch.no_grad():
        memory = model.embed(sources).flatten(0, 1)
        memory = model.encoder_norm(model.encoder[0](memory)).unflatten(0, sources.shape[:2]).flatten(1, 2)
        x = model.embed(written)
        normed = layer.self_norm(x)
        back = at[:, None] - at[None]
        x = x + attend(layer.self_attention, normed, normed, torch.where((back == 0) | (back == 1), 1 - back, -1))
        key = torch.arange(2 * count)
        slots = key[None] - 2 * (at[:, None] - 1)
        slots = torch.where((slots >= 0) & (slots < 4), slots, -1)
        x = x + attend(layer.cross_attention, layer.cross_norm(x), memory[:, : 2 * count], slots)
        x = x + layer.feed_forward(layer.feed_forward_norm(x))
        expected = model.output(model.decoder_norm(x))
        seen = targets != PAD
        assert torch.allclose(model(sources, written)[seen], expected[seen], atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_step_by_step_is_the_same_as_all_at_once(model, monkeypatch, dtype):
    """Also where the positions are prepared in several parts."""
    monkeypatch.setattr(place_value, "POSITIONS_AT_ONCE", 40)
    sources = columns(random_pairs(30, 5, seed=2))
    model.to(dtype)
    tokens, by_symbol = model.generate(sources)
    with torch.inference_mode():
        logits = model(sources, decoder_inputs(tokens))
    assert tokens.shape == (5, 32) and by_symbol.dtype == dtype
    assert torch.equal(tokens, logits.argmax(-1))
    assert torch.allclose(by_symbol, margins(logits, tokens), atol=1e-5)


def test_no_activation_grows_with_the_square_of_the_length(model):
    """Every tensor that a forward pass makes is at most proportional to the number of positions."""
    sizes = {}

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            for tensor in torch.utils._pytree.tree_leaves(out):
                if isinstance(tensor, torch.Tensor):
                    self.largest = max(getattr(self, "largest", 0), tensor.numel())
            return out

    for digits in (100, 400):
        sources, targets = encode(chain_pairs(digits, 1, seed=0))
        with torch.no_grad(), Watch() as watch:
            model(sources, decoder_inputs(targets))
        sizes[digits] = watch.largest
    assert sizes[400] < 4.1 * sizes[100]


def test_gradients_reach_every_weight(model):
    sources, targets = encode(random_pairs(6, 4, seed=4))
    logits = model.train()(sources, decoder_inputs(targets))
    torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets, ignore_index=PAD).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if not name.endswith("key.bias"):  # moves all scores of a softmax alike, and so changes nothing
            assert parameter.grad.abs().sum() > 0, name


def test_no_tensor_of_another_device_meets_the_model(model):
    """On a device without data: an operation between it and the CPU raises."""
    batch = encode(random_pairs(5, 4, seed=1))
    losses, right = score(model.train().to("meta"), tuple(tensor.to("meta") for tensor in batch))
    losses.sum().backward()
    assert losses.device.type == right.device.type == "meta"
