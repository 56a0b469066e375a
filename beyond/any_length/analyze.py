"""Analyse a model of addition as text: one question a line, one file in results/ for each.

    python beyond/any_length/analyze.py              # a minute

    proof.json, proof.png    does it add right at every length? every local context, and the argument, rounding
                             included; `python beyond/any_length/check_proof.py` checks it again
    lengths.json             exact match at 8 to 2,006 characters, and on shapes that no training row had

Longer sums come from scaling.py, other seeds and smaller models from study.py.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

from beyond.any_length import lengths, proof
from beyond.any_length.checkpoint import MODEL, load_model
from lab import device
from lab.fast import Fast
from lab.files import versions, write_json, write_timing
from lab.settings import as_plain, parse, run, setting


@dataclass(frozen=True)
class Settings:
    model_path: Path = setting(MODEL, "checkpoint to analyse", metavar="FILE")
    output_dir: Path = setting(MODEL.parent, "folder for numbers and figures", metavar="DIR")
    num_samples: int = setting(10_000, "most sums of each kind", minimum=1)


def main(settings: Settings) -> None:
    started = time.perf_counter()
    folder = settings.output_dir
    device.start("cpu")
    model, trained = load_model(settings.model_path)
    about = {"config": as_plain(settings), "model": trained, "seed": trained["seed"], "versions": versions()}
    found = proof.run(model)
    write_json(folder / "proof.json", found | about)
    proof.draw(found, folder / "proof.png")
    say(in_words_of_proof(found), "proof.json")

    found = lengths.run(model, settings.num_samples)
    write_json(folder / "lengths.json", found | about)
    longest, total = max(map(int, found["lengths"])), found["in_all"]
    say(f"{total['right']:,} of {total['of']:,} sums right, from 8 to {longest:,} characters and more", "lengths.json")
    write_timing(folder, time.perf_counter() - started, name="analysis_timing.json")
    say(f"everything is in {folder}")


def in_words_of_proof(found: dict) -> str:
    count, rounding = f"{found['local_contexts']:,}", found["rounding"]
    if found["proven"]:
        where = "float64 and float32" if found["proven_in_float32"] else "float64, not in float32"
        return f"exact in all {count} local contexts, so at every length, in any order of summation in {where}"
    if found["failures"]:
        return f"wrong in {found['failures']:,} of {count} local contexts, as in {found['smallest_margin_at']['sum']}"
    reason = rounding["float64"].get("reason", "see locality, rounding and measured")
    return f"not proven, although right in {found['covered']:,} of {count} local contexts: {reason}"


def say(finding: str, file: str = "") -> None:
    print(f"{finding:<100} {file}".rstrip(), flush=True)


if __name__ == "__main__":
    with Fast():
        run(lambda: main(parse(Settings, __doc__)))
