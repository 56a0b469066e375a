"""The training loop of both problems: data in tensors, warm-up and cosine decay, exact resume.

A problem hands over a `Task`: its rows as tensors and one function that scores a batch row by row. The loop
knows nothing else of it, and works alone or as one of several `torchrun` processes.

All randomness of an epoch (order of rows, augmentation, dropout) follows from the seed and the number of the
epoch alone. So a run that is killed and resumed at the last finished epoch ends in the same bits as one that
was never interrupted, with no generator state to save.
"""

import copy
import hashlib
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

from lab import checkpoint, parallel
from lab.figures import draw_training_curves
from lab.files import UserError, only_one, read_json, write_json
from lab.provenance import changed_code, code, provenance

COLUMNS = ("train_loss", "train_acc", "val_loss", "val_acc")  # of the log, a number an epoch
Batch = tuple[Tensor, ...]  # tensors of the same first dimension: one entry a row


@dataclass(frozen=True)
class Task:
    """What the loop must know of a problem."""

    kind: str  # names the problem in checkpoints: "problem1/digits"
    train: Batch
    val: Batch
    test: Batch
    score: Callable[[nn.Module, Batch], tuple[Tensor, Tensor]]  # -> loss [B], right [B] (bool)
    augment: Callable[[Batch, torch.Generator], Batch] = lambda batch, generator: batch


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
    average: float = 0.0  # validated and kept: the running mean of the weights over about 1 / (1 - average) steps
    epoch_rows: int | None = None  # rows drawn for an epoch, where that is not all of them

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of step 0, 1, … of `steps`."""
        warmup = min(self.warmup_steps, steps // 10)
        if step < warmup:
            return self.lr * (step + 1) / warmup
        return self.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))

    def average_at(self, step: int) -> float:
        """What the running mean keeps of itself at step 0, 1, …: less at first, while earlier weights are far worse."""
        return min(self.average, (step + 1) / (step + 10))


@torch.no_grad()
def evaluate(model: nn.Module, rows: Batch, score, batch_size: int = 2048) -> tuple[float, float]:
    """Mean loss and share of right rows, in batches, over all processes."""
    model.eval()
    device = next(model.parameters()).device
    sums = torch.zeros(2, dtype=torch.double)
    for index in parallel.share(torch.arange(len(rows[0]))).split(batch_size):
        losses, right = score(model, take(rows, index, device))
        sums += torch.stack([losses.cpu().double().sum(), right.cpu().double().sum()])
    loss, accuracy = (parallel.total(sums.to(device, torch.float)).cpu().double() / len(rows[0])).tolist()
    return loss, accuracy


def data_digest(task: Task) -> str:
    """16 hex digits that tell these rows from any others."""
    digest = hashlib.sha256()
    for tensor in (*task.train, *task.val, *task.test):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def take(rows: Batch, index: Tensor, device) -> Batch:
    return tuple(tensor[index].to(device) for tensor in rows)


def train(
    model: nn.Module, task: Task, recipe: Recipe, settings: dict, output_dir: Path, seed: int, resume: bool
) -> dict:
    """Train, keep the best and the last checkpoint, write the log and the curves; returns the log.

    best_model.pth       weights after the epoch of the highest validation accuracy (of those, the lowest loss);
                         with recipe.average it is the running mean that is validated and kept
    last.pth             all that `resume` needs
    training_log.json    written when the run has ended
    training_curves.png
    """
    settings = settings | {"data": data_digest(task)}
    if parallel.rank() > 0:
        return _train(model, task, recipe, settings, output_dir, seed, resume)
    with only_one(output_dir, "a training"):
        try:
            return _train(model, task, recipe, settings, output_dir, seed, resume)
        except KeyboardInterrupt:
            raise UserError(
                f"stopped by you; every finished epoch is kept in {output_dir / 'last.pth'}. "
                "Run the same command with --resume to go on."
            ) from None


def _train(model, task, recipe, settings, output_dir, seed, resume) -> dict:
    lead, device = parallel.rank() == 0, next(model.parameters()).device
    train_rows = tuple(tensor.to(device) for tensor in task.train)
    count = len(train_rows[0])
    drawn = min(recipe.epoch_rows or count, count)
    per_epoch = math.ceil(drawn / recipe.batch_size)
    steps = per_epoch * recipe.epochs
    averaged = copy.deepcopy(model) if recipe.average else model
    optimizer = _optimizer(model, recipe)
    log = {name: [] for name in COLUMNS} | {"best_epoch": 0, "seconds": 0.0}
    if resume:
        log = _restore(output_dir / "last.pth", task.kind, settings, model, optimizer, averaged, log)
    done = len(log["val_acc"])

    bar = tqdm(
        total=steps,
        initial=done * per_epoch,
        disable=not lead or not sys.stderr.isatty(),
        unit="step",
        leave=False,
    )
    for epoch in range(done, recipe.epochs):
        started = time.perf_counter()
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        torch.manual_seed((seed * 1_000_003 + epoch) * 64 + parallel.rank())  # dropout: its own in each process
        model.train()
        sums = torch.zeros(2, device=device)
        for number, index in enumerate(torch.randperm(count, generator=generator)[:drawn].split(recipe.batch_size)):
            step = epoch * per_epoch + number
            # Every process draws the whole batch, so that all agree on it, and trains on its share of the rows.
            batch = task.augment(take(train_rows, index.to(device), device), generator)
            mine = parallel.share(torch.arange(len(index), device=device))
            losses, right = task.score(model, take(batch, mine, device) if parallel.world() > 1 else batch)
            optimizer.zero_grad()
            (losses.sum() / len(index)).backward()
            parallel.sum_gradients(model)
            norm = nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            if not math.isfinite(norm):
                raise UserError(
                    f"the loss is no longer finite (epoch {epoch + 1}, step {step + 1} of {steps}): "
                    f"lower --lr ({recipe.lr:g}). The checkpoints of {done_text(epoch)} in {output_dir} are kept."
                )
            for group in optimizer.param_groups:
                group["lr"] = recipe.lr_at(step, steps)
            optimizer.step()
            if averaged is not model:
                move_towards = get_ema_multi_avg_fn(recipe.average_at(step))
                move_towards([*averaged.parameters()], [*model.parameters()], None)
            sums += torch.stack([losses.detach().sum(), right.sum()])
            bar.update()
            if number % 10 == 9 and not bar.disable:
                seen = (number + 1) * recipe.batch_size / parallel.world()
                loss, accuracy = (sums / seen).tolist()
                last = f", val {log['val_acc'][-1]:.2%}" if log["val_acc"] else ""
                bar.set_postfix_str(f"epoch {epoch + 1}, loss {loss:.4f}, exact {accuracy:.2%}{last}", refresh=False)
        train_loss, train_acc = (parallel.total(sums) / drawn).tolist()
        val_loss, val_acc = evaluate(averaged, task.val, task.score)
        for name, value in zip(COLUMNS, (train_loss, train_acc, val_loss, val_acc), strict=True):
            log[name].append(value)
        better = _is_best(log)
        if better:
            log["best_epoch"] = epoch + 1
        log["seconds"] += time.perf_counter() - started
        if lead:
            mark = "  best so far" if better else ""
            bar.write(
                f"epoch {epoch + 1:3d}/{recipe.epochs}  train loss {train_loss:.4f}  acc {train_acc:7.2%}   "
                f"val loss {val_loss:.4f}  acc {val_acc:7.2%}{mark}",
                file=sys.stdout,
            )
            header = {"kind": task.kind, "settings": settings, "epoch": epoch + 1, "val_acc": val_acc}
            if epoch == 0:  # what an earlier run left here would not belong to the new weights
                for name in ("training_log.json", "training_curves.png"):
                    (output_dir / name).unlink(missing_ok=True)
            if better:
                checkpoint.save(output_dir / "best_model.pth", {**header, "model": averaged.state_dict()})
            state = {
                "model": model.state_dict(),
                "averaged": averaged.state_dict(),
                "optimizer": optimizer.state_dict(),
                "log": log,
                "code": code(),
            }
            checkpoint.save(output_dir / "last.pth", {**header, **state})
    bar.close()
    return _finish(model, task, settings, output_dir, log)


def done_text(epochs: int) -> str:
    return f"epoch {epochs}" if epochs else "earlier runs, if any,"


def _optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Weight decay pulls at matrices only; biases and norms have no scale of their own to hold down."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.lr, betas=recipe.betas, fused=True)


def _is_best(log: dict) -> bool:
    """Whether the epoch just logged has the highest validation accuracy; of equals the lowest loss."""
    ranks = [(acc, -loss) for acc, loss in zip(log["val_acc"], log["val_loss"], strict=True)]
    return all(ranks[-1] > rank for rank in ranks[:-1])


def _restore(path: Path, kind: str, settings: dict, model, optimizer, averaged, fresh_log: dict) -> dict:
    if not path.exists():
        if parallel.rank() == 0:
            print(f"nothing to resume in {path.parent}: starting from the beginning.")
        return fresh_log
    saved = checkpoint.load(path, kind)
    changed = sorted(name for name in settings if saved["settings"].get(name) != settings[name])
    if changed:
        name = changed[0]
        raise UserError(
            f"{path} was trained with {name} = {saved['settings'].get(name)}, not {settings[name]}: "
            "resume with the same flags, or start anew without --resume."
        )
    try:
        changed = changed_code(saved["code"])
        if changed:
            raise UserError(
                f"{path} was made by other code than is here now ({changed[0]} has changed): start anew without "
                "--resume, or delete the file."
            )
        model.load_state_dict(saved["model"])
        averaged.load_state_dict(saved["averaged"])
        optimizer.load_state_dict(saved["optimizer"])
        if not all(parameter.isfinite().all() for its in (model, averaged) for parameter in its.parameters()):
            raise ValueError("weights must be finite")
        log = _as_log(saved["log"])
        done = len(log["val_acc"])
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError):
        raise UserError(f"{path} is not complete: start anew without --resume.") from None
    if parallel.rank() == 0:
        print(f"resuming after epoch {done}.")
    return log


def _as_log(log: dict) -> dict:
    """The log of finished epochs and nothing else; ValueError or the like if it is none."""
    columns = [log[name] for name in COLUMNS]
    numbers = [log["seconds"], *(value for column in columns for value in column)]
    if not all(type(value) is float and math.isfinite(value) for value in numbers):
        raise ValueError("numbers must be finite")
    if any(type(column) is not list or len(column) != len(columns[0]) for column in columns):
        raise ValueError("one number an epoch")
    if type(log["best_epoch"]) is not int or not 1 <= log["best_epoch"] <= len(columns[0]):
        raise ValueError("the best epoch must be one of them")
    return {name: log[name] for name in (*COLUMNS, "best_epoch", "seconds")}


def _finish(model, task, settings, output_dir: Path, log: dict) -> dict:
    """Score the best weights on the test rows and write what is for people."""
    device = next(model.parameters()).device
    if parallel.world() > 1:
        torch.distributed.barrier()  # the leading process has written the file by now
    best = checkpoint.load(output_dir / "best_model.pth", task.kind)
    model.load_state_dict({name: tensor.to(device) for name, tensor in best["model"].items()})
    test_loss, test_acc = evaluate(model, task.test, task.score)
    perfect = [number for number, accuracy in enumerate(log["val_acc"], 1) if accuracy == 1.0]
    log |= {
        "test_loss": test_loss,
        "test_acc": test_acc,
        "first_perfect_epoch": perfect[0] if perfect else None,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "config": settings,
        "seed": settings["seed"],
        "processes": parallel.world(),
        **provenance(device),
    }
    if parallel.rank() == 0:
        write_json(output_dir / "training_log.json", log)
        draw_training_curves(read_json(output_dir / "training_log.json", ""), output_dir / "training_curves.png")
    return log
