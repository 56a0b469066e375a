"""What a sum costs: seconds and memory of greedy decoding against the number of digits.

Each size is measured in a process of its own, so that its peak of memory is its own; the process adds a random sum
and one with a carry through every place, from text to text, one symbol at a time.
"""

import multiprocessing
import re
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm

from lab.figures import COLOURS, LINES, MARKS, plt, save
from lab.statistics import slope
from problem1.text import calculator
from problem1.text.dataset import chain_pairs, random_pairs

SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
FIT_FROM = 1_000  # below, a process's start weighs more than its sum


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
    asked = calculator.load(model_path)
    asked.answer([("5", "5")])  # first calls cost more than later ones
    before = peak_megabytes()
    pairs, seconds, right = [random_pairs(digits, 1, digits)[0], chain_pairs(digits, 1, digits)[0]], [], 0
    for pair in pairs:
        started = time.perf_counter()
        answer = asked.answer([pair])[0]
        seconds.append(time.perf_counter() - started)
        right += calculator.is_right(pair, answer)
    peak = peak_megabytes()
    return {
        "digits": digits,
        "right": right,
        "of": len(pairs),
        "seconds_a_sum": min(seconds),
        "peak_megabytes": peak,
        "megabytes_for_the_sum": peak - before,
    }


def measure(model_path: Path, sizes: tuple[int, ...] = SIZES) -> dict:
    """{"sizes": [{…} for each], "seconds_slope", "memory_slope"}: slope 1 on logarithmic axes is linear cost."""
    context = multiprocessing.get_context("spawn")
    out = []
    for digits in tqdm(sizes, desc="measuring", unit="size", leave=False, disable=None):
        with context.Pool(1) as pool:
            out.append(pool.apply(measure_one, (str(model_path), digits)))
    large = [size for size in out if size["digits"] >= FIT_FROM]
    return {
        "sizes": out,
        "fitted_from_digits": FIT_FROM,
        "seconds_slope": slope([(size["digits"], size["seconds_a_sum"]) for size in large]),
        "memory_slope": slope([(size["digits"], size["megabytes_for_the_sum"]) for size in large]),
    }


def draw(numbers: dict, path: Path) -> None:
    """Two panels from scaling.json: seconds, and megabytes beyond what the process held before."""
    sizes = numbers["sizes"]
    digits = [size["digits"] for size in sizes]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.9))
    panels = (
        (left, "seconds_a_sum", "seconds for one sum", "seconds_slope", 0, 0.0),
        (right, "megabytes_for_the_sum", "megabytes for one sum", "memory_slope", 1, 1.0),
    )
    for axes, name, label, exponent, number, least in panels:
        points = [(size["digits"], size[name]) for size in sizes if size[name] > least]
        style = {"color": COLOURS[number], "marker": MARKS[number], "linestyle": LINES[number]}
        if points:  # small sums need hardly any memory that the process does not have already
            x, y = points[-1]
            axes.plot(*zip(*points, strict=True), **style, label="measured")
            axes.plot(digits, [y * d / x for d in digits], color="#999999", linewidth=1, label="proportional to digits")
            axes.legend()
        axes.set(xscale="log", yscale="log", xlabel="digits of each operand", ylabel=label)
        axes.set_title(
            ""
            if numbers[exponent] is None
            else f"slope from {numbers['fitted_from_digits']:,} digits: {numbers[exponent]:.2f}"
        )
    largest = sizes[-1]
    save(
        figure,
        path,
        "Greedy decoding, one thread. Cost is linear: a slope of 1, along the grey line. "
        f"{largest['digits']:,} digits: {largest['seconds_a_sum']:.1f} s, "
        f"{largest['peak_megabytes']:.0f} MB for the whole process, {largest['right']} of {largest['of']} sums right.",
    )
