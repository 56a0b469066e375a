"""What does the model write for single sums, how confident is it, and where does each digit attend?

examples/<a>+<b>.png               the answer, its probabilities, and where each digit attends in the source
attention_patterns/<a>+<b>.png     every head's pattern
examples/examples.json             the numbers (given.json for sums that the user gave)
"""

import contextlib
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from tqdm import tqdm

from lab.figures import save
from lab.files import UserError, read_json
from lab.hooks import HeadHooks
from problem1.analysis.attention_maps import draw_all_heads, rounded
from problem1.analysis.context import Context, carry_classes, digit_names, join, operand_texts, pick, sums_of
from problem1.analysis.exhaustive import digits_text
from problem1.analysis.figures import table
from problem1.dataset import START, SYMBOLS, Sums, carries, decoder_inputs

WRONG = "a wrong answer"
PANELS = 5  # beside one another in a figure


def parse_sum(text: str, num_digits: int) -> tuple[int, int]:
    """'663+497' -> (663, 497); what does not fit the model is refused."""
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


def select(context: Context, count: int, wrong_sums: list[str] = ()) -> tuple[Sums, list[str]]:
    """Sums of different kinds, then test rows; at most `count`, and the reason for each.

    wrong_sums: "445 + 555 = …" as verification.json lists them, for a model that errs, but on no test row.
    """
    test, digits = context.rows["test"], context.num_digits
    classes, carry = carry_classes(test), carries(test)
    kinds = {
        "no carry": classes == 0,
        "one carry, from the ones": (classes == 1) & carry[:, -1],
        "a carry chain through 9s": sums_of([chain_sum(digits)], digits),
        "every column carries": sums_of([long_chain_sum(digits)], digits),
        "one digit more than the operands": (carry.sum(1) == 1) & carry[:, 0],
        WRONG: ~context.correct.all(1),
    }
    chosen = []
    for reason, rows in kinds.items():
        if isinstance(rows, Sums):
            chosen.append((reason, rows))
        elif rows.any():
            chosen.append((reason, pick(test, rows.nonzero()[:1, 0])))
        elif reason == WRONG and wrong_sums:
            a, _, b, *_ = wrong_sums[0].split()
            chosen.append((reason, sums_of([(int(a), int(b))], digits)))
    chosen.sort(key=lambda item: item[0] != WRONG)  # more instructive than any other
    chosen += [("from the test rows", pick(test, [row])) for row in range(min(count, len(test)))]
    different = {}
    for reason, sums in chosen:
        different.setdefault(tuple(sums.sources[0].tolist()), (reason, sums))
    kept = list(different.values())[:count]
    return join([sums for _, sums in kept]), [reason for reason, _ in kept]


def chain_sum(digits: int) -> tuple[int, int]:
    """445+555 for three digits: the ones carry, and every other column is a 9 that passes the carry on."""
    return int("4" * (digits - 1) + "5"), int("5" * digits)


def long_chain_sum(digits: int) -> tuple[int, int]:
    """899+101 for three digits: like 999+1, with operands of full length."""
    if digits == 1:
        return 9, 9
    return int("8" + "9" * (digits - 1)), int("1" + "0" * (digits - 2) + "1")


@torch.no_grad()
def examine(model, sums: Sums, reasons: list[str]) -> list[dict]:
    """What the model writes for each sum, digit by digit, with which probabilities, and every head's pattern."""
    sources = sums.sources.to(next(model.parameters()).device)
    written = model.generate(sources, sums.targets.shape[1], START)
    hooks = HeadHooks()
    probabilities = model(sources, decoder_inputs(written), hooks=hooks).softmax(-1).cpu()
    patterns = {head: hooks.pattern(head).cpu() for head in model.head_names()}
    written, carry = written.cpu(), carries(sums)
    inputs = decoder_inputs(written)

    def symbols(tokens: torch.Tensor) -> list[str]:
        return [SYMBOLS[token] for token in tokens.tolist()]

    def probability(row: int, tokens: torch.Tensor) -> list[float]:
        return probabilities[row].gather(1, tokens[row].unsqueeze(1))[:, 0].tolist()

    return [
        {
            "sum": "+".join(operand_texts(sums, row)),
            "reason": reasons[row],
            "target": digits_text(sums.targets[row]),
            "prediction": digits_text(written[row]),
            "correct": torch.equal(sums.targets[row], written[row]),
            "confidence": [round(value, 6) for value in probability(row, written)],
            "probability_of_target": probability(row, sums.targets),
            "carries_out_of_column": carry[row].tolist(),
            "source": symbols(sums.sources[row]),
            "decoder_inputs": symbols(inputs[row]),
            "patterns": {head: rounded(pattern[row]) for head, pattern in patterns.items()},
        }
        for row in range(len(sums))
    ]


