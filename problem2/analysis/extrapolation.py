"""How right is a model at lengths it was not trained on, class by class, and how sure is it?

A share of right answers alone deceives here: a model that says "not sorted" to everything is right on 54.6% of
the course's rows of length 32. So every number comes with both classes, and such a model is called collapsed.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab import figures
from lab.statistics import wilson
from problem2.dataset import Rows, load_test_set
from problem2.generate_data import TEST_ROWS
from problem2.model import SortingClassifier
from problem2.positional_encoding import SCHEMES

IN_RANGE = 12  # where figures put the test set of the trained lengths 8 to 16
COLLAPSED_AT = 0.99  # of all answers the same
SCORES_AT_ONCE = 2**18  # attention scores of a batch, for each head: bounds memory at great lengths


@torch.no_grad()
def margins(model: SortingClassifier, sequences: Tensor, batch_size: int = 512) -> Tensor:
    """[N, T] -> [N] how far "sorted" is ahead of "not sorted", in logits, on the CPU."""
    device = next(model.parameters()).device
    rows_at_once = max(1, min(batch_size, SCORES_AT_ONCE // sequences.shape[1] ** 2))
    logits = torch.cat([model(part.to(device)).cpu() for part in sequences.split(rows_at_once)])
    return (logits[:, 1] - logits[:, 0]).double()


def judge(margin: Tensor, labels: Tensor) -> dict:
    """Numbers of one model on one test set, from its margins [N] and the labels [N]."""
    said_sorted = margin > 0
    right = said_sorted == labels.bool()
    share = said_sorted.double().mean().item()
    report = {"rows": len(labels), "accuracy": right.double().mean().item()}
    report["interval"] = list(wilson(int(right.sum()), len(right)))
    for name, chosen in (("sorted", labels == 1), ("unsorted", labels == 0)):
        count, hits = int(chosen.sum()), int(right[chosen].sum())
        report[name] = {
            "rows": count,
            "accuracy": hits / max(1, count),
            "interval": list(wilson(hits, count)),
            "margin_mean": margin[chosen].mean().item() if count else 0.0,
            "margin_sd": margin[chosen].std(correction=0).item() if count else 0.0,
        }
    report["says_sorted"] = share
    both = 0 < int(labels.sum()) < len(labels)
    report["collapsed"] = both and (share >= COLLAPSED_AT or share <= 1 - COLLAPSED_AT)
    return report


def measure(model: SortingClassifier, sets: dict[str, Rows], batch_size: int = 512) -> dict[str, dict]:
    """{"extrapolation/64": rows, …} -> {"extrapolation/64": numbers, …}"""
    return {name: judge(margins(model, rows.sequences, batch_size), rows.labels) for name, rows in sets.items()}


def rows_asked(length: int) -> int:
    """How many rows of a test set are asked if nothing else is said: all of them up to length 256, then fewer."""
    return TEST_ROWS if length <= 256 else max(50, 100 * 1024 // length)


def test_sets(data_dir: Path, lengths, in_range: Rows, rows: int | None = None) -> dict[str, Rows]:
    """The in-range test rows, and both kinds of longer sets; of each at most `rows` (left out: see rows_asked)."""
    sets = {"test": in_range}
    for kind, its in (("extrapolation", lengths), ("adjacent", [16, *lengths])):
        for length in dict.fromkeys(its):
            whole = load_test_set(data_dir, kind, length)
            sets[f"{kind}/{length}"] = whole.part(slice(rows or rows_asked(length)))
    return sets


def style(name: str) -> dict:
    """One colour, line and mark for each scheme, the same in every figure."""
    number = list(SCHEMES).index(name)
    extra = number // len(figures.COLOURS)  # the two randomised relatives look like their family, but hollow
    number = {0: number, 1: 1 if name == "randomized_learned" else 4}[extra]
    return {
        "color": figures.COLOURS[number],
        "linestyle": figures.LINES[number],
        "marker": figures.MARKS[number],
        "markerfacecolor": "white" if extra else figures.COLOURS[number],
    }


Points = dict[str, dict[str, tuple[float, float, float, bool]]]  # scheme -> set -> share, low, high, collapsed


def draw_panel(axes, points: Points, kind: str, title: str) -> None:
    """Accuracy by length for one kind of negatives; a grey cross where a scheme has collapsed to one answer."""
    ticks = set()
    for name, sets in points.items():
        places = {int(key.split("/")[1]): key for key in sets if key.startswith(kind)}
        if kind == "extrapolation":
            places[IN_RANGE] = "test"
        lengths = sorted(places)
        share, low, high, dead = zip(*(sets[places[length]] for length in lengths), strict=True)
        axes.plot(lengths, share, **style(name), label=f"{name} ({share[-1]:.0%})")
        axes.fill_between(lengths, low, high, alpha=0.12, color=style(name)["color"], linewidth=0)
        crosses = [(length, s) for length, s, d in zip(lengths, share, dead, strict=True) if d]
        if crosses:
            axes.scatter(*zip(*crosses, strict=True), marker="x", s=90, color="#555555", zorder=5)
        ticks |= set(lengths)
    axes.axhline(0.5, color="#999999", linewidth=1)
    axes.set(xscale="log", xlabel="length of the sequence (trained: 8 to 16)", title=title, ylim=(0.4, 1.02))
    axes.set_xticks(sorted(ticks), ["8–16" if tick == IN_RANGE else str(tick) for tick in sorted(ticks)])
    axes.minorticks_off()
    axes.set_ylabel("share of right answers")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, title=f"(at {max(ticks)})", title_fontsize=8)


def draw_curves(details: dict, path: Path, study: dict | None = None) -> None:
    """Accuracy by length for both kinds of negatives: this run's models, with the spread over seeds if known."""
    figure, panels = plt.subplots(1, 2, figsize=(13.5, 4.8))
    points = {
        name: {key: (n["accuracy"], *n["interval"], n["collapsed"]) for key, n in report["sets"].items()}
        for name, report in details.items()
    }
    kinds = (("extrapolation", "the course's negatives: L/3 random swaps"), ("adjacent", "one swap of two neighbours"))
    for axes, (kind, title) in zip(panels, kinds, strict=True):
        draw_panel(axes, points, kind, title)
        for name in points if study else ():
            sets = study[name]["sets"] if name in study else {}
            for key in [key for key in sets if key in points[name]]:
                length = IN_RANGE if key == "test" else int(key.split("/")[1])
                if key.startswith(kind) or (key == "test" and kind == "extrapolation"):
                    axes.vlines(
                        length, sets[key]["min"], sets[key]["max"], color=style(name)["color"], linewidth=5, alpha=0.35
                    )
    note = "\nThick bars: from the worst to the best of the seeds in study/study.json." if study else ""
    figures.save(
        figure,
        path,
        "Bands: 95% intervals. A grey cross: one answer to everything, so that its share is that of a class." + note,
    )


