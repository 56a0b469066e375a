"""What each head is for, by everything measured of it: attention, ablation, patching. And what the three disagree on.
"""

from lab.hooks import short_name
from problem1.analysis import attention_statistics
from problem1.analysis.ablation import KINDS, MEAN_SUFFICES, NEEDED, NOT_NEEDED, reading
from problem1.analysis.patching import BRINGS

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
