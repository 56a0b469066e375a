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

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """`start` is the position of x's first token: above 0 when decoding with a KV cache."""
        end = start + x.shape[1]
        if end > len(self.table):
            raise ValueError(f"{end} positions are needed, but max_len is {len(self.table)}")
        return self.dropout(x + self.table[start:end])


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

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, name: str = "encoder.0"):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, f"{name}.self")
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None, hooks=None) -> Tensor:
        normed = self.attention_norm(x)
        x = x + self.dropout(self.attention(normed, normed, normed, mask, hooks)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's memory, then feed-forward: [B, T, d_model] -> the same."""

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
        hooks=None,
        cache: dict | None = None,
    ) -> Tensor:
        """cache: the KV cache, an empty dictionary at first. With it, x is only the tokens that are new; keys and
        values of the earlier ones, and of the memory, come from the calls before."""
        attention, normed = self.self_attention, self.self_norm(x)
        keys, values = attention.key(normed), attention.value(normed)
        if cache:
            keys, values = torch.cat([cache["keys"], keys], 1), torch.cat([cache["values"], values], 1)
            memory_keys, memory_values = cache["memory_keys"], cache["memory_values"]
        else:
            memory_keys, memory_values = self.cross_attention.key(memory), self.cross_attention.value(memory)
        if cache is not None:
            cache.update(keys=keys, values=values, memory_keys=memory_keys, memory_values=memory_values)

        x = x + self.dropout(attention.attend(attention.query(normed), keys, values, tgt_mask, hooks)[0])
        queries = self.cross_attention.query(self.cross_norm(x))
        x = x + self.dropout(self.cross_attention.attend(queries, memory_keys, memory_values, src_mask, hooks)[0])
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class Seq2SeqTransformer(nn.Module):
    """Encoder and decoder over one vocabulary.

    Masks hold 1 or True where attention is allowed: src_mask [B, 1, 1, S] leaves out padding of the source;
    tgt_mask is causal if none is given. Heads are called "encoder.0.self.head0" … "decoder.1.cross.head3"; `hooks`
    record them and intervene in them (lab/hooks.py).
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
        self.output = nn.Linear(d_model, vocab_size)

    def head_names(self) -> list[str]:
        """Every head, from the source to the output."""
        modules = [layer.attention for layer in self.encoder]
        for layer in self.decoder:
            modules += [layer.self_attention, layer.cross_attention]
        return [f"{module.name}.head{head}" for module in modules for head in range(module.num_heads)]

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """[B, T] -> [B, T, d_model]"""
        return self.position(self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim), start)

    def encode(self, src: Tensor, src_mask: Tensor | None = None, hooks=None) -> Tensor:
        """source [B, S] -> memory [B, S, d_model]"""
        x = self.embed(src)
        for layer in self.encoder:
            x = layer(x, src_mask, hooks)
        return self.encoder_norm(x)

    def decode(
        self, tgt: Tensor, memory: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None, hooks=None
    ) -> Tensor:
        """target so far [B, T] and memory [B, S, d_model] -> logits [B, T, vocab_size] of each next token"""
        if tgt_mask is None:
            tgt_mask = create_causal_mask(tgt.shape[1], tgt.device)
        x = self.embed(tgt)
        for layer in self.decoder:
            x = layer(x, memory, src_mask, tgt_mask, hooks)
        return self.output(self.decoder_norm(x))

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None, hooks=None
    ) -> Tensor:
        """source [B, S], target so far [B, T] -> logits [B, T, vocab_size] of each next token"""
        return self.decode(tgt, self.encode(src, src_mask, hooks), src_mask, tgt_mask, hooks)

    @torch.no_grad()
    def generate(self, src: Tensor, max_len: int, start_token: int, src_mask: Tensor | None = None) -> Tensor:
        """Greedy decoding: answers [B, max_len] without the start token. A KV cache makes a step cost one token."""
        was_training = self.training
        self.eval()
        memory = self.encode(src, src_mask)
        token = src.new_full((len(src), 1), start_token)
        caches = [{} for _ in self.decoder]
        answer = [src.new_empty(len(src), 0)]
        for position in range(max_len):
            x = self.embed(token, position)
            for layer, cache in zip(self.decoder, caches, strict=True):
                x = layer(x, memory, src_mask, cache=cache)
            token = self.output(self.decoder_norm(x)).argmax(-1)
            answer.append(token)
        self.train(was_training)
        return torch.cat(answer, dim=1)
