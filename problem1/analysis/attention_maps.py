"""Where does each head look: on average, and on sums that tell a story?

attention_patterns/<head>.png      one head: its mean pattern over the test rows, and a few examples
attention_patterns/overview.png    all heads' mean patterns on one page
attention_patterns/<a>+<b>.png     one sum: every head's pattern
examples/<a>+<b>.png               one sum: the answer, how sure, and where each digit of it looked
The numbers of all of them: attention_patterns/patterns.json and examples/examples.json (asked.json).
"""

import contextlib
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from tqdm import tqdm

from lab.figures import heatmap, save
from lab.files import UserError, read_json
from lab.hooks import HeadHooks
from problem1.analysis.context import Context, carry_classes, join, pick, places, source_places
from problem1.dataset import START, SYMBOLS, Sums, carries, encode

ON_A_HEADS_PAGE = 3  # examples beside each head's mean pattern
MOST_NUMBERS = 9  # columns up to which cells are wide enough to hold numbers


def parse_sum(text: str, num_digits: int) -> tuple[int, int]:
    """'663+497' -> (663, 497); what the model has no way to read is refused."""
    left, plus, right = text.partition("+")
    if not (plus and left.isascii() and right.isascii() and left.isdigit() and right.isdigit()):
        raise UserError(f"--examples: {text!r} is not a sum of two numbers such as 663+497.")
    longest = max(len(left), len(right))
    if longest > num_digits:
        raise UserError(
            f"--examples: {text} has {longest} digits, but this model adds numbers of {num_digits}: "
            "give shorter ones, or train a model on data of more digits."
        )
    return int(left), int(right)


def as_sums(pairs: list[tuple[int, int]], num_digits: int) -> Sums:
    """Shorter numbers are padded with zeros in front: 7+5 is put to the model as 007+005."""
    a, b = (torch.tensor(numbers) for numbers in zip(*pairs, strict=True))
    return encode(a, b, num_digits)


def telling_examples(context: Context, count: int, wrong_sums: list[str] = ()) -> tuple[Sums, list[str]]:
    """Sums with a story, then test rows; at most `count`, each with a few words on why it is there.

    wrong_sums: "445 + 555 = …" as verification.json lists them, for a model that errs, but on no test row.
    """
    test, digits = context.rows["test"], context.num_digits
    classes, carry = carry_classes(test), carries(test)
    wrong = ~context.right.all(1)
    stories = {
        "no carry": classes == 0,
        "one carry, from the ones": (classes == 1) & carry[:, -1],
        "a carry chain through 9s": None,
        "every column carries": None,
        "one digit more than the operands": (carry.sum(1) == 1) & carry[:, 0],
        "a wrong answer": wrong,
    }
    chosen, why = [], []
    for story, rows in stories.items():
        if rows is None:
            made = chain_sum(digits) if story.startswith("a carry chain") else long_chain_sum(digits)
            chosen.append(as_sums([made], digits))
        elif rows.any():
            chosen.append(pick(test, rows.nonzero()[:1, 0]))
        elif story == "a wrong answer" and wrong_sums:
            a, _, b, *_ = wrong_sums[0].split()
            chosen.append(as_sums([(int(a), int(b))], digits))
        else:
            continue
        why.append(story)
    chosen.append(pick(test, slice(count)))
    why += ["from the test rows"] * len(chosen[-1])
    sums = join(chosen)
    different = {tuple(source): row for row, source in reversed(list(enumerate(sums.sources.tolist())))}
    keep = sorted(different.values())
    keep.sort(key=lambda row: why[row] != "a wrong answer")  # worth more than any other story
    keep = keep[:count]
    return pick(sums, keep), [why[row] for row in keep]


def chain_sum(digits: int) -> tuple[int, int]:
    """445+555 for three digits: the ones carry, and every other column is a 9 that hands it on."""
    return int("4" * (digits - 1) + "5"), int("5" * digits)


def long_chain_sum(digits: int) -> tuple[int, int]:
    """899+101 for three digits: like 999+1, with operands of full length."""
    if digits == 1:
        return 9, 9
    return int("8" + "9" * (digits - 1)), int("1" + "0" * (digits - 2) + "1")


