"""The handful of numbers that README.md shows, read from the results and written between their marks there.

python report/key_numbers.py
"""

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lab.files import read_json
from lab.readme import write_block
from lab.settings import parse, run, setting

BLOCK = "key numbers: make report"
READ = (
    "problem1/results/verification.json",
    "problem1/results/robustness.json",
    "problem1/results/text/proof.json",
    "problem1/results/text/scaling.json",
    "problem2/results/study/study.json",
)
COLUMNS = (
    ("course", "test"),
    ("course", "extrapolation/32"),
    ("course", "extrapolation/256"),
    ("strict", "test"),
    ("strict", "extrapolation/1024"),
    ("strict", "adjacent/16"),
    ("strict", "adjacent/256"),
    ("strict", "adjacent/1024"),
)
HEADINGS = ("course: 8–16", "32", "256", "strict: 8–16", "1024", "16, one swap", "256, one swap", "1024, one swap")


@dataclass(frozen=True)
class Settings:
    readme: Path = setting(ROOT / "README.md", "the file that shows them", metavar="FILE")


def key_numbers() -> str:
    """Two tables: what the models of problem 1 do, and every scheme of problem 2 by length."""
    verified, robust, proof, scaling, study = (read_json(ROOT / name, "run `make`.") for name in READ)
    runs = robust["runs"]
    sizes = scaling["sizes"]
    lines = ["| question | answer | file |", "|---|---|---|"]

    def say(question: str, answer: str, name: str) -> None:
        lines.append(f"| {question} | {answer} | [`{Path(name).name}`]({name}) |")

    say(
        "wrong sums of the default model, three digits",
        f"**{verified['errors']:,} of all {verified['pairs']:,}** (the right digit ahead by at least "
        f"{verified['smallest_margin']:.1f} logits)",
        READ[0],
    )
    new = verified["never_seen_in_training"]
    say("of these, pairs that training cannot have shown", f"{new['errors']:,} wrong of {new['pairs']:,}", READ[0])
    seeds = [run for name, run in runs.items() if name.startswith("seed")]
    answer = ", ".join(f"{run['errors']:,}" for run in seeds)
    say(f"wrong sums with {len(seeds)} other seeds", f"{answer} of {seeds[0]['pairs']:,} each", READ[1])
    run = runs["bfloat16"]
    say("with matrix products in bfloat16 while training", f"{run['errors']:,} of {run['pairs']:,}", READ[1])
    for name, what in (("digits5", "five"), ("digits10", "ten")):
        run = runs[name]
        config = run["config"]
        recipe = f"{config['epochs']} epochs of batches of {config['batch_size']} of {run['train_size']:,} rows"
        answer = f"{run['errors']:,} wrong of {run['pairs']:,} fresh pairs"
        say(f"with {what} digits, {recipe}, weight decay {config['weight_decay']:g}", answer, READ[1])
    answer = f"**{proof['failures']:,} wrong of {proof['situations']:,}**, which are all that any sum is made of"
    say("addition as text: situations of a place value", answer, READ[2])
    largest = sizes[-1]
    say(
        f"addition as text, {largest['digits']:,} digits",
        f"{largest['right']} of {largest['of']} right, {largest['seconds_a_sum']:.0f} s a sum",
        READ[3],
    )
    summary = study["summary"]
    lines += ["", "Sorted or not: mean accuracy over training seeds, by length of the sequence"]
    lines[-1] += f" ([`study.json`]({READ[-1]}); † with every seed the same answer to everything)."
    lines += [
        "The first three columns are the course's protocol, the others the strict one, where half of the unsorted rows"
        " have a single swap of neighbours.",
        "",
        f"| scheme | {' | '.join(HEADINGS)} |",
        "|---" * (len(HEADINGS) + 1) + "|",
    ]
    for scheme in summary["course"]:
        cells = [_cell(summary.get(protocol, {}).get(scheme), name) for protocol, name in COLUMNS]
        lines.append(f"| {scheme} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(found: dict | None, name: str) -> str:
    """'99.95%', '54.6% †' for a constant classifier, or a dash where nothing was measured."""
    if found is None or name not in found["sets"]:
        return "–"
    this = found["sets"][name]
    if this["min"] == 1:
        text = "100%"
    elif this["mean"] > 0.99:  # never rounded up to what it is not
        text = f"{min(this['mean'], 0.9999):.2%}"
    else:
        text = f"{this['mean']:.1%}"
    return text + (" †" if this["collapsed_seeds"] == len(found["seeds"]) else "")


if __name__ == "__main__":
    run(lambda: write_block(parse(Settings, __doc__).readme, BLOCK, key_numbers()))
