"""Mistakes that may be behind published results, each made on purpose in an otherwise sound run.

They live here and nowhere else. contradictions.py sets what they give beside what was published.
"""

import copy
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from beyond import jobs
from lab import checkpoint
from lab.hooks import Hooks, head_names, zero
from lab.training import Recipe, Task, evaluate, train_or_reuse
from problem1 import checkpoint as addition
from problem1.attention import MultiHeadAttention
from problem1.dataset import START, Sums, score
from problem1.dataset import load_or_generate as load_sums
from problem1.train import make_task as make_addition_task
from problem2 import checkpoint as sorting
from problem2.dataset import DEFAULT, Rows, load_test_set
from problem2.dataset import load_or_generate as load_rows
from problem2.positional_encoding import SinusoidalPositionalEncoding
from problem2.train import Settings, make_recipe
from problem2.train import make_task as make_sorting_task

SMALL = 0.01  # a head that costs less accuracy than this was called prunable
LENGTHS = ("32", "64", "128", "256")
BATCH = 32  # rows of a batch in the handout's analysis


# --- what the course's test rows alone decide --------------------------------------------------------------------


def predicted(sums: Sums, data_dir: Path) -> dict:
    """Problem 1: the most that can be right if the first digit is not predicted but stands there as the start token: a
    fixed one, or the commonest one of each batch. Problem 2: what a model scores that gives every row the same answer,
    which is the share of one class."""
    first = sums.targets[:, 0]
    commonest = torch.cat([batch == batch.mode().values for batch in first.split(BATCH)])
    shares = {length: _mean(load_test_set(data_dir, "extrapolation", int(length)).labels) for length in LENGTHS}
    return {
        "addition": {
            "start_token_0": _mean(first == 0),
            "start_token_1": _mean(first == 1),
            "commonest_of_batch": _mean(commonest),
        },
        "sorting": {"always_sorted": shares, "always_unsorted": {n: 1 - share for n, share in shares.items()}},
    }


def _mean(hits: Tensor) -> float:
    return hits.double().mean().item()


def train_or_load(model: nn.Module, task: Task, recipe: Recipe, settings: dict, folder: Path) -> dict:
    """The log of the run with these settings, which is trained if it is not in the folder; its weights in `model`."""
    log = train_or_reuse(model, task, recipe, settings, folder)
    model.load_state_dict(checkpoint.load(folder / "best_model.pth", task.kind)["model"])
    return log


# --- problem 1: the first digit is given away --------------------------------------------------------------------


def score_given_first(ignored: int | None):
    """The published mistake: the decoder reads the answer's digits 1, 2, 3 and predicts 2, 3, 4, so that digit 1 is
    never predicted. With `ignored` = 0 the loss also takes every zero for padding."""

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


def train_given_first(config: dict, ignored: int | None, folder: Path, rows: dict[str, Sums] | None = None) -> dict:
    """Train with the mistake and score as its authors did, teacher-forced and greedy. `config`: see train.py."""
    if rows is None:
        with jobs.one_at_a_time():
            rows = load_sums()
    torch.manual_seed(config["seed"])
    model = addition.build(config)
    task = replace(make_addition_task(rows, config["hard_weight"]), score=score_given_first(ignored))
    recipe = Recipe(**{name: config[name] for name in ("epochs", "batch_size", "lr", "weight_decay")})
    mistake = "first digit given" if ignored is None else f"first digit given, {ignored} ignored"
    log = train_or_load(model, task, recipe, config | {"mistake": mistake}, folder)
    return {
        "teacher_forced": log["test_acc"],
        "greedy_from_0": greedy(model, rows["test"], 0),
        "greedy_from_1": greedy(model, rows["test"], 1),
    }


# --- problem 1: an ablation that tells nothing --------------------------------------------------------------------


