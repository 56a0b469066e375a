"""What was found, in README.md and in those of beyond/: sentences that a person wrote, with numbers from the results.

python report/readme.py

A sentence that the results do not bear out says so.
"""

import csv
import io
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import lab.installed

from lab.files import UserError, read_bytes, read_json, write_block
from lab.hooks import short_name
from lab.settings import run
from lab.tables import markdown, percent
from problem2.positional_encoding import HOMEWORK, SCHEMES
from report.sentences import at_least, at_most, claim, down, paragraph, span, up

README = ROOT / "README.md"
# the blocks of README.md
FOUND = "what was found: make readme"
ANSWERS = "answers: make readme"
ANSWER = "answer: make readme"  # the block of a README of beyond/
POINT = 0.01
FILES = {
    "verification": "problem1/results/verification.json",
    "statistics": "problem1/results/head_analysis/head_specialization.json",
    "ablation": "problem1/results/head_analysis/ablation_results.json",
    "pruning": "problem1/results/head_analysis/pruning_curve.json",
    "patching": "problem1/results/carry/patching.json",
    "details": "problem2/results/extrapolation/extrapolation_details.json",
    "lengths": "problem2/results/extrapolation/accuracy_by_length.json",
    "collapse": "problem2/results/extrapolation/collapse.json",
    "table": "problem2/results/extrapolation/learned_position_embeddings.json",
    "program": "beyond/program/results/program.json",
    "population": "beyond/population/results/population.json",
    "proof": "beyond/any_length/results/proof.json",
    "sizes": "beyond/any_length/results/sizes.json",
    "rounding": "beyond/rounding/results/rounding.json",
    "study": "beyond/schemes/results/study.json",
    "published": "beyond/published/results/contradictions.json",
}
ROWS_OF_SEEDS = "beyond/population/results/population.csv"
FAR = [f"extrapolation/{length}" for length in (32, 64, 128, 256)]
ONE_SWAP = "adjacent/16"  # rows of length 16, the unsorted ones with one swap of neighbours
HOLDS = 0.99  # accuracy at every one of these lengths, with every seed
SHOWN = ("sinusoidal", "learned", "none", "rope", "alibi", "window", "randomized")


# --- what was found --------------------------------------------------------------------------------------------------


def what_was_found(found: dict) -> str:
    """Both problems in a few sentences, a figure and a table."""
    exact = found["verification"]
    opposite = found["program"]["opposite_carries"]
    seeds = found["population"]["seeds"]
    wrong = [int(row["wrong"]) for row in found["seeds"]]
    also = f"{seeds['exact']['models']} of {seeds['models']} further trainings make none either"
    if any(wrong):
        also += f" (the worst is wrong on {max(wrong):,})"
    look_ahead = seeds["look_ahead"]
    unchanged = seeds["no_answer_changed_by_opposite_carries"]
    first = [
        claim(
            exact["exhaustive"] and exact["errors"] == 0 and seeds["exact"]["models"] > 0.9 * seeds["models"],
            "A two-layer encoder–decoder reads 347+159 and writes 0506, digit by digit: "
            f"{exact['errors']:,} errors in all "
            f"{exact['pairs']:,} sums; {also}.",
        ),
        claim(
            opposite["wrong"] == 0,
            "It is a *carry look-ahead adder*: to write a digit, the decoder asks every lower column whether its "
            "digits sum to less than 9, to 9, or to more. Replace the encoder's output for each column by its output "
            "for the same two digits in an unrelated sum, where the opposite carry comes in: "
            f"{opposite['wrong']:,} of {opposite['n']:,} answers change.",
        ),
        claim(
            look_ahead["of"] / 2 < look_ahead["models"] < look_ahead["of"],
            f"Of {look_ahead['of']} further trainings {unchanged['models']} pass this test; {look_ahead['models']} "
            "look the carry up in five of six cases, the others take some carry from elsewhere.",
        ),
    ]
    changed = {
        name: [cell for seed in found["collapse"]["seeds"].values() for cell in seed[name].values()]
        for name in ("only slow true", "only middle true")
    }
    least = min(cell["balanced_accuracy"] for cell in changed["only slow true"])
    middle = found["collapse"]["bands"]["middle"]
    fast = len(found["collapse"]["experiments"]["slow squeezed"]["true"])
    waves = len(found["collapse"]["turns_in_training"])
    course = accuracies(found)
    failures = {name: first_failures(found, name) for name in ("sinusoidal", "learned")}
    second = [
        claim(
            max(failures["learned"]) < min(failures["sinusoidal"]) <= max(failures["sinusoidal"]) < 32
            and all(course[name]["sets"][test]["sorted"] < POINT for name in failures for test in FAR),
            "Is a row sorted? Trained on 8 to 16 values, learned positions fail from length "
            f"{span(failures['learned'])} on, sinusoidal ones from {span(failures['sinusoidal'])}, and soon they say "
            '"unsorted" to every row.',
        ),
        claim(
            least >= HOLDS and all(cell["constant"] for cell in changed["only middle true"]),
            f"Of the {waves} waves of a sinusoidal code {len(middle)} are enough for that; with the {fast} fastest "
            f"squeezed into the trained range, the model is right on {down(least)} up to length 256.",
        ),
        claim(
            all(course[name]["sets"][test]["min"] > HOLDS for name in ("alibi", "window", "randomized") for test in FAR)
            and max(course[name]["sets"][ONE_SWAP]["unsorted"] for name in SHOWN if name != "none") < 0.95,
            "Other schemes hold, but only where rows are far from sorted (last column):",
        ),
    ]
    note = (
        "† one constant answer: this is the share of a class, not skill (†¹: with one seed of three). Last column: of "
        "rows of length 16 with one swap of two neighbours, how many are called unsorted."
    )
    return "\n\n".join(
        [
            paragraph("**Problem 1, addition.**", *first),
            "![What each column tells each digit](beyond/program/results/program.png)",
            paragraph("**Problem 2, order.**", *second),
            by_length(course),
            paragraph(note),
        ]
    )


