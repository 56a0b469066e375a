"""Why do sinusoidal positions collapse beyond the trained lengths? Trained models, their codes changed one at a time.

A code consists of waves, each a sine and a cosine: the fastest turns once in 6 positions, the slowest hardly at all.
Beyond the trained lengths each wave

    is true          follows the position, as always
    is squeezed      follows p · 15 / (L - 1), so that it takes only phases that it had in training (16 positions)

and in range it is true, or it stays at position 7. Apart from waves there are directions: those of all codes that the
trained ones do not span may be removed, or added where they do not belong. The models are never trained again.
"""

import contextlib
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap
from torch import Tensor

from lab import figures
from lab.tables import aligned
from problem2.analysis.context import Context
from problem2.analysis.evaluation import BATCH_SIZE, balanced_rows, judge, logit_differences
from problem2.dataset import Rows
from problem2.model import SortingClassifier
from problem2.positional_encoding import PositionScheme, SinusoidalPositionalEncoding, frequencies

QUESTION = "Which part of a sinusoidal code causes the collapse?"
NEEDS = ("sinusoidal",)
RESULTS = "collapse.json"
FILES = (RESULTS, "collapse.png", "collapse.pdf")
EACH = 100  # rows of each class and length
ENERGY = 0.999  # the directions that hold this share of the trained codes' squared norm count as trained
STILL = 7  # the position of a wave that stands still
FARTHEST = 16  # times the longest sequence of training
# Waves by how often they turn within the trained positions: the least turns of each band, from the fastest on.
BANDS = {"fastest": 1.5, "middle": 0.4, "quarter": 0.25, "slow": 0.0}


class Experiment(NamedTuple):
    """What each wave does, and what is done with the untrained directions of the codes."""

    in_range: bool  # on the trained lengths, not beyond them
    true: tuple[str, ...]  # the bands that follow the position; the others are squeezed, or in range stand still
    untrained: str = "as they are"  # or "removed", or "added": those of the true position, or in range of a far one


EVERY = tuple(BANDS)
EXPERIMENTS = {
    "nothing": Experiment(False, EVERY),
    "untrained directions removed": Experiment(False, EVERY, "removed"),
    "all squeezed": Experiment(False, ()),
    "all squeezed, untrained directions added": Experiment(False, (), "added"),
    "fastest squeezed": Experiment(False, ("middle", "quarter", "slow")),
    "middle squeezed": Experiment(False, ("fastest", "quarter", "slow")),
    "quarter squeezed": Experiment(False, ("fastest", "middle", "slow")),
    "slow squeezed": Experiment(False, ("fastest", "middle", "quarter")),
    "only fastest true": Experiment(False, ("fastest",)),
    "only middle true": Experiment(False, ("middle",)),
    "only quarter true": Experiment(False, ("quarter",)),
    "only slow true": Experiment(False, ("slow",)),
    "in range, nothing": Experiment(True, EVERY),
    "in range, untrained directions added": Experiment(True, EVERY, "added"),
    "in range, only fastest": Experiment(True, ("fastest",)),
    "in range, only middle": Experiment(True, ("middle",)),
    "in range, only fastest and middle": Experiment(True, ("fastest", "middle")),
    "in range, only quarter": Experiment(True, ("quarter",)),
    "in range, only slow": Experiment(True, ("slow",)),
}


def run(context: Context) -> dict:
    trained = context.trained_lengths[1]
    models = context.trained["sinusoidal"]
    lengths = [length for length in context.test_lengths if trained < length <= FARTHEST * trained] or [2 * trained]
    beyond = {str(length): balanced_rows(length, EACH) for length in lengths}
    numbers = {
        str(seed): measure(model, context.sets["test"], beyond, trained, context.batch_size)
        for seed, model in models.items()
    }
    described = describe(context.models["sinusoidal"].scheme.d_model, context.trained_lengths)
    results = context.write(RESULTS, described | {"seeds": numbers})
    draw(results, context.folder / "collapse.png")
    return results


def describe(d_model: int, trained_lengths: tuple[int, int]) -> dict:
    """What the experiments change: the waves of a code, their bands, and its directions."""
    trained = trained_lengths[1]
    turns = trained * frequencies(d_model).double() / (2 * math.pi)
    codes = SinusoidalPositionalEncoding(d_model).code(torch.arange(trained))
    waves = bands(d_model, trained)
    return {
        "trained_lengths": list(trained_lengths),
        "rows_of_each_class": EACH,
        "turns_in_training": [round(turn, 4) for turn in turns.tolist()],
        "bands": waves,
        "directions": {"trained": len(trained_directions(codes)), "all": d_model, "energy": ENERGY},
        "experiments": {
            name: {
                "true": [wave for band in experiment.true for wave in waves[band]],
                "untrained_directions": experiment.untrained,
            }
            for name, experiment in EXPERIMENTS.items()
        },
    }


