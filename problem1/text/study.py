"""Train every position scheme with several seeds and measure how far each gets: the numbers of the comparison.

    python problem1/text/study.py                        # 5 seeds of place_value, 3 of each classic scheme and order
    torchrun --nnodes=2 … problem1/text/study.py         # shared between machines with a common folder

Same rows and layers for all. The classic schemes have about 40 times the parameters of place_value, and half its steps.
The proof is run on the place_value model of every seed. Writes
results/text/length_generalisation.json and .png, and each run to results/text/seeds/. Runs that are finished are
kept, and a study that was stopped goes on.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab import device, jobs
from lab.figures import COLOURS, LINES, MARKS, plt, save
from lab.files import versions, write_json
from lab.settings import as_plain, parse, run, setting
from problem1.text import proof
from problem1.text.dataset import DEFAULT, MAX_CHARACTERS, load_or_generate
from problem1.text.lengths import CLASSIC_LENGTHS, by_length
from problem1.text.model import CLASSIC
from problem1.text.trained import MODEL, ORDERS, load_model

HERE = Path(__file__).resolve().parent
KINDS = {"random": "random operands", "chain": "a carry through every digit"}
SHARED = {  # the flags of train.py that are the same in every run
    "batch_size": 128,
    "epoch_rows": 12_800,
    "lr": 2e-3,
    "num_layers": 1,
    "dropout": 0.0,
    "weight_decay": 0.5,
}
CLASSIC_SIZE = {"epochs": 16, "d_model": 64, "num_heads": 4, "d_ff": 256}
SIZES = {scheme: CLASSIC_SIZE for scheme in CLASSIC}  # of each scheme's model, and how long it trains
SIZES["place_value"] = {"epochs": 32, "d_model": 16, "num_heads": 2, "d_ff": 32}


@dataclass(frozen=True)
class Settings:
    seeds: int = setting(5, "seeds of place_value: 0, 1, …", minimum=1)
    classic_seeds: int = setting(3, "seeds of each classic scheme in each order", minimum=0)
    epochs: int | None = setting(None, "epochs of every run (left out: 32 of place_value, 16 of others)", minimum=1)
    samples: int = setting(1000, "most sums at each length, of each kind", minimum=1)
    workers: int = setting(0, "runs at the same time, one thread each (0: one for each core)", minimum=0)
    output_dir: Path = setting(MODEL.parent, "folder for the comparison and, in seeds/, its runs", metavar="DIR")


def all_runs(settings: Settings) -> list[jobs.Job]:
    """Every run, the quick and important ones first."""
    runs = [("place_value", "reversed", seed) for seed in range(settings.seeds)]
    for seed in range(settings.classic_seeds):
        runs += [(scheme, order, seed) for scheme in CLASSIC for order in ORDERS]
    out = []
    for scheme, order, seed in runs:
        group = scheme if scheme == "place_value" else f"{scheme}, {order}"
        folder = settings.output_dir / "seeds" / f"{group}-seed{seed}".replace(", ", "-")
        flags = {"scheme": scheme, "order": order, "seed": seed, **SHARED, **SIZES[scheme]}
        flags |= {"epochs": settings.epochs} if settings.epochs else {}
        values, paths = {"flags": flags, "samples": settings.samples}, {"folder": folder, "data_dir": DEFAULT}
        out.append(jobs.Job(f"{group}, seed {seed}", train_and_measure, values, folder / "measured.json", paths))
    return out


def train_and_measure(flags: dict, samples: int, folder: Path, data_dir: Path) -> dict:
    log = jobs.train_once(HERE / "train.py", flags, folder, data_dir=data_dir)
    model, settings = load_model(folder / "best_model.pth")
    local = settings["scheme"] == "place_value"
    return {
        "parameters": log["parameters"],
        "steps": flags["epochs"] * -(-flags["epoch_rows"] // flags["batch_size"]),
        "first_perfect_epoch": log["first_perfect_epoch"],
        "test_loss": log["test_loss"],
        "test_acc": log["test_acc"],
        "lengths": by_length(model, settings, samples),
        "proof": single_numbers(proof.run(model)) if local else None,
    }


def single_numbers(found: dict) -> dict:
    """Numbers that stand alone, and what rounding can do."""
    return {name: value for name, value in found.items() if name == "rounding" or not isinstance(value, list | dict)}


def summary(runs: dict[str, dict]) -> dict:
    """Seeds of a kind together: {"place_value": {"random": {"32": {"mean", "low", "high", "seeds"}}, "chain": …}}.

    `low` and `high` enclose the 95% Wilson intervals of all seeds, and so both kinds of chance.
    """
    out: dict[str, dict] = {}
    groups = {name: name.rpartition(", seed ")[0] for name in runs}
    for group in dict.fromkeys(groups.values()):
        members = [measured for name, measured in runs.items() if groups[name] == group]
        out[group] = {"seeds": len(members), "test_acc": [measured["test_acc"] for measured in members]}
        for kind in KINDS:
            out[group][kind] = {}
            for length in members[0]["lengths"]:
                results = [measured["lengths"][length][kind] for measured in members]
                out[group][kind][length] = {
                    "mean": sum(result["share"] for result in results) / len(results),
                    "low": min(result["interval_95"][0] for result in results),
                    "high": max(result["interval_95"][1] for result in results),
                    "seeds": [result["share"] for result in results],
                }
    return out


def draw(groups: dict, path: Path) -> None:
    """Exact match against input length: random operands, full carry chains."""
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for number, (name, group) in enumerate(groups.items()):
            lengths, points = [int(length) for length in group[kind]], group[kind].values()
            style = {"color": COLOURS[number], "marker": MARKS[number], "linestyle": LINES[number]}
            axes.plot(lengths, [point["mean"] for point in points], **style, label=f"{name} ({group['seeds']})")
            low, high = ([point[end] for point in points] for end in ("low", "high"))
            axes.fill_between(lengths, low, high, color=COLOURS[number], alpha=0.15, linewidth=0)
        axes.axvline(MAX_CHARACTERS, color="#999999", linewidth=1)
        ticks = [int(length) for length in groups["place_value"][kind]]
        axes.set_xscale("log")
        axes.set_xticks(ticks, [tick if tick & (tick - 1) == 0 or tick > 512 else "" for tick in ticks])
        axes.minorticks_off()
        axes.set(xlabel="characters of input", title=title)
    panels[0].set(ylabel="exact match", ylim=(-0.03, 1.03))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right", title="scheme, order (seeds)")
    exact = [
        name for name, group in groups.items() if all(p["mean"] == 1 for kind in KINDS for p in group[kind].values())
    ]
    save(
        figure,
        path,
        f"All trained on at most {MAX_CHARACTERS} characters (grey line); classic schemes evaluated up to "
        f"{max(CLASSIC_LENGTHS)}. Line: mean of the seeds; band: their 95% intervals. "
        f"Without an error at every length: {', '.join(exact) or 'none'}.",
    )


def main(settings: Settings) -> None:
    device.start("cpu")
    load_or_generate()
    work = all_runs(settings)
    runs = {job.name: result for job, result in zip(work, jobs.run(work, settings.workers), strict=True)}
    if device.rank() > 0:
        return
    for name, measured in runs.items():
        found = measured["proof"]
        proven = f", proven exact: {found['proven']}, margin {found['smallest_margin']:.1f}" if found else ""
        print(f"{name}: {measured['test_acc']:.2%} of the test sums{proven}")
    numbers = {
        "training_characters": MAX_CHARACTERS,
        "groups": summary(runs),
        "runs": [{"name": name, **measured} for name, measured in runs.items()],
        "config": {name: value for name, value in as_plain(settings).items() if name != "workers"},
        "seed": 0,
        "versions": versions(),
    }
    path = settings.output_dir / "length_generalisation.json"
    write_json(path, numbers)
    draw(numbers["groups"], path.with_suffix(".png"))
    print(f"everything is in {path}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