@torch.no_grad()
def ablation_by_axis(model: nn.Module, test: Sums) -> dict:
    """Every head "removed" in the right way and in the wrong one: the largest drop of exact match, and how many heads
    cost less than SMALL.

    columns    the head's d_head columns of the output projection (the right way: equal to zeroing its output)
    rows       the same numbers as rows: a part of the output of all heads, and all of no head
    """
    rows = (test.sources, test.targets)
    baseline = evaluate(model, rows, score)[1]
    drops = {"columns": [], "rows": []}
    for module in (module for module in model.modules() if isinstance(module, MultiHeadAttention)):
        output, kept = module.output, copy.deepcopy(module.output.state_dict())
        size = len(output.weight) // module.num_heads
        for head in range(module.num_heads):
            own = slice(head * size, (head + 1) * size)
            output.weight[:, own] = 0
            drops["columns"].append(baseline - evaluate(model, rows, score)[1])
            output.load_state_dict(kept)
            output.weight[own] = 0
            output.bias[own] = 0
            drops["rows"].append(baseline - evaluate(model, rows, score)[1])
            output.load_state_dict(kept)
    return {
        "largest_drop": {axis: max(by_head) for axis, by_head in drops.items()},
        "prunable": {axis: sum(drop < SMALL for drop in by_head) for axis, by_head in drops.items()},
        "heads": len(drops["columns"]),
    }


@torch.no_grad()
def first_answer_for_all(model: nn.Module, test: Sums) -> float:
    """The published mistake: the answer to the first sum of a batch is compared with every sum of the batch. So the
    exact match of a model that is always right."""
    model.eval()
    hits = []
    for sources, targets in zip(test.sources.split(BATCH), test.targets.split(BATCH), strict=True):
        answer = model.generate(sources[:1], targets.shape[1], START)
        hits.append((answer == targets).all(1))
    return _mean(torch.cat(hits))


# --- problem 1: no mistake, another seed --------------------------------------------------------------------------


def train_adder(config: dict, folder: Path, rows: dict[str, Sums] | None = None) -> dict:
    """The sound run of problem 1 with the seed of `config`: what the test rows lose without each head."""
    if rows is None:
        with jobs.one_at_a_time():
            rows = load_sums()
    torch.manual_seed(config["seed"])
    model = addition.build(config)
    recipe = Recipe(**{name: config[name] for name in ("epochs", "batch_size", "lr", "weight_decay")})
    log = train_or_load(model, make_addition_task(rows, config["hard_weight"]), recipe, config, folder)
    drops = {}
    for head in head_names(model):
        with Hooks(model, {head: zero}):
            drops[head] = log["test_acc"] - evaluate(model, (rows["test"].sources, rows["test"].targets), score)[1]
    return {"test_acc": log["test_acc"], "drops": drops}


# --- problem 2: positions that are stretched over the whole table ------------------------------------------------


class StretchedPositionalEncoding(SinusoidalPositionalEncoding):
    """Positions multiplied by (rows of the table / length of the sequence), in training as in tests: the last token of
    every sequence stands near the end of the table. Called sinusoidal where it was published."""

    def positions(self, lengths: Tensor, width: int) -> Tensor:
        return super().positions(lengths, width) * (self.max_len / width)


def train_stretched(config: dict, folder: Path, rows: dict[str, Rows] | None = None) -> dict:
    """The sound run of problem 2 with this mistake; `config` is that of the sound run. Accuracy in range and beyond."""
    with jobs.one_at_a_time():
        if rows is None:
            rows = load_rows()
        far = {length: load_test_set(DEFAULT, "extrapolation", int(length)) for length in LENGTHS}
    torch.manual_seed(config["seed"])
    model = sorting.build(config)
    model.scheme.__class__ = StretchedPositionalEncoding
    settings = Settings(**{name: config[name] for name in ("epochs", "batch_size", "lr", "weight_decay")})
    task = make_sorting_task(rows, config["batch_size"])
    log = train_or_load(model, task, make_recipe(settings), config | {"mistake": "stretched positions"}, folder)
    by_length = {length: evaluate(model, test, task.score)[1] for length, test in far.items()}
    return {"test_acc": log["test_acc"], "by_length": by_length}
