"""A transformer that adds numbers of any length: a digit's position is its place value, and attention is local.

The operands stand one below the other (see dataset.py). The encoder sees one position alone: both digits there.
The decoder writes the answer's symbol at position t. It attends to the memory of positions t and t-1 and, among
the symbols it has read, to the last two:

    position     …  t-1   t  …                          window of position t
    operands     …   7    4  …     cross-attention:     7 8 4 1      (4 keys: positions t-1 and t)
                 …   8    1  …
    answer    …  0   5    ?        self-attention:      0 5          (2 keys)

There is no absolute position, so what the model does at one position it does at every position. Only the keys in
the window are gathered (as views), so time and memory grow with the number of digits, not with its square.
"""

import math

import torch
from torch import Tensor, nn

from problem1.attention import MultiHeadAttention, scaled_dot_product_attention
from problem1.model import DecoderLayer, EncoderLayer
from problem1.text.dataset import END, START, VOCAB_SIZE


class WindowAttention(MultiHeadAttention):
    """Each query attends to `window` neighbouring keys of its own: query t to the keys from t·step on.

    A learned vector for each slot of the window is added to the keys (Shaw et al. 2018), so that a head can attend
    to "the digit of a, one position below".
    """

    def __init__(self, d_model: int, num_heads: int, window: int, step: int, name: str):
        super().__init__(d_model, num_heads, name)
        self.window, self.step = window, step
        self.offsets = nn.Parameter(torch.randn(num_heads, 1, window, d_model // num_heads) * 0.02)

    def windows(self, x: Tensor) -> Tensor:
        """[B, N, d_model] -> [B, H, T, window, d_head], a view"""
        return self.split_heads(x).unfold(2, self.window, self.step).transpose(-1, -2)

    def attend(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None, hooks=None) -> tuple[Tensor, Tensor]:
        """Q [B, T, d_model], K and V [B, (T-1)·step + window, d_model] -> output [B, T, d_model], weights
        [B, H, T, window]"""
        Q, K, V = self.split_heads(Q).unsqueeze(-2), self.windows(K), self.windows(V)  # Q: [B, H, T, 1, d_head]
        heads, weights = scaled_dot_product_attention(Q, K + self.offsets, V, mask)
        heads, weights = heads.squeeze(-2), weights.squeeze(-2)
        if hooks is not None:
            heads = hooks(self.name, heads, weights)
        return self.output(self.combine_heads(heads)), weights


def zeros_before(x: Tensor, count: int) -> Tensor:
    """[B, N, d] -> [B, count + N, d]: what stands below the first position, hidden by a mask"""
    return nn.functional.pad(x, (0, 0, count, 0))


def all_but_below_first(count: int, window: int, device: torch.device) -> Tensor:
    """[T, 1, window] mask: every key but the lower half of the first window, which lies below the first position."""
    mask = torch.ones(count, 1, window, dtype=torch.bool, device=device)
    mask[0, :, : window // 2] = False
    return mask


class LocalDecoderLayer(DecoderLayer):
    """A decoder layer whose two attentions see windows: position t and the one below it."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float, name: str):
        super().__init__(d_model, num_heads, d_ff, dropout, name)
        self.self_attention = WindowAttention(d_model, num_heads, 2, 1, f"{name}.self")
        self.cross_attention = WindowAttention(d_model, num_heads, 4, 2, f"{name}.cross")  # two operands a position

    def forward(self, x: Tensor, memory: Tensor, hooks=None, cache: dict | None = None) -> Tensor:
        """x [B, T, d_model], memory [B, 2·positions, d_model] -> [B, T, d_model]

        cache: the KV cache, an empty dictionary at first. With it, x is only the tokens that are new; of all
        positions before, the key and the value of the last one are needed, so a step costs the same everywhere.
        """
        attention, cross, normed = self.self_attention, self.cross_attention, self.self_norm(x)
        keys, values = attention.key(normed), attention.value(normed)
        start = cache["end"] if cache else 0
        end = start + x.shape[1]
        if cache:
            keys, values = torch.cat([cache["keys"], keys], 1), torch.cat([cache["values"], values], 1)
            memory_keys, memory_values, masks = cache["memory_keys"], cache["memory_values"], (None, None)
        else:
            keys, values = zeros_before(keys, 1), zeros_before(values, 1)
            memory_keys, memory_values = zeros_before(cross.key(memory), 2), zeros_before(cross.value(memory), 2)
            masks = all_but_below_first(end, 2, x.device), all_but_below_first(end, 4, x.device)
        if cache is not None:
            cache.update(keys=keys[:, -1:], values=values[:, -1:], end=end)
            cache.update(memory_keys=memory_keys, memory_values=memory_values)

        x = x + self.dropout(attention.attend(attention.query(normed), keys, values, masks[0], hooks)[0])
        here = slice(2 * start, 2 * end + 2)
        queries = cross.query(self.cross_norm(x))
        x = x + self.dropout(cross.attend(queries, memory_keys[:, here], memory_values[:, here], masks[1], hooks)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class PlaceValueTransformer(nn.Module):
    """Columns of digits in, the digits of the sum out, units first.

    With one decoder layer, the default, a symbol of the answer depends on its window alone (proof.py).
    Each further layer lets it see one position further down; encoder layers see one position alone.
    """

    def __init__(self, d_model: int = 64, num_heads: int = 4, num_layers: int = 1, d_ff: int = 256, dropout: float = 0):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB_SIZE, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.dropout = nn.Dropout(dropout)
        shape = (d_model, num_heads, d_ff, dropout)
        self.encoder = nn.ModuleList(EncoderLayer(*shape, f"encoder.{i}") for i in range(num_layers))
        self.decoder = nn.ModuleList(LocalDecoderLayer(*shape, f"decoder.{i}") for i in range(num_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, VOCAB_SIZE)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim))

    def encode(self, columns: Tensor, hooks=None) -> Tensor:
        """columns [B, P, 2] -> memory [B, 2·P, d_model]: each position is a sequence of its own, two symbols long."""
        x = self.embed(columns).flatten(0, 1)
        for layer in self.encoder:
            x = layer(x, hooks=hooks)
        return self.encoder_norm(x).unflatten(0, columns.shape[:2]).flatten(1, 2)

    def forward(self, columns: Tensor, written: Tensor, hooks=None) -> Tensor:
        """columns [B, P, 2], symbols written before [B, T], T <= P -> logits [B, T, vocab] of the next symbols"""
        memory = self.encode(columns, hooks)
        x = self.embed(written)
        for layer in self.decoder:
            x = layer(x, memory, hooks)
        return self.output(self.decoder_norm(x))

    @torch.inference_mode()
    def generate(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Greedy answers [B, T], units first, and the logits [B, T, vocab] they were chosen from.

        Ends when every answer has its END (what a row holds after it means nothing) or the positions have run out.
        """
        memory = self.encode(columns)
        caches = [{} for _ in self.decoder]
        token = columns.new_full((len(columns), 1), START)
        ended = torch.zeros_like(token, dtype=torch.bool)
        answer, chosen_from = [], []
        for _ in range(columns.shape[1]):
            x = self.embed(token)
            for layer, cache in zip(self.decoder, caches, strict=True):
                x = layer(x, memory, cache=cache)
            logits = self.output(self.decoder_norm(x))
            token = logits.argmax(-1)
            answer.append(token)
            chosen_from.append(logits)
            ended |= token == END
            if ended.all():
                break
        return torch.cat(answer, 1), torch.cat(chosen_from, 1)