def draw_bars(details: dict, path: Path, lengths=(32, 64, 128, 256)) -> None:
    """Accuracy at each length, one group a scheme; hatched where the model has collapsed to one answer."""
    figure, axes = plt.subplots(figsize=(max(6, 1.1 * len(details) + 2), 4.2))
    width = 0.8 / len(lengths)
    colours = plt.get_cmap("Blues")([0.3 + 0.65 * n / max(1, len(lengths) - 1) for n in range(len(lengths))])
    for number, length in enumerate(lengths):
        for place, report in enumerate(details.values()):
            numbers = report["sets"].get(f"extrapolation/{length}")
            if numbers is None:
                continue
            axes.bar(
                place + (number - (len(lengths) - 1) / 2) * width,
                numbers["accuracy"],
                width * 0.92,
                color=colours[number],
                edgecolor="#555555" if numbers["collapsed"] else "none",
                hatch="///" if numbers["collapsed"] else None,
            )
    axes.axhline(0.5, color="#999999", linewidth=1)
    axes.set_xticks(range(len(details)), [name.replace("_", "\n") for name in details])
    axes.set(ylabel="share of right answers", ylim=(0, 1.02))
    shades = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in colours]
    axes.legend(shades, [f"length {length}" for length in lengths], loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figures.save(figure, path, "The course's longer test sets. Hatched: one answer to everything (collapsed).")


def as_table(details: dict, lengths) -> str:
    """For people: each scheme's accuracy by length, sorted/unsorted rows apart."""
    lines = [f"{'scheme':20}" + "".join(f"{'length ' + str(length):>24}" for length in lengths)]
    lines.append(f"{'':20}" + f"{'all  (sorted/unsorted)':>24}" * len(lengths))
    for name, report in details.items():
        cells = []
        for length in lengths:
            n = report["sets"][f"extrapolation/{length}"]
            cell = f"{n['accuracy']:.1%} ({n['sorted']['accuracy']:.0%}/{n['unsorted']['accuracy']:.0%})"
            cells.append(f"{'collapsed ' + cell if n['collapsed'] else cell:>24}")
        lines.append(f"{name:20}" + "".join(cells))
    return "\n".join(lines)
