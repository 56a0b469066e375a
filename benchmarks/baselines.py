"""What people would use instead: the same models built of torch.nn, and the usual training recipe of this homework."""

import math
import re

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from problem1.dataset import decoder_inputs
from problem1.model import PositionalEncoding, Seq2SeqTransformer
from problem2.dataset import PAD
from problem2.model import SortingClassifier

SHAPE = {"dropout": 0.0, "batch_first": True, "norm_first": True}
RENAMED = (  # our names of the weights -> those of torch.nn
    (r"^(encoder|decoder)\.", r"transformer.\1.layers."),
    (r"^(encoder|decoder)_norm", r"transformer.\1.norm"),
    (r"^layers\.", "encoder.layers."),
    (r"^norm\.", "encoder.norm."),
    (r"cross_attention\.", "multihead_attn."),
    (r"\.(self_)?attention\.", ".self_attn."),
    (r"(attn)\.(query|key|value)\.", r"\1.in_proj_"),
    (r"attn\.output", "attn.out_proj"),
    (r"feed_forward\.inner", "linear1"),
    (r"feed_forward\.outer", "linear2"),
    (r"(attention|self)_norm", "norm1"),
    (r"(decoder.*)feed_forward_norm", r"\1norm3"),
    (r"(cross|feed_forward)_norm", "norm2"),
)


class ReferenceTransformer(nn.Module):
    """problem1's model with `nn.Transformer` in the middle, and the weights of `ours`."""

    def __init__(self, ours: Seq2SeqTransformer):
        super().__init__()
        vocab_size, d_model, num_heads, num_layers, d_ff = sizes(ours, ours.encoder)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = PositionalEncoding(d_model, len(ours.position.table))
        # The encoder that nn.Transformer would make, without its warning that pre-norm has no nested tensors.
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, **SHAPE)
        encoder = nn.TransformerEncoder(layer, num_layers, nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.transformer = nn.Transformer(
            d_model, num_heads, num_layers, num_layers, d_ff, custom_encoder=encoder, **SHAPE
        )
        self.output = nn.Linear(d_model, vocab_size)
        self.load_state_dict(renamed(ours))

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """source [B, S], target so far [B, T] -> logits [B, T, vocab_size]"""
        root = math.sqrt(self.embedding.embedding_dim)
        source, target = self.position(self.embedding(src) * root), self.position(self.embedding(tgt) * root)
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        return self.output(self.transformer(source, target, tgt_mask=mask, tgt_is_causal=True))


class ReferenceClassifier(nn.Module):
    """problem2's model (sinusoidal, mean pooling) with `nn.TransformerEncoder` in the middle, and the weights of
    `ours`."""

    def __init__(self, ours: SortingClassifier, max_len: int = 8192):
        super().__init__()
        vocab_size, d_model, num_heads, num_layers, d_ff = sizes(ours, ours.layers)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = PositionalEncoding(d_model, max_len)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, **SHAPE)
        self.encoder = nn.TransformerEncoder(layer, num_layers, nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.output = nn.Linear(d_model, 2)
        self.load_state_dict(renamed(ours))

    def forward(self, x: Tensor) -> Tensor:
        """tokens [B, T] -> logits [B, 2]"""
        padding = x == PAD
        hidden = self.position(self.embedding(x) * math.sqrt(self.embedding.embedding_dim))
        hidden = self.encoder(hidden, src_key_padding_mask=padding)
        weight = (~padding).unsqueeze(-1).to(hidden.dtype)
        return self.output((hidden * weight).sum(1) / weight.sum(1))


def sizes(model: nn.Module, layers: nn.ModuleList) -> tuple[int, int, int, int, int]:
    vocab_size, d_model = model.embedding.weight.shape
    return vocab_size, d_model, layers[0].attention.num_heads, len(layers), layers[0].feed_forward.inner.out_features


def renamed(ours: nn.Module) -> dict[str, Tensor]:
    """Our weights under torch.nn's names; queries, keys and values, in this order, share one matrix there."""
    weights: dict[str, Tensor] = {}
    for name, value in ours.state_dict().items():
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        weights[name] = torch.cat([weights[name], value]) if name in weights else value
    return weights


# --- the usual recipe -------------------------------------------------------------------------------------------


class RowDataset(Dataset):
    """One row at a time, made a tensor when it is read."""

    def __init__(self, rows: list[dict]):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.rows[index]["input"]), torch.tensor(self.rows[index]["target"])


def usual_epoch(model: nn.Module, batches: DataLoader, optimizer: torch.optim.Optimizer) -> None:
    """Teacher forcing, a constant learning rate, no augmentation."""
    model.train()
    for sources, targets in batches:
        loss = F.cross_entropy(model(sources, decoder_inputs(targets)).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
