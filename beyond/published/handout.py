"""The classifier and the recipe of problem 2 that the course handed out, and four ways to mend it, one at a time.

Most published solutions are built on that file, so what it does is in their numbers. Rebuilt here from its description:
four post-norm layers of width 128, every matrix drawn by Xavier (that of the learned positions, too), mean pooling,
Adam at a rate of 1e-3 without warm-up, halved when the validation loss rests, batches of 64 of the course's rows.
"""

import math
from pathlib import Path

import torch
from torch import Tensor, nn

from beyond import jobs
from lab.training import evaluate, take
from problem2.attention import MultiHeadAttention
from problem2.dataset import PAD, VOCAB_SIZE, Rows, load_or_generate, score_without_padding
from problem2.positional_encoding import get_positional_encoding

WIDTH, HEADS, LAYERS, INNER, DROPOUT, TABLE_ROWS = 128, 4, 4, 512, 0.1, 300
BATCH = 64
EPOCHS = 6  # of the handout's 30, a rate of 2e-4 takes 3 to show that sinusoidal positions train
ENOUGH = 0.9  # validation accuracy at which a run has shown that it trains, and ends
WARM_UP = 200  # steps

# What each mend changes in the recipe; everything else stays as it was handed out.
MENDS = {
    "as handed out": {},
    "rate of 2e-4": {"lr": 2e-4},
    "rate of 2e-4 and large table": {"lr": 2e-4, "large_table": True},
    "large table": {"large_table": True},
    "pre-norm": {"pre_norm": True},
    "warm-up": {"warm_up": WARM_UP},
}
OF_BOTH = ("as handed out", "rate of 2e-4")  # tried with sinusoidal positions, too


class Layer(nn.Module):
    """Self-attention and feed-forward, normalised after each as in the handout, or before each (pre_norm)."""

    def __init__(self, pre_norm: bool):
        super().__init__()
        self.pre_norm = pre_norm
        self.attention = MultiHeadAttention(WIDTH, HEADS)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH))
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.feed_forward_norm = nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if self.pre_norm:
            normed = self.attention_norm(x)
            x = x + self.dropout(self.attention(normed, normed, normed, mask)[0])
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, x, x, mask)[0]))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class Classifier(nn.Module):
    """tokens [B, T] -> logits [B, 2]"""

    def __init__(self, encoding: str, pre_norm: bool = False, large_table: bool = False):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB_SIZE, WIDTH)
        self.positions = get_positional_encoding(encoding, WIDTH, TABLE_ROWS, HEADS)
        self.layers = nn.ModuleList(Layer(pre_norm) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH) if pre_norm else nn.Identity()  # post-norm layers have normalised already
        self.output = nn.Sequential(
            nn.Linear(WIDTH, WIDTH // 2), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(WIDTH // 2, 2)
        )
        self.dropout = nn.Dropout(DROPOUT)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        if large_table:
            self.positions.table.data *= sinusoidal_size() / self.positions.table.std().item()

    def forward(self, x: Tensor) -> Tensor:
        real = x != PAD
        hidden = self.dropout(self.positions(self.embedding(x) * math.sqrt(WIDTH)))
        for layer in self.layers:
            hidden = layer(hidden, real[:, None, None, :])
        weight = real.unsqueeze(-1).to(hidden.dtype)
        return self.output((self.norm(hidden) * weight).sum(1) / weight.sum(1))


def sinusoidal_size() -> float:
    """The standard deviation of the sinusoidal codes of as many positions as the table has."""
    return get_positional_encoding("sinusoidal", WIDTH).code(torch.arange(TABLE_ROWS)).std().item()


def train_handout(
    encoding: str, mend: str, seed: int, epochs: int, folder: Path, rows: dict[str, Rows] | None = None
) -> dict:
    """One run: trained until it has shown that it trains, or for `epochs`; the best epoch is tested."""
    if rows is None:
        with jobs.one_at_a_time():
            rows = load_or_generate()
    recipe = MENDS[mend]
    lr = recipe.get("lr", 1e-3)
    warm_up = recipe.get("warm_up", 0)
    torch.manual_seed(seed)
    model = Classifier(encoding, recipe.get("pre_norm", False), recipe.get("large_table", False))
    sizes = {"embeddings": model.embedding.weight.std().item() * math.sqrt(WIDTH), "positions": code_size(model)}
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
    generator = torch.Generator().manual_seed(seed)
    step, best, history = 0, -1.0, []
    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(rows["train"].labels), generator=generator)
        for index in order.split(BATCH):
            if step < warm_up:
                optimizer.param_groups[0]["lr"] = lr * (step + 1) / warm_up
            step += 1
            losses, _ = score_without_padding(model, take(rows["train"], index))
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
        loss, accuracy = evaluate(model, rows["val"], score_without_padding)
        scheduler.step(loss)
        history.append(accuracy)
        print(f"epoch {epoch + 1}/{epochs}: validation loss {loss:.4f}, accuracy {accuracy:.2%}")
        if accuracy > best:
            best = accuracy
            test_acc = evaluate(model, rows["test"], score_without_padding)[1]
        if accuracy >= ENOUGH:
            break
    return {"test_acc": test_acc, "val_acc": history, "size_at_start": sizes}


def code_size(model: Classifier) -> float:
    """The standard deviation of what is added to the embeddings for a position."""
    return model.positions.code(torch.arange(TABLE_ROWS)).std().item()
