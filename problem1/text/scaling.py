"""What a sum costs: seconds and memory of greedy decoding against the number of digits.

Each size is measured in a process of its own, so that its peak of memory is its own; the process adds a random sum
and one with a carry through every digit, from text to text, one symbol at a time.
"""

import multiprocessing
import re
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm

from lab.statistics import slope
from problem1.text import calculator
from problem1.text.dataset import chain_pairs, random_pairs

SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
FIT_FROM = 1_000  # below, the start of a process costs more than its sum


def peak_megabytes() -> float:
    """The most memory this process has held so far."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux, where getrusage would begin with the peak of the parent process
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text()).group(1)) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def measure_one(model_path: str, digits: int) -> dict:
    """Runs in a process of its own: one random and one full-chain sum of `digits` digits."""
    torch.set_num_threads(1)
    model = calculator.load(model_path)
    model.predict([("5", "5")])  # first calls cost more than later ones
    before = peak_megabytes()
    pairs, seconds, right = [random_pairs(digits, 1, digits)[0], chain_pairs(digits, 1, digits)[0]], [], 0
    for pair in pairs:
        started = time.perf_counter()
        prediction = model.predict([pair])[0]
        seconds.append(time.perf_counter() - started)
        right += calculator.is_right(pair, prediction)
    peak = peak_megabytes()
    return {
        "digits": digits,
        "right": right,
        "of": len(pairs),
        "seconds_a_sum": min(seconds),
        "peak_megabytes": peak,
        "megabytes_for_the_sum": peak - before,
    }


def run(model_path: Path, sizes: tuple[int, ...] = SIZES) -> tuple[dict, dict]:
    """What is exact, for scaling.json, and what differs from run to run, for analysis_timing.json.

    A slope is the exponent of the cost: 1 on logarithmic axes is linear cost.
    """
    context = multiprocessing.get_context("spawn")
    measured = []
    for digits in tqdm(sizes, desc="measuring", unit="size", leave=False, disable=None):
        with context.Pool(1) as pool:
            measured.append(pool.apply(measure_one, (str(model_path), digits)))
    exact = ("digits", "right", "of")
    large = [size for size in measured if size["digits"] >= FIT_FROM]
    cost = {
        "scaling": [{name: value for name, value in size.items() if name not in exact[1:]} for size in measured],
        "fitted_from_digits": FIT_FROM,
        "seconds_slope": slope([(size["digits"], size["seconds_a_sum"]) for size in large]),
        "memory_slope": slope([(size["digits"], size["megabytes_for_the_sum"]) for size in large]),
    }
    return {"sizes": [{name: size[name] for name in exact} for size in measured]}, cost
