"""The tables in README.md: sentences that a person wrote, with numbers from the results.

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
from lab.tables import markdown, percent

README = ROOT / "README.md"
HOMEWORK, BEYOND = "the homework: make readme", "beyond: make readme"  # the blocks of README.md
POINT = 0.01
SHARP = 0.8  # of the attention, as in the report
FILES = {
    "verification": "problem1/results/verification.json",
    "statistics": "problem1/results/head_analysis/head_specialization.json",
    "ablation": "problem1/results/head_analysis/ablation_results.json",
    "pruning": "problem1/results/head_analysis/pruning_curve.json",
    "summary": "problem1/results/carry/summary.json",
    "sorting": "problem2/results/extrapolation/extrapolation_details.json",
    "by_length": "problem2/results/extrapolation/accuracy_by_length.json",
    "collapse": "problem2/results/extrapolation/collapse.json",
    "study": "beyond/schemes/results/study.json",
    "program": "beyond/program/results/program.json",
    "proof": "beyond/any_length/results/proof.json",
    "robustness": "beyond/population/results/robustness.json",
    "contradictions": "beyond/published/results/contradictions.json",
    "speed": "benchmarks/results.json",
}
LINK = {name: f"[`{Path(file).name}`]({file})" for name, file in FILES.items()}
HEAD = ["question", "answer", "numbers", "figure"]
COURSE = ("sinusoidal", "learned", "none")  # the encodings that the course asks for
SETS = {"8–16": "test"} | {str(length): f"extrapolation/{length}" for length in (32, 64, 128, 256)}
ONE_SWAP = "adjacent/16"  # rows of length 16, the unsorted ones with one swap of neighbours
USUAL = "sinusoidal"  # the encoding that most begin with
EXTRAPOLATES = 0.99  # accuracy at every one of these lengths


def homework(found: dict[str, dict]) -> str:
    """The homework's questions, and accuracy by length of the three encodings that it asks for."""
    exact = found["verification"]
    heads = found["statistics"]["heads"].values()
    one_column = sum(head.get("same column", {"mean": 0})["mean"] >= SHARP for head in heads)
    lower_column = [head["main_target"] for head in heads].count("lower column")
    lost = found["ablation"]["heads"]
    worst = found["ablation"]["ranking"][0]
    needed = sum(max(head[kind]["drop"] for kind in ("zero", "mean")) >= POINT for head in lost.values())
    prunable = found["pruning"]["prunable"]["zero"]
    bringing = [group["minimal_sets"]["decoder cross"] for group in found["summary"]["groups"] if group["pairs"]]
    most_heads = max(len(chosen["heads"]) for chosen in bringing)
    least_changed = min(chosen["sufficiency"]["share"] for chosen in bringing)
    asked = {name: found["sorting"]["schemes"][name] for name in COURSE}
    rows = [
        [
            "Does the model add?",
            f"**{exact['errors']:,} errors in all {exact['pairs']:,} sums**",
            LINK["verification"],
            "[curves](problem1/results/training_curves.png)",
        ],
        [
            "What do the heads attend to?",
            f"{one_column} of {len(lost)} almost only to one column of digits, "
            f"{lower_column} mostly to the column below",
            LINK["statistics"],
            "[all heads](problem1/results/attention_patterns/overview.png), "
            "[four in detail](problem1/results/attention_patterns/in_detail.png)",
        ],
        [
            "Which heads are critical?",
            f"{needed} of {len(lost)} cost a point or more alone; {short_name(worst)} costs most, "
            f"{percent(lost[worst]['zero']['drop'])} of the test sums",
            LINK["ablation"],
            "[importance](problem1/results/head_analysis/head_importance.png)",
        ],
        [
            "How many can be pruned?",
            f"{prunable['alone']} of {len(lost)} one at a time, **{prunable['together']} together**",
            LINK["pruning"],
            "[pruning](problem1/results/head_analysis/pruning_curve.png)",
        ],
        [
            "How do heads handle the carry?",
            f"at most {most_heads} cross-attention heads bring it to a digit: taken from another sum, they change at "
            f"least {percent(least_changed)} of the digits",
            LINK["summary"],
            "[patching](problem1/results/carry/patching_heads.png)",
        ],
        [
            "Which positional encodings extrapolate?",
            f"of the three asked for, {right_far_away(asked)}; {where_they_fail(found['by_length'])}",
            LINK["by_length"],
            "[curves](problem2/results/extrapolation/extrapolation_curves.png)",
        ],
        [
            "Why does sinusoidal collapse?",
            why_it_collapses(found["collapse"]),
            LINK["collapse"],
            "[waves](problem2/results/extrapolation/collapse.png)",
        ],
    ]
    schemes = found["study"]["summary"]["course"]
    seeds = len(schemes[USUAL]["seeds"])
    lengths = [[name, *(cell(schemes[name]["sets"][test], seeds) for test in SETS.values())] for name in COURSE]
    by_length = markdown([[f"sorted or not, by length; trained on 8–16; mean of {seeds} seeds", *SETS], *lengths])
    return f"{markdown([HEAD, *rows])}\n\n{by_length}"


