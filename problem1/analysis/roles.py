"""What each head is for, by everything measured of it: attention, ablation, patching. And what the three disagree on.

`measure(model, rows)` does it for any trained model; STATEMENTS are about what it returns.
"""

from pathlib import Path

from lab.hooks import short_name
from problem1.analysis import ablation, attention_statistics, patching, pruning
from problem1.analysis.ablation import KINDS, MEAN_SUFFICES, NEEDED, NOT_NEEDED, SMALL, reading
from problem1.analysis.context import Context
from problem1.analysis.patching import BRINGS
from problem1.dataset import Sums

MOST = 0.5  # share of pairs flipped from which on a head alone brings the carry
NEEDS = {NEEDED: "needed", MEAN_SUFFICES: "needed, but its mean suffices", NOT_NEEDED: "not needed alone"}


def collect(lost: dict, layers: dict, statistics: dict, groups: list[dict]) -> dict:
    """Roles of all heads, three lessons, and what others claim, from the results of the other analyses."""
    groups = [group for group in groups if group["pairs"]]
    heads = [about_head(head, lost, statistics, groups) for head in lost["ranking"]]
    return {"heads": heads, "lessons": lessons(heads, lost, groups), "claims": claims(heads, layers, groups)}


def about_head(head: str, lost: dict, statistics: dict, groups: list[dict]) -> dict:
    entry, attends = lost["heads"][head], statistics["heads"][head]
    about = {"head": head, "label": short_name(head), "looks_at": attends["description"]}
    about |= {"main_target": attends["main_target"], "shape": attends["shape"]}
    about |= {kind: entry[kind]["drop"] for kind in KINDS} | {"reading": reading(entry)}
    best = max(groups, key=lambda group: group["heads"][head]["flips"]["share"], default=None)
    flips = best["heads"][head]["flips"] if best else {"share": 0.0}
    brings = "brings a carry" if flips["share"] >= MOST else "takes part in a carry"
    brings = brings if flips["share"] >= BRINGS else "brings no carry"
    about["most_flips"] = {"group": best["name"] if best else None, **flips}
    return about | {"role": f"{NEEDS[about['reading']]}; {brings}"}


def lessons(heads: list[dict], lost: dict, groups: list[dict]) -> dict:
    """One example each, the clearest there is; None where this model has none."""
    silent = [about for about in heads if about["reading"] == MEAN_SUFFICES and about["most_flips"]["share"] < BRINGS]
    signal = max(silent, key=lambda about: about["zero"], default=None)
    if signal:
        digits = lost["heads"][signal["head"]]["zero"]["by_digit"]
        without = {digit: lost["baseline"]["by_digit"][digit] - share for digit, share in digits.items()}
        keys = ("head", "label", "looks_at", "zero", "mean", "most_flips")
        signal = {key: signal[key] for key in keys} | {"digits_lost": without}
    cells = [(about, group, group["heads"][about["head"]]) for about in heads for group in groups]
    moving = [cell for cell in cells if cell[2]["flips"]["interval_95"][1] < BRINGS]
    spare = [cell for cell in cells if cell[0]["reading"] == NOT_NEEDED and cell[2]["flips"]["share"] >= BRINGS]
    return {
        "needed_but_brings_nothing": signal,
        "attention_moves_but_nothing_flips": _cell(
            max(moving, key=lambda cell: cell[2]["attention"]["difference"], default=None)
        ),
        "flips_but_is_not_needed": _cell(max(spare, key=lambda cell: cell[2]["flips"]["share"], default=None)),
    }


def _cell(cell: tuple | None) -> dict | None:
    """One head in one group of pairs, with all that was measured of it there."""
    if cell is None:
        return None
    about, group, found = cell
    return {key: about[key] for key in ("head", "label", "looks_at", "zero", "mean")} | {
        "group": group["name"],
        **found,
    }


