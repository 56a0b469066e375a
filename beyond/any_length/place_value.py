"""A transformer that adds numbers of any length: a digit's position is its place value, and attention is local.

The operands stand one below the other (see dataset.py). The encoder sees one position alone: both digits there.
The decoder writes the answer's symbol at position t. It attends to the memory of positions t and t-1 and, among
the symbols it has read, to the last two:

    position     …  t-1   t  …                          window of position t
    operands     …   7    4  …     cross-attention:     7 8 4 1      (4 keys: positions t-1 and t)
                 …   8    1  …
    answer    …  0   5    ?        self-attention:      0 5          (2 keys)

There is no absolute position, so what the model does at one position it does at every position. Time and memory grow
with the number of digits, not with its square. There are only 256 pairs of symbols, so what depends on a pair alone
(the encoder, and the decoder's self-attention) is computed once for each pair and looked up.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from beyond.any_length.dataset import PAD, START, VOCAB_SIZE
from problem1.attention import MultiHeadAttention, scaled_dot_product_attention
from problem1.model import DecoderLayer, EncoderLayer

POSITIONS_AT_ONCE = 2**13  # of a batch: their keys and values are prepared together


class WindowAttention(MultiHeadAttention):
    """Attention to a window of few keys. A learned vector for each slot of the window is added to its key (Shaw et
    al. 2018), so that a head can attend to "the digit of a, one position below"."""

    def __init__(self, d_model: int, num_heads: int, window: int):
        super().__init__(d_model, num_heads)
        self.offsets = nn.Parameter(torch.randn(num_heads, 1, window, d_model // num_heads) * 0.02)

    def keys(self, window: Tensor) -> Tensor:
        """[…, window, d_model] -> the same"""
        return self.key(window) + self.combine_heads(self.offsets.transpose(0, 1))

    def attend(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        """`forward` after its three projections: most keys and values here are those of earlier steps."""
        Q, K, V = self.split_heads(Q), self.split_heads(K), self.split_heads(V)
        heads, _ = scaled_dot_product_attention(Q, K, V, mask)
        return self.output(self.combine_heads(heads))


class LocalDecoderLayer(DecoderLayer):
    """A decoder layer in two steps: `read` what is written, then `write` from the memory."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.self_attention = WindowAttention(d_model, num_heads, 2)
        self.cross_attention = WindowAttention(d_model, num_heads, 4)

    def read(self, x: Tensor, mask: Tensor) -> Tensor:
        """The last two symbols [N, 2, d_model] -> the last one, which attends to both: [N, 1, d_model]"""
        attention, normed = self.self_attention, self.self_norm(x)
        queries, keys, values = attention.query(normed[:, 1:]), attention.keys(normed), attention.value(normed)
        return x[:, 1:] + self.dropout(attention.attend(queries, keys, values, mask))

    def write(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """x [N, 1, d_model], keys and values of the memory [N, 4, d_model] -> [N, 1, d_model]"""
        queries = self.cross_attention.query(self.cross_norm(x))
        x = x + self.dropout(self.cross_attention.attend(queries, keys, values, mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


def each_pair_once(function: Callable, pairs: Tensor) -> Tensor:
    """function(pairs [N, 2]) -> [N, d] for pairs of symbols […, 2], looked up in a table of all: […, d]"""
    symbols = torch.arange(VOCAB_SIZE, device=pairs.device)
    return F.embedding(pairs[..., 0] * VOCAB_SIZE + pairs[..., 1], function(torch.cartesian_prod(symbols, symbols)))


class PlaceValueTransformer(nn.Module):
    """Columns of digits in, the digits of the sum out, units first: one encoder and one decoder layer.

    A symbol of the answer depends on its window alone (proof.py); more layers would let it see further.
    """

    def __init__(self, d_model: int = 16, num_heads: int = 2, d_ff: int = 32, dropout: float = 0.0):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB_SIZE, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.dropout = nn.Dropout(dropout)
        shape = (d_model, num_heads, d_ff, dropout)
        self.encoder = nn.ModuleList([EncoderLayer(*shape)])
        self.decoder = nn.ModuleList([LocalDecoderLayer(*shape)])
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, VOCAB_SIZE)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim))

    def remember(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """columns [B, P, 2] -> keys and values of each position's window in the memory: [B, P, 4, d_model]

        Below the first position there is nothing; a mask hides that half of its window.
        """

        def encode(pairs: Tensor) -> Tensor:
            """Each position is a sequence of its own, two symbols long: [N, 2] -> memory [N, 2·d_model]"""
            x = self.embed(pairs)
            for layer in self.encoder:
                x = layer(x)
            return self.encoder_norm(x).flatten(1)

        here = each_pair_once(encode, columns).unflatten(2, (2, -1))
        below = F.pad(here[:, :-1], (0, 0, 0, 0, 1, 0))
        windows, cross = torch.cat([below, here], 2), self.decoder[0].cross_attention
        return cross.keys(windows), cross.value(windows)

    def read(self, pairs: Tensor) -> Tensor:
        """The last two symbols written, PAD where there is but one: […, 2] -> […, d_model]"""

        def attend(pairs: Tensor) -> Tensor:
            return self.decoder[0].read(self.embed(pairs), (pairs != PAD)[:, None, None]).squeeze(1)

        return each_pair_once(attend, pairs)

    def write(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """x [N, d_model], keys and values [N, 4, d_model] -> logits of the next symbols [N, vocab]"""
        x = self.decoder[0].write(x.unsqueeze(1), keys, values, mask)
        return self.output(self.decoder_norm(x)).squeeze(1)

    def forward(self, columns: Tensor, written: Tensor) -> Tensor:
        """columns [B, P, 2], symbols written before [B, T], T <= P -> logits [B, T, vocab] of the next symbols"""
        keys, values = self.remember(columns[:, : written.shape[1]])
        before = F.pad(written[:, :-1], (1, 0), value=PAD)
        x = self.read(torch.stack([before, written], 2))
        mask = torch.ones(*written.shape, 1, 1, 4, dtype=torch.bool, device=written.device)
        mask[:, 0, ..., :2] = False
        x, keys, values, mask = (tensor.flatten(0, 1) for tensor in (x, keys, values, mask))
        return self.write(x, keys, values, mask).unflatten(0, written.shape)

    @torch.inference_mode()
    def generate(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Greedy answers, units first, one step a symbol: tokens and their logit margins, each [B, P].

        What a row holds after its END means nothing.
        """
        symbols = torch.arange(VOCAB_SIZE, device=columns.device)
        histories = self.read(torch.cartesian_prod(symbols, symbols))  # the decoder's input after any two symbols
        last = columns.new_full((len(columns),), START)
        history = PAD * VOCAB_SIZE + last
        mask = torch.tensor([False, False, True, True], device=columns.device)
        answer, margins = [], []
        size = max(1, POSITIONS_AT_ONCE // len(columns))
        for start in range(0, columns.shape[1], size):
            below = min(start, 1)  # the position below the first of these, if there is one
            keys, values = (
                part[:, below:].unbind(1) for part in self.remember(columns[:, start - below : start + size])
            )
            tokens, logits = [], []
            for position in range(len(keys)):
                logits.append(self.write(histories[history], keys[position], values[position], mask))
                tokens.append(logits[-1].argmax(-1))
                mask, history, last = None, last * VOCAB_SIZE + tokens[-1], tokens[-1]
            answer.append(torch.stack(tokens, 1))
            best = torch.stack(logits, 1).topk(2).values
            margins.append(best[..., 0] - best[..., 1])
        return torch.cat(answer, 1), torch.cat(margins, 1)
