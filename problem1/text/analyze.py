"""Analyse a model of addition as text: one question in each line of `main`, one file in results/text/ for each.

    python problem1/analyze.py --task text              # a few minutes

    proof.json, proof.png       does it add right at every length? every local situation, and the argument
    lengths.json                exact match at 8 to 2,006 characters, and on shapes that no training row had
    heads.json, heads.png       where each head looks, and exact match without it
    scaling.json, scaling.png   seconds and memory against the number of digits, to 100,000

The comparison with other position schemes comes from study.py; its figure is drawn again from its numbers.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab.files import read_json, write_json
from lab.provenance import provenance
from lab.settings import as_plain, parse, run, setting
from problem1.text import heads, lengths, proof, scaling, study
from problem1.text.dataset import load_or_generate
from problem1.text.train import PROBLEM, load_model
from problem1.text.train import Settings as Training

RESULTS = PROBLEM / "results" / "text"
STUDIED = 2000  # test sums that the heads are switched off on, one after the other


@dataclass(frozen=True)
class Settings:
    task: str = setting("text", "text: this one; digits: three-digit operands", choices=("text",))
    model_path: Path = setting(RESULTS / "best_model.pth", "checkpoint to analyse", metavar="FILE")
    data_dir: Path = setting(Training.data_dir, "folder of the rows", metavar="DIR")
    output_dir: Path = setting(RESULTS, "folder for numbers and figures", metavar="DIR")
    num_samples: int = setting(10_000, "most sums asked of each kind", minimum=1)
    largest: int = setting(100_000, "digits of the largest sum that cost is measured on", minimum=10)


class Report:
    """Writes each file with its provenance, and says so with the seconds it took."""

    def __init__(self, settings: Settings, training: Training):
        self.folder, self.started = settings.output_dir, time.perf_counter()
        self.about = {"config": as_plain(settings), "model": as_plain(training), "seed": training.seed}

    def write(self, name: str, numbers: dict, said: str) -> dict:
        path = self.folder / name
        write_json(path, numbers | self.about | provenance())
        seconds, self.started = time.perf_counter() - self.started, time.perf_counter()
        print(f"{path.name}: {said} ({seconds:.0f} s)", flush=True)
        return read_json(path, "run analyze.py again.")


def main(settings: Settings) -> None:
    model, training = load_model(settings.model_path)
    tests = load_or_generate(settings.data_dir)["test"][: min(settings.num_samples, STUDIED)]
    report = Report(settings, training)
    if training.scheme == "places":
        proof.draw(prove(model, report), settings.output_dir / "proof.png")
        heads.draw(study_heads(model, tests, report), settings.output_dir / "heads.png")
        scaling.draw(measure_cost(settings, report), settings.output_dir / "scaling.png")
    else:
        print(f"a model with {training.scheme} positions: proof, heads and cost are about places alone")
    measure_lengths(model, training, report, settings.num_samples)
    compared = settings.output_dir / "length_generalisation.json"
    if compared.exists():
        study.draw(read_json(compared, "run study.py again."), compared.with_suffix(".png"))


def prove(model, report: Report) -> dict:
    numbers = proof.prove(model)
    said = (
        f"{'proven exact at every length' if numbers['proven'] else 'NOT proven'}: {numbers['failures']} failures in "
        f"{numbers['situations']:,} situations, smallest margin {numbers['smallest_margin']:.2f}, "
        f"logits move by {numbers['largest_movement']:.1e} at most"
    )
    return report.write("proof.json", numbers, said)


def study_heads(model, tests, report: Report) -> dict:
    numbers = heads.study(model, tests)
    worst = min(numbers["heads"], key=lambda name: numbers["heads"][name]["exact_match_without"]["share"])
    lost = numbers["heads"][worst]["exact_match_without"]["share"]
    return report.write("heads.json", numbers, f"{lost:.1%} exact without {worst}, the most important one")


def measure_cost(settings: Settings, report: Report) -> dict:
    sizes = tuple(size for size in scaling.SIZES if size <= settings.largest)
    numbers = scaling.measure(settings.model_path, sizes)
    top = numbers["sizes"][-1]
    said = f"{top['digits']:,} digits in {top['seconds_a_sum']:.1f} s and {top['peak_megabytes']:.0f} MB"
    return report.write("scaling.json", numbers, said)


def measure_lengths(model, training: Training, report: Report, most: int) -> dict:
    numbers = {"lengths": lengths.by_length(model, training, most), "shapes": lengths.by_shape(model, training, most)}
    parts = [its[kind] for its in numbers["lengths"].values() for kind in ("random", "chain")]
    parts += numbers["shapes"].values()
    right, of = (sum(part[name] for part in parts) for name in ("right", "of"))
    return report.write(
        "lengths.json", numbers, f"{right:,} of {of:,} sums right, up to {max(lengths.COUNTS)} characters"
    )


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
