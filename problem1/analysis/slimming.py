"""Pruning for real: heads cut out of the weights, and whether a short training mends what that breaks.

A head is cut out by setting its rows of the value projection and its columns of the output projection to zero.
Each then multiplies the gradient of the other, so both stay zero whatever training follows: the head is gone
for good, and the checkpoint loads into the same model as any other. Its query and key rows, which nothing reads
any more, are set to zero as well.
"""

import copy

import torch
from torch import nn
from tqdm import tqdm

from lab import checkpoint
from lab.hooks import split_name
from lab.training import Recipe
from problem1.analysis.ablation import SMALL, removals
from problem1.analysis.context import Context, Trial, share
from problem1.analysis.exhaustive import answers, random_pairs
from problem1.attention import MultiHeadAttention
from problem1.dataset import Sums, score, swap_columns
from problem1.train import KIND

STEPS = 600  # of fine-tuning: an eighth of what train.py takes
RECIPE = Recipe(epochs=1, batch_size=128, lr=1e-3, warmup_steps=20, weight_decay=0.0)
FRESH = 50_000  # random pairs that the result is measured on


@torch.no_grad()
def cut_out(model: nn.Module, heads: list[str]) -> None:
    """Remove `heads` from the weights, in place."""
    modules = {module.name: module for module in model.modules() if isinstance(module, MultiHeadAttention)}
    for head in heads:
        name, number = split_name(head)
        module = modules[name]
        # The projections' rows are (queries, keys, values) × heads × d_head, the output's columns heads × d_head.
        for rows in (module.projections.weight, module.projections.bias):
            rows.unflatten(0, (3, module.num_heads, -1))[:, number] = 0
        module.output.weight.unflatten(1, (module.num_heads, -1))[:, number] = 0


def fine_tune(model: nn.Module, train: Sums, steps: int = STEPS, seed: int = 0) -> None:
    """A short training on the training rows, augmented as in train.py."""
    device = next(model.parameters()).device
    rows = (train.sources.to(device), train.targets.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RECIPE.lr, betas=RECIPE.betas, weight_decay=0.0)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for step in tqdm(range(steps), desc="fine-tuning", unit="step", leave=False, disable=None):
        index = torch.randint(len(train), (RECIPE.batch_size,), generator=generator).to(device)
        loss = score(model, swap_columns(tuple(part[index] for part in rows), generator))[0].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), RECIPE.clip)
        for group in optimizer.param_groups:
            group["lr"] = RECIPE.lr_at(step, steps)
        optimizer.step()
    model.eval()


def smallest_set(context: Context, order: list[str]) -> int:
    """How many heads of `order` can be cut out with at least 99% of the validation rows still right."""
    validation, interventions = Trial(context.model, context.rows["val"], context.batch_size), removals(context)["zero"]
    gone = 0
    while gone < len(order):
        right = validation.right({head: interventions[head] for head in order[: gone + 1]})[0].all(1)
        if right.double().mean() < 1 - SMALL:
            break
        gone += 1
    return gone


def exactness(model: nn.Module, test: Sums, fresh: Sums) -> dict:
    """Exact match on the test rows and on fresh random pairs."""
    found = {}
    for name, sums in (("test", test), ("fresh", fresh)):
        right = (answers(model, sums)[0] == sums.targets).all(1)
        found[name] = share(right) | {"errors": int((~right).sum())}
    return found


def slim(context: Context, pruning: dict) -> tuple[dict, nn.Module]:
    """Cut out as many heads as go (greedy, zero), measure, train on for a little, measure again."""
    order = pruning["curves"]["zero"]["greedy"]["order"]
    gone = smallest_set(context, order)
    model = copy.deepcopy(context.model)
    fresh = random_pairs(context.num_digits, FRESH, seed=3)
    cut_out(model, order[:gone])
    before = exactness(model, context.rows["test"], fresh)
    fine_tune(model, context.rows["train"])
    after = exactness(model, context.rows["test"], fresh)
    left = [head for head in context.heads if head not in order[:gone]]
    weights = sum(parameter.numel() for parameter in model.parameters())
    gone_weights = sum(int((parameter == 0).sum()) for parameter in model.parameters())
    return {
        "question": "heads cut out of the weights: exact match before and after a short fine-tuning",
        "chosen_on": "validation rows: the most heads that leave 99% of them right",
        "cut_out": order[:gone],
        "left": left,
        "heads_left_share": len(left) / len(context.heads),
        "weights_gone_share": gone_weights / weights,
        "before": before,
        "fine_tuning": {"steps": STEPS, "batch_size": RECIPE.batch_size, "lr": RECIPE.lr},
        "after": after,
    }, model


def in_words(pruning: dict, slimmed: dict) -> str:
    """The two percentages side by side, and what became of the pruned model."""
    zero, mean = (pruning["dispensable"][kind] for kind in ("zero", "mean"))
    heads, before, after = pruning["heads"], slimmed["before"], slimmed["after"]
    return (
        f"Alone, {zero['alone']} of {heads} heads ({zero['alone_share']:.1%}) cost less than one point of accuracy "
        f"when set to zero; together {zero['together']} ({zero['together_share']:.1%}) can go, and without all "
        f"{zero['alone']} at once {zero['all_those_together']:.1%} of the sums are right. With their means left in "
        f"place it is {mean['alone']} ({mean['alone_share']:.1%}) alone and {mean['together']} "
        f"({mean['together_share']:.1%}) together. With {len(slimmed['cut_out'])} heads cut out of the weights, "
        f"{before['test']['share']:.2%} of the test sums are right and {before['fresh']['errors']:,} of "
        f"{before['fresh']['n']:,} fresh ones wrong; after {slimmed['fine_tuning']['steps']} steps of fine-tuning "
        f"{after['test']['share']:.2%} are right and {after['fresh']['errors']:,} wrong."
    )


def answer(context: Context, pruning: dict) -> dict | None:
    """Write head_analysis/pruned.json and pruned_model.pth; nothing where the model cannot add."""
    folder = context.output_dir / "head_analysis"
    for outdated in ("pruned.json", "pruned_model.pth"):  # of an earlier, perhaps another model
        (folder / outdated).unlink(missing_ok=True)
    if not context.meaningful:
        return None
    numbers, model = slim(context, pruning)
    numbers["in_words"] = in_words(pruning, numbers)
    results = context.write("head_analysis/pruned.json", numbers)
    content = {"kind": KIND, "settings": context.settings, "model": model.state_dict()}
    checkpoint.save(folder / "pruned_model.pth", content)
    return results
