"""What is measured: a training step, an evaluation pass, and the time to a model that is right.

Candidates run in turns, in an order drawn anew for each round, so that a busy moment of the machine meets all of them.
"""

import contextlib
import copy
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from benchmarks import jax_step
from benchmarks.baselines import ReferenceClassifier, ReferenceTransformer, RowDataset, usual_epoch
from lab.fast import Fast
from lab.files import read_json
from lab.training import evaluate
from problem1.checkpoint import load_model
from problem1.dataset import VOCAB_SIZE, Sums, decoder_inputs, every_pair, load_or_generate, score
from problem1.generate_data import make_rows
from problem1.model import Seq2SeqTransformer
from problem2.dataset import PAD
from problem2.model import SortingClassifier

TRAIN = Path(__file__).resolve().parents[1] / "problem1/train.py"
STEPS_IN_A_ROW = 10


def interleaved(candidates: dict, rounds: int, in_a_row: int = 1) -> dict:
    """{name: function} -> {name: seconds of a call in each round}, after one round that is not counted.

    in_a_row: calls of a candidate in a round. Of training steps there are several: a training repeats the step of
    one model, whose weights then stay in the processor's cache.
    """
    seconds, turns = {name: [] for name in candidates}, random.Random(0)
    for number in range(rounds + 1):
        for name in turns.sample(list(candidates), len(candidates)):
            started = time.perf_counter()
            for _ in range(in_a_row):
                candidates[name]()
            if number:
                seconds[name].append((time.perf_counter() - started) / in_a_row)
    return seconds


def summary(seconds: list[float]) -> dict:
    """Median and the middle half of the rounds."""
    low, median, high = (1e3 * value for value in statistics.quantiles(seconds, n=4, method="inclusive"))
    return {"median_ms": median, "quartiles_ms": [low, high], "rounds": len(seconds)}


# --- a training step and an evaluation pass ---------------------------------------------------------------------