def accuracies(found: dict) -> dict:
    """Of each scheme its seeds and test sets: the homework's from problem 2's results, the others from the study."""
    homework = {name: found["details"]["schemes"][name]["over_seeds"] for name in HOMEWORK}
    return found["study"]["summary"]["course"] | homework


def first_failures(found: dict, scheme: str) -> list[int]:
    return [seed["first_failure"] for seed in found["lengths"]["schemes"][scheme].values()]


def by_length(course: dict) -> str:
    seeds = span([len(course[name]["seeds"]) for name in SHOWN])
    header = [f"accuracy, mean of {seeds} seeds", "8–16", "32", "64", "128", "256", "one swap noticed"]
    rows = []
    for name in SHOWN:
        sets = course[name]["sets"]
        noticed = "–" if name == "none" else percent(sets[ONE_SWAP]["unsorted"], 0)
        in_range = percent(sets["test"]["mean"], 1)
        rows.append([name, in_range, *(cell(sets[test], course[name]["seeds"]) for test in FAR), noticed])
    return markdown([header, *rows])


def cell(numbers: dict, seeds: list) -> str:
    """A mean over seeds, marked where all or some of the models give one constant answer."""
    constant = numbers["collapsed_seeds"]
    mark = "" if not constant else " †" if constant == len(seeds) else " †" + "¹²³⁴⁵"[constant - 1]
    return percent(numbers["mean"], 1) + mark


# --- the homework's questions ----------------------------------------------------------------------------------------


