"""The transformer against PyTorch's layers, and the invariants that any bug in masks or positions would break."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from problem1.attention import create_causal_mask
from problem1.dataset import PAD, START, VOCAB_SIZE, every_pair, score
from problem1.generate_data import PLUS, to_digits
from problem1.model import DecoderLayer, EncoderLayer, FeedForward, PositionalEncoding, Seq2SeqTransformer
from tests.test_attention import copy_attention

D, HEADS, FF = 24, 3, 40
tokens = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=9)


def close(actual, expected, tolerance=2e-5):
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=1e-4)


def small_model(seed=0, layers=2) -> Seq2SeqTransformer:
    """Untrained, but with weights large enough that a difference anywhere shows in the logits."""
    torch.manual_seed(seed)
    model = Seq2SeqTransformer(VOCAB_SIZE, D, HEADS, layers, layers, FF, 0.0, 32)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.25)
    return model.eval()


def encode_mixed(pairs):
    """Pairs of any lengths in one batch: sources [N, S], padded on the right, and their mask [N, 1, 1, S]."""
    rows = [torch.tensor([*to_digits(a, 1), PLUS, *to_digits(b, 1)]) for a, b in pairs]
    sources = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return sources, (sources != PAD)[:, None, None, :]


def copy_feed_forward(ours: FeedForward, theirs) -> None:
    ours.inner.load_state_dict(theirs.linear1.state_dict())
    ours.outer.load_state_dict(theirs.linear2.state_dict())


def randomise(module: nn.Module) -> None:
    torch.manual_seed(3)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


def check_gradients(ours, expected, inputs):
    gradient = torch.randn_like(ours)
    close(torch.autograd.grad(ours, inputs, gradient), torch.autograd.grad(expected, inputs, gradient), 1e-4)


def test_encoder_layer_agrees_with_torch():
    theirs = nn.TransformerEncoderLayer(D, HEADS, FF, 0.0, batch_first=True, norm_first=True)
    randomise(theirs)
    ours = EncoderLayer(D, HEADS, FF)
    copy_attention(ours.attention, theirs.self_attn)
    copy_feed_forward(ours.feed_forward, theirs)
    ours.attention_norm.load_state_dict(theirs.norm1.state_dict())
    ours.feed_forward_norm.load_state_dict(theirs.norm2.state_dict())
    x = torch.randn(4, 6, D, requires_grad=True)
    padding = torch.arange(6) >= torch.tensor([[6], [4], [1], [5]])
    output = ours(x, ~padding[:, None, None, :])
    expected = theirs(x, src_key_padding_mask=padding)
    close(output, expected)
    check_gradients(output, expected, (x,))


def test_decoder_layer_agrees_with_torch():
    theirs = nn.TransformerDecoderLayer(D, HEADS, FF, 0.0, batch_first=True, norm_first=True)
    randomise(theirs)
    ours = DecoderLayer(D, HEADS, FF)
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy_feed_forward(ours.feed_forward, theirs)
    ours.self_norm.load_state_dict(theirs.norm1.state_dict())
    ours.cross_norm.load_state_dict(theirs.norm2.state_dict())
    ours.feed_forward_norm.load_state_dict(theirs.norm3.state_dict())
    x, memory = torch.randn(3, 5, D, requires_grad=True), torch.randn(3, 6, D, requires_grad=True)
    padding = torch.arange(6) >= torch.tensor([[6], [4], [2]])
    output = ours(x, memory, ~padding[:, None, None, :], create_causal_mask(5))
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    expected = theirs(x, memory, causal, memory_key_padding_mask=padding, tgt_is_causal=True)
    close(output, expected)
    check_gradients(output, expected, (x, memory))


def test_positions_are_the_papers():
    table = PositionalEncoding(6, 50).table
    for position in (0, 1, 17, 49):
        for i in range(3):
            angle = position / 10_000 ** (2 * i / 6)
            close(table[position, 2 * i].item(), math.sin(angle))
            close(table[position, 2 * i + 1].item(), math.cos(angle))
    assert PositionalEncoding(5, 7)(torch.zeros(1, 7, 5)).shape == (1, 7, 5)
    with pytest.raises(ValueError, match="max_len is 7"):
        PositionalEncoding(4, 7)(torch.zeros(1, 8, 4))


def test_forward_is_encode_then_decode_and_the_default_mask_is_causal():
    model, src, tgt = small_model(), torch.randint(0, 10, (2, 7)), torch.randint(0, 10, (2, 4))
    logits = model(src, tgt)
    assert logits.shape == (2, 4, VOCAB_SIZE)
    close(logits, model.decode(tgt, model.encode(src)), 0)
    close(logits, model(src, tgt, None, create_causal_mask(4)), 0)
    assert not torch.allclose(logits, model(src, tgt, tgt_mask=torch.ones(1, 1, 4, 4)), atol=1e-3)


@given(tokens, tokens, st.data())
def test_a_later_token_never_changes_an_earlier_output(src, tgt, data):
    model = small_model()
    changed = data.draw(st.integers(0, len(tgt) - 1))
    other = [*tgt]
    other[changed] = (tgt[changed] + 1) % VOCAB_SIZE
    with torch.no_grad():
        first, second = (model(torch.tensor([src]), torch.tensor([t])) for t in (tgt, other))
    assert torch.equal(first[:, :changed], second[:, :changed])
    assert not torch.equal(first[:, changed:], second[:, changed:])


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=6))
def test_padding_and_company_never_change_an_answer(pairs):
    """Operands of different lengths in one batch give what each gives alone."""
    model = small_model()
    src, mask = encode_mixed(pairs)
    tgt = torch.randint(0, 10, (len(pairs), 5))
    with torch.no_grad():
        together = model(src, tgt, mask)
        for row, pair in enumerate(pairs):
            alone, alone_mask = encode_mixed([pair])
            close(together[row : row + 1], model(alone, tgt[row : row + 1], alone_mask), 1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_generate_is_greedy_decoding_by_the_models_own_forward(seed):
    model, src = small_model(seed), torch.randint(0, 10, (4, 7))
    answers = model.generate(src, 9, START)
    read = torch.cat([torch.full((4, 1), START), answers[:, :-1]], 1)
    assert torch.equal(model(src, read).argmax(-1), answers)
    assert model.generate(src, 0, START).shape == (4, 0)


@pytest.mark.parametrize("steps", [0, 20, 120])
def test_exact_match_is_the_same_greedy_and_teacher_forced(steps):
    """Whatever the model is worth: untrained, half trained, or better (one-digit sums: learned in seconds)."""
    sums, model = every_pair(1), small_model(1)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        losses, _ = score(model, (sums.sources, sums.targets))
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
    with torch.no_grad():
        _, right = score(model, (sums.sources, sums.targets))
        greedy = model.generate(sums.sources, 2, START)
    assert torch.equal((greedy == sums.targets).all(1), right)
    assert steps < 100 or right.any()


def test_score_counts_whole_answers():
    targets = torch.tensor([[0, 5, 0, 6], [1, 0, 0, 0]])
    logits = nn.functional.one_hot(targets, VOCAB_SIZE).float() * 50
    logits[1, 0] = nn.functional.one_hot(torch.tensor(0), VOCAB_SIZE) * 50.0  # the first digit alone is wrong
    read = []
    losses, right = score(lambda src, tgt: read.append(tgt) or logits, (torch.zeros(2, 7, dtype=torch.long), targets))
    assert right.tolist() == [True, False] and read[0].tolist() == [[START, 0, 5, 0], [START, 1, 0, 0]]
    close(losses, torch.tensor([0.0, 12.5]), 1e-3)
