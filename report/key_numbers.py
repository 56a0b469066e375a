"""The answers in README.md: sentences that a person wrote, with numbers from the results.

python report/key_numbers.py
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lab.files import UserError, read_bytes, read_json, write_text
from lab.settings import parse, run, setting

BLOCK = "answers: make readme"
FILES = {
    "verification": "problem1/results/verification.json",
    "robustness": "problem1/results/robustness.json",
    "proof": "problem1/results/text/proof.json",
    "scaling": "problem1/results/text/scaling.json",
    "ablation": "problem1/results/head_analysis/ablation_results.json",
    "pruning": "problem1/results/head_analysis/pruning_curve.json",
    "carry": "problem1/results/carry/summary.json",
    "sorting": "problem2/results/extrapolation/extrapolation_details.json",
}
COURSE = ("sinusoidal", "learned", "none")  # the encodings that the course asks for
SETS = {"8–16": "test"} | {str(length): f"extrapolation/{length}" for length in (32, 64, 128, 256)}
EXTRAPOLATES = 0.99  # accuracy at every one of these lengths
HOMEWORK = """\
| question of the homework | answer | file |
|---|---|---|
| Does the model add? | **{exact[errors]:,} of all {exact[pairs]:,} sums** of three-digit numbers are wrong; smallest \
logit margin {exact[smallest_margin]:.1f} | {verification} |
| With other seeds? | {by_seed} of {exact[pairs]:,} are wrong | {robustness} |
| Longer numbers? | of five digits {five[errors]:,} of {five[pairs]:,} new sums are wrong, of ten {ten[errors]:,} of \
{ten[pairs]:,} | {robustness} |
| Numbers of any length? | as text, {proven}: {text[failures]:,} errors in **all {text[local_contexts]:,} local \
contexts**; longest sums tried: {longest[digits]:,} digits, {longest[right]} of {longest[of]} right | {proof} |
| Which head matters most? | in the default model `{head}`: {lost} of the test sums are wrong without it | {ablation} |
| How many heads can be pruned for less than one point? | {prunable[alone]} of {heads}, each alone; \
**{prunable[together]} together** | {pruning} |
| How does the carry reach the answer? | patched from a sum with the other carry, at most {most} decoder \
cross-attention heads together flip at least {flips} of the digits that it changes | {carry} |
| Which positional encodings extrapolate? | at least 99% right at every length to 256: {best}; one answer to \
everything at 256: {constant} | {sorting} |
"""


@dataclass(frozen=True)
class Settings:
    readme: Path = setting(ROOT / "README.md", "the file that shows them", metavar="FILE")


def answers(root: Path = ROOT) -> str:
    """Two tables: the questions of the homework, and the positional encodings by length."""
    found = {name: read_json(root / file, "run `make`, and `make seeds`.") for name, file in FILES.items()}
    exact, runs = found["verification"], found["robustness"]["runs"]
    head, groups = found["ablation"]["ranking"][0], found["carry"]["groups"]
    brought = [group["minimal_sets"]["decoder cross"] for group in groups if group["pairs"]]
    scores = {name: {n: scheme["sets"][SETS[n]] for n in SETS} for name, scheme in found["sorting"]["schemes"].items()}
    least = {name: min(score["accuracy"] for score in scores[name].values()) for name in scores}
    best = sorted((name for name in scores if least[name] >= EXTRAPOLATES), key=least.get, reverse=True)
    table = HOMEWORK.format(
        **{name: f"[`{Path(file).name}`]({file})" for name, file in FILES.items()},
        exact=exact,
        by_seed=", ".join(f"{run['errors']:,}" for name, run in runs.items() if name.startswith("seed")),
        five=runs["digits5"],
        ten=runs["digits10"],
        text=found["proof"],
        proven="proven" if found["proof"]["proven"] else "not proven",
        longest=found["scaling"]["sizes"][-1],
        head=head,
        lost=percent(1 - found["ablation"]["heads"][head]["zero"]["accuracy"]),
        heads=found["pruning"]["heads"],
        prunable=found["pruning"]["prunable"]["zero"],
        most=max(len(chosen["heads"]) for chosen in brought),
        flips=percent(min(chosen["sufficiency"]["share"] for chosen in brought)),
        best=", ".join(best) or "not one",
        constant=", ".join(name for name in scores if scores[name]["256"]["collapsed"]) or "not one",
    )
    rows = [f"| {name} | {' | '.join(map(cell, scores[name].values()))} |" for name in dict.fromkeys([*COURSE, *best])]
    head = f"| sorted or not, by length; trained on 8–16 | {' | '.join(SETS)} |"
    return "\n".join([table, head, "|---" * (len(SETS) + 1) + "|", *rows])


def percent(share: float) -> str:
    """'99.95%'; never 100% for less than all."""
    return f"{round(100 * (share if share == 1 else min(share, 0.9999)), 2):g}%"


def cell(score: dict) -> str:
    return percent(score["accuracy"]) + " †" * score["collapsed"]


def main(settings: Settings) -> None:
    """Write the answers between their marks."""
    text = read_bytes(settings.readme, "name the README with --readme.").decode()
    try:
        block = answers()
    except (KeyError, TypeError, ValueError):
        raise UserError("results are incomplete, or of models that cannot add: run `make` and `make seeds`.") from None
    between = re.compile(rf"(<!-- {BLOCK} -->\n).*(<!-- end of {BLOCK} -->)", re.DOTALL)
    if not between.search(text):
        raise UserError(f"{settings.readme} has no lines <!-- {BLOCK} --> and <!-- end of {BLOCK} -->: put them back.")
    write_text(settings.readme, between.sub(lambda marks: f"{marks[1]}{block}\n{marks[2]}", text))


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