def answers(found: dict) -> str:
    """The homework's questions with an answer and a figure each, then what goes beyond."""
    heads = found["ablation"]["heads"]
    needed = sum(max(head[kind]["drop"] for kind in ("zero", "mean")) >= POINT for head in heads.values())
    worst = found["ablation"]["ranking"][0]
    lost = [heads[worst][kind]["drop"] for kind in ("zero", "mean")]
    targets = [head["main_target"] for head in found["statistics"]["heads"].values()]
    prunable = found["pruning"]["prunable"]
    patched = found["patching"]
    flipped = [group["stages"]["carrying heads"]["flips"]["share"] for group in patched["groups"]]
    others = [group["stages"]["all other heads"]["flips"]["share"] for group in patched["groups"]]
    course = accuracies(found)
    hold = [name for name, scheme in course.items() if min(scheme["sets"][test]["min"] for test in FAR) > HOLDS]
    table = found["table"]
    middle = found["collapse"]["bands"]["middle"]
    alone = [cell for seed in found["collapse"]["seeds"].values() for cell in seed["only middle true"].values()]
    rows = [
        [
            "Does the model learn?",
            f"exact on the validation sums after {found['first_perfect_epoch']} epochs",
            "[curves](problem1/results/training_curves.png)",
        ],
        [
            "What do the heads attend to?",
            f"{targets.count('same column')} of {len(targets)} mainly to their own column, "
            f"{targets.count('lower column')} to the column below, {targets.count('uniform')} everywhere alike",
            "[all heads](problem1/results/attention_patterns/overview.png), "
            "[four in detail](problem1/results/attention_patterns/in_detail.png), "
            "[one sum followed](problem1/results/carry/followed.png)",
        ],
        [
            "Which heads are critical?",
            f"{needed} of {len(heads)} cost a point or more alone; {short_name(worst)} most, {100 * lost[0]:.1f} "
            f"points set to zero, {100 * lost[1]:.1f} set to its mean",
            "[importance](problem1/results/head_analysis/head_importance.png)",
        ],
        [
            "How many can be pruned?",
            f"{prunable['alone']} one at a time, only **{prunable['together']} together**",
            "[pruning](problem1/results/head_analysis/pruning_curve.png)",
        ],
        [
            "How do heads handle the carry?",
            f"{len(patched['carrying_heads'])} cross-attention heads fetch it: put into another sum, together they "
            f"flip {at_least(min(flipped))} of the digits, all others, with these held, {at_most(max(others))}",
            "[patching](problem1/results/carry/patching_heads.png)",
        ],
        [
            "Which encodings extrapolate?",
            f"of the homework's three none; of {len(course)} tried, right on more than 99% up to length 256: "
            f"{', '.join(map(linked, hold)) or 'none'}",
            "[every length](problem2/results/extrapolation/extrapolation_curves.png), "
            "[encodings compared](problem2/results/extrapolation/encoding_comparison.png)",
        ],
        [
            "Why does sinusoidal fail?",
            claim(
                all(cell["constant"] for cell in alone),
                f"waves {middle[0]} to {middle[-1]} alone, beyond their trained range, make it say one thing to all",
            ),
            "[waves](problem2/results/extrapolation/collapse.png)",
        ],
        [
            "Why does learned fail?",
            f"its rows from {table['trained_positions']} on are never trained: the cosine of neighbouring rows is "
            f"{abs(table['neighbour_cosine_untouched']):.2f}; of trained ones {table['neighbour_cosine_trained']:.2f}",
            "[table](problem2/results/extrapolation/learned_position_embeddings.png)",
        ],
    ]
    return markdown([["question", "answer", "see"], *rows, *further(found)])


def linked(scheme: str) -> str:
    """The name, with a link where problem2/train.py does not know it."""
    return scheme if scheme in SCHEMES else f"[{scheme}](beyond/schemes)"


def further(found: dict) -> list[list[str]]:
    """What the homework does not ask for: rows of the same table."""
    rebuilt = found["program"]["rebuilt"]
    proof = found["proof"]
    verdicts = [row["verdict"] for row in found["published"]["table"]]
    said = [row["verdict"] for row in found["published"]["statements"]]
    population = found["population"]
    seeds = population["seeds"]
    low, high = seeds["look_ahead"]["interval_95"]
    return [
        [
            "*Beyond it:* which algorithm is it?",
            f"look-ahead; the decoder run on {rebuilt['by variable']['entries']} pairs of vectors in place of the "
            f"encoder: {rebuilt['by variable']['wrong']:,} of {rebuilt['by variable']['n']:,} sums wrong",
            "[program](beyond/program)",
        ],
        [
            "*Beyond it:* in how many trainings?",
            f"{seeds['look_ahead']['models']} of {seeds['models']} look the carry up in five of six cases "
            f"(95%: {down(low, 0)} to {up(high, 0)})",
            "[population](beyond/population)",
        ],
        [
            "*Beyond it:* numbers of any length?",
            claim(
                proof["proven"] and proof["proven_in_float32"],
                f"as text, proven in float64 and float32: all {proof['local_contexts']:,} local contexts are right",
            ),
            "[any_length](beyond/any_length)",
        ],
        [
            "*Beyond it:* why do published solutions disagree?",
            f"{verdicts.count('found in the code')} of {len(verdicts)} published numbers follow from public code; of "
            f"{len(said)} statements {said.count('refuted')} are refuted here",
            "[published](beyond/published)",
        ],
    ]


