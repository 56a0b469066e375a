"""How does one sum become its digits? The decoder's state after each part, read as if it were the last.

    445 + 555 = 1000: a carry from the ones passes two columns that add up to 9, so without it all would be 0990

After the embedding and after each self-attention, cross-attention and feed-forward layer the decoder's state goes
through the final norm and the output layer (a "logit lens"): which digit would be written if nothing followed? This
is a reading: something is seen, nothing is changed. A digit that cannot be read off yet may be there in another form.

For each digit: the logit of the right digit, its rank and its margin over the best other; the logit of the digit that
the other carry into its column would make; and the same on average over the test sums, which shows whether the sum is
typical. And where the most important heads look meanwhile.
"""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor, nn

from lab.figures import COLOURS, WIDTH, heatmap, save
from lab.hooks import Head, short_name
from lab.statistics import margins
from problem1.analysis.ablation import NEEDED
from problem1.analysis.attention_maps import rounded
from problem1.analysis.context import Context
from problem1.analysis.examples import carry_chain, draw_on_paper
from problem1.analysis.interventions import InterventionRunner
from problem1.analysis.patching import MOST
from problem1.analysis.rows import digit_names, digits_text, operand_texts, powers_of_ten
from problem1.analysis.tables import table, text_table
from problem1.dataset import SYMBOLS, Sums, carries, decoder_inputs

QUESTION = "How does one sum become its digits?"
FILES = ("carry/followed.json", "carry/followed.png", "carry/followed.pdf")
EMBEDDING = "embedding"


# --- reading the decoder's state ------------------------------------------------------------------------------------