def beyond(found: dict[str, dict]) -> str:
    """What the homework does not ask for."""
    fitting, proof = found["program"]["interchange"]["three_any"], found["proof"]
    runs = found["robustness"]["runs"]
    seeds = [run["errors"] for name, run in runs.items() if name.startswith("seed")]
    longer = [run for name, run in runs.items() if "hard" in run and not name.endswith("plain")]
    precisions = "proven in float64 and float32" if proof["proven_in_float32"] else "not proven in float32"
    others = {name: scheme for name, scheme in found["sorting"]["schemes"].items() if name not in COURSE}
    swapped = {name: scheme["sets"][ONE_SWAP] for name, scheme in found["sorting"]["schemes"].items()}
    sees_most = max(swapped, key=lambda name: swapped[name]["balanced_accuracy"])
    verdicts = [row["verdict"] for row in found["contradictions"]["table"]]
    step, evaluation = [timed["torch.nn"]["ratio"] for timed in found["speed"]["steps"].values()][:2]
    ours, usual = found["speed"]["training"]
    rows = [
        [
            "Which algorithm does it run?",
            f"a program of {len(found['program']['program'])} lines; given columns of unrelated sums, the model writes "
            f"what the program says in {percent(fitting['share'])} of {fitting['n']:,} cases",
            LINK["program"],
            "[circuit](beyond/program/results/program.png)",
        ],
        [
            "With other seeds?",
            f"{len(seeds)} more: {', '.join(f'{errors:,}' for errors in seeds) if any(seeds) else 'no'} errors in all "
            "sums of each",
            LINK["robustness"],
            "[report](report/report.pdf)",
        ],
        [
            "Five and ten digits?",
            f"{len(longer)} models trained on hard sums, too: "
            f"{sum(run['errors'] + run['hard']['errors'] for run in longer):,} errors, in "
            f"{min((run['pairs'] for run in longer), default=0):,} random and "
            f"{min((run['hard']['pairs'] for run in longer), default=0):,} hard pairs each",
            LINK["robustness"],
            "[report](report/report.pdf)",
        ],
        [
            "Numbers of any length?",
            f"as text, {precisions}: all {proof['local_contexts']:,} local contexts are right",
            LINK["proof"],
            "[margins](beyond/any_length/results/proof.png)",
        ],
        [
            "Which other encodings extrapolate?",
            right_far_away(others),
            LINK["sorting"],
            "[all schemes](problem2/results/extrapolation/extrapolation_schemes.png)",
        ],
        [
            "Is a perfect score enough?",
            f"no: of rows of length 16 with one swap of neighbours the best scheme ({sees_most}) calls "
            f"{percent(swapped[sees_most]['unsorted']['accuracy'])} not sorted, {USUAL} "
            f"{percent(swapped[USUAL]['unsorted']['accuracy'])}",
            LINK["sorting"],
            "[all schemes](problem2/results/extrapolation/extrapolation_schemes.png)",
        ],
        [
            "Why do published solutions disagree?",
            f"for {verdicts.count('sufficient cause')} of {len(verdicts)} published claims we found a cause that "
            "suffices",
            LINK["contradictions"],
            "[report](report/report.pdf)",
        ],
        [
            "How fast is it?",
            f"for addition torch.nn takes {step:.2f} times as long for a training step and {evaluation:.2f} for an "
            f"evaluation; ours is exact on all sums after {ours['to_exact']:.0f} s, the usual recipe at its best after "
            f"{usual['seconds']:.0f} s, with {usual['errors']:,} wrong",
            LINK["speed"],
            "[benchmarks](benchmarks/README.md)",
        ],
    ]
    return markdown([HEAD, *rows])


