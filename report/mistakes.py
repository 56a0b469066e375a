"""The mistakes behind published results, one at a time, each made on purpose in an otherwise sound run.

They live here and nowhere else. contradictions.py sets what they give beside what was published.
"""

import math
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab.files import UserError, read_json
from lab.hooks import HeadHooks, zero
from lab.settings import as_plain
from lab.training import Recipe, Task, train
from problem1 import train as addition
from problem1.analysis.context import Trial
from problem1.dataset import Sums, swap_columns
from problem2 import train as sorting
from problem2.dataset import load_or_generate
from problem2.model import EncoderLayer

SMALL = 0.01  # a head that costs less accuracy than this was called prunable


# --- what the course's test rows alone decide --------------------------------------------------------------------


def predicted_for_addition(test: Sums) -> dict:
    """The most that can be right if the first digit is not predicted but stands there as the start token."""
    first, rest = test.targets[:, 0], test.targets[:, 1:]
    return {
        "rows": len(test),
        "start_token_0": _mean(first == 0),
        "start_token_1": _mean(first == 1),
        "start_token_0_and_zeros_never_learned": _mean((first == 0) & (rest != 0).all(1)),
    }


def predicted_for_sorting(data_dir: Path) -> dict:
    """What a model scores that answers the same for every row: the shares of the two classes."""
    shares = {}
    for length in (32, 64, 128, 256):
        rows = read_json(data_dir / "extrapolation" / f"test_len_{length}.json", "run problem2/generate_data.py.")
        shares[str(length)] = sum(row["is_sorted"] for row in rows) / len(rows)
    return {
        "always_sorted": shares,
        "always_unsorted": {length: 1 - share for length, share in shares.items()},
    }


def _mean(hits: Tensor) -> float:
    return hits.double().mean().item()


# --- problem 1: the first digit is given away --------------------------------------------------------------------


