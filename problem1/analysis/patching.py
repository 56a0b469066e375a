"""Which heads bring the carry? Activation patching, beside what attention maps show.

Two sums differ in nothing but a carry (carry_pairs.py): one is the clean run, the other the corrupted run. The
clean run is repeated with some outputs replaced by those of the corrupted run. If the digit that the carry goes into
becomes the corrupted run's digit, it flips: these outputs were enough to bring the carry. That is a causal statement,
where an attention pattern is a picture.

heads     each head alone
stages    whole modules and feed-forward layers, and all of a kind together. All of cross-attention must flip
          everything, as nothing else connects the decoder to the operands
control   the carrying heads from a sum in which the same digit differs, but no carry: the digit ought to stay

Carrying heads are the cross-attention heads that alone flip BRINGS of the pairs in some case. Two stages ask whether
they are all there are: CARRYING together; and OTHERS, every other head, while these keep their clean run's outputs.
"""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from tqdm import tqdm

from lab.figures import WIDTH, save
from lab.hooks import Head, Intervention, feed_forward_layers, head_names, replace, short_name
from lab.statistics import proportion
from problem1.analysis.ablation import parts_of
from problem1.analysis.carry_pairs import Group, all_groups
from problem1.analysis.context import Context
from problem1.analysis.interventions import InterventionRunner
from problem1.analysis.rows import digits_text, operand_texts, powers_of_ten
from problem1.analysis.tables import table, text_table, whole

QUESTION = "Which heads bring the carry?"
FILES = ("carry/patching.json", "carry/patching_heads.png", "carry/patching_heads.pdf")
PAIRS = 400  # for each group; in half of them patching adds a carry, in half it takes one away
FEWEST = 50  # pairs the model gets right without which nothing is measured
BRINGS = 0.05  # share of pairs flipped from which on a head brings something
MOST = 0.5  # share of pairs flipped from which on a head alone brings the carry
CARRYING = "carrying heads"
OTHERS = "all other heads"


@dataclass(frozen=True)
class Experiment:
    """Pairs of a group that the model gets right: the clean run, and the corrupted run with the other carry."""

    group: Group
    clean: InterventionRunner
    corrupted: InterventionRunner

    def patch(self, names) -> dict[str, Intervention]:
        """These heads (or feed-forward layers) get their outputs of the corrupted run."""
        return {name: replace(self.corrupted.recorded.outputs[name]) for name in names}

    def freeze(self, heads) -> dict[str, Intervention]:
        """These heads keep their outputs of the clean run, whatever changes before them."""
        return {head: replace(self.clean.recorded.outputs[head]) for head in heads}

    def effect(self, interventions: dict[str, Intervention]) -> dict:
        """How often the digit flips, and how far the logit difference moves from the clean to the corrupted run."""
        logits = self.clean.logits(interventions)[:, self.group.target]
        start = self._difference(self.clean.recorded.logits[:, self.group.target])
        end = self._difference(self.corrupted.recorded.logits[:, self.group.target])
        moved = (self._difference(logits) - start) / (end - start)
        flips = logits.argmax(-1) == self.corrupted.sums.targets[:, self.group.target]
        return {"flips": proportion(flips), "logit_difference": moved.double().mean().item()}

    def _difference(self, logits: Tensor) -> Tensor:
        """[N] logit of the corrupted run's digit minus that of the clean run's"""
        rows = torch.arange(len(logits))
        clean_digit = self.clean.sums.targets[:, self.group.target]
        corrupted_digit = self.corrupted.sums.targets[:, self.group.target]
        return logits[rows, corrupted_digit] - logits[rows, clean_digit]


def make_experiment(model, group: Group) -> Experiment | None:
    """With those pairs of which the model gets both digits right; None if they are too few."""
    pairs = group.clean_and_corrupted()
    usable = torch.ones(len(group.without), dtype=torch.bool)
    for sums in pairs:
        right, _ = InterventionRunner(model, sums, len(sums)).right_and_loss()
        usable &= right[:, group.target]
    if usable.sum() < FEWEST:
        return None
    clean, corrupted = (InterventionRunner(model, sums[usable], len(sums)) for sums in pairs)
    return Experiment(group, clean, corrupted)


def stages(model) -> dict[str, list[str]]:
    """What is patched together: modules, feed-forward layers, and all of a kind."""
    modules = {name: part for name, part in parts_of(model).items() if not name.endswith(".attention")}
    return modules | {
        "all encoder": head_names(model, "encoder"),
        "all decoder self": head_names(model, "decoder", "self"),
        "all decoder cross": head_names(model, "decoder", "cross"),
        "all encoder feed-forward": [*feed_forward_layers(model, "encoder")],
        "all decoder feed-forward": [*feed_forward_layers(model, "decoder")],
        "all heads": head_names(model),
    }


def measure(context: Context, group: Group) -> tuple[dict, Experiment | None]:
    """One group of pairs: each head alone, and all of a kind."""
    about = {
        "name": group.name,
        "target": group.target,
        "digit": group.digit,
        "nines": group.nines,
        "example": [sentence(group.without, 0), sentence(group.carrying, 0)],
    }
    experiment = make_experiment(context.model, group)
    if experiment is None:
        return about | {"pairs": 0, "reason": "the model gets too few of these sums right"}, None
    together = stages(context.model)
    about["pairs"] = len(experiment.clean.sums)
    about["heads"] = {head: experiment.effect(experiment.patch([head])) for head in context.heads}
    about["stages"] = {name: experiment.effect(experiment.patch(parts)) for name, parts in together.items()}
    return about, experiment


