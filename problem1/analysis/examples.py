"""What does the model write for single sums, where does each digit look, and what happens to it without each head?

examples/<a>+<b>.png               the sum as on paper; where each digit looks; what is written without each head
attention_patterns/<a>+<b>.png     every head's pattern
examples/examples.json             the numbers
examples/given/                    the same for sums that the user gave; git ignores it
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from tqdm import tqdm

from lab.figures import COLOURS, save
from lab.files import UserError
from lab.hooks import Head, zero
from problem1.analysis.attention_maps import draw_all_heads, page_width, rounded, symbol_labels
from problem1.analysis.context import Context
from problem1.analysis.interventions import InterventionRunner
from problem1.analysis.rows import carry_classes, digit_names, digits_text, join, operand_texts, sums_of
from problem1.analysis.tables import table
from problem1.dataset import START, SYMBOLS, Sums, carries, decoder_inputs

QUESTION = "What does it write for single sums?"
GIVEN = "examples/given"
FILES = (
    "examples/examples.json",
    "examples/*+*.png",
    "examples/*+*.pdf",
    "attention_patterns/*+*.png",
    f"{GIVEN}/*",
)
GIVEN_FIGURES = "A+B.png, and every head's pattern in A+B.heads.png"
CHAIN = "a carry chain through 9s"
PANELS = 5  # beside one another in a figure


def parse_sum(text: str, num_digits: int) -> tuple[int, int]:
    """'663+497' -> (663, 497); what does not fit the model is refused."""
    left, plus, right = text.partition("+")
    if not (plus and left.isascii() and right.isascii() and left.isdigit() and right.isdigit()):
        raise UserError(f"--examples: {text!r} is not a sum of two numbers such as 663+497.")
    if {len(left), len(right)} != {num_digits}:
        raise UserError(f"--examples: {text} does not fit: this model adds numbers of exactly {num_digits} digits.")
    return int(left), int(right)


def carry_chain(num_digits: int) -> Sums:
    """445+555: a carry from the ones passes all other columns, which add up to 9."""
    return sums_of([(int("4" * (num_digits - 1) + "5"), int("5" * num_digits))], num_digits)


def select(context: Context) -> tuple[Sums, list[str]]:
    """Sums of different kinds, then test rows: at most `context.num_samples`, and the reason for each."""
    test = context.rows["test"]
    digits = context.num_digits
    classes = carry_classes(test)
    carry = carries(test)

    def first(rows: torch.Tensor) -> Sums:
        """The first test row of a kind, or none."""
        return test[rows.nonzero()[:1, 0]]

    top = 10 ** (digits - 1)
    kinds = [
        ("a wrong answer", first(~context.correct.all(1))),  # more instructive than any other
        ("no carry", first(classes == 0)),
        ("one carry, from the ones", first((classes == 1) & carry[:, -1])),
        (CHAIN, carry_chain(digits)),
        ("every column carries", sums_of([(9 * top - 1, top + 1)], digits)),  # 899+101
        ("one digit more than the operands", first((carry.sum(1) == 1) & carry[:, 0])),
    ]
    for row in range(min(context.num_samples, len(test))):
        kinds.append(("from the test rows", test[[row]]))
    chosen: dict[tuple, Sums] = {}
    reasons = []
    for reason, sums in kinds:
        if len(sums) == 0 or len(chosen) == context.num_samples:
            continue
        source = tuple(sums.sources[0].tolist())
        if source not in chosen:  # a sum may be of two kinds
            chosen[source] = sums
            reasons.append(reason)
    return join([*chosen.values()]), reasons


@torch.no_grad()
def examine(model, sums: Sums, reasons: list[str]) -> list[dict]:
    """What the model writes for each sum, digit by digit, with which probabilities, every head's pattern, and what it
    would write, after the same digits, without each head."""
    sources = sums.sources.to(next(model.parameters()).device)
    written = model.generate(sources, sums.targets.shape[1], START).cpu()
    inputs = decoder_inputs(written)
    carry = carries(sums)
    runner = InterventionRunner(model, sums, len(sums), prefixes=inputs)
    patterns = runner.recorded.patterns
    without = {head: runner.logits({head: zero}).argmax(-1) for head in patterns}
    probabilities = runner.recorded.logits.softmax(-1)  # [N, T, vocabulary]
    confidence = probabilities.gather(2, written.unsqueeze(2)).squeeze(2)  # of what is written: [N, T]

    def symbols(tokens: torch.Tensor) -> list[str]:
        return [SYMBOLS[token] for token in tokens.tolist()]

    examples = []
    for row, reason in enumerate(reasons):
        examples.append(
            {
                "sum": "+".join(operand_texts(sums, row)),
                "reason": reason,
                "target": digits_text(sums.targets[row]),
                "prediction": digits_text(written[row]),
                "correct": torch.equal(sums.targets[row], written[row]),
                "confidence": [round(value, 6) for value in confidence[row].tolist()],
                "carries_out_of_column": carry[row].tolist(),
                "source": symbols(sums.sources[row]),
                "decoder_inputs": symbols(inputs[row]),
                "without_head": {head: digits_text(digits[row]) for head, digits in without.items()},
                "patterns": {head: rounded(pattern[row]) for head, pattern in patterns.items()},
            }
        )
    return examples


def draw_example(example: dict, path: Path, caption: str) -> None:
    """The sum as on paper; for each digit where the decoder looks; below, what is written without each head that
    changes a digit."""
    written = example["prediction"]
    names = digit_names(len(written))
    heads = [Head.parse(name) for name in example["patterns"]]
    cross = [head for head in heads if head.kind == "cross"]
    needed = [head for head in heads if example["without_head"][head.name] != written]
    rows = math.ceil((1 + len(names)) / PANELS)
    heights = [rows * (0.6 + 0.15 * len(cross)), 0.6 + 0.17 * len(needed)]
    figure = plt.figure(figsize=(page_width(len(example["source"])), sum(heights)))
    above, below = figure.subfigures(2, 1, height_ratios=heights)

    paper, *panels = above.subplots(rows, PANELS, squeeze=False).flat
    draw_on_paper(paper, example)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for position, name in enumerate(names):
        axes = panels[position]
        weights = [example["patterns"][head.name][position] for head in cross]
        leftmost = position == 0 or (position + 1) % PANELS == 0  # beside the paper, or first in its line
        labels = [head.short if leftmost else "" for head in cross]
        image = table(axes, weights, labels, example["source"])
        axes.set_title(f"writes {written[position]}\n({name})")
    above.colorbar(image, ax=panels[: len(names)], label="attention", ticks=[0, 1], aspect=30, pad=0.01)

    axes, note = below.subplots(1, 2)
    note.axis("off")
    texts = [[*example["without_head"][head.name]] for head in needed]
    changed = [[float(text != digit) for text, digit in zip(line, written, strict=True)] for line in texts]
    labels = [f"without {head.short}" for head in needed]
    if needed:
        table(axes, changed, labels, names, texts, scale=(0.0, 1.6), colours="Oranges")
        axes.xaxis.tick_top()
    else:
        axes.axis("off")
    others = f"without any one of the {len(heads) - len(needed)} other heads\nno digit changes"
    note.text(0, 0.5, f"orange: the digits that change;\n{others}", va="center", fontsize=8)
    verdict = "" if example["correct"] else f" (wrong: {example['target']} is right)"
    title = f"without {len(needed)} of {len(heads)} heads, one at a time, a digit changes"
    figure.suptitle(f"{example['sum']} = {written}{verdict}: {title}")
    save(figure, path, caption, vector=example["reason"] == CHAIN)


def draw_on_paper(axes, example: dict) -> None:
    """The addition as it is written on paper, carries in small above the columns they go into."""
    a, b = example["sum"].split("+")
    axes.set(xlim=(-1.2, len(a) + 0.7), ylim=(-0.6, 4))
    axes.axis("off")
    style = {"ha": "center", "family": "monospace"}
    for height, text in ((2.6, a), (1.6, f"+{b}"), (0.1, example["prediction"])):
        for column, symbol in enumerate(text.rjust(len(a) + 1)):
            axes.text(column, height, symbol, fontsize=14, **style)
    for column, carries_out in enumerate(example["carries_out_of_column"]):
        if carries_out:
            axes.text(column, 3.5, "1", fontsize=9, color=COLOURS[6], **style)
    axes.plot([-0.5, len(a) + 0.5], [1.2, 1.2], color="black", linewidth=1)


def write(context: Context, name: str, patterns: str, sums: Sums, reasons: list[str]) -> dict:
    """The numbers, and beside them a figure for each example; another one with every head goes to `patterns`."""
    results = context.write(name, {"examples": examine(context.model, sums, reasons)})
    for example in tqdm(results["examples"], desc="examples", unit="sum", leave=False, disable=None):
        draw_example(
            example,
            context.output_dir / Path(name).parent / f"{example['sum']}.png",
            context.caption("For each digit, where each cross-attention head looks while it is written."),
        )
        draw_all_heads(
            example["patterns"],
            symbol_labels(example),
            f"{example['sum']} = {example['prediction']}: where every head attends",
            context.output_dir / patterns.format(example["sum"]),
            context.caption("Rows are queries, columns keys; each row sums to 1. Grey: hidden by the causal mask."),
        )
    return results


def run(context: Context) -> dict:
    """Write examples/ for sums of different kinds."""
    return write(context, "examples/examples.json", "attention_patterns/{}.png", *select(context))


def run_given(context: Context, pairs: list[tuple[int, int]]) -> dict:
    """The same for the sums that a user gives, in a folder of their own."""
    sums = sums_of(pairs, context.num_digits)
    return write(context, f"{GIVEN}/given.json", GIVEN + "/{}.heads.png", sums, ["given"] * len(sums))


def findings(results: dict) -> str:
    lines = []
    for example in results["examples"]:
        verdict = "right" if example["correct"] else f"wrong, it is {example['target']}"
        least = min(math.floor(10_000 * min(example["confidence"])) / 100, 99.99)  # rounded down: none is certain
        lines.append(f"{example['sum']} = {example['prediction']}   {verdict}; every digit with at least {least:.2f}%")
    return "\n".join(lines)
