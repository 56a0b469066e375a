"""Does the model trust the digits it has written, or compute from the operands? The case of a column of exactly 9.

9 + 0 writes 9 and carries nothing; 9 + 1 writes 0 and passes the carry on. Every digit before it hangs on what
comes from below, and the answer is written from the front. Two questions:

prefix conflict   The digits already written show whether a carry came (the first digit of 1000 does). They are
                  replaced by those of the sum with the other carry: the digit of the first 9-column then follows the
                  prefix or the operands.
random prefix     Is each digit still right when those before it are the digits of another test sum?
"""

import torch

from lab.hooks import replace
from lab.statistics import proportion
from problem1.analysis.carry_pairs import Group, all_groups
from problem1.analysis.context import Context, digit_names, join
from problem1.analysis.figures import aligned, percent
from problem1.analysis.interventions import InterventionRunner
from problem1.dataset import decoder_inputs

PAIRS = 400  # for each group, with and without a carry
FOLLOWS = ("follows_operands", "follows_prefix", "follows_prefix_self_attention_frozen")


def measure(context: Context) -> dict:
    groups = all_groups(context.num_digits, PAIRS, seed=1)
    return {
        "question": "digits of columns of exactly 9, after a prefix that belongs to the sum with the other carry",
        "prefix_conflict": [prefix_conflict(context, group) for group in groups if group.nines],
        "random_prefix": random_prefix(context),
    }


def prefix_conflict(context: Context, group: Group) -> dict:
    """The digit of the first 9-column, when operands and prefix imply different carries.

    The decoder reads the last written digit at this very position; it needs no attention for it. So the same once
    more with all decoder self-attention frozen at its outputs after the right prefix: where the digit still follows
    the wrong prefix, it follows that last digit.
    """
    sums, others = join([group.without, group.carrying]), join([group.carrying, group.without])
    position = group.target + 1
    clean = InterventionRunner(context.model, sums, len(sums))
    conflict = InterventionRunner(context.model, sums, len(sums), prefixes=decoder_inputs(others.targets))
    self_heads = [head for head in context.heads if head.startswith("decoder.") and ".self." in head]
    freeze = {head: replace(clean.recorded.outputs[head]) for head in self_heads}
    digit = conflict.logits().argmax(-1)[:, position]
    frozen = conflict.logits(freeze).argmax(-1)[:, position]
    shares = (
        proportion(digit == sums.targets[:, position]),
        proportion(digit == others.targets[:, position]),
        proportion(frozen == others.targets[:, position]),
    )
    names = {"name": group.name, "digit": digit_names(context.num_digits + 1)[position]}
    return names | dict(zip(FOLLOWS, shares, strict=True))


def random_prefix(context: Context) -> dict:
    """{digit: share right after the digits of another test sum}"""
    sums = context.rows["test"]
    other = torch.randperm(len(sums), generator=torch.Generator().manual_seed(0))
    runner = InterventionRunner(context.model, sums, context.batch_size, prefixes=decoder_inputs(sums.targets)[other])
    right = runner.evaluate()[0]
    return {digit: proportion(right[:, number]) for number, digit in enumerate(digit_names(right.shape[1]))}


def run(context: Context) -> dict:
    """Write carry/nines.json."""
    return context.write("carry/nines.json", measure(context))


def findings(results: dict) -> str:
    rows = [
        [f"{entry['digit']} of 9: {entry['name']}", *(percent(entry[key]) for key in FOLLOWS)]
        for entry in results["prefix_conflict"]
    ]
    header = "prefix of the other carry|digits follow the operands|the prefix|self-attention frozen"
    return "\n".join(aligned(header, rows))
