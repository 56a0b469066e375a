"""One run of the study: a scheme trained under one protocol with one seed, and measured."""

from dataclasses import replace
from pathlib import Path

from lab.files import read_json
from lab.training import data_digest, finished, stopped
from problem2 import training
from problem2.analysis import extrapolation, mechanism, proof
from problem2.analysis.training_summary import read_log
from problem2.dataset import Rows, digest, load_or_generate
from problem2.positional_encoding import SCHEMES
from problem2.trained import load_model

CAUSAL = "none_causal"  # no positions, but each token attends only to itself and to earlier ones
VARIANTS = (*SCHEMES, CAUSAL)


def settings_of(variant: str, protocol: str, seed: int, epochs: int | None, data_dir: Path, output_dir: Path):
    """The training settings of a run; train.py's default seed is where train.py puts it."""
    if seed == training.Settings.seed:
        folder = output_dir if protocol == "course" else output_dir / protocol
    else:
        folder = output_dir / "seeds" / str(seed) / protocol
    causal = variant == CAUSAL
    return training.Settings(
        encoding=("none" if causal else variant,),
        protocol=protocol,
        data_dir=data_dir,
        output_dir=folder / "causal" if causal else folder,
        epochs=epochs,
        causal=causal,
        seed=seed,
    )


def folder_of(settings: training.Settings) -> Path:
    return settings.output_dir / settings.encoding[0]


def test_sets(data_dir: Path, rows: dict[str, Rows], lengths) -> tuple[dict[str, Rows], dict[str, dict[int, Rows]]]:
    """What a run is measured on: by extrapolation.measure, and by mechanism.measure."""
    longest = rows["train"].length_range()[1]
    return extrapolation.test_sets(data_dir, lengths, rows), mechanism.test_sets(data_dir, longest)


def digest_of(rows: dict[str, Rows], sets: dict[str, Rows], by_kind: dict[str, dict[int, Rows]]) -> str:
    """Of all rows that a run is trained and measured on."""
    return digest(*rows.values(), *sets.values(), *(part for kind in by_kind.values() for part in kind.values()))


def train_and_measure(run: training.Settings, lengths: list[int], config: dict, encoding: str, data: str) -> dict:
    """What measured.json holds. The training is kept if it has these settings, and resumed if it was stopped."""
    rows, folder = load_or_generate(run.data_dir), folder_of(run)
    config = config | {"data": data_digest(training.make_task(config, rows))}
    if finished(folder, config) is None:
        training.train_scheme(replace(run, resume=stopped(folder, config)), rows)
    model, _ = load_model(folder / "best_model.pth")
    sets, by_kind = test_sets(run.data_dir, rows, lengths)
    return {
        "training": read_log(folder / "training_log.json"),
        "trained_lengths": list(rows["train"].length_range()),
        "sets": extrapolation.measure(model, sets),
        "mechanism": mechanism.measure(model, by_kind) if run.protocol == "course" else None,
        "proof": proof.prove(model),
    }


def is_current(measured: Path) -> bool:
    """Whether measured.json belongs to the training whose log stands beside it."""
    log, content = measured.with_name("training_log.json"), read_json(measured, "delete it.")
    return log.exists() and isinstance(content, dict) and content.get("training") == read_log(log)


def forget_outdated(output_dir: Path) -> None:
    """Delete what was measured of a run that has been trained again since, so that it is measured again."""
    for path in output_dir.glob("**/measured.json"):
        if not is_current(path):
            print(f"{path} is of an earlier training, so it is deleted")
            path.unlink()


def collect(output_dir: Path) -> list[dict]:
    """What was measured of every run, but for those that have been trained again since."""
    runs = []
    for path in sorted(output_dir.glob("**/measured.json")):
        if is_current(path):
            runs.append(read_json(path, "delete it."))
        else:
            print(f"{path} is of an earlier training, so it is left out: run study.py again")
    return runs
