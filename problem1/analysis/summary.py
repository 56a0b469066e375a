"""What is each head for? One table of what the analyses before found: carry/summary.txt, and .json for the report.

looks at      its main target (attention_statistics): seen
points lost   of the test sums, without the head and with its mean (ablation): an intervention
flips         at most, over the cases of patching: an intervention
does          all three in a few words

Also attention_patterns/in_detail.png: four heads that do different things. All of it is about this one model: trained
from another seed, other heads do these things, or the same ones do others.
"""

from lab.files import write_text
from lab.hooks import Head, short_name
from problem1.analysis.ablation import DRAWN, KINDS, MEAN_SUFFICES, NEEDED, largest_drop, reading
from problem1.analysis.attention_maps import draw_in_detail
from problem1.analysis.context import Context
from problem1.analysis.patching import BRINGS, MOST
from problem1.analysis.tables import text_table

QUESTION = "What is each head for?"
FILES = (
    "carry/summary.txt",
    "carry/summary.json",
    "attention_patterns/in_detail.png",
    "attention_patterns/in_detail.pdf",
)
DETAILED = 4  # heads in the figure
REMOVABLE = "can be removed alone"


def collect(lost: dict, statistics: dict, groups: list[dict]) -> list[dict]:
    """All heads, the one that costs most first, from what ablation, attention_statistics and patching found."""
    groups = [group for group in groups if group["pairs"]]
    return [about_head(head, lost["heads"][head], statistics["heads"][head], groups) for head in lost["ranking"]]


def about_head(head: str, entry: dict, attends: dict, groups: list[dict]) -> dict:
    most_flips = {"group": None, "share": 0.0}
    if groups:
        best = max(groups, key=lambda group: group["heads"][head]["flips"]["share"])
        most_flips = {"group": best["name"], **best["heads"][head]["flips"]}
    about = {
        "head": head,
        "label": short_name(head),
        "looks_at": attends["description"],
        "main_target": attends["main_target"],
        **{kind: entry[kind]["drop"] for kind in KINDS},
        "reading": reading(entry),
        "most_flips": most_flips,
    }
    about["does"] = in_words(about)
    about["shown"] = largest_drop(entry) >= DRAWN or most_flips["share"] >= BRINGS
    return about


def in_words(about: dict) -> str:
    """What a head does, in at most six words."""
    in_encoder = Head.parse(about["head"]).side == "encoder"
    same_column = about["main_target"] == "same column"
    needed = about["reading"] == NEEDED
    flips = about["most_flips"]["share"]
    if about["reading"] == MEAN_SUFFICES:
        return MEAN_SUFFICES
    if needed and in_encoder and same_column:
        return "pairs a column's digits"
    if flips >= MOST:
        return "fetches the carry" if needed else "fetches the carry, too"
    if needed and same_column:
        return "reads the column it writes"
    if needed:
        return "needed"
    if flips >= BRINGS:
        return "helps to fetch the carry"
    return REMOVABLE


def head_table(heads: list[dict]) -> list[str]:
    rows = []
    for about in heads:
        if about["shown"]:
            points = [f"{100 * about[kind]:.1f}" for kind in KINDS]
            flips = f"{100 * about['most_flips']['share']:.0f}"
            target = about["looks_at"].partition(",")[0]
            rows.append([about["label"], target, *points, flips, about["does"]])
    others = len(heads) - len(rows)
    less = f"<{100 * DRAWN:g}"
    rows.append([f"{others} others", "", less, less, f"<{100 * BRINGS:g}", REMOVABLE])
    return text_table("head|looks at|zero|mean|flips|does", rows)


def as_text(results: dict) -> str:
    """carry/summary.txt"""
    lines = [
        "What each head of this one model is for. From another seed, other heads do these things.",
        "",
        *head_table(results["heads"]),
        "",
        "looks at: the main target of its attention, and the share that goes there.",
        "zero, mean: points of exact match lost on the test sums, with the output set to 0 or to its mean.",
        "flips: % of pairs of sums whose digit flips when this head alone is patched, where it flips most.",
    ]
    return "\n".join(lines) + "\n"


def in_detail(heads: list[dict]) -> dict[str, str]:
    """The most important head of each kind, and what it does."""
    chosen: dict[str, str] = {}
    for about in heads:
        if about["does"] not in chosen.values() and len(chosen) < DETAILED:
            chosen[about["head"]] = about["does"]
    return chosen


def run(context: Context) -> dict:
    """Write carry/summary.json, carry/summary.txt and the figure, from the results of the analyses before."""
    found = context.results
    heads = collect(found["ablation"], found["attention_statistics"], found["patching"]["groups"])
    results = context.write("carry/summary.json", {"heads": heads})
    write_text(context.output_dir / "carry/summary.txt", as_text(results))
    path = context.output_dir / "attention_patterns/in_detail.png"
    examples = found["examples"]["examples"]
    draw_in_detail(in_detail(heads), found["attention_maps"], examples, context.num_digits, path)
    return results


def findings(results: dict) -> str:
    return "\n".join(head_table(results["heads"]))
