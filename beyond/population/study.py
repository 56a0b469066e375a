"""A population of models: who hands each carry on, and what decides it?

    python beyond/population/study.py                        # every model: two hours on two cores
    python beyond/population/study.py --models seed17        # some: their rows of the table are made again

Each model is trained as problem1/train.py does it, tried on all 810,000 sums, and asked where it takes each
carry from (sources.py). Seeds say what its initial weights are, part by part, and the order of its rows:

seed17            everything by seed 17, as `problem1/train.py --seed 17`
grid1x3           initial weights of seed 1, order of rows of seed 3
plain5            seed 5, rows drawn alike instead of hard ones more often
nudged5           seed 5, initial weights changed by a ten-millionth of themselves
parts3-8-8        the embedding that seed 3 begins with, encoder and decoder of seed 8
five2             five digits, seed 2, trained on hard sums, too

Writes results/population.csv, epochs.csv and five_digits.csv, a row a model, and what follows from them:
population.json and figures. Finished models are kept in runs/, which git ignores, and are not trained again.
"""

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

from beyond import jobs
from beyond.population import summary, table
from beyond.population.figures import draw_population, draw_training
from beyond.population.runs import Model, train_and_measure
from lab.files import versions, write_json
from lab.settings import parse, run, setting

HERE = Path(__file__).resolve().parent
SEEDS = 100
GRID = 4  # initial weights, times as many orders of rows
PLAIN = 24
NUDGED = 8
NUDGE = 1e-7
FIVE = 10
# Initial weights are exchanged part by part: the first four seeds that look ahead, the first four that hand a carry on.
PAIRS = ((0, 14), (1, 16), (2, 22), (3, 26))
# Measured after each epoch: the first ten seeds, which all look ahead, and the four that hand a carry on.
EACH_EPOCH = (*range(10), *(second for _, second in PAIRS))


def population() -> dict[str, Model]:
    models = {f"seed{seed}": Model.of(seed, each_epoch=seed in EACH_EPOCH) for seed in range(SEEDS)}
    for weights, order in itertools.permutations(range(GRID), 2):
        models[f"grid{weights}x{order}"] = Model.of(weights, order)
    for seed in range(PLAIN):
        models[f"plain{seed}"] = Model.of(seed, hard_weight=0.0)
    for seed in range(NUDGED):
        models[f"nudged{seed}"] = Model.of(seed, nudge=NUDGE)
    for first, second in PAIRS:
        for parts in itertools.product((first, second), repeat=3):
            if parts != (first, first, first):  # this one is a seed
                models["parts{}-{}-{}".format(*parts)] = Model(*parts, order=first)
    for seed in range(FIVE):
        models[f"five{seed}"] = Model.of(seed, num_digits=5, hard_weight=0.0)
    return models


POPULATION = population()


@dataclass(frozen=True)
class Settings(jobs.Engine):
    models: tuple[str, ...] = setting((), "which models (left out: all)", choices=tuple(POPULATION), metavar="NAME")
    output_dir: Path = setting(HERE / "results", "folder of the tables and figures", metavar="DIR")
    runs_dir: Path = setting(HERE / "runs", "folder of the trained models", metavar="DIR")
    data_dir: Path = setting(HERE / "data", "folder of the rows, made if they are missing", metavar="DIR")


def main(settings: Settings) -> None:
    names = settings.models or tuple(POPULATION)
    work = []
    for name in names:
        paths = {"data_dir": settings.data_dir}
        work.append(jobs.Job(name, train_and_measure, vars(POPULATION[name]), settings.runs_dir / name, paths))
    found = dict(zip(names, jobs.run(work, settings), strict=True))
    tables(found, settings.output_dir)
    sum_up(settings.output_dir)
    print(f"everything is in {settings.output_dir}")


def tables(found: dict[str, dict], output_dir: Path) -> None:
    order = [*POPULATION]
    three = {name: measured for name, measured in found.items() if measured["settings"]["num_digits"] == 3}
    five = {name: measured for name, measured in found.items() if name not in three}
    epochs = [
        row for name, measured in three.items() if "epochs" in measured for row in table.epoch_rows(name, measured)
    ]
    table.update(output_dir / "population.csv", [table.row(*item) for item in three.items()], order)
    table.update(output_dir / "epochs.csv", epochs, order)
    table.update(output_dir / "five_digits.csv", [table.longer_row(*item) for item in five.items()], order)


def sum_up(output_dir: Path) -> None:
    """population.json and the figures, from the tables as they are."""
    rows = table.read(output_dir / "population.csv")
    epochs = table.read(output_dir / "epochs.csv")
    five = table.read(output_dir / "five_digits.csv")
    seeds = summary.group(rows, "seed")
    if not seeds:
        print("none of the models called seed… is in the table yet: nothing is summed up.")
        return
    found = {"seeds": summary.algorithms(seeds)}
    found["statements"] = summary.statements(seeds)
    found["from_outside"] = summary.from_outside(seeds)
    others = ("plain", "nudged")
    found["compared"] = {name: summary.compared(rows, "seed", name) for name in others if summary.group(rows, name)}
    names = {row["model"] for row in rows}
    if names >= {name for name in POPULATION if name.startswith("grid")}:
        found["grid"] = summary.grid(rows, GRID)
    if names >= {name for name in POPULATION if name.startswith("parts")}:
        found["exchanged"] = summary.exchanged(rows, PAIRS)
    if epochs:
        found["over_training"] = summary.over_training(epochs)
        draw_training(epochs, output_dir / "epochs.png")
    if five:
        found["five_digits"] = summary.of_five_digits(five)
    draw_population(rows, output_dir / "population.png")
    write_json(output_dir / "population.json", found | {"versions": versions()})
    print(findings(found))


def findings(found: dict) -> str:
    seeds = found["seeds"]

    def of(entry: dict) -> str:
        return f"{entry['models']} of {entry['of']}"

    lines = [
        f"right on all 810,000 sums: {of(seeds['exact'])} seeds",
        f"look the carry up in five of six cases: {of(seeds['look_ahead'])}",
        f"no answer changed by opposite carries: {of(seeds['no_answer_changed_by_opposite_carries'])}",
    ]
    for name, entry in found["compared"].items():
        lines.append(
            f"look ahead among the same seeds: {of(entry['seed'])}, {name} {of(entry[name])}, p {entry['p']:.2g}"
        )
    for measure, factors in found.get("grid", {}).get("variance", {}).items():
        shares = ", ".join(f"{name} {entry['share']:.0%} (p {entry['p']:.2g})" for name, entry in factors.items())
        lines.append(f"{measure}, share of the variance: {shares}")
    for entry in found.get("exchanged", {}).get("pairs", []):
        effects = entry["effects"]["handed on through 9s"]
        shown = ", ".join(f"{part} {effect:+.2f}" for part, effect in effects.items())
        lines.append(f"initial weights of seed {entry['pair'][1]} in seed {entry['pair'][0]}, handed on: {shown}")
    lines += [f"{of(entry)}: {name}" for name, entry in found["statements"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
