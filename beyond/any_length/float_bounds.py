"""How far rounding can move the logits of the place-value model, in every local context (beyond/rounding/bounds.py)."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from beyond.any_length.dataset import BLANK, PAD, VOCAB_SIZE
from beyond.any_length.place_value import PlaceValueTransformer, WindowAttention
from beyond.rounding.bounds import Ball, Rounding
from problem1.attention import MultiHeadAttention

OPERAND = torch.tensor([*range(10), BLANK])
BATCH = 16_384


class Bound(NamedTuple):
    """What every admissible evaluation does in C local contexts."""

    logits: Tensor  # [C, V] in the middle
    logit_radius: Tensor  # [C] of each of its logits
    above: Tensor  # [C, V] how far the right logit lies above each other one, in the middle; infinite for itself
    radius: Tensor  # [C, V] of that difference
    longest_exp: float  # the largest (negated) argument that exp can get

    @property
    def margins(self) -> Tensor:
        return self.above.amin(1)

    @property
    def reserve(self) -> Tensor:
        """[C] by how much the right logit wins at least, whatever the rounding; 0 or less is not proven"""
        return (self.above - self.radius).amin(1)


@torch.no_grad()
def bound(model: PlaceValueTransformer, contexts: Tensor, right: Tensor, unit: float) -> Bound:
    """Local contexts [C, 6], their right symbols [C] and a unit roundoff."""
    rules, parts, output = Rounding(unit), [], model.output
    for start, x in _hidden(rules, model, contexts):
        logits = rules.linear(x, output)
        differences = rules.differences(x, output, right[start : start + BATCH])
        parts.append((logits.middle, logits.norm, *differences))
    return Bound(*(torch.cat(part) for part in zip(*parts, strict=True)), rules.longest_exp)


def _hidden(rules: Rounding, model: PlaceValueTransformer, contexts: Tensor) -> Iterator[tuple[int, Ball]]:
    """The start of each batch of contexts, and what stands before the output layer."""
    (encoder,), (decoder,) = model.encoder, model.decoder
    scale = math.sqrt(model.embedding.embedding_dim)
    embedded = rules.exact(model.embedding.weight.double() * scale, 0 if math.log2(scale) % 1 == 0 else rules.gamma(3))

    # The encoder sees one position, two digits: 121 sequences. [121, 2, d]
    x = embedded[torch.cartesian_prod(OPERAND, OPERAND)]
    normed = rules.layer_norm(x, encoder.attention_norm)
    q, k, v = _projections(rules, encoder.attention, normed, normed)
    seen = rules.attention(q, k[:, None], v[:, None], torch.ones(2, dtype=torch.bool))
    x = _add_output(rules, x, seen, encoder.attention)
    memory = rules.layer_norm(
        rules.feed_forward(x, encoder.feed_forward_norm, encoder.feed_forward), model.encoder_norm
    )

    # Self-attention sees the last two symbols written. [pairs of symbols, d]
    attention, normed = decoder.self_attention, rules.layer_norm(embedded, decoder.self_norm)
    pairs, written = contexts[:, 4:].unique(dim=0, return_inverse=True)
    last, before = pairs.unbind(1)
    q, k, v = _projections(rules, attention, normed, normed)
    window, mask = torch.stack([before, last], 1), torch.stack([before != PAD, last == last], 1)
    seen = rules.attention(q[last], _with_offsets(rules, k[window], attention), v[window], mask)
    x = _add_output(rules, embedded[last], seen, attention)

    # Cross-attention sees two positions of memory, four keys. [C, d]
    attention = decoder.cross_attention
    q, k, v = _projections(rules, attention, rules.layer_norm(x, decoder.cross_norm), memory)
    number = torch.zeros(VOCAB_SIZE, dtype=torch.long)
    number[OPERAND] = torch.arange(len(OPERAND))
    for start in range(0, len(contexts), BATCH):
        a, b, a_below, b_below = contexts[start : start + BATCH, :4].unbind(1)
        wrote = written[start : start + BATCH]
        window = torch.stack(
            [number[a_below] * len(OPERAND) + number[b_below], number[a] * len(OPERAND) + number[b]], 1
        )
        keys, values = (Ball(y.middle[window].flatten(1, 2), y.norm[window].flatten(1, 2)) for y in (k, v))
        mask = torch.stack([a_below != PAD, a_below != PAD, a == a, a == a], 1)
        seen = rules.attention(q[wrote], _with_offsets(rules, keys, attention), values, mask)
        y = _add_output(rules, x[wrote], seen, attention)
        yield (
            start,
            rules.layer_norm(
                rules.feed_forward(y, decoder.feed_forward_norm, decoder.feed_forward), model.decoder_norm
            ),
        )


def _projections(rules: Rounding, attention: MultiHeadAttention, queries: Ball, memory: Ball) -> list[Ball]:
    pairs = (queries, attention.query), (memory, attention.key), (memory, attention.value)
    return [rules.linear(x, linear, attention.num_heads) for x, linear in pairs]


def _add_output(rules: Rounding, x: Ball, heads: Ball, attention: MultiHeadAttention) -> Ball:
    return rules.add(x, rules.linear(heads, attention.output))


def _with_offsets(rules: Rounding, keys: Ball, attention: WindowAttention) -> Ball:
    """The learned vector of each slot added: keys [..., window, H, d_head], offsets [H, 1, window, d_head]"""
    return rules.add(keys, rules.exact(attention.offsets.squeeze(1).transpose(0, 1)))