def right_far_away(schemes: dict[str, dict]) -> str:
    """Which schemes extrapolate to every one of the lengths, the best first, and which say one thing at the last."""
    far_sets = list(SETS.values())
    least = {name: min(scheme["sets"][test]["accuracy"] for test in far_sets) for name, scheme in schemes.items()}
    best = sorted((name for name in least if least[name] >= EXTRAPOLATES), key=least.get, reverse=True)
    constant = [name for name, scheme in schemes.items() if scheme["sets"][far_sets[-1]]["collapsed"]]
    return (
        f"at least 99% right to length 256: {', '.join(best) or 'no scheme'}; one answer to nearly everything at 256: "
        f"{', '.join(constant) or 'no scheme'}"
    )


def where_they_fail(results: dict) -> str:
    """'below 90% from length 17 (learned), 19 to 21 (sinusoidal) on', of the encodings that work in range."""
    shortest = results["lengths"][0]
    words = []
    for name, seeds in results["schemes"].items():
        firsts = [numbers["first_failure"] for numbers in seeds.values() if numbers["first_failure"] is not None]
        if firsts and min(firsts) > shortest:
            span = str(min(firsts)) if min(firsts) == max(firsts) else f"{min(firsts)} to {max(firsts)}"
            words.append(f"{name} at length {span}")
    return f"first below {results['works']:.0%}: {', '.join(words) or 'none that works in range'}"


def why_it_collapses(results: dict) -> str:
    """Which waves of its code are to blame, as far as the experiments say so."""
    experiments, seeds = results["experiments"], results["seeds"].values()
    repaired = min(cell["balanced_accuracy"] for seed in seeds for cell in seed["only slow true"].values())
    collapsed = all(cell["constant"] for seed in seeds for cell in seed["slow squeezed"].values())
    if repaired < EXTRAPOLATES or not collapsed:
        return "these runs do not tell"
    fast, slow = (len(experiments[name]["true"]) for name in ("slow squeezed", "only slow true"))
    longest = [*next(iter(seeds))["nothing"]][-1]
    right = "every row" if repaired == 1 else f"at least {percent(repaired)}"
    return (
        f"the {fast} fastest of its {fast + slow} waves: with these squeezed into trained phases it judges {right} "
        f"right to length {longest}, with only these true it gives one answer (each of {len(seeds)} seeds)"
    )


def cell(score: dict, seeds: int) -> str:
    """The mean over seeds, with a mark where every one of them gives one answer."""
    return percent(score["mean"], 1) + " †" * (score["collapsed_seeds"] == seeds)


def main() -> None:
    try:
        found = {name: read_json(ROOT / file, "`make help` says what makes it.") for name, file in FILES.items()}
        tables = {HOMEWORK: homework(found), BEYOND: beyond(found)}
    except (KeyError, TypeError, ValueError):
        raise UserError("results are incomplete, or of models that cannot add: see `make help`.") from None
    for block, table in tables.items():
        write_block(README, block, table)


if __name__ == "__main__":
    run(main, __doc__)
