"""What this model does with a carry, in plain words, from the measured numbers alone.

Every sentence is chosen by what was measured, also against the usual story: that the decoder's self-attention
passes the carry from digit to digit.
"""

import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.files import write_text
from problem1.subject import Subject

READABLE = 0.95  # a probe's share right from which on a carry counts as readable
HARDLY, MOSTLY = 0.05, 0.5  # shares below and above which an effect is called none or the rule


def percent(it: dict) -> str:
    """'97.3 ± 0.8%'"""
    low, high = it["interval_95"]
    return f"{100 * it['share']:.1f} ± {50 * (high - low):.1f}%"


def listed(names: list[str]) -> str:
    """'a', 'a and b', 'a, b and c'"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def entries(groups: list[dict]) -> list[str]:
    """Through which heads the carry comes, for each digit it goes into."""
    said = []
    for group in groups:
        them = group["sets"]["any head"]
        where = f"The carry into the {group['place']}"
        where += "" if group["nines"] == 0 else f" that has to pass through {_nines(group['nines'])}"
        if them["sufficient"]["share"] < MOSTLY:
            said.append(
                f"{where} comes through no small set of heads: the best {len(them['heads'])} together flip only "
                f"{percent(them['sufficient'])} of the digits."
            )
            continue
        alone = "patching it alone" if len(them["heads"]) == 1 else "patching them together"
        said.append(
            f"{where} enters through {listed(them['heads'])}: {alone} flips {percent(them['sufficient'])} of the "
            f"digits, patching all other heads instead {percent(them['others_instead'])}."
        )
    return said


def _nines(count: int) -> str:
    return "a 9" if count == 1 else f"{count} 9s"


def encoder(groups: list[dict]) -> list[str]:
    """Whether the encoder moves carries within the source: straight ones, and those that pass through 9s."""
    said = []
    for group in groups:
        them, whole = group["sets"]["encoder"], group["stages"]["all encoder"]["flips"]
        where = f"For the {group['place']}" + (f" through {_nines(group['nines'])}" if group["nines"] else "")
        if whole["share"] >= MOSTLY and them["heads"]:
            said.append(
                f"{where} the carry has been handed on within the operands before the decoder looks: of the encoder's "
                f"heads {listed(them['heads'])} flips {percent(them['sufficient'])}, the encoder's others instead "
                f"{percent(them['others_instead'])}."
            )
        else:
            said.append(f"{where} the encoder's heads do little: all of them together flip {percent(whole)}.")
    return said


def usual_story(groups: list[dict]) -> str:
    """What decoder self-attention has to do with it."""
    strongest = max((group["stages"]["all decoder self"]["flips"] for group in groups), key=lambda it: it["share"])
    if strongest["share"] < HARDLY:
        return (
            "The usual story, that the decoder's self-attention passes the carry from digit to digit, is contradicted: "
            f"all of its heads patched together flip at most {percent(strongest)} of the digits in any of these "
            "groups. (Sums are written from the front: the column a carry comes from is written after the digit it "
            "goes into.)"
        )
    if strongest["share"] < MOSTLY:
        return (
            "The decoder's self-attention has a part in it, but is not the main way: all of its heads patched "
            f"together flip up to {percent(strongest)} of the digits."
        )
    return (
        "As the usual story has it, the decoder's self-attention passes the carry on: its heads patched together "
        f"flip up to {percent(strongest)} of the digits."
    )


def control(groups: list[dict]) -> str:
    worst = max((group["control"]["all heads"] for group in groups), key=lambda it: it["share"] or 0)
    single = max(
        (it["share"], head) for group in groups for head, it in group["control"].items() if head != "all heads"
    )
    said = (
        "As a control, heads taken from a sum in which the same digit differs but no carry changes: all heads "
        f"together change at most {percent(worst)} of the answers"
    )
    if not single[0]:
        return said + ", no single one any."
    return said + f", a single head at most {100 * single[0]:.1f}% ({single[1]})."


def hard_case(nines: dict) -> list[str]:
    through = [group for group in nines["groups"] if group["nines"]]
    if not through:
        return []
    both = [group[key] for group in through for key in ("with_carry", "without_carry")]
    right = min(both, key=lambda it: it["share"])
    said = [
        f"Where a carry meets columns of exactly 9, at least {percent(right)} of the sums are right in every group, "
        f"with a margin of no less than {min(it['smallest_margin'] for it in both):.1f} in logits."
    ]
    operands = min((it["follows_operands"] for it in nines["belief"]), key=lambda it: it["share"])
    written = max((it["follows_written_digits"] for it in nines["belief"]), key=lambda it: it["share"])
    if operands["share"] > MOSTLY:
        said.append(
            "When the digits already written tell of the other carry, the digit in the 9 still follows the operands "
            f"(in at least {percent(operands)} of the cases): the carry is found anew for each digit, not read off "
            "the answer."
        )
    elif written["share"] > MOSTLY:
        said.append(
            "When the digits already written tell of the other carry, the digit in a 9 follows what is written (in up "
            f"to {percent(written)} of the cases), not the operands: there the carry is read off the answer."
        )
    return said


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


def shifted(shift: dict) -> str:
    head, group = max(
        ((head, group) for group in shift["groups"] for head in group["heads"]),
        key=lambda pair: pair[1]["heads"][pair[0]]["difference"],
    )
    it = group["heads"][head]
    return (
        f"The head whose attention moves most when a carry comes is {head} ({group['name']}: {100 * it['moved']:.0f}% "
        f"of it lies elsewhere, against {100 * it['moved_without_carry']:.0f}% when only the digit changes)."
    )


def tell(subject: Subject, patching: dict, probes: dict, nines: dict, shift: dict) -> str:
    """The paragraph, or why there is none."""
    if not subject.meaningful:
        return subject.warning
    groups = [group for group in patching["groups"] if group["pairs"]]
    said = []
    if groups:
        said = [*entries(groups), *encoder(groups), usual_story(groups), control(groups)]
    left_out = [group["name"] for group in patching["groups"] if not group["pairs"]]
    if left_out:
        said.append(f"Not measured, as the model gets too few of these sums right: {listed(left_out)}.")
    return " ".join([*said, *hard_case(nines), readable(probes), shifted(shift)])


def answer(subject: Subject, patching: dict, probes: dict, nines: dict, shift: dict) -> str:
    """Write carry/summary.txt and carry/summary.json."""
    paragraph = tell(subject, patching, probes, nines, shift)
    write_text(subject.output_dir / "carry/summary.txt", textwrap.fill(paragraph, 110) + "\n")
    subject.write("carry/summary.json", {"paragraph": paragraph})
    return paragraph
