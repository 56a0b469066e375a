"""What the heads of one trained model are for, small enough to keep for every seed; and statements on it."""

from pathlib import Path

from lab.hooks import Head
from problem1.analysis import ablation, attention_statistics, patching, pruning
from problem1.analysis.ablation import NEEDED, NOT_NEEDED, SMALL
from problem1.analysis.context import Context
from problem1.analysis.patching import BRINGS
from problem1.analysis.roles import MOST, collect
from problem1.dataset import Sums


def measure(model, rows: dict[str, Sums]) -> dict:
    """All of it for one trained model (rows: train, val and test), small enough to keep for every seed."""
    context = Context(model, rows, Path())
    if not context.meaningful:
        return {"meaningful": False}
    lost, layers = ablation.about_heads(context), ablation.about_layers(context)
    groups = patching.measure_all(context)
    found = collect(lost, layers, attention_statistics.measure(context), groups)
    critical = {"encoder self": {}, "decoder self": {}, "decoder cross": {}}
    for about in found["heads"]:
        if about["reading"] != NOT_NEEDED:
            head = Head.parse(about["head"])
            critical[f"{head.side} {head.kind}"][head.short] = [about["zero"], about["mean"]]
    return {
        "meaningful": True,
        "critical": critical,
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


# {id of statements.json: does it hold of this model?}
STATEMENTS = {
    "most_critical_in_encoder": lambda it: (
        worst(it, "encoder self") > max(worst(it, "decoder self"), worst(it, "decoder cross"))
    ),
    "cross_attention_needed": lambda it: worst(it, "decoder cross", 1) >= SMALL,
    "decoder_self_attention_not_needed": lambda it: worst(it, "decoder self", 1) < SMALL,
    "decoder_self_attention_flips_little": lambda it: it["claims"]["decoder_self_attention"]["most_flips"] < BRINGS,
    "fewer_together_than_alone": lambda it: it["prunable"]["together"] < it["prunable"]["alone"],
    "first_encoder_layer_cheap": lambda it: it["claims"]["points_lost_by_layer_of_attention"]["encoder"][0] < SMALL,
    "last_encoder_layer_matters_more": lambda it: it["claims"]["last_layer_matters_more"]["encoder"],
    "last_decoder_layer_matters_more": lambda it: it["claims"]["last_layer_matters_more"]["decoder"],
    "feed_forward_needed": lambda it: all(
        part["mean"] >= SMALL
        for name, part in it["claims"]["layers_and_feed_forward"].items()
        if name.endswith("feed_forward")
    ),
    "vertical_heads_not_needed": lambda it: not it["claims"]["vertical_and_diagonal"]["vertical"][NEEDED],
    "carry_heads_look_lower": lambda it: (
        it["claims"]["lower_digit"]["bring_a_carry"] == it["claims"]["lower_digit"]["bring_a_carry_and_look_there"]
    ),
    "needed_but_brings_nothing": lambda it: it["lessons"]["needed_but_brings_nothing"] is not None,
    "attention_moves_but_nothing_flips": lambda it: (
        clearest(it, "attention_moves_but_nothing_flips", "attention", "difference") > 0.2
    ),
    "flips_but_is_not_needed": lambda it: clearest(it, "flips_but_is_not_needed", "flips", "share") >= MOST,
}