def training_step(model: nn.Module, inputs: tuple, labels: Tensor) -> Callable[[], None]:
    """Forward, backward, bound on the gradient's norm, AdamW."""
    parameters = [*model.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    model.train()

    def step() -> None:
        loss = F.cross_entropy(model(*inputs).flatten(0, -2), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step


def gradient_pass(model: nn.Module, inputs: tuple, labels: Tensor) -> Callable[[], None]:
    """Forward and backward: a training step without its optimizer."""
    model.train()

    def gradients() -> None:
        loss = F.cross_entropy(model(*inputs).flatten(0, -2), labels.flatten())
        model.zero_grad()
        loss.backward()

    return gradients


def evaluation_pass(model: nn.Module, inputs: tuple, context=contextlib.nullcontext) -> Callable[[], Tensor]:
    model.eval()

    @torch.no_grad()
    def evaluate_all() -> Tensor:
        with context():
            return model(*inputs)

    return evaluate_all


def addition_rows(count: int) -> tuple[tuple, Tensor]:
    """Inputs and labels of `count` sums spread over all pairs."""
    sums = every_pair(3)
    chosen = torch.linspace(0, len(sums) - 1, count).long()
    return (sums.sources[chosen], decoder_inputs(sums.targets[chosen])), sums.targets[chosen]


def sorting_rows(count: int) -> tuple[tuple, Tensor]:
    """Any values at lengths 8 to 16, any labels: they do not change the time."""
    generator = torch.Generator().manual_seed(0)
    padding = torch.arange(16) >= torch.randint(8, 17, (count, 1), generator=generator)
    values = torch.randint(0, 100, (count, 16), generator=generator).masked_fill(padding, PAD)
    return (values,), torch.randint(0, 2, (count,), generator=generator)


def compare(candidates: dict, rounds: int, in_a_row: int = 1) -> dict:
    """{name: median, quartiles, and "ratio", the time as a multiple of ours: the median over rounds, each compared
    within itself}"""
    found = {}
    for name, run in [*candidates.items()]:
        try:
            run()
        except Exception as error:  # torch.compile needs a C++ compiler, and may fail in many ways
            del candidates[name]
            found[name] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
    seconds = interleaved(candidates, rounds, in_a_row)
    for name, values in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(values, seconds["ours"], strict=True))
        found[name] = summary(values) | {"ratio": ratio}
    return found


def steps(rounds: int, compiled: bool = True, rows_evaluated: int = 2048) -> dict:
    """{"addition, training step of 64 rows": {"ours": …, "torch.nn": …, "ours, compiled": …, …}, …}"""
    torch.manual_seed(0)
    found = {}
    for problem, ours, reference, rows, batch_size in (
        ("addition", Seq2SeqTransformer(VOCAB_SIZE), ReferenceTransformer, addition_rows, 64),
        ("sorting", SortingClassifier(d_ff=128), ReferenceClassifier, sorting_rows, 128),
    ):
        batch, (inputs, _) = rows(batch_size), rows(rows_evaluated)
        trained = {"ours": copy.deepcopy(ours), "torch.nn": reference(ours)}
        evaluated = copy.deepcopy(trained)
        if compiled:  # each for its one shape
            for models in (trained, evaluated):
                for who, model in [*models.items()]:
                    models[f"{who}, compiled"] = torch.compile(copy.deepcopy(model), dynamic=False)
        training = {who: training_step(model, *batch) for who, model in trained.items()}
        passes = {who: gradient_pass(trained[who], *batch) for who in ("ours", "torch.nn")}
        if problem == "addition" and jax_step.INSTALLED:
            training["JAX, jitted"] = jax_step.make(ours, *batch)
        evaluation = {who: evaluation_pass(model, inputs) for who, model in evaluated.items()}
        evaluation["ours"] = evaluation_pass(evaluated["ours"], inputs, Fast)  # as analyses run it
        found[f"{problem}, training step of {batch_size} rows"] = compare(training, rounds, STEPS_IN_A_ROW)
        found[f"{problem}, forward and backward of {batch_size} rows"] = compare(passes, rounds, STEPS_IN_A_ROW)
        found[f"{problem}, evaluation pass of {rows_evaluated} rows"] = compare(evaluation, rounds)
    return found


# --- time to a model that is right ------------------------------------------------------------------------------


def verify(model: nn.Module, pairs: Sums) -> dict:
    started = time.perf_counter()
    _, accuracy = evaluate(model, (pairs.sources, pairs.targets), score)
    pairs_a_second = len(pairs) / (time.perf_counter() - started)
    return {"errors": round((1 - accuracy) * len(pairs)), "pairs_a_second": pairs_a_second}


def our_training(seed: int, pairs: Sums, flags: dict) -> dict:
    """`python problem1/train.py`; its start is not counted, and exact is what it keeps at its end."""
    with tempfile.TemporaryDirectory() as folder:
        words = {"seed": seed, "device": "cpu", "output-dir": folder} | flags
        arguments = [f"--{name}={value}" for name, value in words.items()]
        subprocess.run([sys.executable, TRAIN, *arguments], check=True, stdout=subprocess.DEVNULL)
        log, timing = (read_json(Path(folder) / name, "") for name in ("training_log.json", "timing.json"))
        model, _ = load_model(Path(folder) / "best_model.pth")
    seconds, epochs, perfect = timing["seconds"], len(log["val_acc"]), log["first_perfect_epoch"]
    found = {"seconds": seconds, "epochs": epochs, "to_validation": perfect and seconds * perfect / epochs}
    verified = verify(model, pairs)
    return found | {"to_exact": None if verified["errors"] else seconds} | verified


def usual_training(seed: int, pairs: Sums, epochs: int) -> dict:
    """The usual recipe until it is right on all pairs; looking whether it is does not count."""
    torch.manual_seed(seed)
    model = ReferenceTransformer(Seq2SeqTransformer(VOCAB_SIZE, max_len=8))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches, val = DataLoader(RowDataset(make_rows(3, 10_000, 641)), 64, shuffle=True), load_or_generate()["val"]
    found = {"seconds": 0.0, "epochs": 0, "to_validation": None, "to_exact": None}
    while found["epochs"] < epochs and found["to_exact"] is None:
        started = time.perf_counter()
        usual_epoch(model, batches, optimizer)
        _, accuracy = evaluate(model, (val.sources, val.targets), score)
        found["seconds"] += time.perf_counter() - started
        found["epochs"] += 1
        if accuracy == 1.0:
            found["to_validation"] = found["to_validation"] or found["seconds"]
            found["to_exact"] = None if verify(model, pairs)["errors"] else found["seconds"]
    return found | verify(model, pairs)


def training(seed: int = 641, epochs: int = 50, flags: dict | None = None) -> list[dict]:
    """Both recipes on the same rows: seconds, and what became of all 810,000 pairs. `epochs`: most of the usual one."""
    pairs = every_pair(3)
    ours = {"seed": seed, "recipe": "ours"} | our_training(seed, pairs, flags or {})
    return [ours, {"seed": seed, "recipe": "the usual one"} | usual_training(seed, pairs, epochs)]
