"""Other seeds and smaller models: which of them are proven to add at every length?

    python beyond/any_length/study.py                        # five seeds of the default size, three of each smaller one

Writes sizes.json and sizes.png: wrong local contexts and smallest logit margin of every model. Each run has its
folder in results/seeds/. Runs that are finished are kept, and a study that was stopped goes on.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

from beyond import jobs
from beyond.any_length import train
from beyond.any_length.checkpoint import MODEL
from beyond.any_length.dataset import load_or_generate
from beyond.any_length.runs import train_and_prove
from lab import device
from lab.figures import COLOURS, WIDTH, plt, save
from lab.files import versions, write_json
from lab.settings import parse, run, setting

SMALL = {"epochs": 96, "lr": 1e-2, "weight_decay": 0.02}  # how smaller models are trained
SIZES = [(8, 2, 16), (6, 3, 12), (6, 3, 8), (5, 5, 12), (4, 4, 16)]  # width, heads, feed-forward
SIZE = ("d_model", "num_heads", "d_ff")
FLAGS = (*SIZE, "dropout", "epochs", "epoch_rows", "batch_size", "lr", "weight_decay")  # as measured.json has them


@dataclass(frozen=True)
class Settings(jobs.Engine):
    seeds: int = setting(5, "seeds of the default size: 0, 1, …", minimum=1)
    other_seeds: int = setting(3, "seeds of each smaller size", minimum=0)
    output_dir: Path = setting(MODEL.parent, "folder for the results and, in seeds/, the runs", metavar="DIR")


def all_runs(settings: Settings) -> list[jobs.Job]:
    """Every run, the quick and important ones first."""
    runs = [("place_value", seed, {}) for seed in range(settings.seeds)]
    for seed in range(settings.other_seeds):
        for size in SIZES:
            changed = dict(zip(SIZE, size, strict=True)) | SMALL
            runs.append((f"place_value, {', '.join(map(str, size))}", seed, changed))
    made = []
    for name, seed, changed in runs:
        flags = {flag: getattr(train.Settings, flag) for flag in FLAGS} | changed | {"seed": seed}
        folder = settings.output_dir / "seeds" / f"{name}-seed{seed}".replace(", ", "-")
        made.append(jobs.Job(f"{name}, seed {seed}", train_and_prove, {"flags": flags}, folder))
    return made


def by_size(runs: dict[str, dict]) -> list[dict]:
    """One entry for each run, the largest models first: what the proof found."""
    out = []
    for measured in runs.values():
        flags, found = measured["settings"]["flags"], measured["proof"]
        size = {name: flags[name] for name in (*SIZE, *SMALL, "seed")} | {"parameters": measured["parameters"]}
        size |= {"local_contexts": found["local_contexts"], "wrong_local_contexts": found["failures"]}
        out.append(size | {name: found[name] for name in ("smallest_margin", "proven", "proven_in_float32")})
    return sorted(out, key=lambda run: -run["parameters"])


def draw_sizes(found: list[dict], path: Path) -> None:
    """Parameters against the smallest margin, or against the wrong local contexts where there are any."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(WIDTH, 2.9), sharex=True)
    sizes = {point["parameters"]: "{d_model}, {num_heads}, {d_ff}".format(**point) for point in reversed(found)}
    place = {count: number for number, count in enumerate(sizes)}
    for point in found:
        right = point["wrong_local_contexts"] == 0
        axes, value = (above, point["smallest_margin"]) if right else (below, point["wrong_local_contexts"])
        fill = COLOURS[0] if point["proven"] else "white"
        axes.plot(place[point["parameters"]], value, marker="o", color=COLOURS[0 if right else 6], markerfacecolor=fill)
    below.set(yscale="log", ylim=(0.7, found[0]["local_contexts"] * 1.5))
    below.yaxis.set_major_formatter("{x:,.0f}")
    below.set_xticks([*place.values()], [f"{count:,}\n{size}" for count, size in sizes.items()])
    below.set(xlabel="parameters\nwidth, heads, feed-forward", ylabel="wrong local\ncontexts")
    above.set(ylabel="smallest\nlogit margin", ylim=(0, 1.2 * max(point["smallest_margin"] for point in found)))
    proven = [point for point in found if point["proven"]]
    title = "No model is proven"
    if proven:
        least = proven[-1]["parameters"]
        seeds = [point["proven"] for point in found if point["parameters"] == least]
        title = f"{least:,} parameters are enough to add at every length ({sum(seeds)} of {len(seeds)} seeds)"
    figure.suptitle(title)
    save(
        figure,
        path,
        "A point is one seed. Filled: proven. Above: right in all local contexts. Below: wrong in some.",
        vector=True,
    )


def main(settings: Settings) -> None:
    device.start("cpu")
    load_or_generate()
    work = all_runs(settings)
    runs = {job.name: result for job, result in zip(work, jobs.run(work, settings), strict=True)}
    sizes = by_size(runs)
    for size in sizes:
        print(
            f"{size['parameters']:,} parameters, seed {size['seed']}: wrong in {size['wrong_local_contexts']:,} local "
            f"contexts, smallest margin {size['smallest_margin']:.1f}, {'proven' if size['proven'] else 'not proven'}"
        )
    planned = {"seeds": settings.seeds, "other_seeds": settings.other_seeds}
    about = {"config": planned, "seed": 0, "versions": versions()}
    write_json(settings.output_dir / "sizes.json", {"runs": sizes} | about)
    draw_sizes(sizes, settings.output_dir / "sizes.png")
    print(f"everything is in {settings.output_dir}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