@torch.no_grad()
def examine(model, sums: Sums, why: list[str]) -> list[dict]:
    """What the model writes for each sum, digit by digit, how sure it is, and every head's pattern meanwhile."""
    device = next(model.parameters()).device
    sources = sums.sources.to(device)
    answers = model.generate(sources, sums.targets.shape[1], START)
    prefixes = torch.cat([torch.full_like(answers[:, :1], START), answers[:, :-1]], 1)
    hooks = HeadHooks()
    chances = model(sources, prefixes, hooks=hooks).softmax(-1).cpu()
    answers, carry = answers.cpu(), carries(sums)
    records = []
    for row in range(len(sums)):
        a, b = ("".join(map(str, operand[row].tolist())) for operand in sums.operands())
        right, said = sums.targets[row].tolist(), answers[row].tolist()
        records.append(
            {
                "sum": f"{a}+{b}",
                "why": why[row],
                "right_answer": "".join(map(str, right)),
                "answer": "".join(SYMBOLS[token] if token < START else "?" for token in said),
                "correct": right == said,
                "confidence": [round(chances[row, place, token].item(), 6) for place, token in enumerate(said)],
                "chance_of_right_digit": [chances[row, place, token].item() for place, token in enumerate(right)],
                "carries_out_of_column": carry[row].tolist(),
                "source": [SYMBOLS[token] for token in sums.sources[row].tolist()],
                "decoder_reads": [SYMBOLS[token] for token in prefixes[row].tolist()],
                "patterns": {name: rounded(hooks.pattern(name)[row]) for name in model.head_names()},
            }
        )
    return records


def rounded(pattern: torch.Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in line] for line in pattern.tolist()]


def axes_of(head: str, queries: list[str], keys: list[str]) -> tuple[list[str], list[str]]:
    """Labels of a head's rows (who looks) and columns (at what), from the decoder's and the source's symbols."""
    if head.startswith("encoder."):
        return keys, keys
    return queries, keys if ".cross." in head else queries


def place_labels(num_digits: int) -> tuple[list[str], list[str]]:
    """(decoder, source) labels by place, for patterns averaged over sums."""
    read = ["<s>", *places(num_digits + 1)[:-1]]
    return read, source_places(num_digits)


def draw_pattern(axes, head: str, pattern, queries: list[str], keys: list[str], numbers: bool = False):
    """One heatmap. Above the diagonal of the decoder's own attention there is nothing to see: it is left out."""
    values = np.ma.array(pattern, dtype=float)
    texts = [[f"{value:.2f}".lstrip("0") if value >= 0.005 else "" for value in line] for line in pattern]
    if ".self." in head and head.startswith("decoder."):
        future = np.triu(np.ones(values.shape, dtype=bool), k=1)
        values = np.ma.array(values, mask=future)
        axes.set_facecolor("#e4e4e4")
    rows, columns = axes_of(head, queries, keys)
    shown = np.ma.filled(values, 0.0)
    image = heatmap(axes, shown, rows, columns, numbers=texts if numbers and len(columns) <= MOST_NUMBERS else False)
    image.set_data(values)
    return image


def draw_head(head: str, mean: list, records: list[dict], num_digits: int, path: Path, caption: str) -> None:
    """One head: the mean pattern by place, and a few sums with their symbols."""
    shown = records[:ON_A_HEADS_PAGE]
    tall = 1 if head.startswith("encoder.") else 0
    figure, panels = plt.subplots(1, 1 + len(shown), figsize=(4.2 + 3.1 * len(shown), 3.4 + 0.7 * tall))
    panels = np.atleast_1d(panels)
    image = draw_pattern(panels[0], head, mean, *place_labels(num_digits), numbers=True)
    panels[0].set_title("mean over the test sums")
    panels[0].tick_params(axis="x", rotation=60)
    for axes, record in zip(panels[1:], shown, strict=True):
        draw_pattern(axes, head, record["patterns"][head], record["decoder_reads"], record["source"])
        axes.set_title(f"{record['sum']} = {record['answer']}\n{record['why']}", fontsize=9)
    panels[0].set_ylabel("symbol that looks")
    for axes in panels:
        axes.set_xlabel("symbol looked at")
    figure.colorbar(image, ax=list(panels), label="attention", shrink=0.8)
    figure.suptitle(head, fontsize=13, fontweight="bold")
    save(figure, path, caption)


