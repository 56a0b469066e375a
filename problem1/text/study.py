"""Smaller models, and other position schemes: which are proven to add, and how far the others get.

    python problem1/text/study.py                        # every size and every classic scheme, 3 seeds each
    torchrun --nnodes=2 … problem1/text/study.py         # shared between machines with a common folder

sizes.json, sizes.png            place_value models of 16 to 4 dimensions: wrong local contexts, smallest margin
length_generalisation.json, .png exact match by length: place_value of the default size, and the classic schemes, which
                                 have 19 times its parameters and learn from the same rows

Each run is written to results/text/seeds/. Runs that are finished are kept, and a study that was stopped goes on.
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
DEFAULTS = {  # the flags of train.py
    "scheme": "place_value",
    "order": "reversed",
    "d_model": 16,
    "num_heads": 2,
    "num_layers": 1,
    "d_ff": 32,
    "dropout": 0.0,
    "epochs": 32,
    "epoch_rows": 6_400,
    "batch_size": 64,
    "lr": 5e-3,
    "weight_decay": 0.5,
}
SMALL = {"epochs": 96, "lr": 1e-2, "weight_decay": 0.02}  # how smaller models are trained
SIZES = [(8, 2, 16), (6, 3, 12), (6, 3, 8), (5, 5, 12), (5, 5, 8), (4, 4, 16)]  # width, heads, feed-forward
SIZE = ("d_model", "num_heads", "d_ff")
CLASSIC_FLAGS = {"d_model": 64, "num_heads": 4, "d_ff": 256, "epochs": 32, "lr": 2e-3}


@dataclass(frozen=True)
class Settings:
    seeds: int = setting(5, "seeds of the default size: 0, 1, …", minimum=1)
    other_seeds: int = setting(3, "seeds of each smaller size, and of each classic scheme in each order", minimum=0)
    samples: int = setting(1000, "most sums at each length, of each kind", minimum=1)
    workers: int = setting(0, "runs at the same time, one thread each (0: one for each core)", minimum=0)
    output_dir: Path = setting(MODEL.parent, "folder for the results and, in seeds/, the runs", metavar="DIR")


def all_runs(settings: Settings) -> list[jobs.Job]:
    """Every run, the quick and important ones first."""
    out = []

    def add(group: str, seed: int, changed: dict, samples: int) -> None:
        folder = settings.output_dir / "seeds" / f"{group}-seed{seed}".replace(", ", "-")
        values = {"flags": DEFAULTS | changed | {"seed": seed}, "samples": samples}
        paths = {"folder": folder, "data_dir": DEFAULT}
        out.append(jobs.Job(f"{group}, seed {seed}", train_and_measure, values, folder / "measured.json", paths))

    for seed in range(settings.seeds):
        add("place_value", seed, {}, settings.samples)
    for seed in range(settings.other_seeds):
        for size in SIZES:
            add(f"place_value, {', '.join(map(str, size))}", seed, dict(zip(SIZE, size, strict=True)) | SMALL, 0)
    for seed in range(settings.other_seeds):
        for scheme in CLASSIC:
            for order in ORDERS:
                changed = {"scheme": scheme, "order": order, **CLASSIC_FLAGS}
                add(f"{scheme}, {order}", seed, changed, settings.samples)
    return out


def train_and_measure(flags: dict, samples: int, folder: Path, data_dir: Path) -> dict:
    """A run: what it learned, exact match by length (`samples` above 0), and the proof (of place_value)."""
    log = jobs.train_once(HERE / "train.py", flags, folder, data_dir=data_dir)
    model, settings = load_model(folder / "best_model.pth")
    measured = {name: log[name] for name in ("parameters", "first_perfect_epoch", "test_loss", "test_acc")}
    if samples:
        measured["lengths"] = by_length(model, settings, samples)
    local = settings["scheme"] == "place_value"
    return measured | {"proof": single_numbers(proof.run(model)) if local else None}


def single_numbers(found: dict) -> dict:
    """Numbers that stand alone, and what rounding can do."""
    return {name: value for name, value in found.items() if name == "rounding" or not isinstance(value, list | dict)}


# --- sizes -------------------------------------------------------------------------------------------------------


def by_size(runs: dict[str, dict]) -> list[dict]:
    """One entry for each run of place_value, the largest models first: what the proof found."""
    out = []
    for measured in runs.values():
        flags, found = measured["settings"]["flags"], measured["proof"]
        if found:
            size = {name: flags[name] for name in (*SIZE, *SMALL)} | {
                "parameters": measured["parameters"],
                "seed": flags["seed"],
            }
            names = {"local_contexts": "local_contexts", "wrong_local_contexts": "failures"}
            names |= {name: name for name in ("smallest_margin", "proven")}
            out.append(size | {name: found[source] for name, source in names.items()})
    return sorted(out, key=lambda run: -run["parameters"])


def draw_sizes(found: list[dict], path: Path) -> None:
    """Parameters against the smallest margin, or against the wrong local contexts where there are any."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(6.3, 4.6), sharex=True)
    for point in found:
        right = point["wrong_local_contexts"] == 0
        axes, value = (above, point["smallest_margin"]) if right else (below, point["wrong_local_contexts"])
        fill = COLOURS[0] if point["proven"] else "white"
        axes.plot(point["parameters"], value, marker="o", color=COLOURS[0 if right else 6], markerfacecolor=fill)
    sizes = {point["parameters"]: "{d_model}, {num_heads}, {d_ff}".format(**point) for point in found}
    below.set(xscale="log", yscale="log", ylim=(0.7, found[0]["local_contexts"] * 1.5))
    below.set_xticks([*sizes], [f"{count:,}\n{size}" for count, size in sizes.items()], fontsize=7.5)
    below.minorticks_off()
    below.set(xlabel="parameters\nwidth, heads, feed-forward", ylabel="wrong local contexts")
    above.set(ylabel="smallest logit margin", ylim=(0, None))
    proven = [point for point in found if point["proven"]]
    title = "No model is proven"
    if proven:
        least = proven[-1]["parameters"]
        seeds = [point["proven"] for point in found if point["parameters"] == least]
        title = f"{least:,} parameters are enough to add at every length ({sum(seeds)} of {len(seeds)} seeds)"
    figure.suptitle(title)
    save(figure, path, "A point is one seed. Filled: proven. Above: right in all local contexts. Below: wrong in some.")


# --- lengths -----------------------------------------------------------------------------------------------------


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


def draw_lengths(groups: dict, path: Path) -> None:
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
    sizes = by_size(runs)
    for size in sizes:
        print(
            f"{size['parameters']:,} parameters, seed {size['seed']}: wrong in {size['wrong_local_contexts']:,} local "
            f"contexts, smallest margin {size['smallest_margin']:.1f}, {'proven' if size['proven'] else 'not proven'}"
        )
    about = {name: value for name, value in as_plain(settings).items() if name != "workers"}
    about = {"config": about, "seed": 0, "versions": versions()}
    write_json(settings.output_dir / "sizes.json", {"runs": sizes} | about)
    draw_sizes(sizes, settings.output_dir / "sizes.png")
    compared = {name: measured for name, measured in runs.items() if "lengths" in measured}
    numbers = {
        "training_characters": MAX_CHARACTERS,
        "groups": summary(compared),
        "runs": [{"name": name, **measured} for name, measured in compared.items()],
    }
    path = settings.output_dir / "length_generalisation.json"
    write_json(path, numbers | about)
    draw_lengths(numbers["groups"], path.with_suffix(".png"))
    print(f"everything is in {settings.output_dir}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
