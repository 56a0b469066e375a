"""Which heads attend elsewhere when a carry comes?

Between two sums that differ in one digit and by one carry, each head's pattern moves by some distance (total
variation: the share of attention that goes elsewhere). A digit that changes without a carry moves patterns too,
so the same is measured for such pairs, and what counts is the difference. Decoder heads are measured at the
position that writes the digit the carry goes into, encoder heads at the source position where the difference is
largest (found on half of the pairs; all numbers are from the other half).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab.figures import DIFFERENCES, save
from lab.statistics import bootstrap
from problem1.analysis.carry_pairs import Group, all_groups
from problem1.analysis.context import Context, digit_names, source_labels
from problem1.analysis.figures import WIDEST, aligned, group_labels, table, with_interval
from problem1.analysis.interventions import InterventionRunner

PAIRS = 400


def distance(one: Tensor, other: Tensor) -> Tensor:
    """[N, Tq, Tk] twice -> [N, Tq] share of each row's attention that lies elsewhere"""
    return 0.5 * (one - other).abs().sum(-1)


def measure(context: Context, group: Group) -> dict:
    """Every head's patterns with the carry against without, and with another digit against without."""
    without, carrying, control = (
        InterventionRunner(context.model, sums, context.batch_size).recorded.patterns
        for sums in (group.without, group.carrying, group.control)
    )
    heads, excess = {}, []
    half = len(group.without) // 2
    sources, outputs = source_labels(context.num_digits), digit_names(context.num_digits + 1)
    for head in context.heads:
        moved, usual = distance(without[head], carrying[head]), distance(without[head], control[head])
        query = group.target
        if head.startswith("encoder."):
            query = int((moved - usual)[:half].mean(0).argmax())
        moved, usual = moved[half:, query], usual[half:, query]
        excess.append(moved - usual)
        heads[head] = {
            "query": (sources if head.startswith("encoder.") else outputs)[query],
            "moved": moved.mean().item(),
            "moved_without_carry": usual.mean().item(),
        }
    low, high = bootstrap(torch.stack(excess, dim=1))
    for number, head in enumerate(heads):
        heads[head]["difference"] = excess[number].double().mean().item()
        heads[head]["difference_interval_95"] = [low[number].item(), high[number].item()]
    return {"name": group.name, "pairs": len(group.without) - half, "heads": heads}


def draw(groups: list[dict], path: Path, caption: str) -> None:
    """Heads × where the carry goes: how much more a pattern moves with a carry than without."""
    heads = list(groups[0]["heads"])
    cells = [[group["heads"][head] for group in groups] for head in heads]
    texts = [[_text(cell) for cell in line] for line in cells]
    values = [[cell["difference"] for cell in line] for line in cells]
    figure, axes = plt.subplots(figsize=(min(WIDEST, 3.6 + 1.25 * len(groups)), 2 + 0.28 * len(heads)))
    most = max(0.1, max(abs(value) for line in values for value in line))
    image = table(axes, values, heads, group_labels(groups), texts, scale=(-most, most), colours=DIFFERENCES)
    axes.set_xlabel("where the carry goes, and through how many 9s")
    axes.set_title("attention that moves when a carry comes,\nbeyond what another digit alone moves")
    figure.colorbar(image, ax=axes, label="share of attention (difference)", shrink=0.6)
    save(figure, path, caption)


def _text(cell: dict) -> str:
    low, high = cell["difference_interval_95"]
    return "·" if low <= 0 <= high else with_interval(cell["difference"], cell["difference_interval_95"])


def run(context: Context) -> dict:
    """Write carry/attention_shift.json and .png."""
    groups = [measure(context, group) for group in all_groups(context.num_digits, PAIRS, seed=2)]
    results = context.write(
        "carry/attention_shift.json",
        {
            "question": "share of attention that moves when a carry comes, less what moves when only a digit changes",
            "groups": groups,
        },
    )
    caption = "Red: moves more when a carry comes. ± half the 95% bootstrap interval; · includes 0, or below 0.005."
    draw(groups, context.output_dir / "carry/attention_shift.png", context.caption(caption))
    return results


def strongest(group: dict) -> str:
    """The head whose attention moves most."""
    return max(group["heads"], key=lambda head: group["heads"][head]["difference"])


def findings(results: dict) -> str:
    rows = []
    for group in results["groups"]:
        head = strongest(group)
        moved = [f"{group['heads'][head][key]:.1%}" for key in ("moved", "moved_without_carry")]
        rows.append([group["name"], *moved, head])
    return "\n".join(aligned("carry into|attention moved|by a digit alone|head whose attention moves most", rows))
