"""What published reports say in words, and whether our committed results bear it out.

Each check reads results and returns a verdict, the finding in one sentence and the file that shows it:

    confirmed    our model does what is said
    refuted      our model, or one of ours, is a counterexample
    open         our results do not decide it, or public results contradict each other

Statements on heads are tested on the default model: one model. What holds of many is counted in beyond/population.
"""

import math
from collections.abc import Callable
from pathlib import Path

from beyond.published.mistakes import LENGTHS
from lab.files import read_json
from lab.hooks import Head

ROOT = Path(__file__).resolve().parents[2]
HINT = "run `make` first."
ABLATED = "problem1/results/head_analysis/ablation_results.json"
LOOKED_AT = "problem1/results/head_analysis/head_specialization.json"
PATCHED = "problem1/results/carry/patching.json"
BY_LENGTH = "problem2/results/extrapolation/extrapolation_results.json"
TABLE = "problem2/results/extrapolation/learned_position_embeddings.json"
COLLAPSE = "problem2/results/extrapolation/collapse.json"
LEARNED_LOG = "problem2/results/learned/training_log.json"

EXPECTED = "problem1/expected.json"

NEEDED = 0.01  # a head whose removal costs at least so much exact match
BARELY = 0.01  # a share of digits below which patching a head changes hardly any
MOSTLY = 0.5  # a share of digits, or of attention, above which it is the rule

Answer = tuple[str, str, str]  # verdict, finding, file
CHECKS: dict[str, Callable[[], Answer]] = {}


def check(name: str):
    """Enter a function in CHECKS under the id of the statement."""

    def enter(function: Callable[[], Answer]) -> Callable[[], Answer]:
        CHECKS[name] = function
        return function

    return enter


def load(path: str):
    return read_json(ROOT / path, HINT)


def drops(kind: str = "zero") -> dict[str, float]:
    """What each head's removal costs in exact match."""
    return {head: entry[kind]["drop"] for head, entry in load(ABLATED)["heads"].items()}


def of_layer(by_head: dict[str, float], side: str, layer: int) -> list[float]:
    heads = {name: Head.parse(name) for name in by_head}
    return [value for name, value in by_head.items() if (heads[name].side, heads[name].layer) == (side, layer)]


def flips() -> dict[str, float]:
    """The largest share of digits that patching each head changes, over the kinds of carry."""
    groups = load(PATCHED)["groups"]
    return {head: max(group["heads"][head]["flips"]["share"] for group in groups) for head in groups[0]["heads"]}


def attention(target: str) -> dict[str, float]:
    """How much of its attention each head gives to a target, for heads that have this target at all."""
    heads = load(LOOKED_AT)["heads"]
    return {head: entry[target]["mean"] for head, entry in heads.items() if entry.get(target) is not None}


def points(share: float) -> str:
    return f"{100 * share:.1f} points"


def up_to(share: float, of: str) -> str:
    """An upper bound in whole percent, rounded up; or that it is none."""
    return f"at most {math.ceil(round(100 * share, 6))}% {of}" if share else f"none {of}"


def decided(confirmed: bool, refuted: bool = False) -> str:
    return "confirmed" if confirmed else "refuted" if refuted else "open"


# --- problem 1 -----------------------------------------------------------------------------------------------------


def worst_of_encoder_0() -> tuple[float, str]:
    """The most that removing one head of the first encoder layer costs, by zeros or its mean, and in words."""
    worst = max(of_layer(drops(), "encoder", 0) + of_layer(drops("mean"), "encoder", 0))
    return worst, f"Removing one of them costs our model {up_to(worst, 'of the answers')}"


@check("encoder-0-critical")
def encoder_0_critical() -> Answer:
    worst, finding = worst_of_encoder_0()
    return decided(worst >= NEEDED, worst < NEEDED), f"{finding}.", ABLATED


@check("encoder-0-redundant")
def encoder_0_redundant() -> Answer:
    worst, finding = worst_of_encoder_0()
    finding += ". In solution 5, whose ablation starts from 100%, one of them costs 82.7 points."
    return decided(False, worst >= NEEDED), finding, ABLATED


@check("head-on-plus")
def head_on_plus() -> Answer:
    heads = load(LOOKED_AT)["heads"]
    on_plus = sorted(name for name, entry in heads.items() if entry["main_target"] == "operator")
    most = max(attention("operator").values())
    finding = (
        f"10 is the token of +, which stands at position 3. It is the main target of {len(on_plus) or 'no'} head; each "
        f"gives it {up_to(most, 'of its attention')} on average."
    )
    return decided(bool(on_plus), not on_plus), finding, LOOKED_AT


