"""The answers in README.md: sentences that a person wrote, with numbers from the results.

python report/readme.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import lab.installed

from lab.files import UserError, read_json, write_block
from lab.hooks import short_name
from lab.settings import run
from lab.tables import percent

README, BLOCK = ROOT / "README.md", "answers: make readme"
POINT = 0.01
SHARP = 0.8  # of the attention, as in the report
FILES = {
    "verification": "problem1/results/verification.json",
    "robustness": "beyond/population/results/robustness.json",
    "statistics": "problem1/results/head_analysis/head_specialization.json",
    "ablation": "problem1/results/head_analysis/ablation_results.json",
    "pruning": "problem1/results/head_analysis/pruning_curve.json",
    "summary": "problem1/results/carry/summary.json",
    "program": "beyond/program/results/program.json",
    "proof": "beyond/any_length/results/proof.json",
    "sorting": "problem2/results/extrapolation/extrapolation_details.json",
    "span": "problem2/results/extrapolation/sinusoidal_span.json",
    "contradictions": "beyond/published/results/contradictions.json",
    "speed": "benchmarks/results.json",
}
COURSE = ("sinusoidal", "learned", "none")  # the encodings that the course asks for
SETS = {"8–16": "test"} | {str(length): f"extrapolation/{length}" for length in (32, 64, 128, 256)}
ONE_SWAP = "adjacent/16"  # rows of length 16, the unsorted ones with one swap of neighbours
USUAL = "sinusoidal"  # the encoding that most begin with
EXTRAPOLATES = 0.99  # accuracy at every one of these lengths


def answers() -> str:
    """Two tables: the questions of the homework, and the positional encodings by length."""
    found = {name: read_json(ROOT / file, "`make help` says what makes it.") for name, file in FILES.items()}
    link = {name: f"[`{Path(file).name}`]({file})" for name, file in FILES.items()}
    exact, proof, span = found["verification"], found["proof"], found["span"]
    runs, prunable, lost = found["robustness"]["runs"], found["pruning"]["prunable"]["zero"], found["ablation"]["heads"]
    seeds = [run["errors"] for name, run in runs.items() if name.startswith("seed")]
    longer = [run for name, run in runs.items() if "hard" in run and not name.endswith("plain")]
    attention, worst = found["statistics"]["heads"].values(), found["ablation"]["ranking"][0]
    column = sum(entry.get("same column", {"mean": 0})["mean"] >= SHARP for entry in attention)
    below = [entry["main_target"] for entry in attention].count("lower column")
    needed = sum(max(entry[kind]["drop"] for kind in ("zero", "mean")) >= POINT for entry in lost.values())
    brought = [group["minimal_sets"]["decoder cross"] for group in found["summary"]["groups"] if group["pairs"]]
    fitting = found["program"]["interchange"]["three_any"]
    precisions = "proven in float64 and float32" if proof["proven_in_float32"] else "not proven in float32"
    schemes, verdicts = found["sorting"]["schemes"], [row["verdict"] for row in found["contradictions"]["table"]]
    scores = {name: {n: scheme["sets"][SETS[n]] for n in SETS} for name, scheme in schemes.items()}
    least = {name: min(score["accuracy"] for score in scores[name].values()) for name in scores}
    best = sorted((name for name in scores if least[name] >= EXTRAPOLATES), key=least.get, reverse=True)
    constant = [name for name in scores if scores[name]["256"]["collapsed"]]
    swapped = {name: scheme["sets"][ONE_SWAP] for name, scheme in schemes.items()}
    sees_most = max(swapped, key=lambda name: swapped[name]["balanced_accuracy"])
    step, evaluation = [candidates["torch.nn"]["ratio"] for candidates in found["speed"]["steps"].values()][:2]
    ours, usual = found["speed"]["training"]
    table = f"""\