def claims(heads: list[dict], layers: dict, groups: list[dict]) -> dict:
    """What published reports say of such models, measured here."""
    parts = {name: {kind: entry[kind]["drop"] for kind in KINDS} for name, entry in layers.items()}
    for name, part in parts.items():
        found = [group["stages"][name] for group in groups if name in group["stages"]]
        part["most_flips"] = max((stage["flips"]["share"] for stage in found), default=None)
    by_layer = {
        side: [part["zero"] for name, part in parts.items() if name.startswith(side) and name.endswith(f".{kind}")]
        for side, kind in (("encoder", "self"), ("decoder", "attention"))
    }
    lower = [about for about in heads if about["main_target"] == "lower column"]
    bring = [about for about in heads if about["most_flips"]["share"] >= MOST]
    decoder_self = [group["stages"]["all decoder self"] for group in groups]
    return {
        "layers_and_feed_forward": parts,
        "points_lost_by_layer_of_attention": by_layer,
        "last_layer_matters_more": {side: lost[-1] > lost[0] for side, lost in by_layer.items()},
        "vertical_and_diagonal": {
            shape: {
                need: [about["label"] for about in heads if (about["shape"], about["reading"]) == (shape, need)]
                for need in NEEDS
            }
            for shape in attention_statistics.SHAPES
        },
        "lower_digit": {
            "look_there": [about["label"] for about in lower],
            "bring_a_carry": [about["label"] for about in bring],
            "bring_a_carry_and_look_there": [about["label"] for about in bring if about in lower],
        },
        "decoder_self_attention": {
            "most_flips": max((stage["flips"]["share"] for stage in decoder_self), default=None)
        },
    }


# --- several models -----------------------------------------------------------------------------------------------


def measure(model, rows: dict[str, Sums]) -> dict:
    """All of it for one trained model (rows: train, val and test), small enough to keep for every seed."""
    context = Context(model, rows, Path())
    if not context.meaningful:
        return {"meaningful": False}
    lost, layers = ablation.about_heads(context), ablation.about_layers(context)
    groups = patching.measure_all(context)
    found = collect(lost, layers, attention_statistics.measure(context), groups)
    kinds = {
        "encoder self": ("encoder.", ".self."),
        "decoder self": ("decoder.", ".self."),
        "decoder cross": ("", ".cross."),
    }
    return {
        "meaningful": True,
        "critical": {
            kind: {
                about["label"]: [about["zero"], about["mean"]]
                for about in found["heads"]
                if about["reading"] != NOT_NEEDED and about["head"].startswith(side) and where in about["head"]
            }
            for kind, (side, where) in kinds.items()
        },
        "prunable": pruning.measure(context, lost)["prunable"]["zero"],
        "lessons": found["lessons"],
        "claims": found["claims"],
    }


def worst(found: dict, kind: str, under: int = 0) -> float:
    """What the most needed head of a kind costs, under zero (0) or mean (1) ablation."""
    return max((drops[under] for drops in found["critical"][kind].values()), default=0.0)


def clearest(found: dict, lesson: str, *keys: str) -> float:
    """A number of a lesson's example; 0 where the model has none."""
    value = found["lessons"][lesson]
    for key in keys if value else ():
        value = value[key]
    return value or 0.0


STATEMENTS = {
    "the most critical head is in the encoder": lambda it: (
        worst(it, "encoder self") > max(worst(it, "decoder self"), worst(it, "decoder cross"))
    ),
    "some cross-attention head is needed for what it computes": lambda it: worst(it, "decoder cross", 1) >= SMALL,
    "no decoder self-attention head is needed for what it computes": lambda it: worst(it, "decoder self", 1) < SMALL,
    "all decoder self-attention, patched, flips less than 5% of digits": lambda it: (
        it["claims"]["decoder_self_attention"]["most_flips"] < BRINGS
    ),
    "fewer heads can go together than one at a time": lambda it: it["prunable"]["together"] < it["prunable"]["alone"],
    "attention in the first encoder layer costs less than a point": lambda it: (
        it["claims"]["points_lost_by_layer_of_attention"]["encoder"][0] < SMALL
    ),
    **{
        f"attention in the last {side} layer matters more than in the first": lambda it, side=side: it["claims"][
            "last_layer_matters_more"
        ][side]
        for side in ("encoder", "decoder")
    },
    "every feed-forward layer is needed for what it computes": lambda it: all(
        part["mean"] >= SMALL
        for name, part in it["claims"]["layers_and_feed_forward"].items()
        if name.endswith("feed_forward")
    ),
    "no vertical head is needed for what it computes": lambda it: (
        not it["claims"]["vertical_and_diagonal"]["vertical"][NEEDED]
    ),
    "every head that brings a carry looks mostly one column lower": lambda it: (
        it["claims"]["lower_digit"]["bring_a_carry"] == it["claims"]["lower_digit"]["bring_a_carry_and_look_there"]
    ),
    "some head is needed but brings nothing (its mean suffices)": lambda it: (
        it["lessons"]["needed_but_brings_nothing"] is not None
    ),
    "some head moves over 20% of its attention with the carry and flips nothing": lambda it: (
        clearest(it, "attention_moves_but_nothing_flips", "attention", "difference") > 0.2
    ),
    "some head flips half of the pairs and is not needed": lambda it: (
        clearest(it, "flips_but_is_not_needed", "flips", "share") >= MOST
    ),
}
