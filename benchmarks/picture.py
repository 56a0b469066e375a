"""What the benchmarks found, for people: one figure, and the table that README.md holds between two marks."""

from pathlib import Path

from lab.figures import COLOURS, LINES, MARKS, plt, save
from lab.readme import write_block

BLOCK = "benchmarks: make bench"
LABEL = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
AXES = {
    "width": "d_model",
    "digits": "digits of an operand",
    "length": "length of the sequence",
    "operand": "digits of an operand (text)",
}


def rows(parts: dict, brief: bool = False) -> list[tuple[str, str, str]]:
    """(what, beside what, figure) for everything that was measured; `brief` leaves the variants out."""
    out = []
    steps = {threads: found for threads, found in parts.get("steps", {}).items() if threads != "measured_with"}
    for threads, found in steps.items():
        if brief and threads != max(steps, key=int):
            continue
        on = f"{threads} thread{'s' if threads != '1' else ''}"
        for problem, name in (("addition", "problem 1"), ("sorting", "problem 2")):
            for what, results in found[problem].items():
                if not isinstance(results, dict):
                    continue
                title = {
                    "training": "training step",
                    "training_of_twice_the_rows": "training step of twice the rows",
                    "evaluation": "evaluation pass",
                }.get(what, "evaluation pass at length " + what.rpartition("_")[2])
                rivals = (("torch", "ours"), ("torch, with weights", "ours, weights kept"))
                for rival, kept in rivals[:1] if brief else rivals:
                    mine = results.get(kept, results["ours"])
                    times = results[rival]["median_ms"] / mine["median_ms"] if kept != "ours" else None
                    times = results[rival]["ratio"] if times is None or kept not in results else times
                    beside = found[problem]["rival"] + (", weights returned" if "weights" in rival else "")
                    out.append((f"{title}, {name}, {on}", beside, f"{times:.2f}x"))
        steps_of_peak = list(found["peak"]["steps"].items())
        for key, step in steps_of_peak[:2] if brief else steps_of_peak:
            share = f"{step['share_of_float32_peak']:.0%}"
            share += f" ({step['share_of_onednn_peak']:.0%} of oneDNN's)" if step.get("share_of_onednn_peak") else ""
            share += f", its products alone {step['products_alone']['share_of_float32_peak']:.0%}"
            share += f", {step['rows_a_second']:,.0f} rows a second"
            out.append((f"training step of {key}, {on}", "the float32 peak of `a @ b`", share))
        shares = ", ".join(f"{name} {share:.0%}" for name, share in found["where_time_goes"].items())
        out.append((f"where a training step of problem 1 goes, {on}", "", shares))
    if "answering" in parts:
        found = parts["answering"]
        by_length = list(found["decoding"]["by_length"].items())
        for length, results in by_length[-1:] if brief else by_length:
            out.append(
                (f"greedy decoding of {length} tokens", "without kept keys", f"{results['uncached']['ratio']:.1f}x")
            )
        verified = found["verification"]
        out.append(
            ("verification", "", f"{verified['pairs_a_second']:,.0f} pairs a second ({verified['errors']} errors)")
        )
        out.append(
            ("a pass with one head silenced", "the whole model", f"{found['one_head_less']['whole']['ratio']:.2f}x")
        )
    for this in parts.get("loops", {}).get("runs", []):
        usual = this["usual"]
        for name, manner in (("ours", ""), ("ours_unaveraged", ", without the mean of the weights")):
            for mark, times in this[name]["ratio"].items():
                if times is None:
                    continue
                mine, theirs = this[name]["seconds_to"][mark], usual["seconds_to"][mark]
                theirs = f"never in {usual['seconds']:.0f} s" if theirs is None else f"{theirs:.0f} s"
                more = "more than " if theirs.startswith("never") else ""
                what = f"training to {float(mark):.1%} of validation{manner}"
                out.append((what, "the usual recipe", f"{more}{times:.1f}x ({mine:.0f} s, {theirs})"))
        errors = ", ".join(
            f"{what} {this[name]['errors_of_all_pairs']:,}"
            for name, what in (("ours", "ours"), ("ours_unaveraged", "without the mean"), ("usual", "usual recipe"))
        )
        out.append((f"wrong of all {usual['pairs']:,} sums after that", "the usual recipe", errors))
        bfloat16 = this["ours_bfloat16"]
        out.append(
            (
                "our training in bfloat16",
                "in float32",
                f"{this['ours']['seconds'] / bfloat16['seconds']:.2f}x, {bfloat16['errors_of_all_pairs']} errors in "
                f"{bfloat16['pairs']:,} pairs (float32: {this['ours']['errors_of_all_pairs']})",
            )
        )
    for found in parts.get("scaling", {}).values():
        if "what" in found and found["seconds_exponent"] is not None:
            memory = found.get("megabytes_exponent")
            figure = f"time ~ size^{found['seconds_exponent']:.2f}"
            figure += f", memory ~ size^{memory:.2f}" if memory is not None else ""
            out.append((found["what"], "", figure))
    if "make" in parts:
        out.append(("`make` from nothing", "", f"{parts['make']['seconds'] / 60:.1f} minutes"))
    return out