| question | answer | numbers | figure |
|---|---|---|---|
| Does the model add? | **{exact["errors"]:,} errors in all {exact["pairs"]:,} sums**; with {len(seeds)} other seeds: \
{", ".join(f"{errors:,}" for errors in seeds) if any(seeds) else "none"} \
| {link["verification"]}, {link["robustness"]} | [curves](problem1/results/training_curves.png) |
| What do the heads attend to? | {column} of {len(lost)} almost only to one column of digits, {below} mostly to the \
column below | {link["statistics"]} | [all heads](problem1/results/attention_patterns/overview.png), \
[four in detail](problem1/results/attention_patterns/in_detail.png) |
| Which heads are critical? | {needed} of {len(lost)} cost a point or more alone; {short_name(worst)} costs most, \
{percent(lost[worst]["zero"]["drop"])} of the test sums | {link["ablation"]} \
| [importance](problem1/results/head_analysis/head_importance.png) |
| How many can be pruned? | {prunable["alone"]} of {len(lost)} one at a time, **{prunable["together"]} together** \
| {link["pruning"]} | [pruning](problem1/results/head_analysis/pruning_curve.png) |
| How do heads handle the carry? | at most {max(len(chosen["heads"]) for chosen in brought)} cross-attention heads \
bring it to a digit: taken from another sum, they change at least \
{percent(min(chosen["sufficiency"]["share"] for chosen in brought))} of the digits \
| {link["summary"]} | [patching](problem1/results/carry/patching_heads.png) |
| Which algorithm is that? | a program of {len(found["program"]["program"])} lines; given columns of unrelated sums, \
the model writes what the program says in {percent(fitting["share"])} of {fitting["n"]:,} cases \
| {link["program"]} | [circuit](beyond/program/results/program.png) |
| Five and ten digits? | {len(longer)} models trained on hard sums, too: \
{sum(run["errors"] + run["hard"]["errors"] for run in longer):,} errors, in \
{min((run["pairs"] for run in longer), default=0):,} random and \
{min((run["hard"]["pairs"] for run in longer), default=0):,} hard pairs each \
| {link["robustness"]} | [report](report/report.pdf) |
| Numbers of any length? | as text, {precisions}: all {proof["local_contexts"]:,} local contexts are right \
| {link["proof"]} | [margins](beyond/any_length/results/proof.png) |
| Which positional encodings extrapolate? | at least 99% right to length 256: {", ".join(best) or "none"}; one answer \
to nearly everything at 256: {", ".join(constant) or "none"} | {link["sorting"]} \
| [curves](problem2/results/extrapolation/extrapolation_curves.png) |
| Why might sinusoidal, why does it not? | scores can depend on distance alone, but {span["directions"]} of \
{span["d_model"]} directions hold {percent(span["energy"])} of the trained codes | {link["span"]} \
| [span](problem2/results/extrapolation/sinusoidal_span.png) |
| Is a perfect score enough? | no: of rows of length 16 with one swap of neighbours the best scheme \
({sees_most}) calls {percent(swapped[sees_most]["unsorted"]["accuracy"])} not sorted, {USUAL} \
{percent(swapped[USUAL]["unsorted"]["accuracy"])} | {link["sorting"]} \
| [all schemes](problem2/results/extrapolation/extrapolation_schemes.png) |
| Why do published solutions disagree? | for {verdicts.count("sufficient cause")} of {len(verdicts)} published claims \
we found a cause that suffices | {link["contradictions"]} | [report](report/report.pdf) |
| How fast is it? | for addition torch.nn takes {step:.2f} times as long for a training step and {evaluation:.2f} for \
an evaluation; ours is exact on all sums after {ours["to_exact"]:.0f} s, the usual recipe at its best after \
{usual["seconds"]:.0f} s, with {usual["errors"]:,} wrong | {link["speed"]} | [benchmarks](benchmarks/README.md) |
"""
    rows = [f"| {name} | {' | '.join(map(cell, scores[name].values()))} |" for name in COURSE]
    head = f"| sorted or not, by length; trained on 8–16 | {' | '.join(SETS)} |"
    return "\n".join([table, head, "|---" * (len(SETS) + 1) + "|", *rows])


def cell(score: dict) -> str:
    return percent(score["accuracy"]) + " †" * score["collapsed"]


def main() -> None:
    try:
        write_block(README, BLOCK, answers())
    except (KeyError, TypeError, ValueError):
        raise UserError("results are incomplete, or of models that cannot add: see `make help`.") from None


if __name__ == "__main__":
    run(main, __doc__)
