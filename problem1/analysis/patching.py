"""How does a carry travel? Put one run's heads into another run and see whether the digit follows.

Two sums differ in nothing but a carry (pairs.py). One runs; some heads' outputs are replaced by those of the
other run. If the digit the carry goes into becomes the other sum's digit, these heads were enough to bring the
carry: that is a causal statement, where an attention pattern is a picture.

flips   share of pairs in which the digit becomes the other sum's digit
shift   how far the preference between the two digits moves, from 0 (this run's) to 1 (the other run's): the
        difference of the two logits, which also shows effects too small to flip anything
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from lab.figures import heatmap, save
from lab.hooks import Intervention, replace
from lab.statistics import bootstrap
from problem1.analysis.carry_pairs import Group, all_groups
from problem1.analysis.context import Context, Trial, pick, places, share, source_places

PAIRS = 400  # for each group; half of them one way (a carry is put in), half the other (it is taken away)
FEWEST = 50  # pairs the model gets right without which nothing is measured
ENOUGH = 0.95  # of the flips that all candidates together reach: where a set of heads is complete
LARGEST_SET = 4
POSITION_PAIRS = 150  # for the map of single positions, which takes many runs


class Swap:
    """A run, another run that differs by one carry, and the outputs of all heads in both."""

    def __init__(self, model, run, other, target: int):
        trials = [Trial(model, sums, len(sums)) for sums in (run, other)]
        logits = [trial.logits()[:, target] for trial in trials]
        digits = [sums.targets[:, target] for sums in (run, other)]
        self.usable = (logits[0].argmax(-1) == digits[0]) & (logits[1].argmax(-1) == digits[1])
        self.model, self.sums, self.target = model, (run, other), target
        self.trial = trials[0]
        self.mine, self.others = digits
        self.start, self.end = self._preference(logits[0]), self._preference(logits[1])
        self.own, self.foreign = trials[0].record()[1], trials[1].record()[1]

    def fewer(self, count: int) -> "Swap":
        """The same with at most `count` of the pairs, evenly from both ways."""
        rows = torch.linspace(0, len(self.mine) - 1, min(count, len(self.mine))).long()
        return Swap(self.model, *(pick(sums, rows) for sums in self.sums), self.target)

    def _preference(self, logits: Tensor) -> Tensor:
        """[N] logit of the other run's digit minus that of this run's"""
        rows = torch.arange(len(logits))
        return logits[rows, self.others] - logits[rows, self.mine]

    def put(self, heads, positions: slice | list[int] = slice(None)) -> dict[str, Intervention]:
        """The interventions that put the other run's outputs in the place of these heads'."""
        return {head: replace(self.foreign[head], positions) for head in heads}

    def hold(self, heads) -> dict[str, Intervention]:
        """The interventions that keep these heads at what they say in this run, whatever changes before them."""
        return {head: replace(self.own[head]) for head in heads}

    def effect(self, interventions: dict[str, Intervention]) -> tuple[Tensor, Tensor]:
        """flips [N] and shift [N] of the digit at the target."""
        logits = self.trial.logits(interventions)[:, self.target]
        return logits.argmax(-1) == self.others, (self._preference(logits) - self.start) / (self.end - self.start)


def usable_swap(model, group: Group) -> Swap | None:
    """Both ways, with only those pairs of which the model gets both digits right; None if they are too few."""
    run, other = group.both_ways()
    usable = Swap(model, run, other, group.target).usable
    if int(usable.sum()) < FEWEST:
        return None
    return Swap(model, pick(run, usable), pick(other, usable), group.target)


def stages(heads: list[str]) -> dict[str, list[str]]:
    """Heads by the way information takes: within the source, from the source to the answer, within the answer."""
    modules = list(dict.fromkeys(head.rpartition(".")[0] for head in heads))
    groups = {
        "all encoder": [head for head in heads if head.startswith("encoder.")],
        "all decoder self": [head for head in heads if head.startswith("decoder.") and ".self." in head],
        "all decoder cross": [head for head in heads if ".cross." in head],
        "all heads": heads,
    }
    return {module: [head for head in heads if head.startswith(module + ".")] for module in modules} | groups


def measure(context: Context, group: Group) -> dict:
    """Everything about one group of pairs."""
    head = {
        "name": group.name,
        "target": group.target,
        "place": group.place,
        "nines": group.nines,
        "example": [sentence(group.without, 0), sentence(group.carrying, 0)],
    }
    swap = usable_swap(context.model, group)
    if swap is None:
        return head | {"pairs": 0, "why": "the model gets too few of these sums right"}
    ways = stages(context.heads)
    alone = {name: swap.effect(swap.put([name])) for name in context.heads}
    return head | {
        "pairs": len(swap.mine),
        "heads": with_intervals(alone),
        "stages": with_intervals({name: swap.effect(swap.put(them)) for name, them in ways.items()}),
        "control": control(context, group),
        "sets": {
            # All that the decoder learns of the sum comes through cross-attention: there the set must be found.
            "cross heads": found_set(swap, alone, ways["all decoder cross"], context.heads),
            # The encoder's heads act through those; to them only the encoder's others compare.
            "encoder": found_set(swap, alone, ways["all encoder"], ways["all encoder"]),
        },
        "positions": by_position(context, swap.fewer(POSITION_PAIRS)),
    }


def with_intervals(effects: dict[str, tuple[Tensor, Tensor]]) -> dict[str, dict]:
    """{name: (flips, shift)} -> shares and means with their 95% intervals."""
    low, high = bootstrap(torch.stack([shift for _, shift in effects.values()], dim=1))
    return {
        name: {
            "flips": share(flips),
            "shift": shift.double().mean().item(),
            "shift_interval_95": [low[number].item(), high[number].item()],
        }
        for number, (name, (flips, shift)) in enumerate(effects.items())
    }


def control(context: Context, group: Group) -> dict:
    """The same replacement from a sum whose digit differs as well, but no carry: the answer ought to stay."""
    digits = group.without.targets[:, group.target]
    trial, outputs = Trial(context.model, group.without, PAIRS), Trial(context.model, group.control, PAIRS).record()[1]
    right = trial.logits()[:, group.target].argmax(-1) == digits
    changed = {}
    for name, heads in {"all heads": context.heads, **{head: [head] for head in context.heads}}.items():
        logits = trial.logits({head: replace(outputs[head]) for head in heads})[:, group.target]
        changed[name] = share((logits.argmax(-1) != digits)[right])
    return changed


def found_set(swap: Swap, alone: dict, candidates: list[str], among: list[str]) -> dict:
    """The fewest heads that bring the carry together, chosen on every other pair and measured on the rest.

    sufficient   they alone are replaced: how often does the digit flip?
    necessary    all others of `among` are replaced and these held as they were: how often does it flip
                 nevertheless?
    """
    choosing, held_out = slice(0, None, 2), slice(1, None, 2)
    everything = swap.effect(swap.put(candidates))[0]
    goal = ENOUGH * everything[choosing].double().mean().item()
    shifts = {head: alone[head][1][choosing].mean().item() for head in candidates}
    found: list[str] = []
    while candidates and goal > 0:
        found.append(max(shifts, key=shifts.get))
        flips = swap.effect(swap.put(found))[0]
        if flips[choosing].double().mean().item() >= goal or len(found) >= min(LARGEST_SET, len(candidates)):
            break
        shifts = {
            head: swap.effect(swap.put([*found, head]))[1][choosing].mean().item()
            for head in candidates
            if head not in found
        }
    others = [head for head in among if head not in found]
    return {
        "heads": found,
        "all_candidates": share(everything[held_out]),
        "sufficient": share(swap.effect(swap.put(found))[0][held_out]),
        "others_instead": share(swap.effect(swap.put(others) | swap.hold(found))[0][held_out]),
    }


def by_position(context: Context, swap: Swap) -> dict[str, dict]:
    """One head at one position: {head: {"flips": [one for each position], "shift": […]}}

    The decoder's positions after the target are left out: it cannot see them.
    """
    sources = len(swap.trial.sums.sources[0])
    out = {}
    for head in context.heads:
        count = sources if head.startswith("encoder.") else swap.target + 1
        effects = [swap.effect(swap.put([head], [position])) for position in range(count)]
        out[head] = {
            "flips": [flips.double().mean().item() for flips, _ in effects],
            "shift": [shift.double().mean().item() for _, shift in effects],
        }
    return out


def sentence(sums, row: int) -> str:
    """'342+136 = 0478'"""
    a, b = ("".join(map(str, operand[row].tolist())) for operand in sums.operands())
    return f"{a}+{b} = {''.join(map(str, sums.targets[row].tolist()))}"


def draw_heads(results: dict, path: Path, caption: str) -> None:
    """Head × digit that the carry goes into: flips, and how far the preference moves."""
    groups = [group for group in results["groups"] if group["pairs"]]
    if not groups:
        return
    heads = list(groups[0]["heads"])
    columns = [group["name"].replace(", ", "\n") for group in groups]
    wide = 1.1 * len(groups)
    figure, (left, right) = plt.subplots(1, 2, figsize=(4 + 2 * wide, 2 + 0.3 * len(heads)), sharey=True)
    flips = [[group["heads"][head]["flips"] for group in groups] for head in heads]
    texts = [[_percent(cell["share"], *cell["interval_95"]) for cell in line] for line in flips]
    image = heatmap(left, [[cell["share"] for cell in line] for line in flips], heads, columns, numbers=texts)
    shifts = [[group["heads"][head] for group in groups] for head in heads]
    texts = [[_number(cell["shift"], *cell["shift_interval_95"]) for cell in line] for line in shifts]
    heatmap(right, [[cell["shift"] for cell in line] for line in shifts], heads, columns, numbers=texts)
    left.set_title("digits flipped by replacing this head alone (%)")
    right.set_title("shift of the preference (0: none, 1: complete)")
    left.set_ylabel("head replaced by that of the run with the other carry")
    for axes in (left, right):
        axes.set_aspect("auto")
        axes.set_xlabel("where the carry goes, and through how many 9s")
    figure.colorbar(image, ax=[left, right], label="share flipped / shift", shrink=0.5)
    save(figure, path, caption)


def _percent(value: float, low: float, high: float) -> str:
    return f"{100 * value:.0f} ±{50 * (high - low):.0f}" if value >= 0.005 else "·"


def _number(value: float, low: float, high: float) -> str:
    return f"{value:.2f} ±{(high - low) / 2:.2f}" if abs(value) >= 0.005 else "·"


def draw_positions(results: dict, through_nines: bool, path: Path, caption: str) -> None:
    """Head × position for each digit that a carry goes into: above the encoder's heads, below the decoder's."""
    groups = [group for group in results["groups"] if group["pairs"] and (group["nines"] > 0) == through_nines]
    if not groups:
        return
    digits = results["num_digits"]
    labels = {"encoder": source_places(digits), "decoder": places(digits + 1)}
    heads = {side: [head for head in groups[0]["heads"] if head.startswith(side)] for side in labels}
    heights = [len(heads[side]) for side in labels]
    figure, panels = plt.subplots(
        2,
        len(groups),
        figsize=(2.2 + 0.62 * len(labels["encoder"]) * len(groups), 2.6 + 0.27 * sum(heights)),
        height_ratios=heights,
        squeeze=False,
    )
    image = None
    for column, group in enumerate(groups):
        for row, side in enumerate(labels):
            values = np.full((len(heads[side]), len(labels[side])), np.nan)
            for number, head in enumerate(heads[side]):
                shifts = group["positions"][head]["shift"]
                values[number, : len(shifts)] = shifts
            texts = [["" if np.isnan(v) or abs(v) < 0.005 else f"{v:.2f}" for v in line] for line in values]
            axes = panels[row, column]
            image = heatmap(axes, np.nan_to_num(values), heads[side], labels[side], numbers=texts)
            axes.set_aspect("auto")
            axes.tick_params(axis="x", rotation=45, labelsize=8)
            axes.set_xlabel("position in the source" if side == "encoder" else "position that writes")
            if column:
                axes.set_yticklabels([])
        panels[0, column].set_title("carry into the " + group["name"].replace(", straight", "").replace(", ", "\n"))
    figure.colorbar(image, ax=panels, label="shift of the preference", shrink=0.5)
    save(figure, path, caption)


def answer(context: Context) -> dict:
    """Write carry/patching.json and its figures."""
    groups = tqdm(all_groups(context.num_digits, PAIRS), desc="patching", unit="group", leave=False, disable=None)
    results = context.write(
        "carry/patching.json",
        {
            "question": "share of pairs whose digit becomes the other sum's when heads are replaced by the other run's",
            "num_digits": context.num_digits,
            "drawn": {"pairs": PAIRS, "seed": 0, "pairs_for_single_positions": POSITION_PAIRS},
            "groups": [measure(context, group) for group in groups],
        },
    )
    folder = context.output_dir / "carry"
    for outdated in folder.glob("patching_*.png"):  # where nothing can be measured there is nothing to see
        outdated.unlink()
    caption = "Dark: replacing this head alone brings the other sum's carry. ± half the 95% interval; · is below 0.5%."
    draw_heads(results, folder / "patching_heads.png", context.caption(caption))
    caption = "One head replaced at one position: dark is where the carry is handed on."
    draw_positions(results, False, folder / "patching_positions.png", context.caption(caption))
    draw_positions(results, True, folder / "patching_positions_nines.png", context.caption(caption))
    return results
