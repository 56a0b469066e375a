"""What does the trained model do, and how? Each question, what was found, and the file that holds the details.

    python problem1/analyze.py                              # everything: under two minutes
    python problem1/analyze.py --examples 663+497 347+159   # only these sums, as figures: a few seconds

Reads results/best_model.pth and the data; writes, all in results/:

    verification.json      is every sum right?
    examples/              what the model writes for single sums, and where each digit attends
    attention_patterns/    where each head attends, on average and for the examples
    head_analysis/         what each head attends to; what is lost without it; how many can be removed
    carry/                 which heads bring the carry: patching; summary.txt: what each head is for

A model that cannot add is not asked how it does: how many heads can go and carry/ are left out.
"""

import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

from lab import device
from lab.fast import Fast
from lab.files import only_one, write_timing
from lab.settings import parse, run, setting
from problem1.analysis import (
    ablation,
    attention_maps,
    attention_statistics,
    examples,
    exhaustive,
    patching,
    pruning,
    summary,
)
from problem1.analysis.context import Context, load_context

HERE = Path(__file__).resolve().parent
OF_SOME_MODELS = (  # what the analysis of an earlier model may have left, and this one may not write again
    "examples/*+*.*",
    "examples/given/*.*",
    "attention_patterns/*+*.*",
    "attention_patterns/*.head*.*",
    "attention_patterns/in_detail.*",
    "head_analysis/prun*.*",
    "carry/*.*",
)


@dataclass(frozen=True)
class Settings:
    model_path: Path = setting(HERE / "results/best_model.pth", "the trained model", metavar="FILE")
    data_dir: Path = setting(HERE / "data", "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder for all results", metavar="DIR")
    batch_size: int = setting(1024, "rows in one forward pass", minimum=1)
    num_samples: int = setting(6, "example sums to draw, the most instructive first", minimum=1, maximum=100)
    examples: tuple[str, ...] = setting((), "draw only these sums, and analyse nothing else", metavar="A+B")
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")


def analyse(context: Context, num_samples: int) -> None:
    """Questions about any model, then how one that can add does it; at the end, what an earlier analysis left goes."""
    before = of_some_models(context.output_dir)
    answer(context, num_samples)
    now = of_some_models(context.output_dir)
    for path, when in before.items():
        if now.get(path) == when:  # not written again
            path.unlink()


def of_some_models(folder: Path) -> dict[Path, int]:
    """The files OF_SOME_MODELS, and when they were written."""
    found = [path for pattern in OF_SOME_MODELS for path in folder.glob(pattern)]
    return {path: path.stat().st_mtime_ns for path in found}


def answer(context: Context, num_samples: int) -> None:
    """The table of contents."""
    seconds: dict[str, float] = {}

    def step(question: str, file: str, module, *inputs) -> dict:
        print(f"{question:<50}{file}", flush=True)
        started = time.perf_counter()
        results = module.run(context, *inputs)
        seconds[file] = round(time.perf_counter() - started, 1)
        if context.meaningful or module is exhaustive:
            print(textwrap.indent(module.findings(results), "    "), flush=True)
        return results

    step("Is every sum right?", "verification.json", exhaustive)
    shown = step("What does it write for single sums?", "examples/", examples, num_samples)
    means = step("Where does each head attend?", "attention_patterns/overview.png", attention_maps, shown)
    attends = step("What does each head attend to?", "head_analysis/head_specialization.json", attention_statistics)
    lost = step("What is lost without each head and layer?", "head_analysis/ablation_results.json", ablation)
    if context.meaningful:
        step("How many heads can be removed?", "head_analysis/pruning_curve.json", pruning, lost)
        patched = step("Which heads bring the carry?", "carry/patching.json", patching)
        step("What is each head for?", "carry/summary.txt", summary, shown, means, lost, attends, patched)
    where = next(context.model.parameters()).device
    write_timing(context.output_dir / "carry", sum(seconds.values()), where, by_result=seconds)


def main(settings: Settings) -> None:
    chosen = device.start(settings.device)
    context = load_context(settings.model_path, settings.data_dir, settings.output_dir, settings.batch_size, chosen)
    given = [examples.parse_sum(text, context.num_digits) for text in settings.examples]
    with only_one(settings.output_dir, "a training or an analysis"), Fast():
        if context.warning:
            print(f"WARNING: {context.warning}\n", flush=True)
        if given:
            print(examples.findings(examples.run_given(context, given)))
            print(
                f"drawn in {settings.output_dir / examples.GIVEN}: A+B.png, and every head's pattern in A+B.heads.png"
            )
            return
        try:
            analyse(context, settings.num_samples)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped by you; what has not been analysed again is in {settings.output_dir} as it was before."
            ) from None
        if context.warning:
            print(f"\nWARNING: {context.warning}")
        print(f"everything is in {settings.output_dir}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