def bands(d_model: int, trained: int) -> dict[str, list[int]]:
    """{band: its waves}, numbered from the fastest, 0."""
    turns = (trained * frequencies(d_model).double() / (2 * math.pi)).tolist()
    found = {}
    most = math.inf
    for name, least in BANDS.items():
        found[name] = [wave for wave, turn in enumerate(turns) if least <= turn < most]
        most = least
    return found


def trained_directions(codes: Tensor) -> Tensor:
    """[T, d] codes of the trained positions -> [k, d] the fewest orthonormal directions that hold ENERGY of them"""
    _, sizes, directions = torch.linalg.svd(codes.cpu().double(), full_matrices=False)  # not every device has float64
    held = sizes.square().cumsum(0) / sizes.square().sum()
    return directions[: int((held < ENERGY).sum()) + 1].to(codes)


# --- the experiments -------------------------------------------------------------------------------------------


def codes_of(experiment: Experiment, scheme: PositionScheme, positions: Tensor, trained: int) -> Tensor:
    """The codes [L, d_model] that the experiment gives to tokens at positions 0 … L - 1."""
    code = type(scheme).code  # the scheme's own, also while the model has changed codes
    true = code(scheme, positions)
    if experiment.in_range:
        others = code(scheme, torch.full_like(positions, STILL))
    else:
        others = code(scheme, positions * ((trained - 1) / max(1, len(positions) - 1)))
    waves = bands(scheme.d_model, trained)
    follows = torch.zeros(math.ceil(scheme.d_model / 2), dtype=torch.bool)
    for band in experiment.true:
        follows[waves[band]] = True
    follows = follows.repeat_interleave(2)[: scheme.d_model]  # a wave has a sine and a cosine
    codes = torch.where(follows.to(positions.device), true, others)
    if experiment.untrained == "as they are":
        return codes
    directions = trained_directions(code(scheme, torch.arange(trained, device=positions.device)))
    if experiment.untrained == "removed":
        return codes @ directions.T @ directions
    far = code(scheme, positions + (FARTHEST - 1) * trained) if experiment.in_range else true
    return codes + far - far @ directions.T @ directions


@contextlib.contextmanager
def changed_codes(model: SortingClassifier, change: Callable[[PositionScheme, Tensor], Tensor]):
    """The model with other codes, and as before when the block ends."""
    scheme = model.scheme
    scheme.code = lambda positions: change(scheme, positions)
    try:
        yield
    finally:
        del scheme.code


def measure(
    model: SortingClassifier, in_range: Rows, beyond: dict[str, Rows], trained: int, batch_size: int = BATCH_SIZE
) -> dict[str, dict]:
    """{experiment: {set: {"balanced_accuracy", "constant": whether one answer is given to all rows}}}"""
    report = {}
    for name, experiment in EXPERIMENTS.items():

        def change(scheme: PositionScheme, positions: Tensor, experiment: Experiment = experiment) -> Tensor:
            return codes_of(experiment, scheme, positions, trained)

        report[name] = {}
        with changed_codes(model, change):
            for key, rows in ({"test": in_range} if experiment.in_range else beyond).items():
                numbers = judge(logit_differences(model, rows.sequences, batch_size), rows.labels)
                report[name][key] = {
                    "balanced_accuracy": numbers["balanced_accuracy"],
                    "constant": numbers["collapsed"],
                }
    return report


def findings(results: dict) -> str:
    """A line for each experiment: balanced accuracy by length, the lowest and the highest of all seeds."""
    bands = []
    for name, waves in results["bands"].items():
        if waves:
            bands.append(f"{name} {waves[0]}" + (f" to {waves[-1]}" if len(waves) > 1 else ""))
    lines = [f"waves, from the fastest: {', '.join(bands)}"]
    for in_range in (False, True):
        names = [name for name, experiment in EXPERIMENTS.items() if experiment.in_range == in_range]
        rows = [["in range" if in_range else "beyond", *over_seeds(results, names[0])]]
        for name in names:
            cells = over_seeds(results, name).values()
            numbers = ["one" if cell.constant else as_text(cell) for cell in cells]
            rows.append([name.removeprefix("in range, "), *numbers])
        lines += aligned(rows)
    return "\n".join([*lines, "one: one answer to at least 99% of the rows"])


class OverSeeds(NamedTuple):
    """One experiment on one set of rows: balanced accuracy over the seeds."""

    low: float
    mean: float
    high: float
    constant: bool  # every model gives one answer to all rows


def over_seeds(results: dict, experiment: str) -> dict[str, OverSeeds]:
    """{set: numbers over all seeds}"""
    by_seed = [of_seed[experiment] for of_seed in results["seeds"].values()]
    summary = {}
    for key in by_seed[0]:
        values = [of_seed[key]["balanced_accuracy"] for of_seed in by_seed]
        constant = all(of_seed[key]["constant"] for of_seed in by_seed)
        summary[key] = OverSeeds(min(values), statistics.fmean(values), max(values), constant)
    return summary