def score_given_first(ignored: int | None):
    """The published mistake: the decoder reads the answer's digits 1, 2, 3 and predicts 2, 3, 4, so nobody ever
    predicts digit 1. With `ignored` = 0 the loss also takes every zero for padding."""

    def score(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        sources, targets = batch
        logits, wanted = model(sources, targets[:, :-1]), targets[:, 1:]
        counts = torch.ones_like(wanted, dtype=torch.bool) if ignored is None else wanted != ignored
        losses = F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none") * counts
        right = ((logits.argmax(-1) == wanted) | ~counts).all(1)
        return losses.sum(1) / counts.sum(1).clamp(min=1), right

    return score


@torch.no_grad()
def greedy(model: nn.Module, test: Sums, start: int) -> float:
    """Exact match of greedy decoding that begins with the digit `start`, which becomes the answer's first."""
    written = model.eval().generate(test.sources, test.num_digits, start)
    answer = torch.cat([torch.full_like(written[:, :1], start), written], 1)
    return _mean((answer == test.targets).all(1))


@torch.no_grad()
def greedy_without_each_head(model: nn.Module, test: Sums, start: int) -> dict[str, float]:
    """The same score with each head zeroed. Teacher-forced, which is equal: right rows read right prefixes only."""
    scores = {}
    for head in model.head_names():
        hooks = HeadHooks({head: zero}, record=False)
        logits = model.eval()(test.sources, test.targets[:, :-1], hooks=hooks)
        right = (logits.argmax(-1) == test.targets[:, 1:]).all(1) & (test.targets[:, 0] == start)
        scores[head] = _mean(right)
    return scores


def given_first_digit(settings: addition.Settings, rows: dict[str, Sums], ignored: int | None) -> dict:
    """Train with the mistake and score as its authors did, teacher-forced and greedy."""
    torch.manual_seed(settings.seed)
    model = addition.build(settings, rows["train"].num_digits)
    name = "first_digit_given" + ("" if ignored is None else f"_and_{ignored}_ignored")
    score = score_given_first(ignored)
    task = Task(f"faulty/{name}", *((sums.sources, sums.targets) for sums in rows.values()), score, swap_columns)
    folder = settings.output_dir / name
    log = train(model, task, addition.recipe(settings), as_plain(settings), folder, settings.seed, False)
    test = rows["test"]
    without = greedy_without_each_head(model, test, 1)
    return {
        "decoder_inputs": log["test_acc"],
        "greedy_from_0": greedy(model, test, 0),
        "greedy_from_1": greedy(model, test, 1),
        "greedy_from_1_without_head": without,
        "greedy_from_1_without_worst_encoder_heads": sorted(
            score for head, score in without.items() if head.startswith("encoder.")
        )[:3],
    }


# --- problem 1: heads ablated along the wrong axis ---------------------------------------------------------------


def attention_modules(model: nn.Module) -> dict[str, nn.Module]:
    """Every attention by its name: {"encoder.0.self": module, …}"""
    return {module.name: module for module in model.modules() if hasattr(module, "split_heads")}


@torch.no_grad()
def ablation_by_axis(model: nn.Module, test: Sums) -> dict:
    """Each head 'removed' in the right way and in two wrong ones: the drop of exact match for every head.

    columns     the head's d_head columns of the output projection (the right way: equal to zeroing its output)
    rows        as many rows of the output projection: d_head outputs of the whole module, heads mixed
    one_number  one entry of the output, as when index h is used on the last axis of [B, T, d_model]
    """
    trial = Trial(model, test)
    baseline = _mean(trial.right()[0].all(1))
    drops = {"columns": {}, "rows": {}, "one_number": {}}
    for name, module in attention_modules(model).items():
        size = module.output.weight.shape[0] // module.num_heads
        for head in range(module.num_heads):
            block = slice(head * size, (head + 1) * size)
            for axis in drops:
                kept = {key: value.clone() for key, value in module.output.state_dict().items()}
                if axis == "columns":
                    module.output.weight[:, block] = 0
                else:
                    rows = block if axis == "rows" else slice(head, head + 1)
                    module.output.weight[rows] = 0
                    module.output.bias[rows] = 0
                drops[axis][f"{name}.head{head}"] = baseline - _mean(Trial(model, test).right()[0].all(1))
                module.output.load_state_dict(kept)
    return {
        "baseline": baseline,
        "drops": drops,
        "largest_drop": {axis: max(by_head.values()) for axis, by_head in drops.items()},
        "prunable": {axis: sum(drop < SMALL for drop in by_head.values()) for axis, by_head in drops.items()},
        "heads": len(drops["columns"]),
    }


def heads_by_seed(seeds_dir: Path, test: Sums) -> dict:
    """Which head matters most, and how many can go alone, in models that differ in nothing but the seed."""
    found = {}
    for folder in sorted(seeds_dir.glob("seed*")):
        model = addition.load_model(folder / "best_model.pth")[0]
        trial = Trial(model, test)
        baseline = _mean(trial.right()[0].all(1))
        drops = {head: baseline - _mean(trial.right({head: zero})[0].all(1)) for head in model.head_names()}
        worst = max(drops, key=drops.get)
        found[folder.name] = {
            "baseline": baseline,
            "most_important": worst,
            "its_drop": drops[worst],
            "prunable_alone": sum(drop < SMALL for drop in drops.values()) / len(drops),
            "drops": drops,
        }
    if not found:
        raise UserError(f"{seeds_dir} holds no models of other seeds: run `make seeds` first.")
    return found


# --- problem 2: never learns --------------------------------------------------------------------------------------


class PostNormLayer(EncoderLayer):
    """The same layer, normalised after each sublayer instead of before it."""

    def forward(self, x, mask=None, bias=None, rotate=None, hooks=None):
        x = self.attention_norm(x + self.dropout(self.attention(x, x, x, mask, bias, rotate, hooks)[0]))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


def post_norm(model: nn.Module) -> int | None:
    """Normalise after each sublayer, and train with no warm-up."""
    for layer in model.layers:
        layer.__class__ = PostNormLayer
    model.norm = nn.Identity()  # the last layer has normalised already
    return 0


def loud_values(model: nn.Module) -> None:
    """Leave the embedding as nn.Embedding makes it, entries of size 1, and still multiply it by √d_model as the
    original paper does: values then come in √d_model times as loud as positions, which drown in them."""
    nn.init.normal_(model.embedding.weight)


MISTAKES_IN_SORTING = {"post_norm_without_warm_up": post_norm, "values_drown_positions": loud_values}


def faulty_sorting(settings: sorting.Settings, mistake: str) -> dict:
    """The sound recipe of problem 2 at a learning rate of 1e-3, with one mistake."""
    settings = sorting.with_defaults(settings)
    rows = load_or_generate(settings.data_dir)
    torch.manual_seed(settings.seed)
    model = sorting.build(settings)
    warmup = MISTAKES_IN_SORTING[mistake](model)
    recipe = Recipe(settings.epochs, settings.batch_size, settings.lr, weight_decay=settings.weight_decay)
    recipe = recipe if warmup is None else replace(recipe, warmup_steps=warmup)
    folder = settings.output_dir / f"{mistake}_{settings.encoding[0]}"
    log = train(model, sorting.make_task(settings, rows), recipe, as_plain(settings), folder, settings.seed, False)
    return {
        "test_acc": log["test_acc"],
        "first_train_loss": log["train_loss"][0],
        "lowest_train_loss": min(log["train_loss"]),
        "ln_2": math.log(2),
    }
