"""A sequence-to-sequence transformer from scratch, pre-norm.

    source tokens                 -> encoder -> memory [B, S, d_model]
    target tokens so far + memory -> decoder -> logits of the next token [B, T, vocab_size]

Layer norms stand before each sublayer, not after it: the gradients then have about the same size in all layers,
and training starts at once with a large learning rate, where the post-norm of the original paper needs a long
warm-up (Xiong et al. 2020).
"""

import math

import torch
from torch import Tensor, nn

try:
    from problem1.attention import MultiHeadAttention, create_causal_mask
except ModuleNotFoundError:  # for a script in this folder that says `from model import …`
    from attention import MultiHeadAttention, create_causal_mask


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

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        if length > len(self.table):
            raise ValueError(f"{length} positions are needed, but max_len is {len(self.table)}")
        return self.dropout(x + self.table[:length])


class FeedForward(nn.Module):
    """Two layers applied to each position alone: [B, T, d_model] -> [B, T, d_ff] -> [B, T, d_model]"""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(torch.relu(self.inner(x))))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward: [B, S, d_model] -> the same."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.attention_norm = nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        normed = self.attention_norm(x)
        x = x + self.dropout(self.attention(normed, normed, normed, mask)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's memory, then feed-forward: [B, T, d_model] -> the same."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.self_norm = nn.LayerNorm(d_model)
        self.cross_norm = nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        normed = self.self_norm(x)
        x = x + self.dropout(self.self_attention(normed, normed, normed, tgt_mask)[0])
        x = x + self.dropout(self.cross_attention(self.cross_norm(x), memory, memory, src_mask)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class Seq2SeqTransformer(nn.Module):
    """Encoder and decoder over one vocabulary.

    Masks hold 1 or True where attention is allowed: src_mask [B, 1, 1, S] leaves out padding of the source;
    tgt_mask is causal if none is given.
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
        self.encoder = nn.ModuleList(EncoderLayer(*shape) for _ in range(num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*shape) for _ in range(num_decoder_layers))
        self.encoder_norm = nn.LayerNorm(d_model)
        self.decoder_norm = nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, vocab_size)

    def embed(self, tokens: Tensor) -> Tensor:
        """[B, T] -> [B, T, d_model]"""
        return self.position(self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim))

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """source [B, S] -> memory [B, S, d_model]"""
        x = self.embed(src)
        for layer in self.encoder:
            x = layer(x, src_mask)
        return self.encoder_norm(x)

    def decode(
        self, tgt: Tensor, memory: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """target so far [B, T] and memory [B, S, d_model] -> logits [B, T, vocab_size] of each next token"""
        if tgt_mask is None:
            tgt_mask = create_causal_mask(tgt.shape[1], tgt.device)
        x = self.embed(tgt)
        for layer in self.decoder:
            x = layer(x, memory, src_mask, tgt_mask)
        return self.output(self.decoder_norm(x))

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """source [B, S], target so far [B, T] -> logits [B, T, vocab_size] of each next token"""
        return self.decode(tgt, self.encode(src, src_mask), src_mask, tgt_mask)

    @torch.no_grad()
    def generate(self, src: Tensor, max_len: int, start_token: int) -> Tensor:
        """Greedy decoding: source [B, S] -> answers [B, max_len], without the start token."""
        memory = self.encode(src)
        tgt = src.new_full((len(src), 1), start_token)
        for _ in range(max_len):
            logits = self.decode(tgt, memory)
            next_token = logits[:, -1].argmax(-1, keepdim=True)
            tgt = torch.cat([tgt, next_token], dim=1)
        return tgt[:, 1:]
