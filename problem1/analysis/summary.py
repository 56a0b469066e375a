"""All that was measured of heads and of the carry, side by side: carry/summary.json, and carry/summary.txt for reading.

Also attention_patterns/in_detail.png: four heads with very different roles, where they look and what they do.
"""

from lab.files import write_text
from lab.hooks import short_name
from problem1.analysis import roles
from problem1.analysis.ablation import KINDS, NEEDED
from problem1.analysis.attention_maps import draw_in_detail
from problem1.analysis.context import Context
from problem1.analysis.patching import LARGEST_SET
from problem1.analysis.tables import aligned, percent


def collect(lost: dict, statistics: dict, patched: dict) -> dict:
    keys = ("name", "pairs", "minimal_sets")
    return {
        "groups": [{key: group[key] for key in keys if key in group} for group in patched["groups"]],
        **roles.collect(lost, lost["layers"], statistics, patched["groups"]),
    }


def as_text(results: dict) -> str:
    """carry/summary.txt"""
    parts = ["Heads and the carry: what was measured. Shares with their 95% intervals.", findings(results)]
    groups = [group for group in results["groups"] if group["pairs"]]
    parts += ["\n".join(aligned(*carry_table(groups)))] if groups else []
    parts += [f"{group['name']}: not measured, too few sums right" for group in results["groups"] if not group["pairs"]]
    return "\n\n".join(parts) + "\n"


def carry_table(groups: list[dict]) -> tuple[str, list]:
    rows, keys = [], ("sufficiency", "all_candidates", "complement_patched")
    for group in groups:
        found = group["minimal_sets"]["decoder cross"]
        rows.append([group["name"], *(percent(found[key]) for key in keys), ", ".join(map(short_name, found["heads"]))])
    header = "carry into|flips, chosen|flips, all decoder cross|flips, all others while the chosen are frozen"
    return f"{header}|chosen decoder cross heads, at most {LARGEST_SET}", rows


def points(about: dict) -> list[str]:
    return [f"{100 * about[kind]:.1f}" for kind in KINDS]


def role_table(heads: list[dict]) -> tuple[str, list]:
    shown = [about for about in heads if about["role"] != "not needed alone; brings no carry"]
    rows = [
        [about["label"], about["looks_at"], *points(about), f"{100 * about['most_flips']['share']:.0f}", about["role"]]
        for about in shown
    ]
    rows.append([f"{len(heads) - len(shown)} others", "", "", "", "", "not needed alone; brings no carry"])
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
    heads = {about["head"]: about for about in results["heads"]}
    needed = [head for head, about in heads.items() if about["reading"] == NEEDED and head.startswith("encoder.")]
    cross = [head for head in heads if ".cross." in head]
    wanted = [*needed[:1], max(cross, key=lambda head: heads[head]["most_flips"]["share"])]
    wanted += [lesson["head"] for lesson in results["lessons"].values() if lesson]
    chosen = list(dict.fromkeys([*wanted, *heads]))[:4]
    return {head: words(heads[head]) for head in chosen}


def words(about: dict) -> str:
    zero, mean = (f"{100 * about[kind]:.4g}" for kind in ("zero", "mean"))
    looks, flips = about["looks_at"].replace(" (", "\n  ("), 100 * about["most_flips"]["share"]
    lines = [
        f"looks at {looks}",
        "points lost without it:",
        f"  zero {zero}, mean {mean}",
        f"patched: flips ≤ {flips:.0f}%",
    ]
    return "\n".join([*lines, *("→ " + text.replace(", but", ",\n    but") for text in about["role"].split("; "))])


def run(context: Context, examples: dict, means: dict, *measured: dict) -> dict:
    """Write carry/summary.json, carry/summary.txt and the figure, from the results of the modules in `collect`."""
    results = context.write("carry/summary.json", collect(*measured))
    write_text(context.output_dir / "carry/summary.txt", as_text(results))
    path = context.output_dir / "attention_patterns/in_detail.png"
    draw_in_detail(in_detail(results), means, examples["examples"], context.num_digits, path)
    return results


def findings(results: dict) -> str:
    tables = [role_table(results["heads"]), *lesson_tables(results["lessons"])]
    return "\n\n".join("\n".join(aligned(*table)) for table in tables)
