"""A sequence-to-sequence transformer from scratch, pre-norm. It knows tokens, not what they mean.

    source tokens -> encoder -> memory [B, S, d_model]
    target tokens so far + memory -> decoder -> logits of the next token [B, T, vocab_size]

Normalising before each sublayer, not after, keeps gradients of even size through all layers: it trains at
once with a large learning rate, where the post-norm of the original paper needs a long warm-up (Xiong et al. 2020).
"""

import math
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.heads import HeadTap
from lab.linear import Linear
from problem1.attention import KEYS, QUERIES, VALUES, MultiHeadAttention, create_causal_mask


class PositionalEncoding(nn.Module):
    """x + PE with PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos(p / 10000^(2i/d)): [B, T, d] -> [B, T, d]"""

    def __init__(self, d_model: int, max_len: int = 5000, dropout: float = 0.0):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000.0) / d_model))
        table = torch.zeros(max_len, d_model)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate[: d_model // 2])
        self.register_buffer("table", table, persistent=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """`start` is the position of x's first token: later than 0 when decoding goes on from kept keys."""
        end = start + x.shape[1]
        if end > len(self.table):
            raise ValueError(f"{end} positions are needed, but max_len is {len(self.table)}")
        return self.dropout(x + self.table[start:end])


class FeedForward(nn.Module):
    """Two layers on each position alone: [B, T, d_model] -> [B, T, d_ff] -> [B, T, d_model]"""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.inner = Linear(d_model, d_ff)
        self.outer = Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        # In place: one large tensor less to fill. As rows: what stands in a view autograd would copy first.
        hidden = torch.relu_(self.inner(x.flatten(0, -2)))
        return self.outer(self.dropout(hidden)).view(x.shape)


class EncoderLayer(nn.Module):
    """Every position looks at every other, then thinks for itself: [B, S, d_model] -> the same."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, name: str = "encoder.0"):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, f"{name}.self")
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None, tap: HeadTap | None = None) -> Tensor:
        normed = self.attention_norm(x)
        x = x + self.dropout(self.attention(normed, normed, normed, mask, tap)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class DecoderLayer(nn.Module):
    """Each position looks at those before it, then at the memory, then thinks: [B, T, d_model] -> the same."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, name: str = "decoder.0"):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, f"{name}.self")
        self.cross_attention = MultiHeadAttention(d_model, num_heads, f"{name}.cross")
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.self_norm, self.cross_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        tap: HeadTap | None = None,
        kept: dict | None = None,
    ) -> Tensor:
        """`kept` (a dictionary, empty at first) holds keys and values from call to call: x is then only the
        tokens that are new, and what was computed for the earlier ones and for the memory is not computed again.
        """
        queries, keys, values = self.self_attention.project(self.self_norm(x))
        if kept:
            keys, values = torch.cat([kept["keys"], keys], 2), torch.cat([kept["values"], values], 2)
            memory_keys, memory_values = kept["memory"]
        else:
            memory_keys, memory_values = self.cross_attention.project(memory, KEYS, VALUES)
        if kept is not None:
            kept.update(keys=keys, values=values, memory=(memory_keys, memory_values))

        x = x + self.dropout(self.self_attention.attend(queries, keys, values, tgt_mask, tap)[0])
        (queries,) = self.cross_attention.project(self.cross_norm(x), QUERIES, QUERIES)
        x = x + self.dropout(self.cross_attention.attend(queries, memory_keys, memory_values, src_mask, tap)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class Seq2SeqTransformer(nn.Module):
    """Encoder and decoder over one vocabulary.

    Masks hold 1 or True where attention is allowed: src_mask [B, 1, 1, S] leaves out padding of the source;
    tgt_mask is causal where none is given. Heads are called "encoder.0.self.head0" … "decoder.1.cross.head3";
    every method takes a `tap` that reads and edits them (lab/heads.py).
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 64,
        num_heads: int = 4,
        num_encoder_layers: int = 2,
        num_decoder_layers: int = 2,
        d_ff: int = 256,
        dropout: float = 0.0,
        max_len: int = 256,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        # Rows of about unit length, so that √d_model times a row is as large as a position's encoding.
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.position = PositionalEncoding(d_model, max_len, dropout)
        shape = (d_model, num_heads, d_ff, dropout)
        self.encoder = nn.ModuleList(EncoderLayer(*shape, f"encoder.{i}") for i in range(num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*shape, f"decoder.{i}") for i in range(num_decoder_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.output = Linear(d_model, vocab_size)

    def head_names(self) -> list[str]:
        """Every head, from the source to the output."""
        modules = [layer.attention for layer in self.encoder]
        for layer in self.decoder:
            modules += [layer.self_attention, layer.cross_attention]
        return [f"{module.name}.head{head}" for module in modules for head in range(module.num_heads)]

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """[B, T] -> [B, T, d_model]"""
        return self.position(self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim), start)

    def encode(self, src: Tensor, src_mask: Tensor | None = None, tap: HeadTap | None = None) -> Tensor:
        """source [B, S] -> memory [B, S, d_model]"""
        x = self.embed(src)
        for layer in self.encoder:
            x = layer(x, src_mask, tap)
        return self.encoder_norm(x)

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        tap: HeadTap | None = None,
    ) -> Tensor:
        """target so far [B, T] and memory [B, S, d_model] -> logits [B, T, vocab_size] of each next token"""
        if tgt_mask is None:
            tgt_mask = create_causal_mask(tgt.shape[1], tgt.device)
        x = self.embed(tgt)
        for layer in self.decoder:
            x = layer(x, memory, src_mask, tgt_mask, tap)
        return self.output(self.decoder_norm(x))

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        tap: HeadTap | None = None,
    ) -> Tensor:
        """source [B, S], target so far [B, T] -> logits [B, T, vocab_size] of each next token"""
        return self.decode(tgt, self.encode(src, src_mask, tap), src_mask, tgt_mask, tap)

    @torch.no_grad()
    def generate(self, src: Tensor, max_len: int, start_token: int, src_mask: Tensor | None = None) -> Tensor:
        """Greedy answer [B, max_len] (without the start token), one token at a time, each the likeliest.

        Keys and values of earlier tokens are kept, so that a step costs one token and not the whole prefix.
        """
        was_training = self.training
        self.eval()
        memory = self.encode(src, src_mask)
        token = src.new_full((len(src), 1), start_token)
        kept = [{} for _ in self.decoder]
        answer = []
        for position in range(max_len):
            x = self.embed(token, position)
            for layer, its in zip(self.decoder, kept, strict=True):
                x = layer(x, memory, src_mask, kept=its)
            token = self.output(self.decoder_norm(x)).argmax(-1)
            answer.append(token)
        self.train(was_training)
        return torch.cat(answer, dim=1) if answer else src.new_empty(len(src), 0)
