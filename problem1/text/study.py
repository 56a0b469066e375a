"""Train every position scheme with several seeds and measure how far each gets: the numbers of the comparison.

    python problem1/text/study.py                # 5 seeds of places, 3 of each classic scheme in both orders
    python problem1/text/study.py --jobs 4       # four runs side by side, one thread each

Same rows, width, layers and steps for all; `places` of every seed is put to the proof as well. With --longer-seeds 1
sinusoidal and learned are trained once more with twice the layers and five times the steps (about ten minutes each).
Writes results/text/length_generalisation.json and .png, and each run's log to results/text/seeds/. A run that is
there with the same settings is not trained again (remove its folder to have that), and measured again only when the
code that measures it has changed.
"""

import contextlib
import io
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab.figures import COLOURS, LINES, MARKS, plt, save
from lab.files import read_json, write_json
from lab.provenance import code_digest, provenance
from lab.settings import as_plain, parse, run, setting
from problem1.text import train
from problem1.text.dataset import MAX_CHARACTERS, load_or_generate
from problem1.text.lengths import CLASSIC_LENGTHS, by_length
from problem1.text.proof import prove

RESULTS = train.PROBLEM / "results" / "text"
CLASSIC = ("sinusoidal", "learned", "none")
ORDERS = ("reversed", "plain")
HERE = Path(__file__).resolve().parent
MEASURED_BY = [HERE / f"{name}.py" for name in ("lengths", "proof", "situations", "places", "model", "dataset")]
KINDS = {"random": "random operands", "chain": "a carry through every digit"}


@dataclass(frozen=True)
class Settings:
    seeds: int = setting(5, "seeds of places: 0, 1, …", minimum=1)
    classic_seeds: int = setting(3, "seeds of each classic scheme in each order", minimum=0)
    longer_seeds: int = setting(0, "seeds of the longer runs of sinusoidal and learned", minimum=0)
    epochs: int = setting(train.Settings.epochs, "epochs of every run (the longer ones: five times as many)", minimum=1)
    samples: int = setting(1000, "most sums asked at each length, of each kind", minimum=1)
    jobs: int = setting(2, "runs at the same time, one thread each", minimum=1, maximum=256)
    data_dir: Path = setting(train.Settings.data_dir, "folder of the rows", metavar="DIR")
    output_dir: Path = setting(RESULTS, "folder for the comparison and, in seeds/, its runs", metavar="DIR")


def all_runs(settings: Settings) -> dict[str, train.Settings]:
    """Every run by its name, the quick and important ones first."""
    base = train.Settings(data_dir=settings.data_dir, epochs=settings.epochs, device="cpu")
    runs = {f"places, seed {seed}": replace(base, seed=seed) for seed in range(settings.seeds)}
    for seed in range(settings.classic_seeds):
        for scheme in CLASSIC:
            for order in ORDERS:
                runs[f"{scheme}, {order}, seed {seed}"] = replace(base, scheme=scheme, order=order, seed=seed)
    for seed in range(settings.longer_seeds):
        for scheme in ("sinusoidal", "learned"):
            longer = replace(base, scheme=scheme, seed=seed, num_layers=2, epochs=5 * settings.epochs)
            runs[f"{scheme}, reversed, longer, seed {seed}"] = longer
    return {
        name: replace(its, output_dir=settings.output_dir / "seeds" / name.replace(", ", "-").replace(" ", ""))
        for name, its in runs.items()
    }


