"""Asking a trained model: with kept keys or without, every pair there is, and one head less."""

import time
from pathlib import Path

import torch

from benchmarks.timing import compare
from lab.hooks import HeadHooks, zero
from problem1.analysis.exhaustive import answers
from problem1.dataset import START, every_pair, load_or_generate, score
from problem1.model import Seq2SeqTransformer
from problem1.train import HERE as PROBLEM
from problem1.train import load_model

DECODED_LENGTHS = (4, 8, 16, 32, 64, 128)
ROWS = 64


@torch.no_grad()
def generate_again(model: Seq2SeqTransformer, src: torch.Tensor, max_len: int, start_token: int) -> torch.Tensor:
    """Greedy decoding as usually written: the whole prefix through the decoder for every new token."""
    memory = model.encode(src)
    written = src.new_full((len(src), 1), start_token)
    for _ in range(max_len):
        written = torch.cat([written, model.decode(written, memory)[:, -1:].argmax(-1)], 1)
    return written[:, 1:]


def decoding(repetitions: int) -> dict:
    """Cached beside uncached by the number of tokens written; both must write the same."""
    torch.manual_seed(0)
    model = Seq2SeqTransformer(13, max_len=256).eval()
    out = {}
    for length in DECODED_LENGTHS:
        src = torch.randint(0, 10, (ROWS, length))
        if not torch.equal(model.generate(src, length, START), generate_again(model, src, length, START)):
            raise RuntimeError(f"cached and uncached decoding differ at length {length}")
        candidates = {
            "cached": lambda src=src, length=length: model.generate(src, length, START),
            "uncached": lambda src=src, length=length: generate_again(model, src, length, START),
        }
        out[str(length)] = compare(candidates, max(5, repetitions // (2 + length // 16)), ours="cached")
    return {"rows": ROWS, "by_length": out}


def verification(checkpoint: Path) -> dict:
    """All 810,000 pairs through the committed model, once."""
    model, _, digits = load_model(checkpoint)
    sums = every_pair(digits)
    started = time.perf_counter()
    predicted, _ = answers(model, sums)
    seconds = time.perf_counter() - started
    errors = int((predicted != sums.targets).any(1).sum())
    return {"pairs": len(sums), "errors": errors, "seconds": seconds, "pairs_a_second": len(sums) / seconds}


def one_head_less(checkpoint: Path, repetitions: int) -> dict:
    """A pass over the test rows as it is, and with a head silenced: what each analysis repeats for every head."""
    model, _, _ = load_model(checkpoint)
    test = load_or_generate(PROBLEM / "data")["test"]
    rows = test.sources, test.targets
    name = model.head_names()[0]

    class Without(torch.nn.Module):
        def forward(self, src, tgt):
            return model(src, tgt, hooks=HeadHooks(interventions={name: zero}, record=False))

    without = Without()
    with torch.no_grad():
        found = compare(
            {"whole": lambda: score(model, rows), "ours": lambda: score(without, rows)}, max(5, repetitions // 3)
        )
    return {"rows": len(test), **found}


def measure(repetitions: int) -> dict:
    checkpoint = PROBLEM / "results" / "best_model.pth"
    return {
        "decoding": decoding(repetitions),
        "verification": verification(checkpoint),
        "one_head_less": one_head_less(checkpoint, repetitions),
    }
