"""The answers in README.md: sentences that a person wrote, with numbers from the results.

python report/key_numbers.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lab.files import UserError, read_json, write_block
from lab.hooks import short_name
from lab.settings import run

README, BLOCK = ROOT / "README.md", "answers: make readme"
POINT = 0.01
SHARP = 0.8  # of the attention, as in the report
FILES = {
    "verification": "problem1/results/verification.json",
    "robustness": "problem1/results/robustness.json",
    "statistics": "problem1/results/head_analysis/head_specialization.json",
    "ablation": "problem1/results/head_analysis/ablation_results.json",
    "pruning": "problem1/results/head_analysis/pruning_curve.json",
    "summary": "problem1/results/carry/summary.json",
    "program": "problem1/results/carry/program.json",
    "proof": "problem1/results/text/proof.json",
    "sorting": "problem2/results/extrapolation/extrapolation_details.json",
    "span": "problem2/results/extrapolation/sinusoidal_span.json",
    "contradictions": "report/contradictions.json",
}
COURSE = ("sinusoidal", "learned", "none")  # the encodings that the course asks for
SETS = {"8–16": "test"} | {str(length): f"extrapolation/{length}" for length in (32, 64, 128, 256)}
ONE_SWAP = "adjacent/16"  # rows of length 16, the unsorted ones with one swap of neighbours
EXTRAPOLATES = 0.99  # accuracy at every one of these lengths
HOMEWORK = """\
| question | answer | numbers | figure |
|---|---|---|---|
| Does the model add? | **{exact[errors]:,} errors in all {exact[pairs]:,} sums**; with {seeds} other seeds: {by_seed} \
| {verification}, {robustness} | [curves](problem1/results/training_curves.png) |
| What do the heads attend to? | {column} of {heads} almost only to one column of digits, {below} mostly to the column \
below | {statistics} | [all heads](problem1/results/attention_patterns/overview.png), \
[four in detail](problem1/results/attention_patterns/in_detail.png) |
| Which heads are critical? | {needed} of {heads} cost a point or more alone; {head} costs most, {lost} of the test \
sums | {ablation} | [importance](problem1/results/head_analysis/head_importance.png) |
| How many can be pruned? | {prunable[alone]} of {heads} one at a time, **{prunable[together]} together** \
| {pruning} | [pruning](problem1/results/head_analysis/pruning_curve.png) |
| How do heads handle the carry? | at most {most} cross-attention heads bring it to a digit: taken from another sum, \
they change at least {flips} of the digits | {summary} | [patching](problem1/results/carry/patching_heads.png) |
| Which algorithm is that? | a program of {lines} lines; given columns of unrelated sums, the model writes \
what the program says in {fitting} of {tried:,} cases | {program} | [circuit](problem1/results/carry/program.png) |
| Five and ten digits? | {longer} models trained on hard sums, too: {longer_errors:,} errors, in {longer_random:,} \
random and {longer_hard:,} hard pairs each | {robustness} | [report](report/report.pdf) |
| Numbers of any length? | as text, {proven}: all {text[local_contexts]:,} local contexts are right | {proof} | \
[margins](problem1/results/text/proof.png) |
| Which positional encodings extrapolate? | at least 99% right to length 256: {best}; one answer to everything at 256: \
{constant} | {sorting} | [curves](problem2/results/extrapolation/extrapolation_curves.png) |
| Why might sinusoidal, why does it not? | scores can depend on distance alone, but {span_[directions]} of \
{span_[d_model]} directions hold {energy} of the trained codes | {span} | \
[span](problem2/results/extrapolation/sinusoidal_span.png) |
| Is a perfect score enough? | no: of rows with one swapped pair, length 16, the best scheme ({swap_best}) gets \
{swap_most} | {sorting} | [all schemes](problem2/results/extrapolation/extrapolation_schemes.png) |
| Why do published solutions disagree? | for {sufficient} of {claims} published claims we found a cause that \
suffices | {contradictions} | [report](report/report.pdf) |
"""


def answers() -> str:
    """Two tables: the questions of the homework, and the positional encodings by length."""
    found = {name: read_json(ROOT / file, "run `make`, and `make seeds`.") for name, file in FILES.items()}
    exact, runs, program = found["verification"], found["robustness"]["runs"], found["program"]
    heads, lost = found["statistics"]["heads"], found["ablation"]["heads"]
    longer = [run for name, run in runs.items() if "hard" in run and not name.endswith("plain")]
    seeds = [run["errors"] for name, run in runs.items() if name.startswith("seed")]
    targets = [entry["main_target"] for entry in heads.values()]
    worst, groups = found["ablation"]["ranking"][0], found["summary"]["groups"]
    brought = [group["minimal_sets"]["decoder cross"] for group in groups if group["pairs"]]
    schemes, verdicts = found["sorting"]["schemes"], [row["verdict"] for row in found["contradictions"]["table"]]
    scores = {name: {n: scheme["sets"][SETS[n]] for n in SETS} for name, scheme in schemes.items()}
    least = {name: min(score["accuracy"] for score in scores[name].values()) for name in scores}
    best = sorted((name for name in scores if least[name] >= EXTRAPOLATES), key=least.get, reverse=True)
    swapped = {name: scheme["sets"][ONE_SWAP]["balanced_accuracy"] for name, scheme in schemes.items()}
    table = HOMEWORK.format(
        **{name: f"[`{Path(file).name}`]({file})" for name, file in FILES.items()},
        exact=exact,
        seeds=len(seeds),
        by_seed="none" if not any(seeds) else ", ".join(f"{errors:,}" for errors in seeds),
        longer=len(longer),
        longer_errors=sum(run["errors"] + run["hard"]["errors"] for run in longer),
        longer_random=min((run["pairs"] for run in longer), default=0),
        longer_hard=min((run["hard"]["pairs"] for run in longer), default=0),
        heads=len(heads),
        column=sum(entry.get("same column", {"mean": 0})["mean"] >= SHARP for entry in heads.values()),
        below=targets.count("lower column"),
        needed=sum(max(entry[kind]["drop"] for kind in ("zero", "mean")) >= POINT for entry in lost.values()),
        head=short_name(worst),
        lost=percent(lost[worst]["zero"]["drop"]),
        prunable=found["pruning"]["prunable"]["zero"],
        most=max(len(chosen["heads"]) for chosen in brought),
        flips=percent(min(chosen["sufficiency"]["share"] for chosen in brought)),
        lines=len(program["program"]),
        fitting=percent(program["interchange"]["three_any"]["share"]),
        tried=program["interchange"]["three_any"]["n"],
        text=found["proof"],
        proven="proven in float64 and float32" if found["proof"]["proven_in_float32"] else "not proven in float32",
        best=", ".join(best) or "none",
        constant=", ".join(name for name in scores if scores[name]["256"]["collapsed"]) or "none",
        span_=found["span"],
        energy=percent(found["span"]["energy"]),
        swap_best=max(swapped, key=swapped.get),
        swap_most=percent(max(swapped.values())),
        sufficient=verdicts.count("sufficient cause"),
        claims=len(verdicts),
    )
    rows = [f"| {name} | {' | '.join(map(cell, scores[name].values()))} |" for name in COURSE]
    head = f"| sorted or not, by length; trained on 8–16 | {' | '.join(SETS)} |"
    return "\n".join([table, head, "|---" * (len(SETS) + 1) + "|", *rows])


def percent(share: float) -> str:
    """'99.95%'; never 100% for less than all."""
    return f"{round(100 * (share if share == 1 else min(share, 0.9999)), 2):g}%"


def cell(score: dict) -> str:
    return percent(score["accuracy"]) + " †" * score["collapsed"]


def main() -> None:
    try:
        write_block(README, BLOCK, answers())
    except (KeyError, TypeError, ValueError):
        raise UserError("results are incomplete, or of models that cannot add: run `make` and `make seeds`.") from None


if __name__ == "__main__":
    run(main)
