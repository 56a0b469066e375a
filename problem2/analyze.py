"""What do the trained schemes do, and why do they fail? Findings, figures and numbers in results/extrapolation/.

python problem2/analyze.py                                  # every scheme that has been trained
python problem2/analyze.py --test-lengths 32 2048 --output-dir try  # other lengths; missing test sets are generated
python problem2/analyze.py --sequence 3 15 41 27            # only this: what each scheme predicts for a sequence
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

import torch

from lab import device
from lab.fast import Fast
from lab.files import UserError, only_one, write_timing
from lab.settings import as_plain, parse, run, setting
from lab.tables import indented
from problem2.analysis import by_length, collapse, encodings, extrapolation, learned_table
from problem2.analysis.context import Context, load_models
from problem2.analysis.evaluation import BATCH_SIZE, test_sets
from problem2.dataset import DEFAULT, load_or_generate, to_rows, values_problem
from problem2.positional_encoding import SCHEMES

HERE = Path(__file__).resolve().parent
# Each has its question, and the files it writes.
ANALYSES = (extrapolation, by_length, collapse, encodings, learned_table)


@dataclass(frozen=True)
class Settings:
    data_dir: Path = setting(DEFAULT, "folder of test.json, extrapolation/ and adjacent/", metavar="DIR")
    results_dir: Path = setting(HERE / "results", "folder with a folder for each trained scheme", metavar="DIR")
    output_dir: Path | None = setting(
        None, "folder to write to (default: extrapolation/ in --results-dir)", metavar="DIR"
    )
    batch_size: int = setting(BATCH_SIZE, "sequences at once (fewer of long ones)", minimum=1)
    test_lengths: tuple[int, ...] = setting((32, 64, 128, 256), "lengths to test at", minimum=2, maximum=20_000)
    sequence: tuple[int, ...] = setting(
        (), "only classify this sequence of values from 0 to 99", metavar="VALUE", repeats=True
    )
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")


def main(settings: Settings) -> None:
    started = time.perf_counter()
    chosen = device.start(settings.device)
    trained = load_models(settings.results_dir, chosen)
    if not trained:
        raise UserError(
            f"{settings.results_dir} has no trained scheme: run train.py first, or name another with --results-dir."
        )
    missing = [name for name in SCHEMES if name not in trained]
    if missing:
        print(f"not trained, so left out: {', '.join(missing)} (train.py --encoding {missing[0]} trains one)")
    if settings.sequence:
        models = {name: next(iter(by_seed.values())) for name, by_seed in trained.items()}
        classify(models, list(settings.sequence), chosen)
        return
    rows = load_or_generate(settings.data_dir)
    context = Context(
        trained=trained,
        sets=test_sets(settings.data_dir, settings.test_lengths, rows),
        test_lengths=settings.test_lengths,
        trained_lengths=rows["train"].length_range(),
        folder=settings.output_dir or settings.results_dir / "extrapolation",
        config=as_plain(settings),
        batch_size=settings.batch_size,
    )
    with only_one(context.folder, "an analysis"), Fast():
        analyse(context)
        write_timing(context.folder, time.perf_counter() - started, chosen)
    print(f"\neverything is in {context.folder}")


def analyse(context: Context) -> None:
    """Ask every question, and print what was found and where there is more of it."""
    for analysis in ANALYSES:
        print(f"\n{analysis.QUESTION}", flush=True)
        missing = [name for name in analysis.NEEDS if name not in context.trained]
        if missing:
            print(f"  {missing[0]} is not trained")
            continue
        results = analysis.run(context)
        print(indented(analysis.findings(results)))
        print(indented(f"-> {', '.join(analysis.FILES)}"), flush=True)


@torch.no_grad()
def classify(models: dict, values: list[int], device: torch.device | str = "cpu") -> None:
    """Print what each model says of one sequence of the user's: logit of "sorted" minus logit of "not sorted"."""
    problem = values_problem(values)
    if problem:
        raise UserError(f"--sequence {problem}.")
    sequences = to_rows([values]).sequences.to(device)
    for name, model in models.items():
        votes, real = model.votes(sequences)  # of each position: [1, T, 2]
        logits = model.pool(votes, real)[0]
        margin = (logits[1] - logits[0]).item()
        by_position = " ".join(f"{vote:+.1f}" for vote in (votes[0, :, 1] - votes[0, :, 0]).tolist())
        verdict = "sorted" if margin > 0 else "not sorted"
        print(f"{name:18} {verdict:10} margin {margin:+.1f}, by position {by_position}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
