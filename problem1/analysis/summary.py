"""What was measured of the carry, in one table: carry/summary.json, and carry/summary.txt for reading.

Numbers only. What they mean is for people to say.
"""

from lab.files import write_text
from problem1.analysis.ablation import KINDS, MEAN_SUFFICES, SMALL, reading
from problem1.analysis.attention_shift import strongest
from problem1.analysis.carry_through_nines import FOLLOWS
from problem1.analysis.context import Context
from problem1.analysis.figures import aligned
from problem1.analysis.patching import LARGEST_SET
from problem1.analysis.probes import best_control, first_readable

STAGES = ("all encoder", "all decoder self", "all decoder cross")


def collect(ablation: dict, pruning: dict, patching: dict, probes: dict, nines: dict, shift: dict) -> dict:
    conflicts = {conflict["name"]: conflict for conflict in nines["prefix_conflict"]}
    margins = {group["name"]: group for group in nines["groups"]}
    shifts = {group["name"]: group for group in shift["groups"]}
    heads = ablation["heads"]
    return {
        "groups": [
            about_group(group, margins[group["name"]], conflicts.get(group["name"]), shifts[group["name"]])
            for group in patching["groups"]
        ],
        "random_prefix": nines["random_prefix"],
        "probes": {
            "first_readable": first_readable(probes),
            "best_control_held_out": best_control(probes, "control_held_out"),
            "best_control_training": best_control(probes, "control_training"),
        },
        "heads": {head: {kind: heads[head][kind]["drop"] for kind in KINDS} for head in ablation["ranking"]},
        "mean_suffices": [head for head in ablation["ranking"] if reading(heads[head]) == MEAN_SUFFICES]
        if ablation["meaningful"]
        else None,
        "prunable": pruning["prunable"],
    }


def about_group(patched: dict, margins: dict, conflict: dict | None, shift: dict) -> dict:
    """All that was measured where a carry goes into one digit, straight or through 9s."""
    about = {key: patched[key] for key in ("name", "digit", "nines", "pairs", "example")}
    both = [margins["with_carry"], margins["without_carry"]]
    about |= {
        "exact_match": min(both, key=lambda cell: cell["share"]),
        "smallest_margin": min(cell["smallest_margin"] for cell in both),
        "prefix_conflict": conflict,
    }
    head = strongest(shift)
    about["attention_shift"] = {"head": head} | {
        key: shift["heads"][head][key] for key in ("moved", "moved_without_carry")
    }
    if not patched["pairs"]:
        return about
    single = {name: share for name, share in patched["control"].items() if name != "all heads"}
    worst = max(single, key=lambda name: single[name]["share"] or 0)
    about["attention_shift"]["flips"] = patched["heads"][head]["flips"]
    return about | {
        "minimal_sets": patched["minimal_sets"],
        "stages": {name: patched["stages"][name] for name in STAGES},
        "control": {"all heads": patched["control"]["all heads"], "largest_single": {"head": worst} | single[worst]},
    }


def percent(share: dict | None) -> str:
    """'97.3 (95.1 to 98.6)'"""
    if share is None or share["share"] is None:
        return "-"
    low, high = share["interval_95"]
    return f"{100 * share['share']:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def as_text(results: dict) -> str:
    """carry/summary.txt"""
    groups, probes, tables = results["groups"], results["probes"], []
    measured = [group for group in groups if group["pairs"]]
    for side in ("decoder cross", "encoder"):
        chosen = f"chosen {side} heads, at most {LARGEST_SET}"
        sets = [(group["name"], group["minimal_sets"][side]) for group in measured]
        keys = ("sufficiency", "all_candidates", "complement_patched")
        rows = [[name, *(percent(found[key]) for key in keys), ", ".join(found["heads"])] for name, found in sets]
        tables.append((f"carry into|flips, chosen|flips, all {side}|flips, the others|{chosen}", rows))

    rows = []
    for group in measured:
        single = group["control"]["largest_single"]
        stages = [percent(group["stages"][name]["flips"]) for name in STAGES]
        control = [percent(group["control"]["all heads"]), f"{percent(single)} {single['head']}"]
        rows.append([group["name"], *stages, *control])
    stages = "|".join(f"flips, {name}" for name in STAGES)
    tables.append((f"carry into|{stages}|control, all heads|control, largest single", rows))

    rows = []
    for group in groups:
        shift = group["attention_shift"]
        cells = [percent(group["exact_match"]), f"{group['smallest_margin']:.2f}"]
        cells += [f"{100 * shift[key]:.1f}" for key in ("moved", "moved_without_carry")]
        rows.append([group["name"], *cells, percent(shift.get("flips")), shift["head"]])
    columns = "carry into|exact match|smallest margin|attention moved|digit alone|flips|head whose attention moves most"
    tables.append((columns, rows))

    conflicts = [group["prefix_conflict"] for group in groups if group["prefix_conflict"]]
    rows = [[f"{cell['digit']} of 9: {cell['name']}", *(percent(cell[key]) for key in FOLLOWS)] for cell in conflicts]
    columns = "prefix of the other carry|follow operands|follow prefix|follow prefix, self-attention frozen"
    tables.append((columns, rows))
    rows = [[digit, percent(share)] for digit, share in results["random_prefix"].items()]
    tables.append(("prefix of another sum|right", rows))

    rows = []
    for entry in probes["first_readable"]:
        best = ", ".join(f"{100 * value:.1f}" for value in entry["best_by_layer"])
        where = [entry["first_layer"] or "none", entry["position"] or "-"]
        rows.append([entry["carry"], *where, best, f"{100 * entry['majority']:.1f}"])
    for kind in ("held_out", "training"):
        best = f"{100 * probes[f'best_control_{kind}']:.1f}"
        rows.append([f"control, {kind.replace('_', ' ')} pairs", "", "", best, ""])
    tables.append(("linear probe in the source: carry|first layer|position|best by layer|majority", rows))

    costly = {head: drops for head, drops in results["heads"].items() if max(drops.values()) >= SMALL}
    rows = [[head, *(f"{100 * drops[kind]:.2f}" for kind in KINDS)] for head, drops in costly.items()]
    rows.append([f"all others ({len(results['heads']) - len(costly)})", "below 1", "below 1"])
    tables.append(("points lost without a head|zero ablation|mean ablation", rows))

    parts = [] if results["meaningful"] else [f"WARNING: {results['warning']}"]
    parts.append("The carry: what was measured. Shares in percent, with their 95% intervals.")
    parts += [f"{group['name']}: not measured, too few sums right" for group in groups if not group["pairs"]]
    return "\n\n".join(parts + ["\n".join(aligned(columns, rows)) for columns, rows in tables if rows]) + "\n"


def run(context: Context, *measured: dict) -> dict:
    """Write carry/summary.json and carry/summary.txt, from the results of the modules that `collect` names."""
    results = context.write("carry/summary.json", collect(*measured))
    write_text(context.output_dir / "carry/summary.txt", as_text(results))
    return results


def findings(results: dict) -> str:
    return f"numbers on {len(results['groups'])} ways of a carry, side by side"
