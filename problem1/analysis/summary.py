"""What this model does with a carry, in plain words, from the measured numbers alone.

Every sentence is chosen by what was measured, also against the usual story: that the decoder's self-attention
passes the carry from digit to digit.
"""

import textwrap

from lab.files import write_text
from problem1.analysis.ablation import KINDS, SMALL
from problem1.analysis.context import Context

READABLE = 0.95  # a probe's share right from which on a carry counts as readable
HARDLY, SOME, MOSTLY = 0.05, 0.2, 0.5  # shares: below the first an effect is called none, above the last the rule


def percent(it: dict) -> str:
    """'97.3 ± 0.8%', with the 95% interval; where that has one side only: '100% (interval from 98.1%)'"""
    low, high = (100 * bound for bound in it["interval_95"])
    if it["share"] == 1:
        return f"100% (interval from {low:.1f}%)"
    if it["share"] == 0:
        return f"0% (interval up to {high:.1f}%)"
    return f"{100 * it['share']:.1f} ± {(high - low) / 2:.1f}%"


def at_least(it: dict) -> str:
    return percent(it) if it["share"] == 1 else f"at least {percent(it)}"


def at_most(it: dict) -> str:
    return percent(it) if it["share"] == 0 else f"at most {percent(it)}"


def listed(names: list[str]) -> str:
    """'a', 'a and b', 'a, b and c'"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def where(group: dict) -> str:
    """'the hundreds', 'the hundreds through one 9'"""
    return f"the {group['place']}" + (f" through {_nines(group['nines'])}" if group["nines"] else "")


def _nines(count: int) -> str:
    return {1: "a 9", 2: "two 9s"}.get(count, f"{count} 9s")


def pooled(groups: list[dict], scope: str, key: str) -> dict:
    """The group in which this share is the least convincing: least for what is claimed, most for what is denied."""
    choose = max if key == "others_instead" else min
    return choose((group["sets"][scope][key] for group in groups), key=lambda it: it["share"])


def alike(groups: list[dict], scope: str) -> list[list[dict]]:
    """Groups that the same heads serve, together."""
    found: dict[tuple, list[dict]] = {}
    for group in groups:
        found.setdefault(tuple(sorted(group["sets"][scope]["heads"])), []).append(group)
    return list(found.values())


def entries(groups: list[dict]) -> list[str]:
    """Through which heads the carry comes, for each digit it goes into."""
    said = []
    for group in groups:
        them = group["sets"]["cross heads"]
        if them["sufficient"]["share"] < MOSTLY:
            said.append(
                f"The carry into {where(group)} comes through no small set of heads: the best {len(them['heads'])} "
                f"together flip only {percent(them['sufficient'])} of the digits."
            )
    clear = [group for group in groups if group["sets"]["cross heads"]["sufficient"]["share"] >= MOSTLY]
    for family in alike(clear, "cross heads"):
        heads = family[0]["sets"]["cross heads"]["heads"]
        alone = "patching it alone" if len(heads) == 1 else "patching them together"
        several = len(family) > 1
        flips = (at_least if several else percent)(pooled(family, "cross heads", "sufficient"))
        others = pooled(family, "cross heads", "others_instead")
        said.append(
            f"The carry into {listed([where(group) for group in family])} enters through {listed(heads)}: {alone} "
            f"flips {flips} of the digits{' in every one of these groups' if several else ''}, patching all other "
            f"heads instead {(at_most if several else percent)(others)}"
            + ("; so there are other ways beside." if others["share"] > SOME else ".")
        )
    return said


def encoder(groups: list[dict]) -> list[str]:
    """Whether the encoder moves carries within the source: straight ones, and those that pass through 9s."""
    strong = [group for group in groups if group["stages"]["all encoder"]["flips"]["share"] >= MOSTLY]
    weak = [group for group in groups if group not in strong]
    said = []
    for family in alike(strong, "encoder"):
        heads = family[0]["sets"]["encoder"]["heads"]
        said.append(
            f"On the way into {listed([where(group) for group in family])} it has been handed on within the operands "
            f"before the decoder looks: of the encoder's heads {listed(heads)} "
            f"flip{'s' if len(heads) == 1 else ''} {percent(pooled(family, 'encoder', 'sufficient'))}, the encoder's "
            f"others instead {percent(pooled(family, 'encoder', 'others_instead'))}."
        )
    if weak:
        most = max((group["stages"]["all encoder"]["flips"] for group in weak), key=lambda it: it["share"])
        said.append(
            f"On the way into {listed([where(group) for group in weak])} the encoder's heads are not what brings it: "
            f"all of them together flip {at_most(most)}."
        )
    return said


USUAL = "that the decoder's self-attention passes the carry from digit to digit,"


def usual_story(groups: list[dict], belief: list[dict]) -> str:
    """What decoder self-attention has to do with it."""
    strongest = max((group["stages"]["all decoder self"]["flips"] for group in groups), key=lambda it: it["share"])
    most = f"the most that all of its heads flip together in any of these groups is {percent(strongest)} of the digits"
    read_off = [it for it in belief if read_by_self_attention(it)]
    front = "Sums are written from the front: the column a carry comes from is written after the digit it goes into."
    if strongest["share"] >= MOSTLY:
        return f"As the usual story has it, {USUAL[5:-1]}: {most}."
    if strongest["share"] >= HARDLY:
        return f"The usual story, {USUAL} is not the main way: {most}. {front}"
    if read_off:
        return (
            f"The usual story, {USUAL} holds in one respect only. It does not bring the carry to the digit it goes "
            f"into: {most}. {front} But where that digit stands before a column of 9, self-attention tells the 9 of "
            f"it: see {_digits(read_off)} below."
        )
    return f"The usual story, {USUAL} is contradicted: {most}. {front}"


def read_by_self_attention(it: dict) -> bool:
    """Whether a digit in a 9 follows the digits written before, and no longer does without self-attention."""
    without = it["follows_written_digits_without_self_attention"]["share"]
    return it["follows_written_digits"]["share"] > MOSTLY > without


def constants(ablation: dict) -> str:
    """Heads that are missed when they are silent, but not when they say their mean."""
    drops = {head: [entry[kind]["drop"] for kind in KINDS] for head, entry in ablation["heads"].items()}
    fixed = {head: drop for head, drop in drops.items() if drop[0] >= SMALL > drop[1]}
    if not fixed:
        return ""
    head = max(fixed, key=lambda name: fixed[name][0])
    others = [name for name in fixed if name != head]
    return (
        f"Ablation alone would mislead: set to zero, {head} costs {100 * fixed[head][0]:.1f} points of accuracy, but "
        f"{100 * max(0, fixed[head][1]):.1f} when it says its mean. What is needed of it is what it says whatever the "
        f"sum, nothing that it finds out{'; the same holds for ' + listed(others) if others else ''}."
    )


def control(groups: list[dict]) -> str:
    worst = max((group["control"]["all heads"] for group in groups), key=lambda it: it["share"] or 0)
    single = max(
        (it["share"], head) for group in groups for head, it in group["control"].items() if head != "all heads"
    )
    said = (
        "As a control, heads were taken from a sum in which the same digit differs but no carry does: all of them "
        f"together change {percent(worst)} of the answers where they change most"
    )
    if not single[0]:
        return said + ", no single one any."
    return said + f", a single one at most {100 * single[0]:.1f}% ({single[1]})."


def hard_case(nines: dict) -> list[str]:
    through = [group for group in nines["groups"] if group["nines"]]
    if not through:
        return []
    both = [group[key] for group in through for key in ("with_carry", "without_carry")]
    right = min(both, key=lambda it: it["share"])
    said = [
        f"Where a carry meets columns of exactly 9, {at_least(right)} of the sums are right in every group, "
        f"with a margin of no less than {min(it['smallest_margin'] for it in both):.1f} in logits."
    ]
    said += believed(nines["belief"])
    others = min(nines["after_another_answer"].values(), key=lambda it: it["share"])
    said.append(
        f"With the digits of another sum before it, every digit is still written right in {at_least(others)} of the "
        "test sums."
    )
    return said


def believed(belief: list[dict]) -> list[str]:
    """Whether the carry through a 9 is read off the answer, and if so by which way."""
    said = []
    by_operands = [it for it in belief if it["follows_operands"]["share"] > MOSTLY]
    by_digits = [it for it in belief if it["follows_written_digits"]["share"] > MOSTLY]
    if by_operands:
        least = min((it["follows_operands"] for it in by_operands), key=lambda it: it["share"])
        said.append(
            f"When the digits already written tell of the other carry, {_digits(by_operands)} still "
            f"follow the operands ({at_least(least)} of the cases): the carry is found anew in them."
        )
    for by_self in (True, False):
        family = [it for it in by_digits if read_by_self_attention(it) == by_self]
        if not family:
            continue
        least = min((it["follows_written_digits"] for it in family), key=lambda it: it["share"])
        choose = max if by_self else min
        without = choose(
            (it["follows_written_digits_without_self_attention"] for it in family), key=lambda it: it["share"]
        )
        how = "It is self-attention that brings it" if by_self else "Self-attention is not needed for it"
        said.append(
            f"When the digits already written tell of the other carry, {_digits(family)} follow them, not the operands "
            f"({at_least(least)} of the cases): there the carry is read off the answer. {how}: with all of its heads "
            f"put back to what they say after the right digits, {(at_most if by_self else at_least)(without)} follow."
        )
    return said


def _digits(belief: list[dict]) -> str:
    return listed([f"the {it['digit']} ({it['name']})" for it in belief])


def readable(probes: dict) -> str:
    """From which layer on a linear probe reads each carry somewhere in the source."""
    said, side = [], probes["sides"]["encoder"]
    for carry, table in zip(probes["carries"], side["accuracy"], strict=True):
        best = [max(layer) for layer in table]
        first = next((number for number, value in enumerate(best) if value >= READABLE), None)
        if first is None:
            said.append(f"the carry {carry} nowhere in the source (at best {100 * max(best):.1f}% right)")
            continue
        where = probes["positions"]["encoder"][table[first].index(best[first])]
        before = "" if first == 0 else f", {100 * best[first - 1]:.1f}% one layer before"
        said.append(f"the carry {carry} at {where} {side['layers'][first]} ({100 * best[first]:.1f}% right{before})")
    controls = [kind["control_held_out"] for kind in probes["sides"].values()]
    most = max(value for tables in controls for table in tables for line in table for value in line)
    return (
        f"A linear probe first reads {'; '.join(said)}. With shuffled labels no probe gets more than {100 * most:.1f}% "
        f"right on held-out pairs (the majority: {100 * max(probes['majority']):.1f}%)."
    )


def shifted(shift: dict, groups: list[dict]) -> str:
    """The head whose attention moves most, and whether that head's output matters."""
    head, group = max(
        ((head, group) for group in shift["groups"] for head in group["heads"]),
        key=lambda pair: pair[1]["heads"][pair[0]]["difference"],
    )
    it = group["heads"][head]
    said = (
        f"The head whose attention moves most when a carry comes is {head} ({group['name']}: {100 * it['moved']:.0f}% "
        f"of it lies elsewhere, against {100 * it['moved_without_carry']:.0f}% when only the digit changes)"
    )
    patched = next((other["heads"][head]["flips"] for other in groups if other["name"] == group["name"]), None)
    if patched is None:
        return said + "."
    moral = ": a pattern that moves is no cause yet" if patched["share"] < HARDLY else ""
    return f"{said}; patching it alone flips {percent(patched)} of the digits there{moral}."


