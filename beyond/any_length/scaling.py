"""What long sums cost, and whether they are right: up to a million digits, written one digit after the other.

    python beyond/any_length/scaling.py                          # a few minutes
    python beyond/any_length/scaling.py --precision float64

At each size 20 sums are written side by side: half of them random, half with a carry through every digit. A process of
its own measures each size, so that its peak of memory is its own. Writes scaling.json, and scaling_timing.json with
seconds and memory.
"""

import multiprocessing
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

import torch
from tqdm import tqdm

from beyond.any_length.checkpoint import MODEL, load_model
from beyond.any_length.dataset import PAD, chain_pairs, columns, encode, random_pairs
from lab import device
from lab.files import UserError, versions, write_json, write_timing
from lab.settings import as_plain, parse, run, setting

DIGITS = (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Settings:
    model_path: Path = setting(MODEL, "checkpoint to measure", metavar="FILE")
    output_dir: Path = setting(MODEL.parent, "folder of the numbers", metavar="DIR")
    largest: int = setting(DIGITS[-1], "digits of the largest sums", minimum=DIGITS[0])
    sums: int = setting(20, "sums of each size, written side by side", minimum=2)
    precision: str = setting("float32", "of all weights and activations", choices=("float32", "float64"))


def peak_megabytes() -> float:
    """The most memory this process has held so far."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux, where getrusage would begin with the peak of the parent process
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text()).group(1)) / 1024
    try:
        import resource
    except ImportError:  # Windows
        raise UserError("scaling.py cannot measure memory on this system: run it on Linux or macOS.") from None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def measure(model_path: Path, digits: int, sums: int, precision: str) -> tuple[dict, dict]:
    """What is exact of the sums of one size, and what they cost. Runs in a process of its own."""
    torch.set_num_threads(1)
    model = load_model(model_path)[0].to(getattr(torch, precision))
    model.generate(columns([("5", "5")]))  # first calls cost more than later ones
    before = peak_megabytes()
    pairs = random_pairs(digits, sums - sums // 2, digits) + chain_pairs(digits, sums // 2, digits)
    started = time.perf_counter()
    written, margins = model.generate(columns(pairs))
    seconds = time.perf_counter() - started
    peak = peak_megabytes()
    answers = encode(pairs)[1]
    steps = answers != PAD
    right = ((written == answers) | ~steps).all(1)
    exact = {"digits": digits, "right": int(right.sum()), "of": sums, "smallest_margin": float(margins[steps].min())}
    return exact, {"digits": digits, "seconds": seconds, "megabytes": peak - before}


def main(settings: Settings) -> None:
    device.start("cpu")
    peak_megabytes()  # refused here, if at all
    trained = load_model(settings.model_path)[1]
    started = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    found = []
    chosen = [count for count in DIGITS if count <= settings.largest]
    for digits in tqdm(chosen, unit="size", leave=False, disable=None):
        with context.Pool(1) as pool:
            found.append(pool.apply(measure, (settings.model_path, digits, settings.sums, settings.precision)))
        exact, cost = found[-1]
        print(
            f"{digits:>9,} digits: {exact['right']} of {exact['of']} sums right, smallest logit margin "
            f"{exact['smallest_margin']:.1f}; {cost['seconds']:.1f} s, {cost['megabytes']:.0f} MB",
            flush=True,
        )
    sizes = [exact for exact, _ in found]
    costs = [cost for _, cost in found]
    about = {"config": as_plain(settings), "model": trained, "seed": trained["seed"], "versions": versions()}
    write_json(settings.output_dir / "scaling.json", {"sizes": sizes} | about)
    write_timing(settings.output_dir, time.perf_counter() - started, name="scaling_timing.json", sizes=costs)


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
