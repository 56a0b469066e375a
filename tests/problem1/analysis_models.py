"""Models for the tests of the analyses: one that can add, trained in seconds, and one that cannot."""

from functools import cache

import torch

from lab import checkpoint
from lab.training import Recipe, make_optimizer
from problem1.analysis.context import Context
from problem1.checkpoint import KIND, build
from problem1.dataset import Sums, every_pair, score

DIGITS = 2
SETTINGS = {"d_model": 32, "num_heads": 2, "num_layers": 1, "d_ff": 64, "dropout": 0.0, "num_digits": DIGITS}
SETTINGS |= {"seed": 0, "data": "0123456789abcdef"}


def untrained(seed: int = 0, num_digits: int = DIGITS):
    torch.manual_seed(seed)
    return build(SETTINGS | {"num_digits": num_digits}).eval()


@cache
def adder():
    """A model of two-digit sums that gets nearly all of them right."""
    model, pairs, steps = untrained(), every_pair(DIGITS), 600
    recipe = Recipe(epochs=1, batch_size=128, lr=6e-3, warmup_steps=50, weight_decay=0.1)
    optimizer = make_optimizer(model, recipe)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        batch = pairs[torch.randint(len(pairs), (recipe.batch_size,), generator=generator)]
        loss = score(model, (batch.sources, batch.targets))[0].mean()
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr_at(step, steps)
        optimizer.step()
    return model.eval()


def rows(count: int = 200) -> dict[str, Sums]:
    pairs = every_pair(DIGITS)
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(1))
    parts = order[: 3 * count].split(count)
    return {name: pairs[part] for name, part in zip(("train", "val", "test"), parts, strict=True)}


def context(model, folder, count: int = 200) -> Context:
    return Context(model, rows(count), folder, batch_size=64, settings=SETTINGS)


def save(model, path) -> None:
    checkpoint.save(path, {"kind": KIND, "settings": SETTINGS, "model": model.state_dict()})
