"""What each head is for, by everything measured of it: attention, ablation, patching. And what they disagree on."""

from lab.hooks import short_name
from problem1.analysis import attention_statistics
from problem1.analysis.ablation import KINDS, MEAN_SUFFICES, NEEDED, NOT_NEEDED, reading
from problem1.analysis.patching import BRINGS

MOST = 0.5  # share of pairs flipped from which on a head alone brings the carry
NEEDS = {NEEDED: "needed", MEAN_SUFFICES: "needed, but its mean suffices", NOT_NEEDED: "not needed alone"}
NONE = "not needed alone; brings no carry"  # the role of most heads


def collect(lost: dict, layers: dict, statistics: dict, groups: list[dict]) -> dict:
    """Roles of all heads, three lessons, and what others claim, from the results of the other analyses."""
    groups = [group for group in groups if group["pairs"]]
    heads = [about_head(head, lost, statistics, groups) for head in lost["ranking"]]
    return {"heads": heads, "lessons": lessons(heads, lost, groups), "claims": claims(heads, layers, groups)}


def about_head(head: str, lost: dict, statistics: dict, groups: list[dict]) -> dict:
    entry = lost["heads"][head]
    attends = statistics["heads"][head]
    most_flips = {"group": None, "share": 0.0}
    if groups:
        best = max(groups, key=lambda group: group["heads"][head]["flips"]["share"])
        most_flips = {"group": best["name"], **best["heads"][head]["flips"]}
    if most_flips["share"] >= MOST:
        brings = "brings a carry"
    elif most_flips["share"] >= BRINGS:
        brings = "takes part in a carry"
    else:
        brings = "brings no carry"
    return {
        "head": head,
        "label": short_name(head),
        "looks_at": attends["description"],
        "main_target": attends["main_target"],
        "shape": attends["shape"],
        **{kind: entry[kind]["drop"] for kind in KINDS},
        "reading": reading(entry),
        "most_flips": most_flips,
        "role": f"{NEEDS[reading(entry)]}; {brings}",
    }


def lessons(heads: list[dict], lost: dict, groups: list[dict]) -> dict:
    """One example each, the clearest there is; None where this model has none."""
    cells = [(about, group) for about in heads for group in groups]
    moving = []
    spare = []
    for about, group in cells:
        flips = group["heads"][about["head"]]["flips"]
        if flips["interval_95"][1] < BRINGS:
            moving.append((about, group))
        if about["reading"] == NOT_NEEDED and flips["share"] >= BRINGS:
            spare.append((about, group))

    def attention_moved(cell: tuple[dict, dict]) -> float:
        about, group = cell
        return group["heads"][about["head"]]["attention"]["difference"]

    def flipped(cell: tuple[dict, dict]) -> float:
        about, group = cell
        return group["heads"][about["head"]]["flips"]["share"]

    return {
        "needed_but_brings_nothing": signal(heads, lost),
        "attention_moves_but_nothing_flips": _cell(max(moving, key=attention_moved, default=None)),
        "flips_but_is_not_needed": _cell(max(spare, key=flipped, default=None)),
    }


def signal(heads: list[dict], lost: dict) -> dict | None:
    """The head whose removal costs most of those that only give a constant or a position, and the digits it costs."""
    silent = [about for about in heads if about["reading"] == MEAN_SUFFICES and about["most_flips"]["share"] < BRINGS]
    if not silent:
        return None
    costliest = max(silent, key=lambda about: about["zero"])
    digits_lost = {}
    for digit, share in lost["heads"][costliest["head"]]["zero"]["by_digit"].items():
        digits_lost[digit] = lost["baseline"]["by_digit"][digit] - share
    keys = ("head", "label", "looks_at", "zero", "mean", "most_flips")
    return {key: costliest[key] for key in keys} | {"digits_lost": digits_lost}


def _cell(cell: tuple[dict, dict] | None) -> dict | None:
    """One head in one group of pairs, with all that was measured of it there."""
    if cell is None:
        return None
    about, group = cell
    shown = {key: about[key] for key in ("head", "label", "looks_at", "zero", "mean")}
    return shown | {"group": group["name"]} | group["heads"][about["head"]]


def claims(heads: list[dict], layers: dict, groups: list[dict]) -> dict:
    """What published reports say of such models, measured here."""
    parts = {}
    for name, entry in layers.items():
        flips = [group["stages"][name]["flips"]["share"] for group in groups if name in group["stages"]]
        parts[name] = {kind: entry[kind]["drop"] for kind in KINDS} | {"most_flips": max(flips, default=None)}
    by_layer = {
        "encoder": lost_by_layer(parts, "encoder.{}.self"),
        "decoder": lost_by_layer(parts, "decoder.{}.attention"),
    }
    shapes = {}
    for shape in attention_statistics.SHAPES:
        shapes[shape] = {need: [] for need in NEEDS}
        for about in heads:
            if about["shape"] == shape:
                shapes[shape][about["reading"]].append(about["label"])
    lower = [about["label"] for about in heads if about["main_target"] == "lower column"]
    bring = [about["label"] for about in heads if about["most_flips"]["share"] >= MOST]
    decoder_self = [group["stages"]["all decoder self"]["flips"]["share"] for group in groups]
    return {
        "layers_and_feed_forward": parts,
        "points_lost_by_layer_of_attention": by_layer,
        "last_layer_matters_more": {side: lost[-1] > lost[0] for side, lost in by_layer.items()},
        "vertical_and_diagonal": shapes,
        "lower_digit": {
            "look_there": lower,
            "bring_a_carry": bring,
            "bring_a_carry_and_look_there": [label for label in bring if label in lower],
        },
        "decoder_self_attention": {"most_flips": max(decoder_self, default=None)},
    }


def lost_by_layer(parts: dict, name: str) -> list[float]:
    """What zero ablation of a part costs in layer 0, 1, …: name is "encoder.{}.self"."""
    lost = []
    while name.format(len(lost)) in parts:
        lost.append(parts[name.format(len(lost))]["zero"])
    return lost