def one_run(job: tuple[str, train.Settings, int]) -> dict:
    """Train (if that has not been done), measure, prove; in a process of its own."""
    name, settings, samples = job
    torch.set_num_threads(1)
    log_path, measured_path = settings.output_dir / "training_log.json", settings.output_dir / "measured.json"
    log, measured = (read_json(path, "remove it.") if path.exists() else {} for path in (log_path, measured_path))
    trained = all(log.get("config", {}).get(name) == value for name, value in as_plain(settings).items())
    stamp = {"samples": samples, "measured_by": {path.name: code_digest(path) for path in MEASURED_BY}}
    if trained and {"test_loss": log["test_loss"], **stamp}.items() <= measured.items():
        return measured
    if not trained or not (settings.output_dir / "best_model.pth").exists():
        with contextlib.redirect_stdout(io.StringIO()):
            train.main(settings)
        log = read_json(log_path, "remove it.")
    model, _ = train.load_model(settings.output_dir / "best_model.pth")
    measured = {
        "name": name,
        **stamp,
        "test_loss": log["test_loss"],
        "scheme": settings.scheme,
        "order": settings.order,
        "seed": settings.seed,
        "longer": ", longer" in name,
        "num_layers": settings.num_layers,
        "parameters": log["parameters"],
        "steps": settings.epochs * -(-settings.epoch_rows // settings.batch_size),
        "training_seconds": log["seconds"],
        "first_perfect_epoch": log["first_perfect_epoch"],
        "test_acc": log["test_acc"],
        "lengths": by_length(model, settings, samples),
        "proof": _short(prove(model)) if settings.scheme == "places" else None,
    }
    write_json(measured_path, measured)
    return measured


def _short(proof: dict) -> dict:
    """What the comparison keeps of a proof: its single numbers."""
    return {name: value for name, value in proof.items() if not isinstance(value, list | dict)}


def group_of(measured: dict) -> str:
    """The curve a run belongs to: "sinusoidal, reversed"."""
    if measured["scheme"] == "places":
        return "places"
    return f"{measured['scheme']}, {measured['order']}" + (", longer" if measured["longer"] else "")


def summary(runs: list[dict]) -> dict:
    """Seeds of a kind together: {"places": {"random": {"32": {"mean", "low", "high", "seeds"}}, "chain": …}}.

    `low` and `high` enclose the 95% Wilson intervals of all seeds, and so both kinds of chance.
    """
    out: dict[str, dict] = {}
    for group in dict.fromkeys(map(group_of, runs)):
        members = [measured for measured in runs if group_of(measured) == group]
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


def draw(numbers: dict, path: Path) -> None:
    """Exact match against input length from length_generalisation.json: random operands, full carry chains."""
    groups = numbers["groups"]
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for number, (group, its) in enumerate(groups.items()):
            lengths = [int(length) for length in its[kind]]
            points = its[kind].values()
            style = {"color": COLOURS[number], "marker": MARKS[number], "linestyle": LINES[number]}
            axes.plot(lengths, [point["mean"] for point in points], **style, label=f"{group} ({its['seeds']})")
            low, high = ([point[end] for point in points] for end in ("low", "high"))
            axes.fill_between(lengths, low, high, color=COLOURS[number], alpha=0.15, linewidth=0)
        axes.axvline(numbers["training_characters"], color="#999999", linewidth=1)
        ticks = [int(length) for length in groups["places"][kind]]
        axes.set_xscale("log")
        axes.set_xticks(ticks, [tick if tick & (tick - 1) == 0 or tick > 512 else "" for tick in ticks])
        axes.minorticks_off()
        axes.set(xlabel="characters of input", title=title)
    panels[0].set(ylabel="exact match", ylim=(-0.03, 1.03))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right", title="scheme, order (seeds)")
    exact = [group for group, its in groups.items() if all(p["mean"] == 1 for k in KINDS for p in its[k].values())]
    save(
        figure,
        path,
        "All trained on at most 32 characters (grey line); classic schemes asked up to "
        f"{max(CLASSIC_LENGTHS)}. Line: mean of the seeds; band: their 95% intervals. "
        f"Without an error at every length: {', '.join(exact) or 'none'}.",
    )


def write(runs: list[dict], settings: Settings) -> None:
    """After every run, so that a study that is stopped leaves what it has found."""
    numbers = {
        "training_characters": MAX_CHARACTERS,
        "groups": summary(runs),
        "runs": runs,
        "config": as_plain(settings),
        "seed": 0,
        **provenance(),
    }
    write_json(settings.output_dir / "length_generalisation.json", numbers)
    draw(numbers, settings.output_dir / "length_generalisation.png")


def main(settings: Settings) -> None:
    load_or_generate(settings.data_dir)
    jobs = [(name, its, settings.samples) for name, its in all_runs(settings).items()]
    runs = []
    with ProcessPoolExecutor(settings.jobs, multiprocessing.get_context("spawn")) as pool:
        bar = tqdm(pool.map(one_run, jobs), total=len(jobs), desc="runs", unit="run", disable=None)
        for measured in bar:
            proof = measured["proof"]
            said = f", proven exact: {proof['proven']}, margin {proof['smallest_margin']:.1f}" if proof else ""
            bar.write(f"{measured['name']}: {measured['test_acc']:.2%} of the test sums{said}", file=sys.stdout)
            runs.append(measured)
            write(runs, settings)


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
