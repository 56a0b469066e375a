"""The place-value model: local by construction, the same step by step as all at once, linear in length."""

import pytest
import torch

from lab.hooks import HeadHooks, zero
from problem1.attention import scaled_dot_product_attention
from problem1.text.dataset import END, PAD, chain_pairs, columns, decoder_inputs, encode, random_pairs, score
from problem1.text.model import SCHEMES
from problem1.text.place_value import PlaceValueTransformer, WindowAttention
from problem1.text.trained import build


@pytest.fixture
def model():
    torch.manual_seed(0)
    return PlaceValueTransformer(d_model=16, num_heads=2, d_ff=32).eval()


def test_window_attention_equals_full_attention_with_a_mask():
    """The oracle: attention over everything, masked to each query's window (offsets set to zero)."""
    torch.manual_seed(1)
    attention = WindowAttention(16, 2, window=2, step=1, name="test")
    torch.nn.init.zeros_(attention.offsets)
    x, before = torch.randn(3, 7, 16), torch.randn(3, 1, 16)
    keys = torch.cat([before, x], 1)
    local, weights = attention(x, keys, keys)
    assert weights.shape == (3, 2, 7, 2)
    at = torch.arange(8)
    band = (at[None, :] == at[:7, None]) | (at[None, :] == at[:7, None] + 1)
    Q, K, V = (attention.split_heads(t) for t in (attention.query(x), attention.key(keys), attention.value(keys)))
    full, _ = scaled_dot_product_attention(Q, K, V, band)
    assert torch.allclose(local, attention.output(attention.combine_heads(full)), atol=1e-6)


def test_windows_are_views_of_neighbours():
    x = torch.arange(24.0).reshape(1, 12, 2)
    seen = WindowAttention(2, 1, window=4, step=2, name="test").windows(x)
    assert seen.shape == (1, 1, 5, 4, 2)
    assert torch.equal(seen[0, 0, 1], x[0, 2:6])
    assert seen.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_offsets_tell_slots_of_the_window_apart():
    attention = WindowAttention(4, 1, window=2, step=1, name="test")
    keys = torch.randn(1, 1, 4).expand(1, 2, 4)  # the same key twice
    _, before = attention.attend(torch.ones(1, 1, 4), keys, keys)
    with torch.no_grad():
        attention.offsets[0, 0, 1] += 3.0
    _, after = attention.attend(torch.ones(1, 1, 4), keys, keys)
    assert abs(before[0, 0, 0, 0] - 0.5) < 0.1 and after[0, 0, 0, 1] > 0.9


@pytest.mark.parametrize("position", [0, 1, 5, 21])
def test_nothing_outside_the_window_changes_a_bit(model, position):
    sources, targets = encode(random_pairs(20, 8, seed=1), "place_value", "reversed")
    written = decoder_inputs(targets)
    noisy, noisy_written = (sources + 3) % 10, (written + 3) % 10
    inside = torch.zeros(sources.shape[1], dtype=torch.bool)
    inside[max(0, position - 1) : position + 1] = True
    changed = torch.where(inside[None, :, None], sources, noisy)
    changed_written = torch.where(inside[None, :], written, noisy_written)
    with torch.inference_mode():
        before, after = model(sources, written), model(changed, changed_written)
    assert torch.equal(before[:, position], after[:, position])
    assert not torch.equal(before, after)


def test_everything_inside_the_window_counts(model):
    sources, targets = encode(random_pairs(20, 8, seed=1), "place_value", "reversed")
    written, position = decoder_inputs(targets), 7
    with torch.inference_mode():
        before = model(sources, written)[:, position]
        for at in (position - 1, position):
            for side in (0, 1):
                changed = sources.clone()
                changed[:, at, side] = (changed[:, at, side] + 1) % 10
                assert (model(changed, written)[:, position] != before).any(1).all()
            changed = written.clone()
            changed[:, at] = (changed[:, at] + 1) % 10
            assert (model(sources, changed)[:, position] != before).any(1).all()


