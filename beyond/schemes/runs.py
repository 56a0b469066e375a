"""One run of the study: a variant trained under one protocol with one seed, and measured.

    course    as problem2/train.py: the course's rows, the mean of all votes, two layers
    strict    as strict.py: fresh rows in each epoch, the strongest objection, one layer, twice as wide

A variant is a position scheme, or `none_causal`: no positions, but each token attends only to itself and earlier ones.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import torch

from beyond import jobs
from beyond.schemes import distances, mechanism, strict
from beyond.schemes import window_proof as proof
from lab import checkpoint
from lab.fast import Fast
from lab.files import UserError, read_json
from lab.training import Recipe, Task, data_digest, finished, train_or_reuse
from problem2 import dataset
from problem2.analysis import by_length, evaluation, extrapolation
from problem2.analysis.context import SEEDS
from problem2.checkpoint import KIND
from problem2.dataset import Rows
from problem2.positional_encoding import SCHEMES
from problem2.train import Settings, config_of, make_recipe, make_task

HOMEWORK = Path(__file__).resolve().parents[2] / "problem2/results"  # models that need not be trained again
CAUSAL = "none_causal"
VARIANTS = (*SCHEMES, CAUSAL)
STRICT = {"num_layers": 1, "epochs": 64, "lr": 3e-3, "d_model": 64, "d_ff": 128}  # other than problem2/train.py's
PROTOCOLS = {"course": {}, "strict": STRICT}


def config_of_run(variant: str, protocol: str, seed: int, epochs: int | None) -> dict:
    """What decides the training, as plain values; that of a scheme under the course's protocol is train.py's."""
    scheme = "none" if variant == CAUSAL else variant
    settings = Settings(encoding=(scheme,), seed=seed, **PROTOCOLS[protocol])
    config = config_of(replace(settings, epochs=epochs or settings.epochs))
    if protocol == "strict":
        config |= {"protocol": "strict", "pooling": "max", "ema_decay": 0.0}
    return config | ({"causal": True} if variant == CAUSAL else {})


def build(config: dict) -> strict.SortingClassifier:
    """The untrained model of these settings."""
    chosen = strict.MODELS[config.get("pooling", "mean"), config.get("causal", False)]
    names = ("d_model", "num_heads", "num_layers", "d_ff", "dropout", "max_len")
    return chosen(encoding_type=config["encoding"], **{name: config[name] for name in names})


def load_model(path: Path) -> strict.SortingClassifier:
    """The model in a checkpoint of either protocol, ready for evaluation."""
    return checkpoint.rebuild(build, checkpoint.load(path, KIND), path).eval()


def task_of(config: dict, rows: dict[str, Rows]) -> Task:
    if "protocol" not in config:
        return make_task(rows, config["batch_size"])
    limits = rows["train"].length_range()
    generator = torch.Generator().manual_seed(config["seed"] + 1)
    fresh = {name: strict.sample_rows(len(rows[name].labels), *limits, generator) for name in ("val", "test")}
    return Task(KIND, **rows | fresh, score=dataset.score, augment=strict.resample)


def recipe_of(config: dict) -> Recipe:
    settings = Settings(**{name: config[name] for name in ("epochs", "batch_size", "lr", "weight_decay")})
    return replace(make_recipe(settings), ema_decay=config["ema_decay"])


def homework_folders(scheme: str, seed: int | str) -> list[Path]:
    """Where problem 2's results may have the model of a scheme: for the default seed, and for another one."""
    return [HOMEWORK / scheme, HOMEWORK / SEEDS / f"{seed}" / scheme]


def trained(config: dict, rows: dict[str, Rows], folder: Path) -> Path:
    """Where the model with this configuration is: in problem 2's results, or in `folder`, trained now if need be."""
    task = task_of(config, rows)
    for homework in homework_folders(config["encoding"], config["seed"]):
        if finished(homework, config | {"data": data_digest(task)}) is not None:
            return homework
    torch.manual_seed(config["seed"])
    train_or_reuse(build(config), task, recipe_of(config), config, folder)
    return folder


def data_sets(data_dir: Path, lengths) -> tuple[dict[str, Rows], dict[str, Rows], dict[str, Rows]]:
    """What a run is trained on, what it is tested on, and what the experiments of mechanism.py need."""
    rows = dataset.load_or_generate(data_dir)
    longest = rows["train"].length_range()[1]
    return rows, evaluation.test_sets(data_dir, lengths, rows), mechanism.test_sets(data_dir, longest)


def train_and_measure(config: dict, lengths: list[int], encoding: str, data: str, data_dir: Path, folder: Path) -> dict:
    """What measured.json holds. `encoding` and `data` only tell runs apart by their settings."""
    with jobs.one_at_a_time():
        rows, sets, experiments = data_sets(data_dir, lengths)
    place = trained(config, rows, folder)
    model = load_model(place / "best_model.pth")
    longest = rows["train"].length_range()
    with Fast():
        numbers = numbers_of(model, sets, place)
        measured = {
            "training": read_log(place / "training_log.json"),
            "trained_lengths": list(longest),
            "sets": numbers,
            "mechanism": None,
            "proof": proof.prove(model),
        }
        if "protocol" not in config:
            every = by_length.lengths_to_test(longest, max(lengths))
            measured["mechanism"] = mechanism.measure(model, experiments, longest[1], numbers)
            measured["by_length"] = by_length.measure(model, by_length.rows_of(every)) | {"lengths": every}
            measured["distances"] = distances.measure(model, rows["test"], longest[1])
    return measured


def numbers_of(model: strict.SortingClassifier, sets: dict[str, Rows], place: Path) -> dict[str, dict]:
    """What the model answers on each of the sets: one number has one source. For a model of problem 2's results these
    are the numbers that problem2/analyze.py wrote, if they are of this very model."""
    if place.parent == HOMEWORK:
        known = analysed(place.name)
        if set(sets) <= set(known):
            again = evaluation.measure(model, {"test": sets["test"]})  # mean logits of another model are others
            if again["test"] == known["test"]:
                return {name: known[name] for name in sets}
    return evaluation.measure(model, sets)


def analysed(scheme: str) -> dict[str, dict]:
    """What problem2/analyze.py measured of the model in problem 2's results: {set: numbers}, empty if it did not."""
    path = HOMEWORK / "extrapolation" / extrapolation.DETAILS
    if not path.exists():
        return {}
    try:
        return read_json(path, "run problem2/analyze.py.")["schemes"].get(scheme, {"sets": {}})["sets"]
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{path} is not a result of problem2/analyze.py: run it again.") from None


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


def collect(output_dir: Path, forget: Collection[Path] = ()) -> list[dict]:
    """What was measured of every run, but for those that have been trained again since: of these, what is in `forget`
    is deleted, so that the study measures them again."""
    runs = []
    for path in sorted(output_dir.glob("*/*/*/measured.json")):
        content = read_json(path, "delete it.")
        seed, scheme = path.parts[-3:-1]
        folders = [path.parent, *reversed(homework_folders(scheme, seed))]  # its own, another seed's, the default's
        logs = [folder / "training_log.json" for folder in folders]
        log = next((log for log in logs if log.exists()), None)
        if log and isinstance(content, dict) and content.get("training") == read_log(log):
            runs.append(content)
        else:
            done = "deleted" if path in forget else "left out, run study.py again"
            print(f"{path} is of an earlier training: {done}")
            if path in forget:
                path.unlink()
    return runs
