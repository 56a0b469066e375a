"""Which heads bring the carry? Activation patching, beside what attention maps show.

Two sums differ in nothing but a carry (carry_pairs.py): one is the clean run, the other the corrupted run. The
clean run is repeated with some heads' outputs replaced by those of the corrupted run. If the digit that the carry
goes into becomes the corrupted run's digit, these heads were enough to bring the carry: that is a causal statement,
where an attention pattern is a picture.

flips              share of pairs in which the digit becomes that of the corrupted run
logit difference   how far the difference between the two digits' logits moves, from 0 (clean) to 1 (corrupted):
                   it also shows effects too small to flip anything
attention          share of the head's attention that lies elsewhere (total variation) in the corrupted run. A digit
                   that changes without a carry moves attention too; `difference` is what the carry adds to that.
                   Decoder heads at the position that writes the digit, encoder heads where the difference is largest
wrong_without      share of the clean digits that are wrong without the head: patching asks whether a head is enough
                   to change the digit, ablation whether the digit needs it

What is chosen (sets of heads, an encoder head's position) is chosen on one half of the pairs and measured on the other.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from tqdm import tqdm

from lab.figures import WIDTH, save
from lab.hooks import Head, Intervention, feed_forward_layers, head_names, replace, short_name
from lab.statistics import proportion
from problem1.analysis.ablation import ablations, parts_of
from problem1.analysis.carry_pairs import Group, all_groups
from problem1.analysis.context import Context
from problem1.analysis.interventions import InterventionRunner
from problem1.analysis.rows import digit_names, digits_text, operand_texts, source_labels
from problem1.analysis.tables import aligned, intervals, table, whole

QUESTION = "Which heads bring the carry?"
FILES = ("carry/patching.json", "carry/patching_heads.png", "carry/patching_heads.pdf")
PAIRS = 400  # for each group; in half of them patching adds a carry, in half it takes one away
FEWEST = 50  # pairs the model gets right without which nothing is measured
ENOUGH = 0.95  # of the flips that all candidates together reach: where a set of heads is complete
BRINGS = 0.05  # share of pairs flipped from which on a head brings something
LARGEST_SET = 4
CHOOSING = slice(0, None, 2)  # half of the pairs
HELD_OUT = slice(1, None, 2)  # the other half
Effect = tuple[Tensor, Tensor]  # flips [N] and logit difference [N]


class PatchingExperiment:
    """A clean run, a corrupted run that differs by one carry, and interventions that mix the two."""

    def __init__(self, clean: InterventionRunner, corrupted: InterventionRunner, target: int):
        self.clean = clean
        self.corrupted = corrupted
        self.target = target
        self.clean_digit = clean.sums.targets[:, target]
        self.corrupted_digit = corrupted.sums.targets[:, target]
        self.start = self._difference(clean.recorded.logits[:, target])
        self.end = self._difference(corrupted.recorded.logits[:, target])

    def _difference(self, logits: Tensor) -> Tensor:
        """[N] logit of the corrupted run's digit minus that of the clean run's"""
        rows = torch.arange(len(logits))
        return logits[rows, self.corrupted_digit] - logits[rows, self.clean_digit]

    def patch(self, names) -> dict[str, Intervention]:
        """These heads (or feed-forward layers) get their outputs of the corrupted run."""
        return {name: replace(self.corrupted.recorded.outputs[name]) for name in names}

    def freeze(self, heads) -> dict[str, Intervention]:
        """These heads keep their outputs of the clean run, whatever changes before them."""
        return {head: replace(self.clean.recorded.outputs[head]) for head in heads}

    def effect(self, interventions: dict[str, Intervention]) -> Effect:
        """On the digit at the target."""
        logits = self.clean.logits(interventions)[:, self.target]
        moved = (self._difference(logits) - self.start) / (self.end - self.start)
        return logits.argmax(-1) == self.corrupted_digit, moved


def make_experiment(model, group: Group) -> tuple[PatchingExperiment | None, Tensor]:
    """With those pairs of which the model gets both digits right, and which they are; None if they are too few."""
    pairs = group.clean_and_corrupted()
    usable = torch.ones(len(group.without), dtype=torch.bool)
    for sums in pairs:
        right, _ = InterventionRunner(model, sums, len(sums)).evaluate()
        usable &= right[:, group.target]
    if usable.sum() < FEWEST:
        return None, usable
    clean, corrupted = (InterventionRunner(model, sums[usable], len(sums)) for sums in pairs)
    return PatchingExperiment(clean, corrupted, group.target), usable


def stages(model) -> dict[str, list[str]]:
    """What is patched together: modules, feed-forward layers, and heads by the way information takes."""
    modules = {name: part for name, part in parts_of(model).items() if not name.endswith(".attention")}
    return modules | {
        "all encoder": head_names(model, "encoder"),
        "all decoder self": head_names(model, "decoder", "self"),
        "all decoder cross": head_names(model, "decoder", "cross"),
        "all encoder feed-forward": [*feed_forward_layers(model, "encoder")],
        "all decoder feed-forward": [*feed_forward_layers(model, "decoder")],
        "all heads": head_names(model),
    }


def measure(context: Context, group: Group) -> dict:
    """Everything about one group of pairs."""
    about = {
        "name": group.name,
        "target": group.target,
        "digit": group.digit,
        "nines": group.nines,
        "example": [sentence(group.without, 0), sentence(group.carrying, 0)],
    }
    experiment, usable = make_experiment(context.model, group)
    if experiment is None:
        return about | {"pairs": 0, "reason": "the model gets too few of these sums right"}
    together = stages(context.model)
    single = {head: experiment.effect(experiment.patch([head])) for head in context.heads}
    jointly = {name: experiment.effect(experiment.patch(heads)) for name, heads in together.items()}
    moves = attention_moves(context, group, experiment, usable)
    without = wrong_without(context, experiment)
    # All that the decoder gets of the sum comes through cross-attention: the set must be found there.
    cross = {head: single[head] for head in together["all decoder cross"]}
    chosen = minimal_set(experiment, cross, jointly["all decoder cross"], context.heads)
    sets = {head: [head] for head in context.heads if single[head][0].double().mean() >= BRINGS}
    return about | {
        "pairs": len(experiment.clean_digit),
        "heads": {
            head: effect | {"attention": moves[head], "wrong_without": without[head]}
            for head, effect in with_intervals(single).items()
        },
        "stages": with_intervals(jointly),
        "minimal_sets": {"decoder cross": chosen},
        "control": control(context, group, sets | {"the chosen set": chosen["heads"]}),
    }


def with_intervals(effects: dict[str, Effect]) -> dict[str, dict]:
    """Shares and means with their 95% intervals."""
    entries = {}
    of_moved = intervals(moved for _, moved in effects.values())
    for (name, (flips, moved)), interval in zip(effects.items(), of_moved, strict=True):
        entries[name] = {
            "flips": proportion(flips),
            "logit_difference": moved.double().mean().item(),
            "logit_difference_interval_95": interval,
        }
    return entries


def distance(one: Tensor, other: Tensor) -> Tensor:
    """[N, Tq, Tk] twice -> [N, Tq] share of each row's attention that lies elsewhere"""
    return 0.5 * (one - other).abs().sum(-1)