@check("upper-carries")
def upper_carries() -> Answer:
    lower = max(of_layer(flips(), "decoder", 0))
    upper = max(of_layer(flips(), "decoder", 1))
    finding = (
        f"Patched from a sum with another carry, the strongest head of the lower layer changes {lower:.0%} of the "
        f"digits, that of the upper {upper:.0%}."
    )
    return decided(lower < BARELY < MOSTLY < upper, lower > MOSTLY), finding, PATCHED


@check("last-layer")
def last_layer() -> Answer:
    worst = {(side, layer): max(of_layer(drops(), side, layer)) for side in ("encoder", "decoder") for layer in (0, 1)}
    later = [worst[side, 1] > worst[side, 0] for side in ("encoder", "decoder")]
    finding = (
        f"The costliest head of encoder layers 0 and 1: {points(worst['encoder', 0])} and "
        f"{points(worst['encoder', 1])}; of decoder layers: {points(worst['decoder', 0])} and "
        f"{points(worst['decoder', 1])}."
    )
    return decided(all(later), not all(later)), finding, ABLATED


@check("cross-fetches")
def cross_fetches() -> Answer:
    shares = [group["stages"]["all decoder cross"]["flips"]["share"] for group in load(PATCHED)["groups"]]
    least = math.floor(round(100 * min(shares), 6))
    finding = (
        f"Patched as a whole it changes {'at least ' if least < 100 else ''}{least}% of the digits a carry goes into."
    )
    return decided(min(shares) > 0.95, min(shares) < MOSTLY), finding, PATCHED


@check("self-passes-on")
def self_passes_on() -> Answer:
    most = max(share for head, share in flips().items() if Head.parse(head)[::2] == ("decoder", "self"))
    finding = f"Patched alone, each such head changes {up_to(most, 'of the digits a carry goes into')}."
    return decided(most > MOSTLY, most < BARELY), finding, PATCHED


@check("vertical-start")
def vertical_start() -> Answer:
    zero, mean, at_start = drops(), drops("mean"), attention("start token")
    constants = [head for head in at_start if at_start[head] > MOSTLY and zero[head] >= NEEDED and mean[head] == 0]
    if not constants:
        return "open", "No head of our model looks mainly at the start token and is needed.", ABLATED
    head = max(constants, key=zero.get)
    finding = (
        f"{Head.parse(head).short} gives {at_start[head]:.0%} to the start token and costs "
        f"{points(zero[head])} when zeroed, nothing when replaced by its mean: a constant is all it adds."
    )
    return "confirmed", finding, ABLATED


@check("lower-is-carry")
def lower_is_carry() -> Answer:
    heads, changed = load(LOOKED_AT)["heads"], flips()
    first = max(changed, key=changed.get)
    lower = heads[first]["main_target"] == "lower column"
    finding = (
        f"The head that changes most digits when patched ({Head.parse(first).short}, {changed[first]:.0%}) has the "
        f"{heads[first]['main_target']} as its main target."
    )
    return decided(lower, not lower), finding, PATCHED


@check("no-alignment")
def no_alignment() -> Answer:
    aligned = [share for share in attention("same column").values() if share > 0.8]
    finding = (
        f"{len(aligned)} heads give more than 80% of their attention to one column, the query's or the one written."
    )
    return decided(not aligned, bool(aligned)), finding, LOOKED_AT


@check("rare-carry")
def rare_carry() -> Answer:
    below = next(known["value"] for known in load(EXPECTED)["known_values"] if "below 1000" in known["evidence"])
    finding = f"{1 - below:.1%} of the test sums are 1000 or more."
    return decided(1 - below < 0.25, 1 - below > MOSTLY), finding, EXPECTED


@check("entropy-is-carry")
def entropy_is_carry() -> Answer:
    entropy, changed = attention("entropy"), flips()
    highest = sorted(entropy, key=entropy.get)[-4:]
    most = max(changed[head] for head in highest)
    finding = f"Patched, the four heads of highest entropy change {up_to(most, 'of the digits')}."
    return decided(most > MOSTLY, most < BARELY), finding, PATCHED


# --- problem 2 -----------------------------------------------------------------------------------------------------


