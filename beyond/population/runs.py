"""One model of the population: a training of problem 1 whose beginning is chosen part by part, and its measures."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from beyond import jobs
from beyond.population import sources
from beyond.population.hard_sums import hard_pairs, make_hard_rows
from beyond.program import program
from beyond.program.interchange import any_rows, seen, with_opposite_carries
from beyond.program.scrub import Batch
from beyond.program.variables import NOTHING
from lab.fast import Fast
from lab.files import read_json, write_json
from lab.hooks import heads, zero
from lab.training import do_nothing, train_or_reuse
from problem1.analysis.exhaustive import predict
from problem1.analysis.interventions import InterventionRunner
from problem1.checkpoint import build, load_model
from problem1.dataset import Sums, decoder_inputs, every_pair, load, random_pairs
from problem1.generate_data import make_rows, write_rows
from problem1.train import Settings, config_of, make_recipe, make_task

DATA_SEED = 641
PARTS = {"embedding": "embedding", "encoder": "encoder", "encoder_norm": "encoder"}  # all else is the decoder's
# The recipe of five digits; three have the one of train.py.
LONGER = {"batch_size": 128, "lr": 2e-3, "weight_decay": 1.0, "hard_weight": 0.0, "epochs": 6}
LONGER_ROWS = 100_000
HARD_SHARE = 0.75  # of these rows
SAMPLES = 100_000  # random sums of five digits, and half as many hard ones; of three digits all are tried
MEASURED_ON = 40_000  # random sums, from which sources are drawn
REPLACED_IN = 10_000  # of these sums, parts of the model are replaced
CRITICAL = 0.01  # a head without which so many of the test sums are lost


@dataclass(frozen=True)
class Model:
    """What decides a training: seeds of the initial weights, by part, and of the order of rows; and the recipe."""

    embedding: int
    encoder: int
    decoder: int
    order: int
    hard_weight: float = Settings.hard_weight
    nudge: float = 0.0  # each initial weight is changed by about this share of itself, which only moves rounding
    num_digits: int = 3
    each_epoch: bool = False  # measured after each epoch, not only at the end

    @classmethod
    def of(cls, seed: int, order: int | None = None, **more) -> "Model":
        return cls(seed, seed, seed, seed if order is None else order, **more)


def initial_weights(this: Model, config: dict) -> torch.nn.Module:
    """An untrained model, each part as its seed makes it."""
    states = {}
    for part in ("embedding", "encoder", "decoder"):
        torch.manual_seed(getattr(this, part))
        states[part] = build(config).state_dict()
    model = build(config)
    model.load_state_dict({name: states[part_of(name)][name] for name in model.state_dict()})
    if this.nudge:
        generator = torch.Generator().manual_seed(this.order)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter *= 1 + this.nudge * torch.randn(parameter.shape, generator=generator)
    return model


def part_of(name: str) -> str:
    """The part to which a parameter belongs."""
    return PARTS.get(name.split(".")[0], "decoder")


def rows_of(num_digits: int, data_dir: Path) -> dict[str, Sums]:
    """Train, val and test, made if they are missing. They stand apart from problem1/data, which is the user's."""
    folder = data_dir / f"{num_digits}-digits"
    with jobs.one_at_a_time():
        if not (folder / "test.json").exists():
            generate(num_digits, folder)
    return {name: load(folder, name) for name in ("train", "val", "test")}


def generate(num_digits: int, folder: Path) -> None:
    """The course's rows; of five digits ten times as many for training, most of them hard."""
    for number, (name, size) in enumerate((("train", 10_000), ("val", 2_000), ("test", 2_000))):
        seed = DATA_SEED + number
        if num_digits > 3 and name == "train":
            rows = make_hard_rows(num_digits, LONGER_ROWS, seed, HARD_SHARE)
        else:
            rows = make_rows(num_digits, size, seed)
        write_rows(folder / f"{name}.json", rows)


def train_and_measure(data_dir: Path, folder: Path, **fields) -> dict:
    """What measured.json holds of the Model with these fields."""
    this = Model(**fields)
    rows = rows_of(this.num_digits, data_dir)
    recipe = {"hard_weight": this.hard_weight} if this.num_digits == 3 else LONGER
    settings = Settings(seed=this.order, **recipe)
    beginning = {name: getattr(this, name) for name in ("embedding", "encoder", "decoder")}
    beginning |= {"nudge": this.nudge} if this.nudge else {}
    beginning |= {"each_epoch": True} if this.each_epoch else {}
    config = config_of(settings, rows)
    log = train_or_reuse(
        initial_weights(this, config),
        make_task(rows, settings.hard_weight),
        make_recipe(settings),
        config | beginning,
        folder,
        partial(measure_epoch, digits=this.num_digits, folder=folder) if this.each_epoch else do_nothing,
    )
    model, _ = load_model(folder / "best_model.pth")
    with Fast():
        measured = {name: log[name] for name in ("first_perfect_epoch", "test_acc", "test_loss")}
        measured |= verified(model, rows["train"])
        on_random_sums = run_on_random_sums(model, this.num_digits)
        measured |= sources_of(*on_random_sums) | outside_addition(*on_random_sums)
        if this.num_digits == 3:
            measured |= replacements(model) | {"heads": critical_heads(model, rows["test"])}
    if this.each_epoch:
        epochs = range(1, len(log["val_acc"]) + 1)
        measured["epochs"] = [read_json(epoch_file(folder, epoch), "delete the folder.") for epoch in epochs]
        for entry, accuracy in zip(measured["epochs"], log["val_acc"], strict=True):
            entry["val_acc"] = accuracy
    return measured


