"""What does the trained model do, and how? Each question, what was found, and the file that holds the details.

    python problem1/analyze.py                              # everything: under two minutes
    python problem1/analyze.py --examples 663+497 347+159   # only these sums, as figures: a few seconds

Reads results/best_model.pth and the data; writes, all in results/:

    verification.json      is every sum right?
    examples/              what the model writes for single sums, and where each digit attends
    attention_patterns/    where each head attends, on average and for the examples
    head_analysis/         what each head attends to; what is lost without it; how many can be removed
    carry/                 which heads bring the carry: patching; summary.txt: what each head is for; followed: one
                           sum, part by part

A model that cannot add is not asked how it does: how many heads can go and carry/ are left out.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

from lab import device
from lab.fast import Fast
from lab.files import only_one, write_timing
from lab.settings import parse, run, setting
from lab.tables import indented
from problem1.analysis import (
    ablation,
    attention_maps,
    attention_statistics,
    examples,
    exhaustive,
    followed,
    patching,
    pruning,
    summary,
)
from problem1.analysis.context import Context, load_context

HERE = Path(__file__).resolve().parent
# Each has its QUESTION and the FILES it writes, `run`, which measures and writes, and `findings`, which says what came
# out. A later one may use the results of those before it.
OF_ANY_MODEL = (exhaustive, examples, attention_maps, attention_statistics, ablation)
OF_ONE_THAT_CAN_ADD = (pruning, patching, summary, followed)


@dataclass(frozen=True)
class Settings:
    model_path: Path = setting(HERE / "results/best_model.pth", "the trained model", metavar="FILE")
    data_dir: Path = setting(HERE / "data", "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder for all results", metavar="DIR")
    batch_size: int = setting(1024, "rows in one forward pass", minimum=1)
    num_samples: int = setting(6, "example sums to draw, the most instructive first", minimum=1, maximum=100)
    examples: tuple[str, ...] = setting((), "draw only these sums, and analyse nothing else", metavar="A+B")
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")


def analyse(context: Context) -> None:
    """Ask every question; at the end, what an earlier analysis left and this one did not write again goes."""
    before = written(context.output_dir)
    analyses = OF_ANY_MODEL
    if context.meaningful:
        analyses += OF_ONE_THAT_CAN_ADD
    seconds = {}
    for analysis in analyses:
        started = time.perf_counter()
        ask(analysis, context)
        seconds[analysis.FILES[0]] = round(time.perf_counter() - started, 1)
    where = next(context.model.parameters()).device
    write_timing(context.output_dir, sum(seconds.values()), where, "analysis_timing.json", by_result=seconds)
    now = written(context.output_dir)
    for path, when in before.items():
        if now.get(path) == when:
            path.unlink()


def ask(analysis, context: Context) -> None:
    """Print the question, what the answer is, and where it is in full."""
    print(f"\n{analysis.QUESTION}", flush=True)
    results = analysis.run(context)
    name = analysis.__name__.rpartition(".")[2]
    context.results[name] = results
    if context.meaningful or analysis is exhaustive:
        print(indented(analysis.findings(results)), flush=True)
    print(f"  -> {analysis.FILES[0]}", flush=True)


def written(folder: Path) -> dict[Path, int]:
    """The files in `folder` that analyses write, and when each was written."""
    times = {}
    for analysis in OF_ANY_MODEL + OF_ONE_THAT_CAN_ADD:
        for pattern in analysis.FILES:
            for path in folder.glob(pattern):
                times[path] = path.stat().st_mtime_ns
    return times


def main(settings: Settings) -> None:
    chosen = device.start(settings.device)
    context = load_context(settings.model_path, settings.data_dir, settings.output_dir, settings.batch_size, chosen)
    context.num_samples = settings.num_samples
    given = [examples.parse_sum(text, context.num_digits) for text in settings.examples]
    with only_one(settings.output_dir, "a training or an analysis"), Fast():
        if context.warning:
            print(f"WARNING: {context.warning}\n", flush=True)
        if given:
            print(examples.findings(examples.run_given(context, given)))
            print(f"drawn in {settings.output_dir / examples.GIVEN}: {examples.GIVEN_FIGURES}")
            return
        try:
            analyse(context)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped by you; what has not been analysed again is in {settings.output_dir} as it was before."
            ) from None
        if context.warning:
            print(f"\nWARNING: {context.warning}")
        print(f"everything is in {settings.output_dir}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
