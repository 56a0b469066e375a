"""What people would use instead: the same models out of torch.nn, and the usual training recipe of this homework.

The twins have the sizes of our models, take our weights, and must give our outputs before anything is timed.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from problem1.dataset import START, VOCAB_SIZE
from problem1.model import PositionalEncoding, Seq2SeqTransformer
from problem2.dataset import PAD
from problem2.model import SortingClassifier


class Seq2SeqTwin(nn.Module):
    """problem1's transformer with `nn.Transformer` in the middle, pre-norm as ours."""

    def __init__(self, vocab_size=VOCAB_SIZE, d_model=64, num_heads=4, num_layers=2, d_ff=256, max_len=256):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = PositionalEncoding(d_model, max_len)
        shape = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, **shape)
        # The encoder that nn.Transformer would make, less its warning that pre-norm has no nested tensors.
        encoder = nn.TransformerEncoder(layer, num_layers, nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.transformer = nn.Transformer(
            d_model, num_heads, num_layers, num_layers, d_ff, custom_encoder=encoder, **shape
        )
        self.output = nn.Linear(d_model, vocab_size)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        root = math.sqrt(self.embedding.embedding_dim)
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        source, target = self.position(self.embedding(src) * root), self.position(self.embedding(tgt) * root)
        return self.output(self.transformer(source, target, tgt_mask=mask, tgt_is_causal=True))


class ClassifierTwin(nn.Module):
    """problem2's classifier with `nn.TransformerEncoder` in the middle: sinusoidal positions, mean pooling."""

    def __init__(self, ours: SortingClassifier, num_heads=4, num_layers=2, d_ff=128, max_len=8192):
        super().__init__()
        values, d_model = ours.embedding.weight.shape
        self.embedding = nn.Embedding(values, d_model)
        self.position = PositionalEncoding(d_model, max_len)
        layer = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, 0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers, norm=nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.output = nn.Linear(d_model, 2)

    def forward(self, x: Tensor) -> Tensor:
        padding = x == PAD
        hidden = self.position(self.embedding(x) * math.sqrt(self.embedding.embedding_dim))
        hidden = self.encoder(hidden, src_key_padding_mask=padding)
        weight = (~padding).unsqueeze(-1).to(hidden.dtype)
        return self.output((hidden * weight).sum(1) / weight.sum(1))


class Kept:
    """Makes every nn.MultiheadAttention of a twin return its weights, head by head, and holds the last ones.

    nn.Transformer asks for none; its fused path for inference has none to give and must be off while this is used.
    """

    def __init__(self, twin: nn.Module):
        self.weights: list[Tensor] = []
        for module in twin.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.forward = self._asking(module.forward)

    def _asking(self, forward):
        def call(*args, **kwargs):
            output, weights = forward(*args, **kwargs | {"need_weights": True, "average_attn_weights": False})
            self.weights.append(weights.detach())
            return output, weights

        return call


def copy_attention(ours, theirs: nn.MultiheadAttention) -> None:
    """Weights of problem 1's attention (one projection, as torch has it) or of problem 2's (three)."""
    projections = (ours.projections,) if hasattr(ours, "projections") else (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
    theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def _copy_rest(ours, theirs) -> None:
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())


def _copy_encoder(layers, final, encoder: nn.TransformerEncoder) -> None:
    for mine, its in zip(layers, encoder.layers, strict=True):
        copy_attention(mine.attention, its.self_attn)
        its.norm1.load_state_dict(mine.attention_norm.state_dict())
        its.norm2.load_state_dict(mine.feed_forward_norm.state_dict())
        _copy_rest(mine, its)
    encoder.norm.load_state_dict(final.state_dict())


@torch.no_grad()
def seq2seq_twin(ours: Seq2SeqTransformer) -> Seq2SeqTwin:
    """The twin of `ours`, with its weights."""
    first = ours.encoder[0]
    twin = Seq2SeqTwin(
        *ours.embedding.weight.shape,
        first.attention.num_heads,
        len(ours.encoder),
        first.feed_forward.inner.out_features,
        len(ours.position.table),
    )
    twin.embedding.load_state_dict(ours.embedding.state_dict())
    twin.output.load_state_dict(ours.output.state_dict())
    _copy_encoder(ours.encoder, ours.encoder_norm, twin.transformer.encoder)
    for mine, its in zip(ours.decoder, twin.transformer.decoder.layers, strict=True):
        copy_attention(mine.self_attention, its.self_attn)
        copy_attention(mine.cross_attention, its.multihead_attn)
        for norm, name in ((its.norm1, "self_norm"), (its.norm2, "cross_norm"), (its.norm3, "feed_forward_norm")):
            norm.load_state_dict(getattr(mine, name).state_dict())
        _copy_rest(mine, its)
    twin.transformer.decoder.norm.load_state_dict(ours.decoder_norm.state_dict())
    return twin


@torch.no_grad()
def classifier_twin(ours: SortingClassifier) -> ClassifierTwin:
    """The twin of `ours` (sinusoidal, mean pooling), with its weights."""
    first = ours.layers[0]
    twin = ClassifierTwin(ours, first.attention.num_heads, len(ours.layers), first.feed_forward.inner.out_features)
    twin.embedding.load_state_dict(ours.embedding.state_dict())
    twin.output.load_state_dict(ours.output.state_dict())
    _copy_encoder(ours.layers, ours.norm, twin.encoder)
    return twin


# --- the usual recipe -----------------------------------------------------------------------------------------


class RowDataset(Dataset):
    """A row at a time, made a tensor when it is asked for."""

    def __init__(self, rows: list[dict]):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = self.rows[index]
        return torch.tensor(row["input"]), torch.tensor(row["target"])


def collate(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    sources, targets = zip(*rows, strict=True)
    return torch.stack(sources), torch.stack(targets)


def loader(rows: list[dict], shuffle: bool, batch_size: int = 64) -> DataLoader:
    return DataLoader(RowDataset(rows), batch_size=batch_size, shuffle=shuffle, collate_fn=collate)


def usual_epoch(model: nn.Module, batches: DataLoader, optimizer: torch.optim.Optimizer) -> None:
    """Teacher forcing and Adam at a constant rate."""
    model.train()
    for sources, targets in batches:
        inputs = torch.cat([torch.full_like(targets[:, :1], START), targets[:, :-1]], 1)
        loss = F.cross_entropy(model(sources, inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def usual_validation(model: nn.Module, batches: DataLoader) -> float:
    """Exact match, teacher-forced, batch by batch."""
    model.eval()
    right = total = 0
    for sources, targets in batches:
        inputs = torch.cat([torch.full_like(targets[:, :1], START), targets[:, :-1]], 1)
        right += (model(sources, inputs).argmax(-1) == targets).all(1).sum().item()
        total += len(targets)
    return right / total
