"""A training that takes no time: regression on one number."""

import torch
from torch import nn

from lab.training import Recipe, Task, train


def score(model, batch):
    """Regression on one number; right is nearer than 0.5."""
    x, y = batch
    error = model(x).squeeze(-1) - y
    return error.square(), error.abs() < 0.5


def stops_after(steps: int):
    """`score`, until the user stops the training with Ctrl-C."""
    calls = 0

    def stops(model, batch):
        nonlocal calls
        calls += model.training
        if calls > steps:
            raise KeyboardInterrupt
        return score(model, batch)

    return stops


def a_task(rows=50, seed=0, **changes) -> Task:
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    parts = {name: (x, x.sum(1)) for name in ("train", "val", "test")}
    return Task(**{"kind": "toy", "score": score, **parts, **changes})


def run(tmp_path, task=None, epochs=3, resume=False, lr=1e-2, ema_decay=0.0, **settings):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    recipe = Recipe(epochs, 8, lr, warmup_steps=3, ema_decay=ema_decay)
    log = train(model, task or a_task(), recipe, {"seed": 5, **settings}, tmp_path, resume=resume)
    return model, log
