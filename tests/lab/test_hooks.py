"""Heads and feed-forward layers by name, in the models of both problems: recorded, changed, and left alone again."""

import pytest
import torch

from lab.hooks import Head, Hooks, feed_forward_layers, head_names, heads, replace, short_name, zero
from problem1.model import Seq2SeqTransformer
from problem2.model import create_model


@pytest.fixture
def model() -> Seq2SeqTransformer:
    torch.manual_seed(0)
    return Seq2SeqTransformer(13, 12, 3, 1, 2, 20).eval()


SRC, TGT = torch.randint(0, 10, (2, 7)), torch.randint(0, 10, (2, 4))


def test_a_head_and_its_names():
    head = Head.parse("decoder.1.cross.head3")
    assert head == ("decoder", 1, "cross", 3) and head.name == "decoder.1.cross.head3"
    assert (head.module, head.short) == ("decoder.1.cross", "D1.cross.3")
    assert Head("encoder", 0, "self", 2).short == "E0.2"
    assert short_name("encoder.1.self.head3") == "E1.3" and short_name("decoder.0.self.head1") == "D0.self.1"
    assert short_name("decoder.1.cross") == "D1.cross" and short_name("encoder.0.feed_forward") == "E0.feed-forward"


def test_heads_and_layers_of_both_problems_models(model):
    every = heads(model)
    assert [head.name for head in every] == head_names(model)
    modules = ["encoder.0.self", "decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"]
    assert head_names(model) == [f"{module}.head{number}" for module in modules for number in range(3)]
    assert heads(model, "decoder", "self") == [head for head in every if head[::2] == ("decoder", "self")]
    assert len(heads(model, kind="cross")) == 6 and len(heads(model, "encoder")) == 3
    assert [*feed_forward_layers(model)] == [f"{name}.feed_forward" for name in ("encoder.0", "decoder.0", "decoder.1")]
    assert [*feed_forward_layers(model, "encoder")] == ["encoder.0.feed_forward"]
    sorting = create_model("none", num_heads=2, num_layers=2)
    assert head_names(sorting) == [f"encoder.{layer}.self.head{number}" for layer in (0, 1) for number in (0, 1)]


def test_recording_changes_nothing_and_is_what_the_modules_compute(model):
    before = model(SRC, TGT)
    with Hooks(model) as hooks:
        assert torch.equal(model(SRC, TGT), before)
    module, x = model.encoder[0].attention, model.encoder[0].attention_norm(model.embed(SRC))
    output, weights = module(x, x, x)
    outputs = weights @ module.split_heads(module.value(x))
    for number in range(3):
        torch.testing.assert_close(hooks.pattern(f"encoder.0.self.head{number}"), weights[:, number])
        torch.testing.assert_close(hooks.output(f"encoder.0.self.head{number}"), outputs[:, number])
    x = model.embed(SRC) + output
    layer = model.encoder[0]
    torch.testing.assert_close(hooks.output("encoder.0.feed_forward"), layer.feed_forward(layer.feed_forward_norm(x)))
    model(SRC[:1], TGT[:1])  # after the context: not recorded
    assert len(hooks.pattern("decoder.1.cross.head0")) == 2


def test_interventions_last_as_long_as_the_context(model):
    before, value, other = model(SRC, TGT), torch.randn(4, 4), torch.randn(2, 7, 12)
    changes = {"decoder.0.self.head0": replace(value, [3]), "decoder.0.self.head1": zero}
    with Hooks(model, changes | {"encoder.0.feed_forward": replace(other)}) as hooks:
        assert not torch.allclose(model(SRC, TGT), before, atol=1e-3)
    assert torch.equal(hooks.output("decoder.0.self.head0")[:, 3], value[3].expand(2, 4))
    assert not hooks.output("decoder.0.self.head1").any() and hooks.output("decoder.0.self.head2").all()
    assert torch.equal(hooks.output("encoder.0.feed_forward"), other)
    assert torch.equal(model(SRC, TGT), before)
    with pytest.raises(ZeroDivisionError), Hooks(model, changes):
        raise ZeroDivisionError
    assert torch.equal(model(SRC, TGT), before)


@pytest.mark.parametrize(
    "name", ["encoder.0.self.head3", "encoder.1.self.head0", "decoder.0.feedforward", "decoder.0.self", "head0"]
)
def test_a_name_that_no_part_has_is_an_error_and_no_silent_nothing(model, name):
    with pytest.raises(KeyError, match=name):
        Hooks(model, {name: zero})
