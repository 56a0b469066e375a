"""What was measured of the carry, in one table: carry/summary.json, and carry/summary.txt for reading.

Numbers only. What they mean is for people to say.
"""

from lab.files import write_text
from problem1.analysis.ablation import KINDS, MEAN_SUFFICES, reading
from problem1.analysis.attention_shift import strongest
from problem1.analysis.context import Context
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


def aligned(rows: list[list[str]]) -> list[str]:
    """Columns of texts, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def as_text(results: dict) -> str:
    """carry/summary.txt"""
    measured = [group for group in results["groups"] if group["pairs"]]
    lines = ["The carry: what was measured. All shares in percent, with 95% intervals.", ""]
    if not results["meaningful"]:
        lines = [f"WARNING: {results['warning']}", "", *lines]
    lines += [f"Not measured, too few right: {group['name']}" for group in results["groups"] if not group["pairs"]]
    for name, side in (("cross-attention", "decoder cross"), ("encoder", "encoder")):
        rows = [["carry into", f"fewest {name} heads", "flips", "flips, all candidates", "flips, complement patched"]]
        for group in measured:
            found = group["minimal_sets"][side]
            shares = [percent(found[key]) for key in ("sufficiency", "all_candidates", "complement_patched")]
            rows.append([group["name"], " + ".join(found["heads"]) or "none", *shares])
        lines += [*aligned(rows), ""]

    rows = [["carry into", *(f"flips, {name}" for name in STAGES), "control, all heads", "control, largest single"]]
    for group in measured:
        stages = [percent(group["stages"][name]["flips"]) for name in STAGES]
        single = group["control"]["largest_single"]
        rows.append(
            [group["name"], *stages, percent(group["control"]["all heads"]), f"{percent(single)} {single['head']}"]
        )
    lines += [*aligned(rows), ""]

    rows = [
        ["carry into", "exact match", "smallest logit margin", "attention moves most", "moved", "digit alone", "flips"]
    ]
    for group in results["groups"]:
        shift = group["attention_shift"]
        moved = [f"{100 * shift[key]:.1f}" for key in ("moved", "moved_without_carry")]
        margin = f"{group['smallest_margin']:.2f}"
        flips = percent(shift.get("flips"))
        rows.append([group["name"], percent(group["exact_match"]), margin, shift["head"], *moved, flips])
    lines += [*aligned(rows), ""]

    rows = [
        ["operands against prefix", "digit", "follow operands", "follow prefix", "follow prefix, self-attention frozen"]
    ]
    for group in results["groups"]:
        conflict = group["prefix_conflict"]
        if conflict:
            shares = ("follows_operands", "follows_prefix", "follows_prefix_self_attention_frozen")
            rows.append([group["name"], conflict["digit"], *(percent(conflict[key]) for key in shares)])
    lines += [*aligned(rows), ""] if len(rows) > 1 else []

    rows = [["right after the digits of another sum", "share"]]
    rows += [[digit, percent(share)] for digit, share in results["random_prefix"].items()]
    lines += [*aligned(rows), ""]

    probes = results["probes"]
    rows = [["linear probes of the source: carry", "first layer read", "position", "best by layer", "majority"]]
    for entry in probes["first_readable"]:
        best = ", ".join(f"{100 * value:.1f}" for value in entry["best_by_layer"])
        where = [entry["first_layer"] or "none", entry["position"] or "-"]
        rows.append([entry["carry"], *where, best, f"{100 * entry['majority']:.1f}"])
    lines += aligned(rows)
    held_out, training = (100 * probes[f"best_control_{kind}"] for kind in ("held_out", "training"))
    lines += [
        f"shuffled labels, best probe: {held_out:.1f} on held-out pairs, {training:.1f} on its training pairs",
        "",
    ]

    rows = [["points lost without a head", "zero ablation", "mean ablation"]]
    costly = {head: drops for head, drops in results["heads"].items() if max(drops.values()) >= 0.01}
    rows += [[head, *(f"{100 * drops[kind]:.2f}" for kind in KINDS)] for head, drops in costly.items()]
    rows.append([f"the {len(results['heads']) - len(costly)} other heads", "below 1", "below 1"])
    return "\n".join([*lines, *aligned(rows)]) + "\n"


def run(context: Context, *measured: dict) -> dict:
    """Write carry/summary.json and carry/summary.txt, from the results of the modules that `collect` names."""
    results = context.write("carry/summary.json", collect(*measured))
    write_text(context.output_dir / "carry/summary.txt", as_text(results))
    return results


def findings(results: dict) -> str:
    return f"numbers on {len(results['groups'])} ways of a carry, side by side"