# --- what is measured --------------------------------------------------------------------------------------------


def epoch_file(folder: Path, epoch: int) -> Path:
    return folder / f"epoch{epoch}.json"


def measure_epoch(epoch: int, model, digits: int, folder: Path) -> None:
    """Kept in a file of its own, for a training that is stopped and goes on."""
    model.eval()
    with Fast():
        write_json(epoch_file(folder, epoch), {"epoch": epoch} | sources_of(*run_on_random_sums(model, digits)))


def verified(model, train: Sums) -> dict:
    """Wrong sums and the smallest logit margin, of all sums; of five digits of random ones, and wrong hard ones."""
    exhaustive = train.num_digits == 3
    sums = every_pair(3) if exhaustive else random_pairs(train.num_digits, SAMPLES, seed=1)
    predicted, smallest = predict(model, sums)
    wrong = int((predicted != sums.targets).any(1).sum())
    found = {"pairs": len(sums), "wrong": wrong, "smallest_margin": smallest.min().item()}
    if not exhaustive:
        hard, _ = hard_pairs(train.num_digits, SAMPLES // 2, seed=1)
        predicted, _ = predict(model, hard)
        found |= {"hard_pairs": len(hard), "hard_wrong": int((predicted != hard.targets).any(1).sum())}
    return found


def run_on_random_sums(model, digits: int) -> tuple[Batch, Tensor]:
    """The sums from which sources are drawn, and the memory of each."""
    batch = Batch(model, random_pairs(digits, MEASURED_ON, seed=1))
    return batch, batch.encode({})


def sources_of(batch: Batch, memory: Tensor) -> dict:
    """Who hands each carry on, and how many answers go wrong when columns come from sums of the opposite carry."""
    draws = sources.draw(batch)
    written = sources.write(batch, memory, draws)
    cases = sources.CASES if batch.digits == 4 else sources.every_case(batch.digits - 1)
    return {
        "sources": {case.name: sources.effects(draws, written, case) for case in cases},
        "opposite_carries_wrong": int((~with_opposite_carries(batch, memory)).sum()),
    }


def outside_addition(batch: Batch, memory: Tensor) -> dict:
    """How many answers differ from the look-ahead program's where each digit sees columns of its own: after the
    program's own digits, and after digits that no position finds contradicted by its columns."""
    rows = any_rows(batch, batch.digits)
    views = seen(batch, rows)
    answer = program.write(*views)
    edges = batch.with_plus(rows)
    prefixes = {"wrong": decoder_inputs(answer), "wrong with a fitting prefix": program.own_prefix(views[0])}
    found = {}
    for name, inputs in prefixes.items():
        written = batch.written(inputs=inputs, edges=edges, memory=memory)
        found[name] = int((written != answer).any(1).sum())
    return {"outside": found}


def replacements(model) -> dict:
    """The share of answers that go wrong when parts of the model tell what they tell in random other sums."""
    batch = Batch(model, random_pairs(3, REPLACED_IN, seed=2))
    encoder = {module: [[NOTHING] * 3] * count for module, count in batch.heads("encoder").items()}
    first_layer = dict([*encoder.items()][:1])
    higher = batch.own()  # for each digit, all columns of higher places from other sums
    for t in range(2, batch.digits):
        for k in range(t - 1):
            higher[:, t, k] = batch.anything()
    edges = torch.cat([higher, batch.own()[:, :, :1], higher], 2)
    runs = {
        "columns of higher places": {"edges": edges},
        "'+'": {"edges": batch.with_plus(batch.own())},
        "encoder attention": {"encoder": batch.encoder_like(encoder)},
        "encoder attention, layer 0": {"encoder": batch.encoder_like(first_layer)},
        "decoder self-attention": {"decoder": batch.self_like(["own token"] * batch.digits)},
    }
    return {"replaced": {name: wrong_share(batch, replaced) for name, replaced in runs.items()}}


def wrong_share(batch: Batch, replaced: dict) -> float:
    right: Tensor = (batch.written(**replaced) == batch.sums.targets).all(1)
    return 1 - int(right.sum()) / len(right)


def critical_heads(model, test: Sums) -> dict[str, float]:
    """The share of the test sums lost without each head (zero ablation), where it is CRITICAL or more."""
    runner = InterventionRunner(model, test)
    before = runner.right_and_loss()[0].all(1)
    lost = {}
    for head in heads(model):
        after = runner.right_and_loss({head.name: zero})[0].all(1)
        lost[head.short] = (int(before.sum()) - int(after.sum())) / len(test)
    return {name: share for name, share in lost.items() if share >= CRITICAL}
