"""The whole comparison: every scheme, both protocols, three seeds; trained, measured, summed up.

    python problem2/study.py                                            # all of it, under an hour on two cores
    python problem2/study.py --encoding window rope --seeds 641 642     # a part; the rest is kept as it was
    python problem2/study.py --only-sum-up                              # the summary of the runs there are

Runs that are finished are kept, so a study that was stopped goes on where it was; to redo a run, delete its folder.
Writes results/study/study.json, study_curves.png and study_causes.png; every run's own numbers stand in its folder.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.files import UserError, read_json, write_json
from lab.provenance import provenance
from lab.settings import parse, run, setting
from problem2 import train
from problem2.analysis import extrapolation, mechanism, proof
from problem2.analysis.study_figures import draw_causes, draw_curves
from problem2.analysis.study_summary import sum_up
from problem2.dataset import load_or_generate
from problem2.positional_encoding import SCHEMES
from problem2.side_by_side import as_flags, run_all

HERE = Path(__file__).resolve().parent
CAUSAL = "none_causal"  # no positions, but every place sees only what came before it
VARIANTS = (*SCHEMES, CAUSAL)
LENGTHS = {"course": (32, 64, 128, 256), "strict": (32, 64, 128, 256, 512, 1024)}


@dataclass(frozen=True)
class Settings:
    encoding: tuple[str, ...] = setting((), "schemes (left out: all)", choices=VARIANTS, metavar="NAME")
    protocols: tuple[str, ...] = setting(("course", "strict"), "protocols", choices=(*train.PROTOCOLS,))
    seeds: tuple[int, ...] = setting((641, 642, 643), "seeds of training", minimum=0)
    data_dir: Path = setting(HERE / "data", "folder of the data", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder of the results", metavar="DIR")
    lengths: tuple[int, ...] = setting((), "lengths to be asked at (left out: to 256, strict to 1024)", minimum=2)
    epochs: int | None = setting(None, "passes over the training rows (left out: as train.py)", minimum=1)
    workers: int = setting(0, "runs at a time (0: one for each core)", minimum=0, maximum=64)
    only_sum_up: bool = setting(False, "train nothing, sum up what there is")


def folder(output_dir: Path, protocol: str, seed: int) -> Path:
    """Where the schemes of one protocol and seed are: the default seed's where train.py puts them."""
    if seed == train.Settings.seed:
        return output_dir if protocol == "course" else output_dir / protocol
    return output_dir / "seeds" / str(seed) / protocol


def train_and_measure(settings: Settings) -> None:
    """One run, in this process' child; finished parts of it are kept."""
    (variant,), (protocol,), (seed,) = settings.encoding, settings.protocols, settings.seeds
    causal = variant == CAUSAL
    where = folder(settings.output_dir, protocol, seed) / ("causal" if causal else "")
    wanted = train.Settings(
        encoding=("none",) if causal else (variant,),
        protocol=protocol,
        data_dir=settings.data_dir,
        output_dir=where,
        epochs=settings.epochs,
        causal=causal,
        seed=seed,
        resume=True,
    )
    where = where / wanted.encoding[0]
    if not (where / "training_log.json").exists():
        done = subprocess.run([sys.executable, str(HERE / "train.py"), *as_flags(wanted)])
        if done.returncode:
            raise UserError(f"{where} was not trained: the lines above say why.")
    if (where / "measured.json").exists():
        return
    model = train.load_trained(where / "best_model.pth")
    rows = load_or_generate(settings.data_dir)["test"]
    lengths = settings.lengths or LENGTHS[protocol]
    sets = extrapolation.test_sets(settings.data_dir, lengths, rows)
    report = {"encoding": variant, "protocol": protocol, "seed": seed}
    report["sets"] = extrapolation.measure(model, sets)
    report["mechanism"] = mechanism.measure(model, settings.data_dir)
    report["proof"] = proof.prove(model)
    write_json(where / "measured.json", report | provenance())
    inside = report["sets"]["test"]["accuracy"]
    print(f"{protocol}, seed {seed}: {inside:.2%} in range; measured at {', '.join(map(str, lengths))}")


def collect(output_dir: Path) -> list[dict]:
    """Every run that is finished: what was measured, with what its training log says."""
    runs = []
    for path in sorted(output_dir.glob("**/measured.json")):
        log = read_json(path.with_name("training_log.json"), "run study.py again.")
        best = log["best_epoch"] - 1
        training = {"val_acc": log["val_acc"][best], "val_loss": log["val_loss"][best], "epochs": len(log["val_acc"])}
        training |= {name: log[name] for name in ("test_acc", "test_loss", "best_epoch", "seconds", "parameters")}
        measured = read_json(path, "delete it and run study.py again.")
        runs.append(
            {name: value for name, value in measured.items() if name not in provenance()} | {"training": training}
        )
    return runs


def main(settings: Settings) -> None:
    variants = settings.encoding or VARIANTS
    single = replace(settings, workers=1)
    runs = {
        f"{protocol} {seed} {variant}": replace(single, encoding=(variant,), protocols=(protocol,), seeds=(seed,))
        for protocol in settings.protocols
        for seed in settings.seeds
        for variant in variants
    }
    if len(runs) == 1 and settings.workers == 1:  # one of those started below
        torch.set_num_threads(1)
        return train_and_measure(settings)
    if not settings.only_sum_up:
        rows = load_or_generate(settings.data_dir)["test"]
        extrapolation.test_sets(
            settings.data_dir, settings.lengths or LENGTHS["strict"], rows
        )  # made once, before several would
        mechanism.test_sets(settings.data_dir)
        run_all(Path(__file__), runs, settings.workers or os.cpu_count() or 1)
    found = collect(settings.output_dir)
    if not found:
        raise UserError(f"{settings.output_dir} has no finished run: run study.py without --only-sum-up.")
    where = settings.output_dir / "study"
    summary = sum_up(found)
    write_json(where / "study.json", {"summary": summary, "runs": found, **provenance()})
    draw_curves(summary, where / "study_curves.png")
    draw_causes(summary, where / "study_causes.png")
    print(f"{len(found)} runs summed up in {where}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
