"""The training loop: data in tensors, warm-up and cosine decay, exact resume.

A problem hands over a `Task`: its rows as tensors, and a function that scores a batch row by row.

All randomness of an epoch (order of rows, augmentation, dropout) follows from the seed and the number of the
epoch. So a run that is killed and resumed after its last finished epoch ends in the same bits as one that was
never interrupted.
"""

import copy
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn
from tqdm import tqdm

from lab import checkpoint
from lab.fast import Fast
from lab.figures import draw_training_curves
from lab.files import UserError, digest, only_one, read_json, versions, write_json, write_timing
from lab.previous import make_room

ANEW = "start anew without --resume."
COLUMNS = ("train_loss", "train_acc", "val_loss", "val_acc")  # of the log, one number per epoch
Batch = tuple[Tensor, ...]  # tensors with one entry per row; a NamedTuple of them stays one
EachEpoch = Callable[[int, nn.Module], None]


def do_nothing(epoch: int, model: nn.Module) -> None:
    pass


@dataclass(frozen=True)
class Task:
    """What the loop must know of a problem."""

    kind: str  # names the problem in checkpoints: "problem1/digits"
    train: Batch
    val: Batch
    test: Batch
    score: Callable[[nn.Module, Batch], tuple[Tensor, Tensor]]  # -> loss [B], correct [B] (bool)
    augment: Callable[[Batch, torch.Generator], Batch] = lambda rows, generator: rows  # of the rows of an epoch
    proportions: Tensor | None = None  # [N] if given: the rows of an epoch are drawn with replacement, so often each
    measure: str = "accuracy"  # what the share of rows that `score` calls correct is called in figures


@dataclass(frozen=True)
class Recipe:
    """AdamW with linear warm-up, cosine decay to zero and a bound on the gradient's norm."""

    epochs: int
    batch_size: int
    lr: float
    warmup_steps: int = 200
    weight_decay: float = 0.5
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    ema_decay: float = 0.0  # above 0: an exponential moving average (EMA) of the weights is validated and kept
    epoch_rows: int | None = None  # rows drawn for an epoch, if not all

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of step 0, 1, … of `steps`."""
        warmup = min(self.warmup_steps, steps // 10)
        if step < warmup:
            return self.lr * (step + 1) / warmup
        return self.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))

    def ema_decay_at(self, step: int) -> float:
        """Lower at first, while the earlier weights are far worse."""
        return min(self.ema_decay, (step + 1) / (step + 10))


def take(rows: Batch, index, device=None) -> Batch:
    """Some of the rows (an index tensor, a mask or a slice), in the same kind of tuple."""
    chosen = [tensor[index] for tensor in rows]
    if device is not None:
        chosen = [tensor.to(device) for tensor in chosen]
    return type(rows)(*chosen) if hasattr(rows, "_fields") else tuple(chosen)


@torch.no_grad()
def evaluate(model: nn.Module, rows: Batch, score, batch_size: int = 2048) -> tuple[float, float]:
    """Mean loss and share of correct rows."""
    model.eval()
    device = next(model.parameters()).device
    sums = torch.zeros(2, dtype=torch.double)
    for index in torch.arange(len(rows[0])).split(batch_size):
        with Fast():
            losses, correct = score(model, take(rows, index, device))
        sums += torch.stack([losses.cpu().double().sum(), correct.cpu().double().sum()])
    loss, accuracy = (sums / len(rows[0])).tolist()
    return loss, accuracy


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices only; biases and norms need none."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, fused=True)


def rows_of_epoch(rows: Batch, task: Task, recipe: Recipe, generator: torch.Generator) -> Batch:
    """All rows in random order, or as many as the recipe says, drawn in the task's proportions; augmented."""
    if task.proportions is None:
        order = torch.randperm(len(rows[0]), generator=generator)[: recipe.epoch_rows]
    else:
        count = recipe.epoch_rows or len(rows[0])
        order = torch.multinomial(task.proportions, count, replacement=True, generator=generator)
    return task.augment(take(rows, order.to(rows[0].device)), generator)