def constant(by_length: dict) -> bool:
    """Whether the accuracy at every length is the share of one class, as of one answer for every row."""
    (table,) = (item for item in load("problem2/expected.json")["items"] if item["id"] == "extrapolation")
    shares = table["class_shares"]
    return any(
        all(abs(by_length[n] - (shares[n] if answer else 1 - shares[n])) < 0.001 for n in LENGTHS) for answer in (0, 1)
    )


def listed(by_length: dict) -> str:
    return "/".join(f"{by_length[n]:.3f}" for n in LENGTHS)


@check("by-design")
def by_design() -> Answer:
    far = load(BY_LENGTH)["sinusoidal"]
    fails = constant(far)
    finding = f"One constant answer beyond 16: {listed(far)} at 32/64/128/256." if fails else f"{listed(far)}."
    return decided(min(far.values()) > 0.99, fails), finding, BY_LENGTH


@check("relative-cure")
def relative_cure() -> Answer:
    far = load(BY_LENGTH)
    hold = [name for name in ("alibi", "window", "rope", "t5") if min(far[name][n] for n in LENGTHS) > 0.99]
    fail = [name for name in ("alibi", "window", "rope", "t5") if far[name]["256"] < 0.6]
    finding = f"Right on more than 99% up to length 256: {', '.join(hold) or 'none'}. "
    finding += f"Chance at 256: {', '.join(fail) or 'none'}."
    return decided(not fail, bool(fail)), finding, BY_LENGTH


@check("pooling")
def pooling() -> Answer:
    schemes = load(BY_LENGTH)
    hold = [name for name, far in schemes.items() if min(far[n] for n in LENGTHS) > 0.99]
    finding = (
        f"{len(hold)} of {len(schemes)} schemes, all with mean pooling, are right on more than 99% up to length 256."
    )
    return decided(not hold, bool(hold)), finding, BY_LENGTH


@check("clamping")
def clamping() -> Answer:
    rows = load(LEARNED_LOG)["config"]["max_len"]
    far = load(BY_LENGTH)["learned"]
    fails = constant(far)
    finding = f"Our table has {rows} rows, so that nothing is clamped at length 256. At 32/64/128/256: {listed(far)}."
    return decided(False, rows >= 256 and fails), finding, BY_LENGTH


@check("noise")
def noise() -> Answer:
    table, log = load(TABLE), load(LEARNED_LOG)
    untouched = log["config"]["max_len"] - table["trained_positions"]
    finding = (
        f"{untouched} of {log['config']['max_len']} rows are never used in training and stay noise, in a model that is "
        f"right on {log['test_acc']:.2%} of the test rows."
    )
    return decided(False, untouched > 0 and log["test_acc"] > 0.95), finding, TABLE


@check("failed-to-learn")
def failed_to_learn() -> Answer:
    accuracy = load(LEARNED_LOG)["test_acc"]
    far = load(BY_LENGTH)["learned"]
    finding = f"A learned model that is right on {accuracy:.2%} in range has {listed(far)} beyond."
    return decided(False, accuracy > 0.95 and constant(far)), finding, BY_LENGTH


@check("unseen-phases")
def unseen_phases() -> Answer:
    """Waves 1 to 3 turn less than one and a half times in training: beyond, they take combinations of phases that no
    trained position has. All others squeezed, that alone; and none of it, with all squeezed."""
    seeds = load(COLLAPSE)["seeds"].values()
    breaks = [entry["constant"] for seed in seeds for entry in seed["only middle true"].values()]
    mended = [entry["balanced_accuracy"] for seed in seeds for entry in seed["all squeezed"].values()]
    least = math.floor(100 * min(mended))
    right = f"{least}%" if least == 100 else f"at least {least}%"
    finding = (
        f"Waves 1 to 3 alone beyond their trained phases give one answer in {sum(breaks)} of {len(breaks)} tests "
        f"(three seeds, lengths 32 to 256); with all squeezed {right} are right."
    )
    return decided(all(breaks) and min(mended) > 0.99, not any(breaks)), finding, COLLAPSE


def judged(statement: dict) -> dict:
    """A statement with its verdict, the finding and the file; one that no committed result decides is open."""
    if statement["id"] not in CHECKS:
        return statement | {"verdict": "open", "finding": "No committed result decides it.", "file": None, "models": 0}
    verdict, finding, file = CHECKS[statement["id"]]()
    models = len(load(COLLAPSE)["seeds"]) if file == COLLAPSE else 1
    return statement | {"verdict": verdict, "finding": finding, "file": file, "models": models}