def as_text(cell: OverSeeds) -> str:
    """'one answer', '100%' or '83–97%': the lower bound rounded down, the upper one up."""
    if cell.constant:
        return "one answer"
    low = math.floor(100 * cell.low + 1e-9)
    high = math.ceil(100 * cell.high - 1e-9)
    return f"{low}%" if low == high else f"{low}–{high}%"


# --- figure ----------------------------------------------------------------------------------------------------

# Experiment -> its words in the figure. Above the line: longer rows; below: rows of trained lengths.
SHOWN = {
    "nothing": "nothing changed",
    "untrained directions removed": "untrained directions removed",
    "all squeezed": "all waves squeezed",
    "only slow true": "fast waves squeezed",
    "slow squeezed": "slow waves squeezed",
    "only middle true": "all but the middle squeezed",
    "in range, only middle": "all but the middle stand still",
    "in range, only fastest and middle": "all but the four fastest stand still",
    "in range, only slow": "all but the slow stand still",
}
FOLLOWS = figures.COLOURS[1]
SQUEEZED = figures.COLOURS[0]
STANDS = "#d0d0d0"


def draw(results: dict, path: Path) -> None:
    """On the left what each wave does, on the right how many rows are then judged right."""
    waves = len(results["turns_in_training"])
    beyond = [*over_seeds(results, "nothing")]
    columns = ["test", *beyond]
    state = torch.full((len(SHOWN), waves), 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(figures.WIDTH, 2.9), width_ratios=[1, 1], sharey=True)
    for row, name in enumerate(SHOWN):
        state[row] = 2 if EXPERIMENTS[name].in_range else 1
        state[row, results["experiments"][name]["true"]] = 0
        cells = over_seeds(results, name)
        if name == "nothing":
            cells |= over_seeds(results, "in range, nothing")
        draw_line(right, row, {columns.index(key): cell for key, cell in cells.items()})
    colours = ListedColormap([FOLLOWS, SQUEEZED, STANDS])
    edges = [edge - 0.5 for edge in range(waves + 1)], [edge - 0.5 for edge in range(len(SHOWN) + 1)]
    left.pcolormesh(*edges, state, cmap=colours, vmin=0, vmax=2, edgecolors="white", linewidth=1.5)
    left.set_yticks(range(len(SHOWN)), SHOWN.values())
    left.set_xticks([0, waves - 1], ["fastest\nwave", "slowest"])
    left.invert_yaxis()
    right.set_xlim(-0.5, len(columns) - 0.5)
    low, high = results["trained_lengths"]
    right.set_xticks(range(len(columns)), [f"{low}–{high}", *beyond])
    right.set_xlabel("length of the rows")
    first_in_range = [EXPERIMENTS[name].in_range for name in SHOWN].index(True)
    for axes in (left, right):
        axes.axhline(first_in_range - 0.5, color="black", linewidth=0.8)
        axes.tick_params(length=0)
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
    words = (("follows the position", FOLLOWS), ("squeezed", SQUEEZED), ("stands still", STANDS))
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour, label=label) for label, colour in words]
    left.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, handlelength=0.8)
    right.set_title("balanced accuracy")
    figure.suptitle(title(results))
    caption = (
        f"The {waves} waves of a code in trained models. Squeezed: at phases of the trained positions only.\n"
        f"Lowest to highest of {len(results['seeds'])} seeds. One answer: the same to at least 99% of the rows."
    )
    figures.save(figure, path, caption, vector=True)


def draw_line(axes, row: int, cells: dict[int, OverSeeds]) -> None:
    """{column: cell}: a rectangle each, the darker the more rows are judged right, with its number."""
    for column, cell in cells.items():
        shade = 0.75 * max(0.0, 2 * cell.mean - 1)  # 50% is white
        colour = plt.get_cmap(figures.SHARES)(shade)
        axes.add_patch(
            plt.Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5)
        )
        words = "" if cell.constant else as_text(cell).removesuffix("%")
        axes.text(column, row, words, ha="center", va="center", fontsize=7, color="white" if shade > 0.6 else "black")
    constant = [column for column, cell in cells.items() if cell.constant]
    if constant:
        words = "one answer" if len(constant) > 1 else "one\nanswer"
        style = {"ha": "center", "va": "center", "fontsize": 7.5, "color": "#777777", "linespacing": 0.85}
        axes.text(statistics.fmean(constant), row, words, **style)


def title(results: dict) -> str:
    """The finding, where these runs give it."""
    beyond = {
        name: over_seeds(results, name).values() for name in ("only slow true", "slow squeezed", "only middle true")
    }
    repaired = all(cell.low >= 0.99 for cell in beyond["only slow true"])
    collapsed = all(cell.constant for name in ("slow squeezed", "only middle true") for cell in beyond[name])
    if repaired and collapsed:
        middle = results["experiments"]["only middle true"]["true"]
        slow = len(results["experiments"]["only slow true"]["true"])
        return f"Waves {middle[0]} to {middle[-1]} are enough for the collapse; the {slow} slow ones do not matter"
    return "Which waves make a sinusoidal model collapse?"