def attention_moves(context: Context, group: Group, experiment: PatchingExperiment, usable: Tensor) -> dict[str, dict]:
    """How far each head's attention moves with the carry, and with another digit but no other carry: row by row."""
    clean = experiment.clean.recorded.patterns
    corrupted = experiment.corrupted.recorded.patterns
    control = InterventionRunner(context.model, group.control, context.batch_size).recorded.patterns
    clean_is_without = (usable.nonzero() < len(group.without) // 2).unsqueeze(-1)
    entries = {}
    excess = []  # of each head, row by row
    for name in context.heads:
        without = torch.where(clean_is_without, clean[name], corrupted[name])  # the run without the carry
        moved = distance(clean[name], corrupted[name])  # [N, Tq]
        usual = distance(without, control[name][usable])
        query = group.target
        label = digit_names(context.num_digits + 1)[query]
        if Head.parse(name).side == "encoder":
            query = int((moved - usual)[CHOOSING].mean(0).argmax())
            label = source_labels(context.num_digits)[query]
        moved = moved[HELD_OUT, query].double()
        usual = usual[HELD_OUT, query].double()
        excess.append(moved - usual)
        entries[name] = {"query": label, "moved": moved.mean().item(), "moved_without_carry": usual.mean().item()}
    for entry, difference, interval in zip(entries.values(), excess, intervals(excess), strict=True):
        entry |= {"difference": difference.mean().item(), "difference_interval_95": interval}
    return entries


def wrong_without(context: Context, experiment: PatchingExperiment) -> dict[str, dict]:
    """Each head ablated, on the clean runs of the pairs, whose digits are all right with it."""
    wrong = {head: {} for head in context.heads}
    for kind, interventions in ablations(context).items():
        for head in context.heads:
            logits = experiment.clean.logits({head: interventions[head]})[:, experiment.target]
            wrong[head][kind] = proportion(logits.argmax(-1) != experiment.clean_digit)
    return wrong


def control(context: Context, group: Group, sets: dict[str, list[str]]) -> dict:
    """Outputs from a sum in which the same digit differs, but no carry: the answer ought to stay."""
    digits = group.without.targets[:, group.target]
    run, other = (InterventionRunner(context.model, sums, len(sums)) for sums in (group.without, group.control))
    right = run.evaluate()[0][:, group.target]
    changed = {}
    for name, heads in sets.items():
        logits = run.logits({head: replace(other.recorded.outputs[head]) for head in heads})[:, group.target]
        changed[name] = proportion((logits.argmax(-1) != digits)[right])
    return changed


def minimal_set(experiment: PatchingExperiment, single: dict[str, Effect], jointly: Effect, among: list[str]) -> dict:
    """The fewest heads that bring the carry together, chosen on one half of the pairs and measured on the other.

    single               the effect of each candidate
    jointly              the effect of all candidates
    sufficiency          only the set is patched: how often does the digit flip?
    complement_patched   all others of `among` are patched, the set is frozen at its clean run: how often does it flip?
    """
    goal = ENOUGH * jointly[0][CHOOSING].double().mean().item()
    chosen = []
    effects = single  # of each candidate together with those chosen so far
    while goal > 0:
        chosen.append(max(effects, key=lambda head: effects[head][1][CHOOSING].mean().item()))
        flips, _ = experiment.effect(experiment.patch(chosen))
        if flips[CHOOSING].double().mean().item() >= goal or len(chosen) >= min(LARGEST_SET, len(single)):
            break
        left = [head for head in single if head not in chosen]
        effects = {head: experiment.effect(experiment.patch([*chosen, head])) for head in left}
    others = [head for head in among if head not in chosen]
    sufficiency, _ = experiment.effect(experiment.patch(chosen))
    complement, _ = experiment.effect(experiment.patch(others) | experiment.freeze(chosen))
    return {
        "heads": chosen,
        "all_candidates": proportion(jointly[0][HELD_OUT]),
        "sufficiency": proportion(sufficiency[HELD_OUT]),
        "complement_patched": proportion(complement[HELD_OUT]),
    }


def sentence(sums, row: int) -> str:
    """'342+136 = 0478'"""
    return f"{'+'.join(operand_texts(sums, row))} = {digits_text(sums.targets[row])}"


def draw(groups: list[dict], path: Path, caption: str) -> None:
    """Heads and layers × digit the carry goes into, three times: attention moved, logits moved, digits flipped."""
    cells = {}  # for each head and group: attention, logits, digits
    for head in groups[0]["heads"]:
        cells[head] = [measures(group["heads"][head]) for group in groups]
    heads = [head for head, line in cells.items() if max(max(entry) for entry in line) >= 0.1]
    rows = {short_name(head): cells[head] for head in heads}
    rows["all decoder self"] = [measures(group["stages"]["all decoder self"]) for group in groups]
    rows["all dec. feed-forward"] = [measures(group["stages"]["all decoder feed-forward"]) for group in groups]
    labels = [f"{group['digit']}\nvia {'9' * group['nines']}".removesuffix("\nvia ") for group in groups]
    figure, panels = plt.subplots(1, 3, figsize=(WIDTH, 1.15 + 0.16 * len(rows)), sharey=True)
    titles = ("attention moved", "logits moved", "digits flipped")
    for number, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        values = [[entry[number] for entry in line] for line in rows.values()]
        table(axes, values, list(rows), labels, [[whole(value) for value in line] for line in values])
        axes.axhline(len(heads) - 0.5, color="black", linewidth=0.8)
        axes.tick_params(axis="x", rotation=90)
        axes.set_title(f"{title} (%)")
    panels[1].set_xlabel("digit that the carry goes into")
    moving = sum(max(attention for attention, _, _ in cells[head]) >= 0.1 for head in heads)
    flipping = sum(max(flips for _, _, flips in cells[head]) >= 0.1 for head in heads)
    figure.suptitle(
        f"{moving} heads move a tenth of their attention with the carry, {flipping} flip a tenth of the digits"
    )
    save(figure, path, caption, vector=True)


def measures(entry: dict) -> tuple[float, float, float]:
    """Attention that moves because of the carry, logits moved, digits flipped; layers have no attention."""
    attention = entry["attention"]["difference"] if "attention" in entry else float("nan")
    return attention, entry["logit_difference"], entry["flips"]["share"]


def measure_all(context: Context) -> list[dict]:
    groups = all_groups(context.num_digits, PAIRS)
    return [measure(context, group) for group in tqdm(groups, desc="patching", unit="group", leave=False, disable=None)]


def run(context: Context) -> dict:
    """Write carry/patching.json and its figure."""
    results = context.write(
        "carry/patching.json",
        {
            "question": "share of pairs whose digit becomes that of the corrupted run when heads are patched from it",
            "groups": measure_all(context),
        },
    )
    measured = [group for group in results["groups"] if group["pairs"]]
    if measured:
        caption = (
            "Patching one head, or all of a kind, from the run with the other carry; heads below 10% everywhere are "
            "left out. Attention: what the carry moves beyond what another digit moves."
        )
        draw(measured, context.output_dir / "carry/patching_heads.png", caption)
    return results


def findings(results: dict) -> str:
    rows = []
    for group in results["groups"]:
        if group["pairs"]:
            chosen = group["minimal_sets"]["decoder cross"]
            flips = [f"{chosen[key]['share']:.1%}" for key in ("sufficiency", "complement_patched")]
            rows.append([group["name"], *flips, ", ".join(map(short_name, chosen["heads"]))])
        else:
            rows.append([group["name"], "-", "-", group["reason"]])
    header = "carry into|flips|all others, these frozen|cross-attention heads that bring it"
    return "\n".join(aligned(header, rows))
