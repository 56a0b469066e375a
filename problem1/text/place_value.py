"""A transformer that adds numbers of any length: a digit's position is its place value, and attention is local.

The operands stand one below the other (see dataset.py). The encoder sees only its own place: both digits there.
Decoder position t writes the answer's symbol at place t. It sees the memory of its own place and of the one below,
and the symbol it wrote last and, with it, the one before:

    place        …  t-1   t  …                          window of position t
    operands     …   7    4  …     cross-attention:     7 8 4 1      (4 keys, place t-1 and place t)
                 …   8    1  …
    answer    …  0   5    ?        self-attention:      0 5          (2 keys)

Nothing else: no absolute position, so what it does at one place it does at every place. Keys inside the window
are gathered (as views), so time and memory grow with the number of places, and no matrix of all pairs exists.
"""

import math

import torch
from torch import Tensor, nn

from lab.fast import Linear
from lab.hooks import HeadHooks
from problem1.attention import KEYS, QUERIES, VALUES, MultiHeadAttention, scaled_dot_product_attention
from problem1.model import DecoderLayer, EncoderLayer
from problem1.text.dataset import END, START, VOCAB_SIZE

SLOTS = 2  # operands at a place


class WindowAttention(MultiHeadAttention):
    """Every query has its own few keys, told apart by a learned vector for each place in the window.

    The vector is added to the key (Shaw et al. 2018), so that a head can look for "the place below".
    """

    def __init__(self, d_model: int, num_heads: int, window: int, name: str):
        super().__init__(d_model, num_heads, name)
        self.offsets = nn.Parameter(torch.randn(num_heads, 1, window, d_model // num_heads) * 0.02)

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, hooks: HeadHooks | None = None
    ) -> tuple[Tensor, Tensor]:
        """queries [B, H, T, d_head], keys, values [B, H, T, W, d_head] -> [B, T, d_model], weights [B, H, T, W]."""
        heads, weights = scaled_dot_product_attention(queries.unsqueeze(-2), keys + self.offsets, values, mask)
        heads, weights = heads.squeeze(-2), weights.squeeze(-2)
        if hooks is not None:
            heads = hooks(self.name, heads, weights)
        return self.output(self.combine_heads(heads)), weights


def windows(x: Tensor, size: int, step: int) -> Tensor:
    """[B, H, N, d] -> [B, H, T, size, d]: every `step`-th run of `size` neighbours, as a view, not a copy."""
    return x.unfold(2, size, step).transpose(-1, -2)


def first_has_none_below(count: int, window: int, device) -> Tensor:
    """[T, 1, W] mask: all may be seen, but the first position's lower half of the window does not exist."""
    mask = torch.ones(count, 1, window, dtype=torch.bool, device=device)
    mask[0, :, : window // 2] = False
    return mask


class LocalDecoderLayer(DecoderLayer):
    """A decoder layer whose two attentions see windows: its own position and the one before."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float, name: str):
        super().__init__(d_model, num_heads, d_ff, dropout, name)
        self.self_attention = WindowAttention(d_model, num_heads, 2, f"{name}.self")
        self.cross_attention = WindowAttention(d_model, num_heads, 2 * SLOTS, f"{name}.cross")

    def look_at(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """memory [B, P, 2, d_model] -> keys and values [B, H, P, 4, d_head] of each place and the one below."""
        below_the_first = memory.new_zeros(len(memory), SLOTS, memory.shape[-1])
        memory = torch.cat([below_the_first, memory.flatten(1, 2)], 1)
        keys, values = self.cross_attention.project(memory, KEYS, VALUES)
        return windows(keys, 2 * SLOTS, SLOTS), windows(values, 2 * SLOTS, SLOTS)

    def forward(self, x, looked_at, first: bool = True, hooks=None, kept: dict | None = None) -> Tensor:
        """x [B, T, d_model] -> the same; `looked_at` is what `look_at` made, at x's positions.

        `first`: x begins at the first position. Otherwise `kept` holds the key and value of the position before x.
        """
        count = x.shape[1]
        queries, keys, values = self.self_attention.project(self.self_norm(x))
        before = (torch.zeros_like(keys[:, :, :1]),) * 2 if first else (kept["key"], kept["value"])
        keys, values = torch.cat([before[0], keys], 2), torch.cat([before[1], values], 2)
        if kept is not None:
            kept.update(key=keys[:, :, -1:], value=values[:, :, -1:])

        mask = first_has_none_below(count, 2, x.device) if first else None
        x = x + self.dropout(
            self.self_attention.attend(queries, windows(keys, 2, 1), windows(values, 2, 1), mask, hooks)[0]
        )
        mask = first_has_none_below(count, 2 * SLOTS, x.device) if first else None
        (queries,) = self.cross_attention.project(self.cross_norm(x), QUERIES, QUERIES)
        x = x + self.dropout(self.cross_attention.attend(queries, *looked_at, mask, hooks)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class PlacesTransformer(nn.Module):
    """Columns of digits in, the sum's digits out, units first.

    With one decoder layer, the default, a symbol of the answer depends on its window alone (proof.py).
    Each further layer lets it see one place further down; encoder layers never see more than their own place.
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
        self.output = Linear(d_model, VOCAB_SIZE)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim))

    def encode(self, columns: Tensor, hooks: HeadHooks | None = None) -> Tensor:
        """columns [B, P, 2] -> memory [B, P, 2, d_model]: each place is a sequence of its own, two symbols long."""
        x = self.embed(columns).flatten(0, 1)
        for layer in self.encoder:
            x = layer(x, hooks=hooks)
        return self.encoder_norm(x).unflatten(0, columns.shape[:2])

    def forward(self, columns: Tensor, written: Tensor, hooks: HeadHooks | None = None) -> Tensor:
        """columns [B, P, 2], symbols written before [B, T], T <= P -> logits [B, T, vocab] of the next symbols"""
        count = written.shape[1]
        memory = self.encode(columns, hooks)[:, :count]
        x = self.embed(written)
        for layer in self.decoder:
            x = layer(x, layer.look_at(memory), hooks=hooks)
        return self.output(self.decoder_norm(x))

    @torch.inference_mode()
    def generate(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Greedy answers [B, T], units first, and the logits [B, T, vocab] they were chosen from.

        Ends when every answer has its END (what a row holds after that means nothing) or places have run out.
        A step costs the same at every place: of all that was written it needs the last position's key and value.
        """
        memory = self.encode(columns)
        looked_at = [layer.look_at(memory) for layer in self.decoder]
        kept = [{} for _ in self.decoder]
        token = columns.new_full((len(columns), 1), START)
        ended = torch.zeros_like(token, dtype=torch.bool)
        answer, chosen_from = [], []
        for place in range(columns.shape[1]):
            x = self.embed(token)
            for layer, (keys, values), its in zip(self.decoder, looked_at, kept, strict=True):
                here = keys[:, :, place : place + 1], values[:, :, place : place + 1]
                x = layer(x, here, first=place == 0, kept=its)
            logits = self.output(self.decoder_norm(x))
            token = logits.argmax(-1)
            answer.append(token)
            chosen_from.append(logits)
            ended |= token == END
            if ended.all():
                break
        return torch.cat(answer, 1), torch.cat(chosen_from, 1)