def train_epoch(model, average, optimizer, rows: Batch, task: Task, recipe: Recipe, epoch: int, seed: int, bar) -> list:
    """One epoch of steps; returns the mean loss and the share of correct rows while training."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    torch.manual_seed(seed * 1_000_003 + epoch)  # of dropout
    rows = rows_of_epoch(rows, task, recipe, generator)
    count = len(rows[0])
    starts = range(0, count, recipe.batch_size)
    steps = recipe.epochs * len(starts)
    sums = torch.zeros(2, device=rows[0].device)
    parameters = [*model.parameters()]  # once: to collect them takes a hundredth of a step
    averages = [*average.parameters()]
    model.train()
    for number, start in enumerate(starts):
        step = epoch * len(starts) + number
        batch = take(rows, slice(start, start + recipe.batch_size))
        losses, correct = task.score(model, batch)
        optimizer.zero_grad()
        losses.mean().backward()
        norm = nn.utils.clip_grad_norm_(parameters, recipe.clip)
        if not math.isfinite(norm):
            raise UserError(
                f"the loss is no longer finite (epoch {epoch + 1}, step {step + 1} of {steps}): "
                f"lower --lr ({recipe.lr:g}). The checkpoints of earlier epochs are kept."
            )
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr_at(step, steps)
        optimizer.step()
        if recipe.ema_decay:
            update = get_ema_multi_avg_fn(recipe.ema_decay_at(step))
            update(averages, parameters, None)
        sums += torch.stack([losses.detach().sum(), correct.sum()])
        bar.update()
    return (sums / count).tolist()


def train(
    model: nn.Module,
    task: Task,
    recipe: Recipe,
    settings: dict,
    output_dir: Path,
    *,
    resume: bool = False,
    each_epoch: EachEpoch = do_nothing,
) -> dict:
    """Train, keep the best and the last checkpoint, write the log and the curves; returns the log.

    settings: what decides the run, as plain values; the seed of its randomness is among them.
    each_epoch: called with the number of each finished epoch, from 1, and the model that was validated.

    best_model.pth       weights (their EMA, with recipe.ema_decay) of the epoch with the highest validation
                         accuracy, the latest of these
    last.pth             all that `resume` needs
    training_log.json    written when the run has ended, with training_curves.png and timing.json

    A finished run that was in `output_dir` is kept in previous/ there, unless previous/ holds a better one.
    """
    settings = settings | {"data": data_digest(task)}
    log = {name: [] for name in COLUMNS} | {"best_epoch": 0, "seconds": 0.0}
    with only_one(output_dir, "a training"):
        try:
            return _train(model, task, recipe, settings, output_dir, resume, log, each_epoch)
        except KeyboardInterrupt:
            if not log["val_acc"]:
                raise KeyboardInterrupt("stopped by you in the first epoch: nothing was written.") from None
            raise KeyboardInterrupt(
                f"stopped by you; every finished epoch is kept in {output_dir / 'last.pth'}. "
                "Run the same command with --resume to go on."
            ) from None


def train_or_reuse(
    model: nn.Module,
    task: Task,
    recipe: Recipe,
    settings: dict,
    output_dir: Path,
    each_epoch: EachEpoch = do_nothing,
) -> dict:
    """The log of the run with exactly these settings and rows in `output_dir`: one that has ended is kept, one that
    was stopped goes on, and otherwise it is trained."""
    wanted = settings | {"data": data_digest(task)}
    log = finished(output_dir, wanted)
    if log is not None:
        return log
    resume = stopped(output_dir, wanted)
    return train(model, task, recipe, settings, output_dir, resume=resume, each_epoch=each_epoch)


def _train(model, task, recipe, settings, output_dir, resume, log, each_epoch) -> dict:
    rows = take(task.train, slice(None), next(model.parameters()).device)
    average = copy.deepcopy(model) if recipe.ema_decay else model
    optimizer = make_optimizer(model, recipe)
    parts = {"model": model, "average": average, "optimizer": optimizer}
    if resume:
        log |= _restore(output_dir / "last.pth", task.kind, settings, parts)
    done = len(log["val_acc"])
    per_epoch = math.ceil(min(recipe.epoch_rows or math.inf, len(rows[0])) / recipe.batch_size)
    steps = {"total": recipe.epochs * per_epoch, "initial": done * per_epoch}
    with tqdm(**steps, unit="step", leave=False, disable=None) as bar:
        for epoch in range(done, recipe.epochs):
            started = time.perf_counter()
            scores = train_epoch(model, average, optimizer, rows, task, recipe, epoch, settings["seed"], bar)
            scores += evaluate(average, task.val, task.score)
            for name, value in zip(COLUMNS, scores, strict=True):
                log[name].append(value)
            is_best = log["val_acc"][-1] == max(log["val_acc"])  # of equals the latest
            if is_best:
                log["best_epoch"] = epoch + 1
            log["seconds"] += time.perf_counter() - started
            bar.write(_line(epoch, recipe, scores, is_best), file=sys.stdout)
            each_epoch(epoch + 1, average)
            if epoch == 0:
                make_room(output_dir)
            header = {"kind": task.kind, "settings": settings, "epoch": epoch + 1}
            if is_best:
                checkpoint.save(output_dir / "best_model.pth", header | {"model": average.state_dict()})
            state = {name: part.state_dict() for name, part in parts.items()}
            checkpoint.save(output_dir / "last.pth", header | state | {"log": log})
    return _finish(model, task, settings, output_dir, log)


def _line(epoch: int, recipe: Recipe, scores: list[float], is_best: bool) -> str:
    train_loss, train_acc, val_loss, val_acc = scores
    return (
        f"epoch {epoch + 1:3d}/{recipe.epochs}  train: loss {train_loss:.4f}, {train_acc:7.2%}  "
        f"validation: loss {val_loss:.4f}, {val_acc:7.2%}{' best' if is_best else ''}"
    )


def _restore(path: Path, kind: str, settings: dict, parts: dict) -> dict:
    """Put the saved state into the model, its average and the optimizer; returns the log of the epochs so far."""
    if not path.exists():
        print(f"nothing to resume in {path.parent}: starting from the beginning.")
        return {}
    saved = checkpoint.load(path, kind, ANEW)
    changed = sorted(name for name in settings if saved["settings"].get(name) != settings[name])
    if changed:
        name = changed[0]
        raise UserError(
            f"{path} was trained with {name} = {saved['settings'].get(name)}, not {settings[name]}: "
            f"resume with the same flags, or {ANEW}"
        )
    recipe = _recipe_of(parts["optimizer"])
    try:
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        if _recipe_of(parts["optimizer"]) != recipe:
            raise ValueError("another optimizer")
        for parameter, state in parts["optimizer"].state.items():
            moments = state["exp_avg"], state["exp_avg_sq"]
            if any((tensor.shape, tensor.dtype) != (parameter.shape, parameter.dtype) for tensor in moments):
                raise ValueError("another model's optimizer")
        if len(parts["optimizer"].state) != len([*parts["model"].parameters()]):
            raise ValueError("parameters without their state")
        log = {name: [float(value) for value in saved["log"][name]] for name in COLUMNS}
        log |= {"best_epoch": int(saved["log"]["best_epoch"]), "seconds": float(saved["log"]["seconds"])}
        if {len(log[name]) for name in COLUMNS} != {saved["epoch"]}:
            raise ValueError("one number per epoch")
        if not all(math.isfinite(value) for name in COLUMNS for value in (log["seconds"], *log[name])):
            raise ValueError("a number is not finite")
    except Exception:  # a file that train.py did not write can be wrong in any way
        raise UserError(f"{path} is not complete: {ANEW}") from None
    print(f"resuming after epoch {saved['epoch']}.")
    return log


def _recipe_of(optimizer: torch.optim.Optimizer) -> list[dict]:
    """All that decides a step but the learning rate, which each step sets anew, and the parameters."""
    return [{name: group[name] for name in group if name not in ("params", "lr")} for group in optimizer.param_groups]


def finished(output_dir: Path, settings: dict) -> dict | None:
    """The log of a finished run in `output_dir` with exactly these settings, or None."""
    path = Path(output_dir) / "training_log.json"
    if not path.exists() or not path.with_name("best_model.pth").exists():
        return None
    log = read_json(path, "delete it.")
    config = log.get("config", {}) if isinstance(log, dict) else {}
    return log if {name: config.get(name) for name in settings} == settings else None


def stopped(output_dir: Path, settings: dict) -> bool:
    """Whether `output_dir` holds the state of a run that was stopped, with exactly these settings."""
    path = Path(output_dir) / "last.pth"
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)["settings"]
        return {name: saved.get(name) for name in settings} == settings
    except Exception:  # not there, or not a file that train.py wrote: then there is nothing to go on with
        return False


def data_digest(task: Task) -> str:
    """16 hex digits that tell these rows from any others."""
    parts = []
    for tensor in (*task.train, *task.val, *task.test):
        parts += [f"{tensor.dtype} {tuple(tensor.shape)}".encode(), tensor.cpu().numpy().tobytes()]
    return digest(*parts)


def _finish(model, task, settings, output_dir: Path, log: dict) -> dict:
    """Evaluate the best weights on the test rows, and write what people read."""
    best = checkpoint.load(output_dir / "best_model.pth", task.kind, ANEW)
    if (best.get("epoch"), best["settings"]) != (log["best_epoch"], settings):
        raise UserError(
            f"{output_dir / 'best_model.pth'} is not of epoch {log['best_epoch']} of this run, which was its best: "
            "start anew without --resume."
        )
    model.load_state_dict(best["model"])
    test_loss, test_acc = evaluate(model, task.test, task.score)
    write_timing(output_dir, log.pop("seconds"), next(model.parameters()).device)
    log |= {
        "test_loss": test_loss,
        "test_acc": test_acc,
        "first_perfect_epoch": next((n for n, accuracy in enumerate(log["val_acc"], 1) if accuracy == 1.0), None),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "config": settings,
        "seed": settings["seed"],
        "versions": versions(),
    }
    draw_training_curves(log, output_dir / "training_curves.png", task.measure)
    write_json(output_dir / "training_log.json", log)  # last: a run that has it has ended (see `finished`)
    return log