@contextmanager
def states(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """While the context lasts, the decoder's state after each of its parts: {"decoder.0.cross": [B, T, d_model], …}

    The state after a part is what goes into the norm that comes next.
    """
    next_norm = {EMBEDDING: model.decoder[0].self_norm}
    for number, layer in enumerate(model.decoder):
        following = model.decoder[number + 1].self_norm if number + 1 < len(model.decoder) else model.decoder_norm
        next_norm[f"decoder.{number}.self"] = layer.cross_norm
        next_norm[f"decoder.{number}.cross"] = layer.feed_forward_norm
        next_norm[f"decoder.{number}.feed_forward"] = following
    kept: dict[str, Tensor] = {}

    def keep(name: str):
        def hook(_, inputs: tuple[Tensor]) -> None:
            kept[name] = inputs[0]

        return hook

    handles = [norm.register_forward_pre_hook(keep(name)) for name, norm in next_norm.items()]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def read_logits(model: nn.Module, sums: Sums, batch_size: int) -> dict[str, Tensor]:
    """{part: [N, T, vocabulary]}: the state after each part through the final norm and the output layer."""
    device = next(model.parameters()).device
    batches = zip(sums.sources.split(batch_size), decoder_inputs(sums.targets).split(batch_size), strict=True)
    logits: dict[str, list[Tensor]] = {}
    with states(model) as kept:
        for sources, inputs in batches:
            model(sources.to(device), inputs.to(device))
            for name, state in kept.copy().items():  # the final norm, used below, is one of those that are listened to
                logits.setdefault(name, []).append(model.output(model.decoder_norm(state)).cpu())
    return {name: torch.cat(parts) for name, parts in logits.items()}


def other_carry_digits(sums: Sums) -> Tensor:
    """[N, T] what each digit would be if the carry into its column were the other one; the ones get none, and stay."""
    carry_in = carries(sums).long()  # column c carries into position c of the answer
    other = sums.targets.clone()
    other[:, :-1] += 1 - 2 * carry_in
    return other % 10


def measure(logits: dict[str, Tensor], sums: Sums) -> list[dict]:
    """For each digit of the answer, part by part and on average over the sums."""
    parts = torch.stack([*logits.values()]).double()  # [parts, N, T, vocabulary]
    targets = sums.targets.expand(len(parts), -1, -1)
    right = parts.gather(-1, targets.unsqueeze(-1))
    other = parts.gather(-1, other_carry_digits(sums).expand_as(targets).unsqueeze(-1))
    measures = {
        "logit": right.squeeze(-1),
        "other_carry_logit": other.squeeze(-1),
        "margin": margins(parts, targets),
        "rank": 1.0 + (parts > right).sum(-1),
        "right_is_first": (parts.argmax(-1) == targets).double(),
    }
    names = digit_names(sums.targets.shape[1])
    entries = []
    for position, name in enumerate(names):
        means = {key: [round(x, 4) for x in values.mean(1)[:, position].tolist()] for key, values in measures.items()}
        if position == len(names) - 1:
            means["other_carry_logit"] = None  # no carry goes into the ones
        entries.append({"digit": name} | means)
    return entries


# --- what is shown ----------------------------------------------------------------------------------------------------


def important(heads: list[dict]) -> tuple[dict | None, list[str]]:
    """The encoder's head that is needed most, and the cross-attention heads that are needed or fetch the carry."""
    needed = [about for about in heads if about["reading"] == NEEDED or about["most_flips"]["share"] >= MOST]
    encoder = [about for about in needed if Head.parse(about["head"]).side == "encoder"]
    cross = [about["head"] for about in needed if Head.parse(about["head"]).kind == "cross"]
    return encoder[0] if encoder else None, sorted(cross)


def by_column(pattern: Tensor) -> list[list[float]]:
    """[T, 2n + 1] attention to the operands' tokens -> to each column, both digits together, and to the +."""
    digits = pattern.shape[1] // 2
    columns = pattern[:, :digits] + pattern[:, digits + 1 :]
    return rounded(torch.cat([columns, pattern[:, digits : digits + 1]], dim=1))


def follow(context: Context, heads: list[dict]) -> dict:
    """carry/followed.json"""
    sums = carry_chain(context.num_digits)
    test = context.rows["test"]
    logits = read_logits(context.model, sums, 1)
    one = measure(logits, sums)
    for position, entry in enumerate(one):
        entry["right"] = SYMBOLS[sums.targets[0, position]]
        entry["other_carry"] = SYMBOLS[other_carry_digits(sums)[0, position]]
        entry["first"] = [SYMBOLS[part[0, position].argmax()] for part in logits.values()]
    patterns = InterventionRunner(context.model, sums).recorded.patterns
    encoder, cross = important(heads)
    if encoder is not None:
        pattern = rounded(patterns[encoder["head"]][0])
        encoder = {"head": encoder["head"], "does": encoder["does"], "pattern": pattern}
    return {
        "question": "the decoder's state after each part, read by the final norm and the output layer: seen, "
        "not an intervention",
        "sum": "+".join(operand_texts(sums, 0)),
        "prediction": digits_text(logits[[*logits][-1]][0].argmax(-1)),
        "carries_out_of_column": carries(sums)[0].tolist(),
        "parts": [*logits],
        "digits": one,
        "mean_of_test_sums": {
            "rows": len(test),
            "digits": measure(read_logits(context.model, test, context.batch_size), test),
        },
        "encoder_head": encoder,
        "cross_heads": {head: by_column(patterns[head][0]) for head in cross},
    }


def part_name(part: str) -> str:
    return part if part == EMBEDDING else short_name(part)


def draw(results: dict, path: Path) -> None:
    """The sum on paper and how the encoder pairs its digits; for each digit the columns read, and its logit."""
    digits = results["digits"]
    answer = len(digits)
    cross = {short_name(head): pattern for head, pattern in results["cross_heads"].items()}
    powers = powers_of_ten(answer)
    size = (WIDTH * max(1.0, (1 + answer) / 5), 4.5)
    figure, (above, below) = plt.subplots(2, 1 + answer, figsize=size, height_ratios=(1.15, 1.6))
    draw_on_paper(above[0], results)
    draw_encoder(below[0], results)
    for position, entry in enumerate(digits):
        axes = above[1 + position]
        axes.set_title(f"writes {entry['first'][-1]}\n({powers[position]}s)")
        if cross:
            weights = [pattern[position] for pattern in cross.values()]
            image = table(axes, weights, list(cross) if position == 0 else [""] * len(cross), [*powers[1:], "+"])
        else:
            axes.axis("off")
        axes = below[1 + position]
        if position:
            axes.sharey(below[1])
            axes.tick_params(labelleft=False)
        draw_logits(axes, entry, results["mean_of_test_sums"]["digits"][position], results["parts"])
    if cross:
        above[1].set_xlabel("column looked at")
        figure.colorbar(image, cax=above[-1].inset_axes([1.05, 0, 0.06, 1]), label="attention", ticks=[0, 1])
    below[1].set_ylabel("logit")
    lines = [plt.Line2D([], [], color=colour) for colour in COLOURS[:2]]
    lines.append(plt.Line2D([], [], color="#555555", linestyle=":"))
    lines.append(plt.Line2D([], [], color=COLOURS[0], linestyle="", marker="o"))
    rows = results["mean_of_test_sums"]["rows"]
    names = ["right digit", "digit with the other carry", f"mean of {rows:,} test sums", "right digit leads"]
    reading = "decoder's state after each part, read by the output layer: seen, no intervention"
    figure.legend(lines, names, loc="outside lower center", ncols=4, title=reading, title_fontsize=8)
    figure.suptitle(f"{results['sum']} = {results['prediction']}, followed through the network")
    save(figure, path, vector=True)


def draw_encoder(axes, results: dict) -> None:
    """Where the encoder's most needed head looks in this sum."""
    encoder = results["encoder_head"]
    if encoder is None:
        axes.axis("off")
        return
    a, b = results["sum"].split("+")
    symbols = [*a, "+", *b]
    heatmap(axes, encoder["pattern"], symbols, symbols)
    axes.set_title(textwrap.fill(f"{short_name(encoder['head'])} {encoder['does']}", 16))


def draw_logits(axes, entry: dict, mean: dict, parts: list[str]) -> None:
    """One digit: this sum in colour, the mean over test sums dotted; filled where the right digit is first."""
    x = np.arange(len(parts))
    for key, colour in (("other_carry_logit", COLOURS[1]), ("logit", COLOURS[0])):
        if entry[key] is not None:
            axes.plot(x, mean[key], color=colour, linestyle=":", linewidth=1.2)
            axes.plot(x, entry[key], color=colour)
            label = entry["right"] if key == "logit" else entry["other_carry"]
            axes.text(x[-1] + 0.25, entry[key][-1], label, color=colour, va="center", fontweight="bold")
    first = np.array(entry["rank"]) == 1
    if first.any():
        axes.plot(x[first], np.array(entry["logit"])[first], "o", color=COLOURS[0], clip_on=False)
    axes.set_xticks(x, [part_name(part).replace("feed-forward", "f-f") for part in parts], rotation=90)
    axes.set_xlim(-0.3, len(parts) - 0.1)


def run(context: Context) -> dict:
    """Write carry/followed.json and its figure; the heads are those of the table of heads."""
    results = context.write("carry/followed.json", follow(context, context.results["summary"]["heads"]))
    draw(results, context.output_dir / "carry/followed.png")
    return results


def findings(results: dict) -> str:
    """The digit that would be written after each part, and the share of test sums whose digit can be read by then."""
    rows = []
    means = results["mean_of_test_sums"]["digits"]
    for number, part in enumerate(results["parts"]):
        first = "".join(entry["first"][number] for entry in results["digits"])
        margin = " ".join(f"{entry['margin'][number]:5.1f}" for entry in results["digits"])
        shares = " ".join(f"{100 * entry['right_is_first'][number]:3.0f}" for entry in means)
        rows.append([part_name(part), first, margin, shares])
    return "\n".join(text_table(f"after|{results['sum']} reads|margins|% right of test sums", rows))
