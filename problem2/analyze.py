"""What do the trained schemes do, and why do they fail? Findings, figures and numbers in results/extrapolation/.

python problem2/analyze.py                                  # every scheme that has been trained
python problem2/analyze.py --test-lengths 32 128 2048       # other lengths; missing test sets are generated
python problem2/analyze.py --sequence 3 15 27 41            # what each scheme predicts for this sequence
python problem2/analyze.py --results-dir problem2/results/strict    # the models of the other protocol
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import device
from lab.files import UserError, only_one, write_timing
from lab.settings import as_plain, parse, run, setting
from problem2.analysis import encodings, extrapolation, failures, mechanism, proof, span, training_summary
from problem2.analysis.context import Context, load_models
from problem2.analysis.evaluation import test_sets
from problem2.dataset import DEFAULT, load_or_generate, values_problem

HERE = Path(__file__).resolve().parent
QUESTIONS = {
    "How well was each scheme trained?": training_summary,
    "How accurate is each at lengths it was not trained on?": extrapolation,
    "Why do they fail there: positions or distances never seen, or more keys?": mechanism,
    "Is a model right on every sequence there is?": proof,
    "How much of a later position's sinusoidal code was ever trained?": span,
    "What are the schemes, and what did training do to the learned table?": encodings,
    "Which sequences do they get wrong?": failures,
}


@dataclass(frozen=True)
class Settings:
    data_dir: Path = setting(DEFAULT, "folder of test.json, extrapolation/ and adjacent/", metavar="DIR")
    results_dir: Path = setting(HERE / "results", "folder with a folder for each trained scheme", metavar="DIR")
    output_dir: Path | None = setting(
        None, "folder to write to (default: extrapolation/ in --results-dir)", metavar="DIR"
    )
    batch_size: int = setting(512, "sequences at once (fewer of long ones)", minimum=1)
    test_lengths: tuple[int, ...] = setting((32, 64, 128, 256), "lengths to test at", minimum=2, maximum=20_000)
    rows: int | None = setting(None, "rows of each set (left out: all up to length 256, then fewer)", minimum=1)
    sequence: tuple[int, ...] = setting((), "only classify this sequence of values from 0 to 99", metavar="VALUE")
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")


def classify(models: dict, values: list[int]) -> None:
    problem = values_problem(values)
    if problem:
        raise UserError(f"--sequence {problem}.")
    for name, model in models.items():
        case, votes = failures.predict(model, values)
        print(f"{name:18} {failures.sentence(case)}")
        print(f"{'':18} margin for sorted in each position's vote: {' '.join(f'{vote:+.1f}' for vote in votes)}")


def main(settings: Settings) -> None:
    started, chosen = time.perf_counter(), device.start(settings.device)
    models = load_models(settings.results_dir, chosen)
    if settings.sequence:
        return classify(models, list(settings.sequence))
    rows = load_or_generate(settings.data_dir)
    context = Context(
        models=models,
        sets=test_sets(settings.data_dir, settings.test_lengths, rows, settings.rows),
        trained=rows["train"].length_range(),
        lengths=settings.test_lengths,
        data_dir=settings.data_dir,
        results_dir=settings.results_dir,
        folder=settings.output_dir or settings.results_dir / "extrapolation",
        config=as_plain(settings),
        batch_size=settings.batch_size,
    )
    with only_one(context.folder, "an analysis"):
        for question, analysis in QUESTIONS.items():
            print(f"\n{question}")
            analysis.run(context)
        write_timing(context.folder, time.perf_counter() - started, chosen)
    print(f"\neverything is in {context.folder}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
