"""Which heads bring the carry? Activation patching.

Two sums differ in nothing but a carry (carry_pairs.py): one is the clean run, the other the corrupted run. The
clean run is repeated with some heads' outputs replaced by those of the corrupted run. If the digit that the carry
goes into becomes the corrupted run's digit, these heads were enough to bring the carry: that is a causal statement,
where an attention pattern is a picture.

flips              share of pairs in which the digit becomes that of the corrupted run
logit difference   how far the difference between the two digits' logits moves, from 0 (clean) to 1 (corrupted):
                   it also shows effects too small to flip anything
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from lab.figures import save
from lab.hooks import Intervention, replace
from lab.statistics import bootstrap, proportion
from problem1.analysis.carry_pairs import Group, all_groups
from problem1.analysis.context import Context, digit_names, operand_texts, source_labels
from problem1.analysis.exhaustive import digits_text
from problem1.analysis.figures import SMALL, WIDEST, aligned, group_labels, table, with_interval
from problem1.analysis.interventions import InterventionRunner

PAIRS = 400  # for each group; in half of them patching adds a carry, in half it takes one away
FEWEST = 50  # pairs the model gets right without which nothing is measured
ENOUGH = 0.95  # of the flips that all candidates together reach: where a set of heads is complete
LARGEST_SET = 4
POSITION_PAIRS = 150  # for the map of single positions, which takes many runs
Effect = tuple[Tensor, Tensor]  # flips [N] and logit difference [N]


class PatchingExperiment:
    """A clean run, a corrupted run that differs by one carry, and interventions that mix the two."""

    def __init__(self, clean: InterventionRunner, corrupted: InterventionRunner, target: int):
        self.clean, self.corrupted, self.target = clean, corrupted, target
        self.clean_digit, self.corrupted_digit = (run.sums.targets[:, target] for run in (clean, corrupted))
        self.start, self.end = (self._difference(run.recorded.logits[:, target]) for run in (clean, corrupted))

    def fewer(self, count: int) -> "PatchingExperiment":
        """The same with at most `count` of the pairs, evenly from all."""
        rows = torch.linspace(0, len(self.clean_digit) - 1, min(count, len(self.clean_digit))).long()
        return PatchingExperiment(self.clean.subset(rows), self.corrupted.subset(rows), self.target)

    def _difference(self, logits: Tensor) -> Tensor:
        """[N] logit of the corrupted run's digit minus that of the clean run's"""
        rows = torch.arange(len(logits))
        return logits[rows, self.corrupted_digit] - logits[rows, self.clean_digit]

    def patch(self, heads, positions: slice = slice(None)) -> dict[str, Intervention]:
        """These heads get their outputs of the corrupted run."""
        return {head: replace(self.corrupted.recorded.outputs[head], positions) for head in heads}

    def freeze(self, heads) -> dict[str, Intervention]:
        """These heads keep their outputs of the clean run, whatever changes before them."""
        return {head: replace(self.clean.recorded.outputs[head]) for head in heads}

    def effect(self, interventions: dict[str, Intervention]) -> Effect:
        """On the digit at the target."""
        logits = self.clean.logits(interventions)[:, self.target]
        moved = (self._difference(logits) - self.start) / (self.end - self.start)
        return logits.argmax(-1) == self.corrupted_digit, moved


def make_experiment(model, group: Group) -> PatchingExperiment | None:
    """With those pairs of which the model gets both digits right; None if they are too few."""
    clean, corrupted = (InterventionRunner(model, sums, len(sums)) for sums in group.clean_and_corrupted())
    right = [
        run.recorded.logits[:, group.target].argmax(-1) == run.sums.targets[:, group.target]
        for run in (clean, corrupted)
    ]
    usable = (right[0] & right[1]).nonzero().flatten()
    if len(usable) < FEWEST:
        return None
    return PatchingExperiment(clean.subset(usable), corrupted.subset(usable), group.target)


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
    about = {
        "name": group.name,
        "target": group.target,
        "digit": group.digit,
        "nines": group.nines,
        "example": [sentence(group.without, 0), sentence(group.carrying, 0)],
    }
    experiment = make_experiment(context.model, group)
    if experiment is None:
        return about | {"pairs": 0, "reason": "the model gets too few of these sums right"}
    ways = stages(context.heads)
    single = {head: experiment.effect(experiment.patch([head])) for head in context.heads}
    jointly = {name: experiment.effect(experiment.patch(heads)) for name, heads in ways.items()}
    cross, encoder = ways["all decoder cross"], ways["all encoder"]
    return about | {
        "pairs": len(experiment.clean_digit),
        "heads": with_intervals(single),
        "stages": with_intervals(jointly),
        "control": control(context, group),
        "minimal_sets": {
            # All that the decoder gets of the sum comes through cross-attention: the set must be found there.
            "decoder cross": minimal_set(
                experiment, {head: single[head] for head in cross}, jointly["all decoder cross"], context.heads
            ),
            # The encoder's heads act through those; only the encoder's others compare to them.
            "encoder": minimal_set(
                experiment, {head: single[head] for head in encoder}, jointly["all encoder"], encoder
            ),
        },
        "positions": by_position(context, experiment.fewer(POSITION_PAIRS)),
    }


def with_intervals(effects: dict[str, Effect]) -> dict[str, dict]:
    """Shares and means with their 95% intervals."""
    low, high = bootstrap(torch.stack([moved for _, moved in effects.values()], dim=1))
    return {
        name: {
            "flips": proportion(flips),
            "logit_difference": moved.double().mean().item(),
            "logit_difference_interval_95": [low[number].item(), high[number].item()],
        }
        for number, (name, (flips, moved)) in enumerate(effects.items())
    }


def control(context: Context, group: Group) -> dict:
    """Outputs from a sum in which the same digit differs, but no carry: the answer ought to stay."""
    digits = group.without.targets[:, group.target]
    run, other = (InterventionRunner(context.model, sums, len(sums)) for sums in (group.without, group.control))
    right = run.recorded.logits[:, group.target].argmax(-1) == digits
    changed = {}
    for name, heads in {"all heads": context.heads, **{head: [head] for head in context.heads}}.items():
        logits = run.logits({head: replace(other.recorded.outputs[head]) for head in heads})[:, group.target]
        changed[name] = proportion((logits.argmax(-1) != digits)[right])
    return changed


def minimal_set(experiment: PatchingExperiment, single: dict[str, Effect], jointly: Effect, among: list[str]) -> dict:
    """The fewest heads that bring the carry together, chosen on every other pair and measured on the rest.

    single               the effect of each candidate
    jointly              the effect of all candidates
    sufficiency          only the set is patched: how often does the digit flip?
    complement_patched   all others of `among` are patched and the set is frozen: how often does it flip all the same?
    """
    choosing, held_out = slice(0, None, 2), slice(1, None, 2)
    goal = ENOUGH * jointly[0][choosing].double().mean().item()
    moved = {head: effect[1][choosing].mean().item() for head, effect in single.items()}
    chosen: list[str] = []
    while single and goal > 0:
        chosen.append(max(moved, key=moved.get))
        flips = experiment.effect(experiment.patch(chosen))[0]
        if flips[choosing].double().mean().item() >= goal or len(chosen) >= min(LARGEST_SET, len(single)):
            break
        moved = {
            head: experiment.effect(experiment.patch([*chosen, head]))[1][choosing].mean().item()
            for head in single
            if head not in chosen
        }
    others = [head for head in among if head not in chosen]
    complement = experiment.effect(experiment.patch(others) | experiment.freeze(chosen))
    return {
        "heads": chosen,
        "all_candidates": proportion(jointly[0][held_out]),
        "sufficiency": proportion(experiment.effect(experiment.patch(chosen))[0][held_out]),
        "complement_patched": proportion(complement[0][held_out]),
    }


def by_position(context: Context, experiment: PatchingExperiment) -> dict[str, list[float]]:
    """One head patched at one position: {head: [logit difference for each position]}

    The decoder's positions after the target are left out: the target cannot see them.
    """
    source_length = experiment.clean.sums.sources.shape[1]
    out = {}
    for head in context.heads:
        count = source_length if head.startswith("encoder.") else experiment.target + 1
        effects = [
            experiment.effect(experiment.patch([head], slice(position, position + 1))) for position in range(count)
        ]
        out[head] = [moved.double().mean().item() for _, moved in effects]
    return out


def sentence(sums, row: int) -> str:
    """'342+136 = 0478'"""
    return f"{'+'.join(operand_texts(sums, row))} = {digits_text(sums.targets[row])}"


def draw_heads(groups: list[dict], path: Path, caption: str) -> None:
    """Head × digit that the carry goes into: flips, and how far the logit difference moves."""
    heads = list(groups[0]["heads"])
    width = min(WIDEST, 4 + 2.2 * len(groups))
    figure, (left, right) = plt.subplots(1, 2, figsize=(width, 2 + 0.3 * len(heads)), sharey=True)
    flips = [[group["heads"][head]["flips"] for group in groups] for head in heads]
    texts = [[with_interval(cell["share"], cell["interval_95"], 0, 100) for cell in line] for line in flips]
    image = table(left, [[cell["share"] for cell in line] for line in flips], heads, group_labels(groups), texts)
    moved = [[group["heads"][head] for group in groups] for head in heads]
    texts = [
        [with_interval(cell["logit_difference"], cell["logit_difference_interval_95"]) for cell in line]
        for line in moved
    ]
    values = [[cell["logit_difference"] for cell in line] for line in moved]
    table(right, values, heads, group_labels(groups), texts)
    left.set_title("digits flipped by patching this head alone (%)")
    right.set_title("logit difference (0: clean run, 1: corrupted run)")
    left.set_ylabel("head patched from the run with the other carry")
    for axes in (left, right):
        axes.set_xlabel("where the carry goes, and through how many 9s")
    figure.colorbar(image, ax=[left, right], label="share flipped / logit difference", shrink=0.5)
    save(figure, path, caption)


def draw_positions(groups: list[dict], num_digits: int, path: Path, caption: str) -> None:
    """Head × position for each digit that a carry goes into: above the encoder's heads, below the decoder's."""
    labels = {"encoder": source_labels(num_digits), "decoder": digit_names(num_digits + 1)}
    heads = {side: [head for head in groups[0]["heads"] if head.startswith(side)] for side in labels}
    heights = [len(heads[side]) for side in labels]
    width = min(WIDEST, 2.2 + 0.62 * len(labels["encoder"]) * len(groups))
    shape = {"figsize": (width, 2.6 + 0.27 * sum(heights)), "height_ratios": heights}
    figure, panels = plt.subplots(2, len(groups), squeeze=False, **shape)
    image = None
    for column, group in enumerate(groups):
        for row, side in enumerate(labels):
            values = np.full((len(heads[side]), len(labels[side])), np.nan)
            for number, head in enumerate(heads[side]):
                moved = group["positions"][head]
                values[number, : len(moved)] = moved
            texts = [["" if np.isnan(v) or abs(v) < SMALL else f"{v:.2f}" for v in line] for line in values]
            axes = panels[row, column]
            image = table(axes, values, heads[side], labels[side], texts)
            axes.tick_params(axis="x", rotation=45, labelsize=8)
            axes.set_xlabel("position in the source" if side == "encoder" else "position that writes")
            if column:
                axes.set_yticklabels([])
        panels[0, column].set_title("carry into the " + group["name"].replace(", straight", "").replace(", ", "\n"))
    figure.colorbar(image, ax=panels, label="logit difference", shrink=0.5)
    save(figure, path, caption)


def run(context: Context) -> dict:
    """Write carry/patching.json and its figures."""
    groups = tqdm(all_groups(context.num_digits, PAIRS), desc="patching", unit="group", leave=False, disable=None)
    results = context.write(
        "carry/patching.json",
        {
            "question": "share of pairs whose digit becomes that of the corrupted run when heads are patched from it",
            "num_digits": context.num_digits,
            "drawn": {"pairs": PAIRS, "seed": 0, "pairs_for_single_positions": POSITION_PAIRS},
            "groups": [measure(context, group) for group in groups],
        },
    )
    folder = context.output_dir / "carry"
    for outdated in folder.glob("patching_*.png"):  # where nothing can be measured there is nothing to see
        outdated.unlink()
    measured = [group for group in results["groups"] if group["pairs"]]
    if measured:
        caption = "Dark: patching this head alone brings the other carry. ± half the 95% interval; · is below 0.5%."
        draw_heads(measured, folder / "patching_heads.png", context.caption(caption))
    caption = context.caption("One head patched at one position: dark is where the carry is passed on.")
    for name, through in (("patching_positions", False), ("patching_positions_nines", True)):
        shown = [group for group in measured if (group["nines"] > 0) == through]
        if shown:
            draw_positions(shown, context.num_digits, folder / f"{name}.png", caption)
    return results


def findings(results: dict) -> str:
    rows = []
    for group in results["groups"]:
        if group["pairs"]:
            found = group["minimal_sets"]["decoder cross"]
            flips = [f"{found[key]['share']:.1%}" for key in ("sufficiency", "complement_patched")]
            rows.append([group["name"], *flips, ", ".join(found["heads"])])
        else:
            rows.append([group["name"], "-", "-", group["reason"]])
    return "\n".join(aligned("carry into|flips|by all others|cross-attention heads that bring it", rows))