def test_two_layers_see_one_position_further():
    torch.manual_seed(0)
    model = PlaceValueTransformer(d_model=16, num_heads=2, num_layers=2, d_ff=32).eval()
    sources, targets = encode(random_pairs(12, 4, seed=1), "place_value", "reversed")
    written = decoder_inputs(targets)
    seen = []
    with torch.inference_mode():
        before = model(sources, written)[:, 8]
        for at in range(12):
            changed = sources.clone()
            changed[:, at] = (changed[:, at] + 1) % 10
            if not torch.equal(model(changed, written)[:, 8], before):
                seen.append(at)
    assert seen == [6, 7, 8]


@pytest.mark.parametrize("layers", [1, 2])
def test_step_by_step_is_the_same_as_all_at_once(layers):
    torch.manual_seed(layers)
    model = PlaceValueTransformer(d_model=16, num_heads=2, num_layers=layers, d_ff=32).eval()
    sources = columns(random_pairs(30, 5, seed=2))
    tokens, logits = model.generate(sources)
    with torch.inference_mode():
        at_once = model(sources, decoder_inputs(tokens))
    assert torch.allclose(logits, at_once, atol=1e-5)


def test_decoding_stops_when_all_have_ended(model):
    with torch.no_grad():
        model.output.bias[END] = 100.0
    tokens, logits = model.generate(columns(random_pairs(30, 5, seed=2)))
    assert tokens.tolist() == [[END]] * 5 and logits.shape == (5, 1, 16)


def test_rows_do_not_depend_on_their_company(model):
    pairs = [("7", "5"), *random_pairs(25, 3, seed=3)]
    together, _ = model.generate(columns(pairs))
    alone, _ = model.generate(columns(pairs[:1]))
    assert torch.equal(together[0, : alone.shape[1]], alone[0])


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
        sources, targets = encode(chain_pairs(digits, 1, seed=0), "place_value", "reversed")
        with torch.no_grad(), Watch() as watch:
            model(sources, decoder_inputs(targets))
        sizes[digits] = watch.largest
    assert sizes[400] < 4.1 * sizes[100]


def test_heads_can_be_recorded_and_ablated(model):
    sources, targets = encode(random_pairs(6, 4, seed=4), "place_value", "reversed")
    written = decoder_inputs(targets)
    hooks = HeadHooks()
    before = model(sources, written, hooks)
    assert hooks.pattern("decoder.0.cross.head1").shape == (4, 8, 4)
    assert hooks.pattern("decoder.0.self.head0").shape == (4, 8, 2)
    assert hooks.pattern("encoder.0.self.head0").shape == (4 * 8, 2, 2)
    assert torch.allclose(hooks.pattern("decoder.0.cross.head1").sum(-1), torch.ones(4, 8))
    assert hooks.pattern("decoder.0.cross.head1")[:, 0, :2].abs().max() == 0  # nothing below the first position
    for name in ("encoder.0.self.head1", "decoder.0.self.head0", "decoder.0.cross.head1"):
        ablated = HeadHooks({name: zero})
        assert not torch.allclose(model(sources, written, ablated), before)
        ablated.check()


def test_gradients_reach_every_weight(model):
    sources, targets = encode(random_pairs(6, 4, seed=4), "place_value", "reversed")
    logits = model.train()(sources, decoder_inputs(targets))
    torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets, ignore_index=PAD).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if not name.endswith("key.bias"):  # moves all scores of a softmax alike, and so changes nothing
            assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_tensor_of_another_device_meets_a_model(scheme):
    """On a device without data: an operation between it and the CPU raises."""
    settings = {"scheme": scheme, "order": "reversed", "d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16}
    model = build(settings | {"dropout": 0.1}).to("meta")
    batch = encode(random_pairs(5, 4, seed=1), scheme, "reversed")
    losses, right = score(model, tuple(tensor.to("meta") for tensor in batch))
    losses.sum().backward()
    assert losses.device.type == right.device.type == "meta"
