"""From which length on does a scheme fail? Every length is tested, on as many sorted as unsorted rows.

The course's four lengths cannot tell a scheme that fails at once from one that fails after twenty positions. The rows
here are drawn as the course's are; with as many of both classes a constant answer is right on 50% at every length.
"""

import statistics
from pathlib import Path

import matplotlib.pyplot as plt

from lab import figures
from problem2.analysis.context import Context
from problem2.analysis.evaluation import BATCH_SIZE, balanced_rows, judge, logit_differences
from problem2.dataset import Rows
from problem2.model import SortingClassifier
from problem2.positional_encoding import HOMEWORK

QUESTION = "From which length on does each fail?"
NEEDS = ()
RESULTS = "accuracy_by_length.json"
FILES = (RESULTS, "extrapolation_curves.png", "extrapolation_curves.pdf")
EACH = 200  # rows of each class and length
WORKS = 0.9  # balanced accuracy of a scheme that still works at a length
FAR = (6, 8, 12, 16)  # beyond four times the longest length of training only these multiples are tested


def run(context: Context) -> dict:
    lengths = lengths_to_test(context.trained_lengths, max(context.test_lengths))
    rows = rows_of(lengths)
    schemes = {}
    for name in [name for name in HOMEWORK if name in context.trained] or [*context.trained][: len(HOMEWORK)]:
        schemes[name] = {
            str(seed): measure(model, rows, context.batch_size) for seed, model in context.trained[name].items()
        }
    results = context.write(
        RESULTS,
        {
            "rows_of_each_class": EACH,
            "works": WORKS,
            "trained_lengths": list(context.trained_lengths),
            "lengths": lengths,
            "schemes": schemes,
        },
    )
    draw(results, context.folder / "extrapolation_curves.png")
    return results


def lengths_to_test(trained: tuple[int, int], farthest: int) -> list[int]:
    """Every length of training, then every one up to four times as long, then some, none beyond `farthest`."""
    shortest, longest = trained
    # A single value is always in order: from length 2 on there are rows of both classes.
    lengths = [*range(max(2, shortest), 4 * longest + 1), *(multiple * longest for multiple in FAR)]
    return [length for length in lengths if length <= max(longest, farthest)]


def rows_of(lengths: list[int]) -> dict[int, Rows]:
    return {length: balanced_rows(length, EACH) for length in lengths}


def measure(model: SortingClassifier, rows: dict[int, Rows], batch_size: int = BATCH_SIZE) -> dict:
    """The balanced accuracy at each length, the first length at which it is below WORKS, and the length from which on
    all answers are the same; None where there is no such length."""
    accuracies = []
    first_failure = None
    constant_from = None
    for length, of_length in rows.items():
        numbers = judge(logit_differences(model, of_length.sequences, batch_size), of_length.labels)
        accuracies.append(numbers["balanced_accuracy"])
        if numbers["balanced_accuracy"] < WORKS and first_failure is None:
            first_failure = length
        if not numbers["collapsed"]:
            constant_from = None
        elif constant_from is None:
            constant_from = length
    return {"balanced_accuracy": accuracies, "first_failure": first_failure, "constant_from": constant_from}


def findings(results: dict) -> str:
    """A line for each scheme: where each seed fails."""
    last = results["lengths"][-1]
    lines = []
    for name, by_seed in results["schemes"].items():
        said = []
        for seed, numbers in by_seed.items():
            first = numbers["first_failure"]
            said.append(f"at length {first} (seed {seed})" if first else f"nowhere up to {last} (seed {seed})")
        lines.append(f"{name}: below {results['works']:.0%} {', '.join(said)}")
    fewest = min(len(by_seed) for by_seed in results["schemes"].values())
    if fewest == 1:
        lines.append("One seed only. Another: train.py --seed 642, with seeds/642 in these results as --output-dir.")
    return "\n".join(lines)


# --- figure ----------------------------------------------------------------------------------------------------


def draw(results: dict, path: Path) -> None:
    """Mean over seeds by length, with the range of the seeds; each curve has its name beside it."""
    lengths = results["lengths"]
    shortest, longest = results["trained_lengths"]
    figure, axes = plt.subplots(figsize=(figures.WIDTH, 2.5))
    axes.axvspan(shortest, longest, color="#eeeeee", zorder=0)
    axes.text((shortest * longest) ** 0.5, 1.03, "trained", color="#777777", ha="center", fontsize=8)
    axes.axhline(0.5, color="#999999", linewidth=1, zorder=1)
    for number, (name, by_seed) in enumerate(results["schemes"].items()):
        colour = figures.COLOURS[(0, 6, 2)[number]]
        curves = [numbers["balanced_accuracy"] for numbers in by_seed.values()]
        at_each_length = [*zip(*curves, strict=True)]
        mean = [statistics.fmean(values) for values in at_each_length]
        low = [min(values) for values in at_each_length]
        high = [max(values) for values in at_each_length]
        axes.fill_between(lengths, low, high, color=colour, alpha=0.25, linewidth=0)
        axes.plot(lengths, mean, color=colour)
        write_name(axes, name, lengths, mean, colour, left=number == 1)
    ticks = [shortest, *(longest * 2**power for power in range(5) if longest * 2**power <= lengths[-1])]
    axes.set_xscale("log")
    axes.set_xticks(ticks, map(str, ticks))
    axes.minorticks_off()
    axes.set(ylim=(0.44, 1.1), yticks=(0.5, 0.75, 1.0), yticklabels=("50%", "75%", "100%"))
    axes.set(xlabel="length of the sequence", ylabel="balanced accuracy")
    figure.suptitle(title(results))
    seeds = sorted({seed for by_seed in results["schemes"].values() for seed in by_seed})
    caption = f"{EACH} sorted and {EACH} unsorted rows of each length. Mean over seeds {', '.join(seeds)}; "
    caption += "bands from the lowest to the highest.\nA constant answer has 50%."
    figures.save(figure, path, caption, vector=True)


def write_name(axes, name: str, lengths: list[int], mean: list[float], colour: str, left: bool) -> None:
    """Beside the curve where it has fallen half way to 50%; above its end where it never falls, or never stood."""
    fallen = next((place for place, accuracy in enumerate(mean) if accuracy < 0.75), 0)
    style = {"textcoords": "offset points", "color": colour, "fontsize": 9}
    if fallen == 0:
        axes.annotate(name, (lengths[-1], mean[-1]), (0, 4), ha="right", **style)
    elif left:
        axes.annotate(name, (lengths[fallen], mean[fallen]), (-12, 0), ha="right", va="center", **style)
    else:
        axes.annotate(name, (lengths[fallen], mean[fallen]), (7, 0), va="center", **style)


def title(results: dict) -> str:
    """'First length below 90%: sinusoidal 18 to 19, learned 17', of the schemes that are above it at first."""
    shortest = results["lengths"][0]
    words = []
    for name, by_seed in results["schemes"].items():
        firsts = [numbers["first_failure"] for numbers in by_seed.values()]
        if None in firsts or min(firsts) == shortest:
            continue
        low = min(firsts)
        high = max(firsts)
        words.append(f"{name} {low}" if low == high else f"{name} {low} to {high}")
    return f"First length below {WORKS:.0%}: {', '.join(words)}" if words else "Balanced accuracy by length"