def upstairs(found: dict) -> dict[str, str]:
    """The answers of folders of beyond/."""
    program = found["program"]
    population = found["population"]
    rounding = found["rounding"]
    proof = found["proof"]
    seeds = found["population"]["seeds"]
    opposite = program["opposite_carries"]
    outside = program["outside"]
    rebuilt = program["rebuilt"]["by variable"]
    runs = found["sizes"]["runs"]
    failing = {run["parameters"] for run in runs if not run["proven"]}
    smallest = min({run["parameters"] for run in runs} - failing, default=0)
    in_all = [name for name, entry in population["statements"].items() if entry["models"] == entry["of"]]
    return {
        "program": paragraph(
            claim(
                opposite["wrong"] == 0 and rebuilt["share"] > HOLDS,
                "Carry look-ahead, in the default model: each digit reads from every column below it whether it sums "
                "to less than 9, to 9, or to more. Replace each column's memory by that of an unrelated sum with the "
                f"same two digits and the opposite carry coming in: {opposite['wrong']:,} of {opposite['n']:,} answers "
                "change. Given other columns for each digit, as no sum can hold them, the model writes what the "
                f"program says in {percent(outside['share'], 1)}. Run on {rebuilt['entries']} pairs of vectors in "
                f"place of the encoder, the decoder is wrong on {rebuilt['wrong']:,} of {rebuilt['n']:,} sums.",
            )
        ),
        "population": paragraph(
            f"Of {seeds['models']} seeds {seeds['exact']['models']} are exact on all 810,000 sums, and "
            f"{seeds['look_ahead']['models']} look the carry up in five of six cases; the others take some carry from "
            "elsewhere. "
            f"{len(in_all)} of the {len(population['statements'])} statements that we tried hold in all: "
            f"{'; '.join(in_all)}. More: [beyond.pdf](../beyond.pdf)."
        ),
        "rounding": paragraph(
            claim(
                rounding["holds"],
                "Yes, with the default model, on each machine that computes in float64 as IEEE 754 says, in any order "
                f"of summation: over all {rounding['pairs']:,} sums the right logit leads by at least "
                f"{math.floor(100 * rounding['smallest_margin']) / 100}, and rounding can change no lead by more than "
                f"{math.ceil(1e4 * rounding['largest_radius']) / 1e4}. In float32 this bound is too wide to say "
                "anything; there we measure the spread over threads, batch sizes and libraries instead.",
            )
        ),
        "any_length": paragraph(
            claim(
                proof["proven"] and proof["proven_in_float32"],
                "Yes: the model here, trained on numbers of 1 to 13 digits, writes the right symbol in all "
                f"{proof['local_contexts']:,} local contexts that a sum of any length can meet, with a logit margin of "
                f"at least {math.floor(10 * proof['smallest_margin']) / 10}; rounding cannot reach that margin in "
                f"float64 or float32. {smallest:,} weights are enough for a proof in float64 with every seed tried.",
            )
        ),
    }


def main() -> None:
    try:
        hint = "`make help` says what makes it."
        found = {name: read_json(ROOT / file, hint) for name, file in FILES.items()}
        rows = csv.DictReader(io.StringIO(read_bytes(ROOT / ROWS_OF_SEEDS, hint).decode()))
        found["seeds"] = [row for row in rows if row["model"].startswith("seed")]
        log = read_json(ROOT / "problem1/results/training_log.json", hint)
        found["first_perfect_epoch"] = log["first_perfect_epoch"]
        blocks = [(README, FOUND, what_was_found(found)), (README, ANSWERS, answers(found))]
        blocks += [(README.parent / f"beyond/{name}/README.md", ANSWER, text) for name, text in upstairs(found).items()]
    except (KeyError, TypeError, ValueError):
        raise UserError("results are incomplete, or of models that cannot add: see `make help`.") from None
    for path, name, text in blocks:
        write_block(path, name, text)


if __name__ == "__main__":
    run(main, __doc__)
