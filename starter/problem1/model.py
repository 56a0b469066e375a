"""A sequence-to-sequence transformer. Write what raises NotImplementedError; then `python check.py model`.

Layer norms may stand after each sublayer, as in the paper, or before it, which needs no long warm-up.
"""

from torch import nn


class PositionalEncoding(nn.Module):
    """x + PE with PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos(p / 10000^(2i/d))"""

    def __init__(self, d_model, max_len=5000):
        """Fixed numbers, not trained: a buffer."""
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        """[batch, T, d_model] -> the same"""
        raise NotImplementedError


class FeedForward(nn.Module):
    """W2 relu(W1 x + b1) + b2, applied to each position alone; dropout between the two layers"""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        """[batch, T, d_model] -> the same"""
        raise NotImplementedError


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward; each with a residual connection, a layer norm and dropout."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__()
        raise NotImplementedError

    def forward(self, x, mask=None):
        """x [batch, S, d_model]; mask for the attention -> [batch, S, d_model]"""
        raise NotImplementedError


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, feed-forward; each as in EncoderLayer."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__()
        raise NotImplementedError

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        """x [batch, T, d_model] attends to itself where tgt_mask allows, and to memory [batch, S, d_model], the
        encoder's output, where src_mask allows -> [batch, T, d_model]
        """
        raise NotImplementedError


class Seq2SeqTransformer(nn.Module):
    """Masks hold 1 where attention is allowed: src_mask [batch, 1, 1, S], tgt_mask [1, 1, T, T]"""

    def __init__(
        self,
        vocab_size,
        d_model=64,
        num_heads=4,
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_ff=256,
        dropout=0.0,
        max_len=256,
    ):
        """Embeddings of source and target, positions, layers, and the projection to logits."""
        super().__init__()
        raise NotImplementedError

    def encode(self, src, src_mask=None):
        """source tokens [batch, S] -> memory [batch, S, d_model]"""
        raise NotImplementedError

    def decode(self, tgt, memory, src_mask=None, tgt_mask=None):
        """target tokens so far [batch, T] and memory -> logits [batch, T, vocab_size] of each next token"""
        raise NotImplementedError

    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        """source [batch, S], target so far [batch, T] -> logits [batch, T, vocab_size] of each next token"""
        raise NotImplementedError

    def generate(self, src, max_len, start_token):
        """Greedy decoding: from start_token on, always the most probable next token.

        source [batch, S] -> the tokens written, [batch, max_len], without the start token
        """
        raise NotImplementedError
