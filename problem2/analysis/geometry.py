"""Does trained attention use what the codes offer, scores that depend on the distance i - j alone?

The sinusoidal code of p + k is a rotation of that of p, the same for every p. So W_q and W_k could be chosen so
that a score depends on i - j only, and then it would hold at positions never seen. Nothing forces training to.

What a head's score between positions i and j owes to the positions is its mean over all values that could stand
there: mean over v, w of q(v, i)·k(w, j) = (mean of q(v, i))·(mean of k(w, j)), exactly, over the 100 × 100 pairs.
A function of i alone is subtracted, as softmax over j does not see it. Of the rest, the share of variance that the
mean along each diagonal explains says how far the scores depend on i - j only: 1 entirely, 0 not at all.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab import figures
from problem2.analysis.context import Context
from problem2.dataset import LARGEST
from problem2.model import SortingClassifier, create_model

ADDED = ("sinusoidal", "learned", "onehot", "randomized")  # schemes that add codes to the embeddings


def blocks(trained: int) -> dict[str, int]:
    """Name -> the first of `trained` positions."""
    return {"inside": 0, "just outside": trained, "far outside": 15 * trained}


@torch.no_grad()
def position_scores(model: SortingClassifier, positions: Tensor) -> Tensor:
    """[T] -> [H, T, T] what the first layer's scores owe to the positions, the mean of each row subtracted."""
    layer, count = model.layers[0], len(positions)
    values = model.embedding.weight[: LARGEST + 1] * math.sqrt(model.embedding.embedding_dim)  # [100, d]
    positions = positions.to(values.device)
    hidden = model.scheme(values.unsqueeze(1).expand(-1, count, -1), positions)  # every value at every position
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


def measure_block(model: SortingClassifier, inside: Tensor, start: int) -> dict:
    scores = position_scores(model, torch.arange(start, start + inside.shape[-1]))
    norms = scores.norm(dim=(-2, -1)) * inside.norm(dim=(-2, -1))
    return {
        "share_by_distance": distance_share(scores).tolist(),
        # cosine: 1 if these positions attend to each other as the first ones do
        "like_inside": ((scores * inside).sum((-2, -1)) / norms.clamp(min=1e-12)).tolist(),
        "size": scores.square().mean((-2, -1)).sqrt().tolist(),
    }


def measure(model: SortingClassifier, name: str, trained: int) -> dict:
    """For each block of positions: the share by distance of each head, and how like the inside block it is."""
    torch.manual_seed(0)
    scheme, device = model.scheme, model.embedding.weight.device
    untrained = create_model(name, d_model=scheme.d_model, num_heads=scheme.num_heads, max_len=scheme.max_len)
    report = {}
    for label, this in (("trained", model), ("untrained", untrained.to(device).eval())):
        inside = position_scores(this, torch.arange(trained))
        report[label] = {block: measure_block(this, inside, start) for block, start in blocks(trained).items()}
    report["scores"] = {
        block: position_scores(model, torch.arange(start, start + trained)).mul(1000).round().div(1000).tolist()
        for block, start in blocks(trained).items()
    }
    return report


def strongest_head(report: dict) -> int:
    """The head whose scores owe most to positions."""
    sizes = report["trained"]["inside"]["size"]
    return max(range(len(sizes)), key=sizes.__getitem__)


def draw(report: dict, path: Path, trained: int) -> None:
    """For each scheme its strongest head: how positions alone decide who attends to whom, in three blocks."""
    names = list(report)
    figure, panels = plt.subplots(len(names), 3, figsize=(9, 2.7 * len(names)), squeeze=False)
    for name, line in zip(names, panels, strict=True):
        head = strongest_head(report[name])
        limit = max(abs(x) for row in report[name]["scores"]["inside"][head] for x in row) or 1.0
        for (block, start), axes in zip(blocks(trained).items(), line, strict=True):
            numbers = report[name]["trained"][block]
            frame = (start - 0.5, start + trained - 0.5, start + trained - 0.5, start - 0.5)
            image = axes.imshow(
                report[name]["scores"][block][head], cmap=figures.DIFFERENCES, vmin=-limit, vmax=limit, extent=frame
            )
            axes.grid(False)
            axes.set_title(
                f"{block}: by distance {numbers['share_by_distance'][head]:.0%},\n"
                f"like inside {numbers['like_inside'][head]:+.2f}",
                fontsize=9,
            )
            axes.set_xlabel("key position")
        line[0].set_ylabel(f"{name}\nencoder.0.self.head{head}\nquery position")
        figure.colorbar(image, ax=list(line), label="score (logits)")
    caption = "The part of the first layer's scores that depends on positions alone. Stripes: distance decides."
    figures.save(figure, path, caption)


def run(context: Context) -> None:
    trained = context.trained[1]
    report = {name: measure(context.models[name], name, trained) for name in ADDED if name in context.models}
    if not report:
        print(f"  none of the schemes that add codes is trained: {', '.join(ADDED)}")
        return
    context.write("distance_geometry.json", {"schemes": report})
    draw(report, context.folder / "distance_geometry.png", trained)
    lines = []
    for name, numbers in report.items():
        head = strongest_head(numbers)
        shares = {block: cell["share_by_distance"][head] for block, cell in numbers["trained"].items()}
        words = ", ".join(f"{share:.0%} {block}" for block, share in shares.items())
        lines.append(f"  {name}, head {head}: share of scores that distance explains: {words}")
    context.show("\n".join(lines), "distance_geometry.json", "distance_geometry.png")