def tell(context: Context, ablation: dict, patching: dict, probes: dict, nines: dict, shift: dict) -> list[str]:
    """The story, topic by topic, or why there is none."""
    if not context.meaningful:
        return [context.warning]
    groups = [group for group in patching["groups"] if group["pairs"]]
    said = []
    if groups:
        said = [
            " ".join(entries(groups)),
            " ".join(encoder(groups)),
            f"{usual_story(groups, nines['belief'])} {control(groups)}",
        ]
    left_out = [group["name"] for group in patching["groups"] if not group["pairs"]]
    if left_out:
        said.append(f"Not measured, as the model gets too few of these sums right: {listed(left_out)}.")
    said += [constants(ablation), " ".join(hard_case(nines)), readable(probes), shifted(shift, groups)]
    return [topic for topic in said if topic]


def answer(context: Context, ablation: dict, patching: dict, probes: dict, nines: dict, shift: dict) -> str:
    """Write carry/summary.txt and carry/summary.json."""
    topics = tell(context, ablation, patching, probes, nines, shift)
    text = "\n\n".join(textwrap.fill(topic, 110) for topic in topics)
    write_text(context.output_dir / "carry/summary.txt", text + "\n")
    context.write("carry/summary.json", {"paragraph": " ".join(topics), "topics": topics})
    return text