def table(parts: dict, brief: bool = False) -> str:
    """Markdown; a ratio above 1 means that ours is faster."""
    lines = ["| what | beside | ours is so many times as fast, or |", "|---|---|---|"]
    lines += [f"| {what} | {beside} | {figure} |" for what, beside, figure in rows(parts, brief)]
    measured = next(iter(parts.values()))["measured_with"]
    lines.append("")
    lines.append(
        f"Measured on {measured['processor'] or measured['machine']}, {measured['cores']} cores, "
        f"torch {measured['versions']['torch']}; medians of turns, `benchmarks/results.json` holds the spread."
    )
    return "\n".join(lines)


def write_table(text: str, readme: Path) -> None:
    write_block(readme, BLOCK, text)


def draw(parts: dict, path: Path) -> None:
    """Left: times as fast as torch.nn; middle: cached decoding; right: seconds against size."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.4))
    bars = [
        (what.replace(", problem", ",\nproblem"), beside, float(value[:-1]))
        for what, beside, value in rows(parts)
        if beside.startswith("nn.") and "weights" not in beside
    ]
    for place, (what, _, value) in enumerate(reversed(bars)):
        left.barh(place, value, color=COLOURS[0 if "training" in what else 1], height=0.7)
        left.text(value, place, f" {value:.2f}", va="center", fontsize=8, bbox=LABEL)
    left.set_yticks(range(len(bars)), [what for what, _, _ in reversed(bars)], fontsize=7)
    left.axvline(1, color="black", linewidth=1)
    left.set(xlabel="torch.nn's time / ours", title="The same model, the same weights")
    if "answering" in parts:
        found = parts["answering"]["decoding"]["by_length"]
        lengths = [int(length) for length in found]
        for number, name in enumerate(("cached", "uncached")):
            middle.plot(
                lengths,
                [results[name]["median_ms"] for results in found.values()],
                color=COLOURS[number],
                marker=MARKS[number],
                linestyle=LINES[number],
                label="keys and values kept" if name == "cached" else "prefix computed again",
            )
        middle.set(xscale="log", yscale="log", xlabel="tokens written", ylabel="milliseconds", title="Greedy decoding")
        middle.set_xticks(lengths, lengths)
        middle.minorticks_off()
        middle.legend()
    for number, (kind, found) in enumerate((k, v) for k, v in parts.get("scaling", {}).items() if k in AXES):
        points = found["points"]
        label = f"{AXES[kind]}: exponent {found['seconds_exponent']:.2f}"
        style = {"color": COLOURS[number], "marker": MARKS[number], "linestyle": LINES[number], "label": label}
        right.plot([point["size"] for point in points], [point["seconds"] for point in points], **style)
    right.set(xscale="log", yscale="log", xlabel="size", ylabel="seconds", title="Cost by size")
    if right.lines:
        right.set_ylim(top=right.get_ylim()[1] * 100)  # room for the legend
        right.legend(fontsize=8, loc="upper left")
    save(figure, path, "Right of the line ours is faster. Exponents are fitted to the three largest sizes of a curve.")
