"""How cost grows: seconds and memory against width, digits, length, operand size, and torchrun processes.

Every point is measured in a process of its own, so that its peak of memory is its own.
"""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks.steps import training_step
from lab.files import UserError
from lab.statistics import slope
from problem1.model import Seq2SeqTransformer
from problem1.text import scaling as text
from problem1.text.calculator import MODEL
from problem1.train import HERE as PROBLEM
from problem2.model import SortingClassifier

SIZES = {
    "width": (32, 64, 128, 256, 512),
    "digits": (3, 6, 12, 24, 48),
    "length": (64, 128, 256, 512, 1024, 2048, 4096),
    "operand": (1_000, 3_000, 10_000, 30_000),
}
WHAT = {
    "width": "a training step of problem 1 by d_model (d_ff = 4 d_model, 128 rows)",
    "digits": "a training step of problem 1 by digits of an operand (128 rows)",
    "length": "one sequence through problem 2's classifier by its length",
    "operand": "a sum of the text task, decoded greedily, by digits of an operand",
    "processes": "an epoch of problem 1 by torchrun processes, one thread each",
}
FIT = 3  # the exponent is that of the largest so many sizes: what small ones cost is the machinery around them
PROCESSES, EPOCHS = (1, 2), 3


def run_of(kind: str, size: int):
    """Something to be timed, ready to go."""
    if kind == "length":
        model = SortingClassifier(d_ff=128).eval()
        row = torch.randint(0, 100, (1, size))
        return lambda: torch.inference_mode()(model)(row)
    digits = size if kind == "digits" else 3
    width = size if kind == "width" else 64
    model = Seq2SeqTransformer(13, width, 4, 2, 2, 4 * width, max_len=2 * digits + 2)
    tokens = torch.randint(0, 10, (128, 2 * digits + 1)), torch.randint(0, 10, (128, digits + 1))
    return training_step(model, tokens, tokens[1])


def measure_one(kind: str, size: int) -> dict:
    """Runs in a process of its own, on one thread."""
    torch.set_num_threads(1)
    if kind == "operand":
        found = text.measure_one(str(MODEL), size)
        return {"size": size, "seconds": found["seconds_a_sum"], "megabytes": found["megabytes_for_the_sum"]}
    torch.manual_seed(0)
    run_of(kind, 64 if kind != "digits" else 3)()  # first calls cost more than later ones
    before, run = text.peak_megabytes(), run_of(kind, size)
    spent = []
    while len(spent) < 3 or (sum(spent) < 1 and len(spent) < 50):
        started = time.perf_counter()
        run()
        spent.append(time.perf_counter() - started)
    return {"size": size, "seconds": sorted(spent)[len(spent) // 2], "megabytes": text.peak_megabytes() - before}


def processes(count: int) -> dict:
    """A short training by torchrun; the seconds of its log, start not counted."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={count}", "--standalone"]
        flags = ["--epochs", str(EPOCHS), "--output-dir", folder]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, str(PROBLEM / "train.py"), *flags], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise UserError(f"torchrun with {count} processes failed: {done.stderr.strip().splitlines()[-1]}")
        log = json.loads((Path(folder) / "training_log.json").read_text())
    return {"size": count, "seconds": log["seconds"] / EPOCHS}


def measure() -> dict:
    """{"width": {"what", "points": [{"size", "seconds", "megabytes"}], "exponent"…}, …}"""
    context, out = multiprocessing.get_context("spawn"), {}
    for kind, sizes in SIZES.items():
        points = []
        for size in tqdm(sizes, desc=f"scaling: {kind}", unit="size", leave=False, disable=None):
            with context.Pool(1) as pool:
                points.append(pool.apply(measure_one, (kind, size)))
        large = points[-FIT:]
        out[kind] = {"what": WHAT[kind], "points": points, "fitted_to_the_last": FIT}
        for name in ("seconds", "megabytes"):
            out[kind][f"{name}_exponent"] = slope([(point["size"], point[name]) for point in large])
    points = [processes(count) for count in PROCESSES if count <= (os.cpu_count() or 1)]
    out["processes"] = {
        "what": WHAT["processes"],
        "points": points,
        "seconds_exponent": slope([(point["size"], point["seconds"]) for point in points]),
    }
    return out


def cpu_name() -> str:
    """What the processor calls itself; empty where it cannot be asked."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return found.group(1) if found else ""