def draw_example(example: dict, path: Path, caption: str) -> None:
    """The sum as on paper; then for each digit written its probability, and where the decoder attends in the source."""
    heads = [head for head in example["patterns"] if ".cross." in head]
    names = digit_names(len(example["prediction"]))
    rows = math.ceil((1 + len(names)) / PANELS)
    size = (2.6 * PANELS + 1.5, 0.8 + rows * (1.3 + 0.24 * len(heads)))
    figure, panels = plt.subplots(rows, PANELS, squeeze=False, figsize=size)
    paper, *panels = panels.flat
    draw_on_paper(paper, example)
    image = None
    for position, name in enumerate(names):
        weights = [example["patterns"][head][position] for head in heads]
        labels = heads if position == 0 or (position + 1) % PANELS == 0 else [""] * len(heads)
        image = table(panels[position], weights, labels, example["source"])
        probability = f"{100 * example['confidence'][position]:.2f}%"
        panels[position].set_title(f"{name}: writes {example['prediction'][position]} ({probability})", fontsize=9)
        panels[position].set_xlabel("key")
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    figure.colorbar(image, ax=panels, label="attention", shrink=0.7)
    verdict = "right" if example["correct"] else f"wrong: {example['target']} is right"
    title = f"{example['sum']} = {example['prediction']}   ({verdict}; {example['reason']})"
    figure.suptitle(title, fontweight="bold")
    save(figure, path, caption)


def draw_on_paper(axes, example: dict) -> None:
    """The addition as it is written on paper, carries in small above the columns they go into."""
    a, b = example["sum"].split("+")
    axes.set(xlim=(-1.5, len(a) + 1), ylim=(-0.6, 4))
    axes.axis("off")
    style = {"ha": "center", "family": "monospace"}
    for height, text in ((2.6, a), (1.6, "+" + " " * (len(a) - len(b)) + b), (0.1, example["prediction"])):
        for column, symbol in enumerate(text.rjust(len(a) + 1)):
            axes.text(column, height, symbol, fontsize=17, **style)
    for column, carries_out in enumerate(example["carries_out_of_column"]):
        if carries_out:
            axes.text(column, 3.5, "1", fontsize=10, color="#D55E00", **style)
    axes.plot([-0.5, len(a) + 0.5], [1.2, 1.2], color="black", linewidth=1)


def remove_outdated(output_dir: Path) -> None:
    """Delete the figures that earlier runs listed: they may show another model, or heads that this one has not."""
    for listing in (output_dir / "examples/examples.json", output_dir / "examples/given.json"):
        with contextlib.suppress(UserError, KeyError, TypeError):
            for example in read_json(listing, "")["examples"]:
                name = Path(f"{example['sum']}.png").name
                for folder in ("examples", "attention_patterns"):
                    (output_dir / folder / name).unlink(missing_ok=True)
            listing.unlink()
    with contextlib.suppress(UserError, KeyError, TypeError):
        for head in read_json(output_dir / "attention_patterns/patterns.json", "")["mean"]:
            (output_dir / "attention_patterns" / Path(f"{head}.png").name).unlink(missing_ok=True)


def _write(context: Context, name: str, sums: Sums, reasons: list[str]) -> dict:
    """The numbers, and two figures for each example."""
    results = context.write(f"examples/{name}", {"examples": examine(context.model, sums, reasons)})
    for example in tqdm(results["examples"], desc="examples", unit="sum", leave=False, disable=None):
        draw_example(
            example,
            context.output_dir / f"examples/{example['sum']}.png",
            context.caption("Right: for each digit written, the attention of each cross-attention head."),
        )
        draw_all_heads(
            example["patterns"],
            (example["decoder_inputs"], example["source"]),
            f"{example['sum']} = {example['prediction']}: every head ({example['reason']})",
            context.output_dir / f"attention_patterns/{example['sum']}.png",
            context.caption("Rows are queries, columns keys; the decoder's rows are the symbols it reads."),
        )
    return results


def run(context: Context, count: int, verified: dict) -> dict:
    """Write examples/ for sums of different kinds."""
    remove_outdated(context.output_dir)
    return _write(context, "examples.json", *select(context, count, verified["wrong_sums"]))


def run_given(context: Context, pairs: list[tuple[int, int]]) -> dict:
    """The same for the sums that a user gives, beside those that are there."""
    sums = sums_of(pairs, context.num_digits)
    return _write(context, "given.json", sums, ["given"] * len(sums))


def findings(results: dict) -> str:
    lines = []
    for example in results["examples"]:
        verdict = "right" if example["correct"] else f"wrong, it is {example['target']}"
        least = 100 * min(example["confidence"])
        lines.append(f"{example['sum']} = {example['prediction']}   {verdict}; every digit with at least {least:.2f}%")
    return "\n".join(lines)
