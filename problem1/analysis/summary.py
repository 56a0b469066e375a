"""All that was measured of heads and of the carry, side by side: carry/summary.json, and carry/summary.txt for reading.

Also attention_patterns/in_detail.png: four heads with very different roles, where they look and what they do.
"""

from lab.files import write_text
from lab.hooks import Head, short_name
from problem1.analysis import roles
from problem1.analysis.ablation import KINDS, NEEDED
from problem1.analysis.attention_maps import draw_in_detail
from problem1.analysis.context import Context
from problem1.analysis.patching import LARGEST_SET
from problem1.analysis.tables import aligned, percent

QUESTION = "What is each head for?"
FILES = (
    "carry/summary.txt",
    "carry/summary.json",
    "attention_patterns/in_detail.png",
    "attention_patterns/in_detail.pdf",
)


def collect(results: dict[str, dict]) -> dict:
    """From what ablation, attention_statistics and patching found."""
    lost = results["ablation"]
    patched = results["patching"]["groups"]
    groups = []
    for group in patched:
        groups.append({key: group[key] for key in ("name", "pairs", "minimal_sets") if key in group})
    of_heads = roles.collect(lost, lost["layers"], results["attention_statistics"], patched)
    return {"groups": groups} | of_heads


def as_text(results: dict) -> str:
    """carry/summary.txt"""
    parts = ["Heads and the carry: what was measured. Shares with their 95% intervals.", findings(results)]
    groups = [group for group in results["groups"] if group["pairs"]]
    if groups:
        parts.append("\n".join(aligned(*carry_table(groups))))
    for group in results["groups"]:
        if not group["pairs"]:
            parts.append(f"{group['name']}: not measured, too few sums right")
    return "\n\n".join(parts) + "\n"


def carry_table(groups: list[dict]) -> tuple[str, list]:
    rows = []
    for group in groups:
        chosen = group["minimal_sets"]["decoder cross"]
        flips = [percent(chosen[key]) for key in ("sufficiency", "all_candidates", "complement_patched")]
        rows.append([group["name"], *flips, ", ".join(map(short_name, chosen["heads"]))])
    header = "carry into|flips, chosen|flips, all decoder cross|flips, all others while the chosen are frozen"
    return f"{header}|chosen decoder cross heads, at most {LARGEST_SET}", rows


def points(about: dict) -> list[str]:
    return [f"{100 * about[kind]:.1f}" for kind in KINDS]


def role_table(heads: list[dict]) -> tuple[str, list]:
    rows = []
    for about in heads:
        if about["role"] != roles.NONE:
            flips = f"{100 * about['most_flips']['share']:.0f}"
            rows.append([about["label"], about["looks_at"], *points(about), flips, about["role"]])
    rows.append([f"{len(heads) - len(rows)} others", "", "", "", "", roles.NONE])
    return "head|looks at|points lost, zero|mean|% flipped at most|role", rows


def lesson_tables(lessons: dict) -> list[tuple[str, list]]:
    signal, moves, spare = lessons.values()
    tables = []
    if signal:
        digits = ", ".join(f"{digit} {100 * lost:.0f}" for digit, lost in signal["digits_lost"].items())
        row = [signal["label"], *points(signal), f"{100 * signal['most_flips']['share']:.0f}%", digits]
        tables.append(("needed, but brings nothing|points lost, zero|mean|flips at most|digits lost", [row]))
    if moves:
        cells = [f"{100 * moves['attention'][key]:.0f}%" for key in ("moved", "moved_without_carry")]
        row = [moves["label"], moves["group"], *cells, percent(moves["flips"])]
        tables.append(("attention moves, nothing flips|carry into|moved|by a digit alone|flips", [row]))
    if spare:
        wrong = [percent(spare["wrong_without"][kind]) for kind in KINDS]
        row = [spare["label"], spare["group"], percent(spare["flips"]), " / ".join(points(spare)), *wrong]
        header = "flips, but is not needed|carry into|flips|test points lost, zero / mean"
        tables.append((f"{header}|wrong on these pairs, zero|mean", [row]))
    return tables


def in_detail(results: dict) -> dict[str, str]:
    """Four heads with different roles, and in words what each does."""
    abouts = {about["head"]: about for about in results["heads"]}  # the most important first
    heads = [Head.parse(name) for name in abouts]
    needed = [head.name for head in heads if head.side == "encoder" and abouts[head.name]["reading"] == NEEDED]
    cross = [head.name for head in heads if head.kind == "cross"]
    wanted = [*needed[:1], max(cross, key=lambda name: abouts[name]["most_flips"]["share"])]
    wanted += [lesson["head"] for lesson in results["lessons"].values() if lesson]
    chosen = list(dict.fromkeys([*wanted, *abouts]))[:4]  # each once
    return {name: words(abouts[name]) for name in chosen}


def words(about: dict) -> str:
    """A few short lines for a figure."""
    looks = about["looks_at"].replace(" (", "\n  (")
    lines = [
        f"looks at {looks}",
        "points lost without it:",
        f"  zero {100 * about['zero']:.4g}, mean {100 * about['mean']:.4g}",
        f"patched: flips ≤ {100 * about['most_flips']['share']:.0f}%",
    ]
    for text in about["role"].split("; "):
        lines.append("→ " + text.replace(", but", ",\n    but"))
    return "\n".join(lines)


def run(context: Context) -> dict:
    """Write carry/summary.json, carry/summary.txt and the figure, from the results of the analyses before."""
    results = context.write("carry/summary.json", collect(context.results))
    write_text(context.output_dir / "carry/summary.txt", as_text(results))
    path = context.output_dir / "attention_patterns/in_detail.png"
    means = context.results["attention_maps"]
    examples = context.results["examples"]["examples"]
    draw_in_detail(in_detail(results), means, examples, context.num_digits, path)
    return results


def findings(results: dict) -> str:
    tables = [role_table(results["heads"]), *lesson_tables(results["lessons"])]
    return "\n\n".join("\n".join(aligned(*table)) for table in tables)