def draw_all_heads(patterns: dict[str, list], labels: tuple[list, list], title: str, path: Path, caption: str) -> None:
    """Every head's pattern on one page, a row for each attention module."""
    heads = list(patterns)
    modules = list(dict.fromkeys(head.rpartition(".")[0] for head in heads))
    wide = len(heads) // len(modules)
    figure, panels = plt.subplots(
        len(modules), wide, figsize=(1.2 + 2.5 * wide, 0.8 + 2.15 * len(modules)), squeeze=False, layout="compressed"
    )
    image = None
    for axes, head in zip(panels.flat, heads, strict=True):
        image = draw_pattern(axes, head, patterns[head], *labels)
        axes.set_title(head, fontsize=9)
        axes.tick_params(labelsize=7)
        if any(len(label) > 3 for label in axes_of(head, *labels)[1]):
            axes.tick_params(axis="x", rotation=60)
    figure.colorbar(image, ax=panels, label="attention", shrink=0.4)
    figure.suptitle(title, fontsize=13, fontweight="bold")
    save(figure, path, caption)


def draw_example(record: dict, path: Path, caption: str) -> None:
    """The sum as on paper, how sure each digit is, and where each digit looked in the source."""
    heads = [head for head in record["patterns"] if ".cross." in head]
    digits = len(record["answer"])
    wide = min(4, digits)
    rows = math.ceil(digits / wide)
    figure = plt.figure(figsize=(2.5 * wide + 3.2, 2.9 + rows * (1.3 + 0.24 * len(heads))))
    above, below = figure.subfigures(2, 1, height_ratios=[1.5, (1 + 0.2 * len(heads)) * rows])
    paper, confidence = above.subplots(1, 2)
    _paper(paper, record)
    _confidence(confidence, record)
    panels = below.subplots(rows, wide, squeeze=False).flat
    image = None
    for place in range(digits):
        looked = [record["patterns"][head][place] for head in heads]
        image = heatmap(panels[place], looked, heads if place % wide == 0 else [""] * len(heads), record["source"])
        panels[place].set_aspect("auto")
        panels[place].set_title(f"writes {record['answer'][place]}  ({places(digits)[place]})", fontsize=10)
        panels[place].set_xlabel("symbol looked at")
    for axes in panels[digits:]:
        axes.set_visible(False)
    below.colorbar(image, ax=list(panels), label="attention", shrink=0.7)
    verdict = "right" if record["correct"] else f"wrong: {record['right_answer']} is right"
    figure.suptitle(f"{record['sum']} = {record['answer']}   ({verdict}; {record['why']})", fontweight="bold")
    save(figure, path, caption)


def _paper(axes, record: dict) -> None:
    """The addition as it is written on paper, carries in small above the columns they go into."""
    a, b = record["sum"].split("+")
    width = len(a) + 1
    axes.set(xlim=(-1.5, width), ylim=(-0.6, 4))
    axes.axis("off")
    for height, text in ((2.6, a), (1.6, b), (0.1, record["answer"])):
        for place, symbol in enumerate(reversed(text)):
            axes.text(width - 1 - place, height, symbol, ha="center", fontsize=17, family="monospace")
    for column, carries_out in enumerate(record["carries_out_of_column"]):
        if carries_out:
            axes.text(column, 3.5, "1", ha="center", fontsize=10, color="#D55E00", family="monospace")
    axes.text(-0.9, 1.6, "+", ha="center", fontsize=17, family="monospace")
    axes.plot([-1.2, width - 0.5], [1.2, 1.2], color="black", linewidth=1)
    axes.text(-1.4, 3.5, "carries", fontsize=8, color="#D55E00")


