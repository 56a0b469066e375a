"""The whole comparison: every scheme, both protocols, three seeds; trained, measured, summed up.

    python beyond/schemes/study.py                                            # all of it: half an hour on two cores
    python beyond/schemes/study.py --encoding window rope                     # a part; other runs are kept as they are
    python beyond/schemes/study.py --only-sum-up                              # the summary of the runs there are

A study that was stopped goes on where it was: a run that was trained and measured with the same settings and the
same data is kept, one that was stopped is resumed, any other is made again. Each run has its folder in results/,
with what was measured in measured.json: results/PROTOCOL/SEED/VARIANT. Writes results/study.json, and figures.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

from beyond import jobs
from beyond.schemes.runs import PROTOCOLS, VARIANTS, collect, config_of_run, data_sets, train_and_measure
from beyond.schemes.summary import answer, as_table, draw_all, sum_up
from lab import device
from lab.files import UserError, digest, versions, write_block, write_json
from lab.settings import LARGEST_SEED, parse, run, setting
from problem2.analysis.evaluation import KINDS
from problem2.dataset import DEFAULT, Rows

HERE = Path(__file__).resolve().parent
README, BLOCK = HERE / "README.md", "answer: make all_schemes"  # where the finding stands
LENGTHS = {"course": (32, 64, 128, 256), "strict": (32, 64, 128, 256, 512, 1024)}
EPOCHS = {("strict", "window"): 256}  # a proof asks for more than tests do; all others train as long as train.py says


@dataclass(frozen=True)
class Settings(jobs.Engine):
    encoding: tuple[str, ...] = setting((), "schemes (left out: all)", choices=VARIANTS, metavar="NAME")
    protocols: tuple[str, ...] = setting(("course", "strict"), "protocols", choices=(*PROTOCOLS,))
    seeds: tuple[int, ...] = setting((641, 642, 643), "seeds of training", minimum=0, maximum=LARGEST_SEED)
    data_dir: Path = setting(DEFAULT, "folder of the data", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder of the results", metavar="DIR")
    lengths: tuple[int, ...] = setting((), "lengths to test at (left out: to 256, strict to 1024)", minimum=2)
    epochs: int | None = setting(
        None, "in each, as many rows are drawn as there are (left out: as train.py)", minimum=1, maximum=100_000
    )
    only_sum_up: bool = setting(False, "train and measure nothing, sum up what there is")


def make_jobs(settings: Settings) -> list[jobs.Job]:
    """One for each protocol, seed and variant; makes the data and the test sets that are missing."""
    work = []
    for protocol in settings.protocols:
        lengths = settings.lengths or LENGTHS[protocol]
        sets = data_sets(settings.data_dir, lengths)
        data = digest_of([rows for part in sets for rows in part.values()])
        for seed in settings.seeds:
            for variant in settings.encoding or VARIANTS:
                epochs = settings.epochs or EPOCHS.get((protocol, variant))
                config = config_of_run(variant, protocol, seed, epochs)
                decides = {"encoding": variant, "config": config, "lengths": [*lengths], "data": data}
                folder = settings.output_dir / protocol / str(seed) / variant
                paths = {"data_dir": settings.data_dir}
                name = f"{protocol} {seed} {variant}"
                files = ("training_log.json", "best_model.pth") if (protocol, variant) in EPOCHS else jobs.Job.files
                work.append(jobs.Job(name, train_and_measure, decides, folder, paths, files))
    return work


def digest_of(parts: list[Rows]) -> str:
    """16 hex digits that tell these rows from any others."""
    content = []
    for rows in parts:
        content += [f"{tuple(rows.sequences.shape)}".encode(), rows.sequences.numpy().tobytes()]
    return digest(*content)


def write_summary(output_dir: Path) -> None:
    runs = collect(output_dir)
    if not runs:
        raise UserError(f"{output_dir} has no finished run: run study.py without --only-sum-up.")
    summary = sum_up(runs)
    trained = tuple(runs[0]["trained_lengths"])
    proofs = [run["settings"]["config"] | run["proof"] for run in runs if run["proof"]]
    numbers = {"trained_lengths": trained, "summary": summary, "proofs": proofs, "versions": versions()}
    write_json(output_dir / "study.json", numbers)
    draw_all(summary, output_dir, trained)
    if output_dir == Settings.output_dir:
        write_block(README, BLOCK, answer(summary))
    for protocol, schemes in summary.items():
        for kind, words in KINDS.items():
            print(f"\n{protocol} protocol, {words}: mean accuracy by length (* collapsed with every seed)")
            print(as_table(schemes, kind))
    print(f"\n{answer(summary)}")
    print(f"\n{len(runs)} runs summed up in {output_dir}")


def main(settings: Settings) -> None:
    device.start("cpu")
    if not settings.only_sum_up:
        work = make_jobs(settings)
        collect(settings.output_dir, forget=[job.result for job in work])
        jobs.run(work, settings)
    write_summary(settings.output_dir)


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
