"""One run of the study: a scheme trained under one protocol with one seed, and measured."""

from dataclasses import replace
from pathlib import Path

from lab.fast import Fast
from lab.files import UserError, read_json
from lab.training import data_digest, finished, stopped
from problem2 import training
from problem2.analysis import evaluation, mechanism, proof
from problem2.dataset import Rows, load_or_generate
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


def data_sets(data_dir: Path, lengths) -> tuple[dict[str, Rows], dict[str, Rows], dict[str, Rows]]:
    """What a run is trained on, what it is tested on, and what the experiments of mechanism.py need."""
    rows = load_or_generate(data_dir)
    longest = rows["train"].length_range()[1]
    return rows, evaluation.test_sets(data_dir, lengths, rows), mechanism.test_sets(data_dir, longest)


def train_and_measure(run: training.Settings, lengths: list[int], config: dict, encoding: str, data: str) -> dict:
    """What measured.json holds. The training is kept if it has these settings, and resumed if it was stopped."""
    rows, sets, experiments = data_sets(run.data_dir, lengths)
    folder, trained = folder_of(run), rows["train"].length_range()
    config = config | {"data": data_digest(training.make_task(config, rows))}
    if finished(folder, config) is None:
        training.train_scheme(replace(run, resume=stopped(folder, config)), rows)
    model, _ = load_model(folder / "best_model.pth")
    course = run.protocol == "course"
    with Fast():
        margins = evaluation.predict(model, sets)
        causes = mechanism.measure(model, experiments, trained[1], margins) if course else None
        proven = proof.prove(model)
    return {
        "training": read_log(folder / "training_log.json"),
        "trained_lengths": list(trained),
        "sets": evaluation.measure(margins, sets),
        "mechanism": causes,
        "proof": proven,
    }


def read_log(path: Path) -> dict:
    """The numbers of one training: accuracy and loss in validation (of the best epoch) and test, and its size."""
    try:
        log = read_json(path, "train the scheme again.")
        best = log["best_epoch"] - 1
        kept = {"val_acc": log["val_acc"][best], "val_loss": log["val_loss"][best], "epochs": len(log["val_acc"])}
        kept |= {name: log[name] for name in ("test_acc", "test_loss", "best_epoch", "parameters", "seed")}
        return kept | {"data": log["config"]["data"]}
    except (KeyError, IndexError, TypeError):
        raise UserError(f"{path} is not a log of train.py: train the scheme again.") from None


def collect(output_dir: Path, forget: bool = False) -> list[dict]:
    """What was measured of every run, but for those that have been trained again since: with `forget` that is deleted,
    so that the study measures them again."""
    runs = []
    for path in sorted(output_dir.glob("**/measured.json")):
        log, content = path.with_name("training_log.json"), read_json(path, "delete it.")
        if log.exists() and isinstance(content, dict) and content.get("training") == read_log(log):
            runs.append(content)
        else:
            print(f"{path} is of an earlier training: {'deleted' if forget else 'left out, run study.py again'}")
            if forget:
                path.unlink()
    return runs