def _confidence(axes, record: dict) -> None:
    names = places(len(record["answer"]))
    labels = [f"{digit}\n{name}" for digit, name in zip(record["answer"], names, strict=True)]
    bars = axes.bar(range(len(names)), record["confidence"], color="#56B4E9", edgecolor="black", linewidth=0.6)
    axes.bar_label(bars, [f"{100 * value:.2f}%" for value in record["confidence"]], fontsize=8)
    axes.set(ylim=(0, 1.15), ylabel="confidence")
    axes.set_xticks(range(len(names)), labels, fontsize=8)
    axes.set_xlabel("digit written")


def draw_examples(context: Context, examples: dict) -> None:
    """Two figures for each example, from examples.json."""
    for record in tqdm(examples["examples"], desc="examples", unit="sum", leave=False, disable=None):
        draw_example(
            record,
            context.output_dir / f"examples/{record['sum']}.png",
            context.caption("Below: for each digit written, how much each cross-attention head looked at each symbol."),
        )
        draw_all_heads(
            record["patterns"],
            (record["decoder_reads"], record["source"]),
            f"{record['sum']} = {record['answer']}: every head ({record['why']})",
            context.output_dir / f"attention_patterns/{record['sum']}.png",
            context.caption("Rows look at columns; the decoder's rows are the symbols it reads before it writes."),
        )


def remove_outdated(output_dir: Path) -> None:
    """The figures that earlier runs listed: they may show another model, or heads that this one has not."""
    for listing in (output_dir / "examples/examples.json", output_dir / "examples/asked.json"):
        with contextlib.suppress(UserError, KeyError, TypeError):
            for record in read_json(listing, "")["examples"]:
                name = Path(f"{record['sum']}.png").name
                for folder in ("examples", "attention_patterns"):
                    (output_dir / folder / name).unlink(missing_ok=True)
            listing.unlink()
    with contextlib.suppress(UserError, KeyError, TypeError):
        for head in read_json(output_dir / "attention_patterns/patterns.json", "")["mean"]:
            (output_dir / "attention_patterns" / Path(f"{head}.png").name).unlink(missing_ok=True)


def answer_examples(context: Context, count: int, wrong_sums: list[str] = ()) -> dict:
    """Write examples/ for sums that tell a story."""
    remove_outdated(context.output_dir)
    records = examine(context.model, *telling_examples(context, count, wrong_sums))
    examples = context.write("examples/examples.json", {"examples": records})
    draw_examples(context, examples)
    return examples


def answer_asked(context: Context, pairs: list[tuple[int, int]]) -> dict:
    """The same for the sums that a user asks for, beside those that are there."""
    sums = as_sums(pairs, context.num_digits)
    records = examine(context.model, sums, ["asked for"] * len(sums))
    asked = context.write("examples/asked.json", {"examples": records})
    draw_examples(context, asked)
    return asked


def answer(context: Context, examples: dict) -> dict:
    """Write attention_patterns/patterns.json, a figure for each head, and the overview."""
    means = {head: rounded(pattern.double().mean(0)) for head, pattern in context.recorded[0].items()}
    rows, columns = place_labels(context.num_digits)
    labels = {head: dict(zip(("rows", "columns"), axes_of(head, rows, columns), strict=True)) for head in means}
    results = context.write(
        "attention_patterns/patterns.json",
        {
            "question": "mean attention over the test rows: mean[head][row][column]",
            "rows": len(context.right),
            "labels": labels,
            "mean": means,
        },
    )
    folder = context.output_dir / "attention_patterns"
    for head, mean in tqdm(results["mean"].items(), desc="patterns", unit="head", leave=False, disable=None):
        caption = "Each row sums to 1: where one symbol looks."
        if head.startswith("decoder."):
            caption += " The decoder reads a row's symbol and writes the next: <s> writes the first digit."
            caption += " Grey: not yet written." if ".self." in head else ""
        draw_head(
            head,
            mean,
            examples["examples"],
            context.num_digits,
            folder / f"{head}.png",
            context.caption(caption),
        )
    draw_all_heads(
        results["mean"],
        (rows, columns),
        "Where every head looks, on average over the test sums",
        folder / "overview.png",
        context.caption("Rows look at columns; one row sums to 1."),
    )
    return results