def find_carrying(heads: list[str], groups: list[dict]) -> list[str]:
    """The cross-attention heads that flip BRINGS of the pairs of some group, the one that flips most first."""
    most = {}
    for head in heads:
        if Head.parse(head).kind == "cross":
            most[head] = max((group["heads"][head]["flips"]["share"] for group in groups), default=0.0)
    carrying = [head for head, share in most.items() if share >= BRINGS]
    return sorted(carrying, key=most.get, reverse=True)


def control(model, group: Group, heads: list[str]) -> dict:
    """How often the digit changes when the outputs come from a sum with another digit, but no other carry."""
    run, other = (InterventionRunner(model, sums, len(sums)) for sums in (group.without, group.control))
    before = run.right_and_loss()[0][:, group.target]
    after = run.right_and_loss({head: replace(other.recorded.outputs[head]) for head in heads})[0][:, group.target]
    return proportion(~after[before])


def sentence(sums, row: int) -> str:
    """'342+136 = 0478'"""
    return f"{'+'.join(operand_texts(sums, row))} = {digits_text(sums.targets[row])}"


def measure_all(context: Context) -> dict:
    """carry/patching.json"""
    pairs = all_groups(context.num_digits, PAIRS)
    measured = [measure(context, group) for group in tqdm(pairs, desc="patching", leave=False, disable=None)]
    groups = [about for about, _ in measured]
    carrying = find_carrying(context.heads, [group for group in groups if group["pairs"]])
    others = [head for head in context.heads if head not in carrying]
    for about, experiment in measured:
        if experiment is not None:
            about["stages"][CARRYING] = experiment.effect(experiment.patch(carrying))
            others_alone = experiment.patch(others) | experiment.freeze(carrying)
            about["stages"][OTHERS] = experiment.effect(others_alone)
            about["control"] = control(context.model, experiment.group, carrying)
    return {
        "question": "share of pairs whose digit becomes that of the corrupted run when heads are patched from it",
        "carrying_heads": carrying,
        "groups": groups,
    }


def draw(results: dict, path: Path, caption: str) -> None:
    """Digits flipped: what is patched × digit that the carry goes into, by the number of 9s on the way."""
    groups = [group for group in results["groups"] if group["pairs"]]
    carrying = results["carrying_heads"]
    rows = {short_name(head): [group["heads"][head] for group in groups] for head in carrying}
    rows[f"these {len(carrying)} together"] = [group["stages"][CARRYING] for group in groups]
    others = len(groups[0]["heads"]) - len(carrying)
    rows[f"all {others} others, these held"] = [group["stages"][OTHERS] for group in groups]
    rows["control: no carry differs"] = [{"flips": group["control"]} for group in groups]
    for name in ("all decoder self", "all encoder feed-forward", "all decoder feed-forward"):
        rows[name.replace("self", "self-attention")] = [group["stages"][name] for group in groups]
    values = [[entry["flips"]["share"] for entry in line] for line in rows.values()]
    answer = groups[0]["example"][0].partition(" = ")[2]
    powers = powers_of_ten(len(answer))
    columns = [f"into {powers[group['target']]}s" for group in groups]
    figure, axes = plt.subplots(figsize=(WIDTH, 1.2 + 0.17 * len(rows)))
    image = table(axes, values, list(rows), columns, [[whole(value) for value in line] for line in values])
    for line in (len(carrying), len(carrying) + 3):
        axes.axhline(line - 0.5, color="black", linewidth=0.6)
    axes.xaxis.tick_top()
    left = 0
    for nines, members in groupby(groups, lambda group: group["nines"]):
        members = [*members]
        way = "from the next column" if nines == 0 else members[0]["name"].partition(", ")[2]
        text = "\n".join([way, *members[0]["example"]])
        axes.text(left + len(members) / 2 - 0.5, -1.6, text, ha="center", va="bottom", fontsize=7)
        left += len(members)
        axes.axvline(left - 0.5, color="black", linewidth=0.6)
    figure.colorbar(image, ax=axes, label="digits flipped", ticks=[0, 0.5, 1], format="{x:.0%}", aspect=30, pad=0.01)
    shares = [[group["heads"][head]["flips"]["share"] for group in groups] for head in carrying]
    alone = [short_name(head) for head, line in zip(carrying, shares, strict=True) if max(line) >= MOST]
    cases = sum(max(case) >= MOST for case in zip(*shares, strict=True))
    figure.suptitle(f"{' or '.join(alone) or 'no head'} alone flips most digits in {cases} of {len(groups)} cases")
    save(figure, path, caption, vector=True)


def run(context: Context) -> dict:
    """Write carry/patching.json and its figure."""
    results = context.write("carry/patching.json", measure_all(context))
    if any(group["pairs"] for group in results["groups"]):
        caption = (
            "Percent of the pairs whose digit flips when these outputs come from the run with the other carry; a pair "
            "of sums stands above. Control: from a run in which a digit differs, but no carry."
        )
        draw(results, context.output_dir / "carry/patching_heads.png", caption)
    return results


def findings(results: dict) -> str:
    """Of each case the head that flips most alone, the carrying heads together and all others."""
    rows = []
    for group in results["groups"]:
        if not group["pairs"]:
            rows.append([group["name"], group["reason"], "", "", ""])
            continue
        best = max(group["heads"], key=lambda head: group["heads"][head]["flips"]["share"])
        flips = [group["heads"][best], group["stages"][CARRYING], group["stages"][OTHERS]]
        rows.append([group["name"], short_name(best), *(f"{100 * found['flips']['share']:.1f}" for found in flips)])
    carrying = ", ".join(map(short_name, results["carrying_heads"]))
    table = text_table("% flipped, carry into|best head|alone|carrying heads|all others", rows)
    return "\n".join([*table, f"carrying heads: {carrying}"])
