"""Does trained attention use what the codes offer, scores that depend on the distance i - j alone?

The sinusoidal code of p + k is a rotation of that of p, the same for every p. So W_q and W_k could be chosen so
that a score depends on i - j only, and then it would hold at positions never seen. Nothing forces training to.

What a head's score between places i and j owes to the places is its mean over all values that could stand there:
mean over v, w of q(v, i)·k(w, j) = (mean of q(v, i))·(mean of k(w, j)), exactly, over the 100 × 100 pairs. A
function of i alone is taken off, as softmax over j does not see it. Of the rest, the share of variance that the
mean along each diagonal explains says how far the scores depend on i - j only: 1 entirely, 0 not at all.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab import figures
from problem2.analysis.mechanism import TRAINED
from problem2.dataset import LARGEST
from problem2.model import SortingClassifier, create_model

BLOCKS = {"inside": 0, "just outside": TRAINED, "far outside": 240}  # name -> first of 16 positions


@torch.no_grad()
def place_scores(model: SortingClassifier, positions: Tensor) -> Tensor:
    """[T] -> [H, T, T] what the first layer's scores owe to the places, the mean of each row taken off."""
    layer, count = model.layers[0], len(positions)
    values = model.embedding(torch.arange(LARGEST + 1)) * math.sqrt(model.embedding.embedding_dim)  # [100, d]
    hidden = model.scheme(values.unsqueeze(1).expand(-1, count, -1), positions)  # every value at every place
    normed = layer.attention_norm(hidden)
    attention = layer.attention
    query = attention.split_heads(attention.query(normed).mean(0, keepdim=True))[0]
    key = attention.split_heads(attention.key(normed).mean(0, keepdim=True))[0]
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores - scores.mean(-1, keepdim=True)


def distance_share(scores: Tensor) -> Tensor:
    """[H, T, T] -> [H] share of the variance explained by the mean along each diagonal."""
    size = scores.shape[-1]
    fitted = torch.zeros_like(scores)
    for offset in range(-size + 1, size):
        mean = scores.diagonal(offset, dim1=-2, dim2=-1).mean(-1, keepdim=True)
        fitted.diagonal(offset, dim1=-2, dim2=-1).copy_(mean.expand(-1, size - abs(offset)))
    left = (scores - fitted).square().sum((-2, -1))
    return 1 - left / scores.square().sum((-2, -1)).clamp(min=1e-12)


def measure(model: SortingClassifier, name: str) -> dict:
    """For each block of 16 positions: the share by distance of each head, and how like the inside block it is."""
    torch.manual_seed(0)
    fresh = create_model(
        name, d_model=model.scheme.d_model, num_heads=model.scheme.num_heads, max_len=model.scheme.max_len
    )
    report = {}
    for label, its in (("trained", model), ("untrained", fresh.eval())):
        inside = place_scores(its, torch.arange(TRAINED))
        report[label] = {}
        for block, start in BLOCKS.items():
            scores = place_scores(its, torch.arange(start, start + TRAINED))
            alike = (scores * inside).sum((-2, -1)) / (scores.norm(dim=(-2, -1)) * inside.norm(dim=(-2, -1))).clamp(
                min=1e-12
            )
            report[label][block] = {
                "share_by_distance": distance_share(scores).tolist(),
                "like_inside": alike.tolist(),  # cosine: 1 if these 16 places see each other as the first 16 do
                "size": scores.square().mean((-2, -1)).sqrt().tolist(),
            }
    report["scores"] = {
        block: place_scores(model, torch.arange(start, start + TRAINED)).mul(1000).round().div(1000).tolist()
        for block, start in BLOCKS.items()
    }
    return report


def draw(report: dict, path: Path) -> None:
    """For each scheme its strongest head: what places alone say about who looks at whom, in three blocks."""
    names = list(report)
    figure, panels = plt.subplots(len(names), 3, figsize=(9, 2.7 * len(names)), squeeze=False)
    for name, line in zip(names, panels, strict=True):
        sizes = report[name]["trained"]["inside"]["size"]
        head = max(range(len(sizes)), key=sizes.__getitem__)
        limit = max(abs(x) for row in report[name]["scores"]["inside"][head] for x in row) or 1.0
        for (block, start), axes in zip(BLOCKS.items(), line, strict=True):
            numbers = report[name]["trained"][block]
            frame = (start - 0.5, start + TRAINED - 0.5, start + TRAINED - 0.5, start - 0.5)
            image = axes.imshow(
                report[name]["scores"][block][head], cmap=figures.DIFFERENCES, vmin=-limit, vmax=limit, extent=frame
            )
            axes.grid(False)
            axes.set_title(
                f"{block}: by distance {numbers['share_by_distance'][head]:.0%},\n"
                f"like inside {numbers['like_inside'][head]:+.2f}",
                fontsize=9,
            )
            axes.set_xlabel("place looked at")
        line[0].set_ylabel(f"{name}\nencoder.0.self.head{head}\nplace that looks")
        figure.colorbar(image, ax=list(line), label="score (logits)")
    figures.save(
        figure,
        path,
        "Scores of the first layer that places alone account for. Stripes along the diagonal: distance decides.",
    )
