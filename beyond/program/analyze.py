"""Is the addition model a carry look-ahead adder?

    python beyond/program/analyze.py        # of the model that problem1/train.py made

opposite carries   each column's memory comes from an unrelated sum with the same two digits there and the opposite
                   carry coming in: does any answer change?
outside addition   each digit sees columns of its own, twelve in all, as no sum can hold them: does the model write
                   what the look-ahead program says (program.py), and how much worse are its rivals?
edges              what each column tells each digit (search.py), and whether all that is replaced at once, on all
                   sums, by what agrees in this alone (scrub.py)
rebuilt            the decoder on a table of mean vectors in place of the encoder (rebuild.py)
readable           what can be read from the memory and is not used (readable.py)
weights            where cross-attention looks by its weights alone, and what reaches the logits directly (weights.py)
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

import torch
from torch import Tensor
from tqdm import tqdm

from beyond.program import figure, program, readable, rebuild, weights
from beyond.program.interchange import any_rows, seen, with_opposite_carries
from beyond.program.scrub import BAR, Batch
from beyond.program.search import search_edges, search_encoder, search_self
from beyond.program.variables import NOTHING
from lab import device
from lab.fast import Fast
from lab.files import UserError, only_one
from lab.settings import parse, run, setting
from lab.statistics import proportion
from problem1.analysis.context import load_context
from problem1.analysis.exhaustive import EXHAUSTIVE_DIGITS
from problem1.analysis.rows import digit_names
from problem1.checkpoint import build
from problem1.dataset import Sums, decoder_inputs, every_pair

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "problem1/results"
BATCH = 27_000  # sums among which replacements are drawn; with three digits there are 30 batches
SEARCHED_ON = 8_100
CONTROL_ON = 27_000


# --- what is searched for ------------------------------------------------------------------------------------------


def extract(batch: Batch) -> dict:
    """The coarsest variables that suffice for edges, encoder and decoder self-attention."""
    plus = batch.written(edges=batch.with_plus(batch.own())) == batch.sums.targets
    batch.plus_tells = not batch.suffices(edges=batch.with_plus(batch.own()))[0]
    first_layer, heads = next(iter(batch.heads("encoder").items()))
    nothing = {first_layer: [[NOTHING] * (batch.digits - 1)] * heads}
    without = batch.written(encoder=batch.encoder_like(nothing)) == batch.sums.targets
    return {
        "bar": BAR,
        "searched_on": len(batch),
        "edges": search_edges(batch),
        "encoder": search_encoder(batch),
        "decoder_self": search_self(batch),
        "plus": proportion(plus.all(1)) | {"tells": batch.plus_tells},
        "first_encoder_layer_random": proportion(without.all(1)),
    }


# --- what is tried on every sum ------------------------------------------------------------------------------------


def on_sums(batch: Batch, found: dict, tables: dict[str, rebuild.Tables]) -> dict[str, dict[str, Tensor]]:
    """{experiment: {"right" [N, T], …}} on the sums of one batch."""
    batch.plus_tells = found["plus"]["tells"]
    variables = variables_of(found)
    encoder = batch.encoder_like(found["encoder"])
    decoder = batch.self_like(found["decoder_self"])
    scrubbed = batch.encode(encoder)
    edges = batch.with_plus(batch.edges_like(variables))
    results = {
        "model": batch.outcome(),
        "all_replaced": batch.outcome(memory=scrubbed, edges=edges, decoder=decoder),
        "opposite_carries": {"right": with_opposite_carries(batch, batch.memory).unsqueeze(1)},
    }
    for name, each in tables.items():
        results[f"rebuilt {name}"] = rebuild.outcome(batch, each)
    return results | outside(batch) | {"flipped": flipped(batch)}


def variables_of(found: dict) -> list[list[str]]:
    return [[edge["variable"] for edge in line] for line in found["edges"]]


def outside(batch: Batch) -> dict[str, dict[str, Tensor]]:
    """Each digit sees columns of its own: does it write what the look-ahead program says? What does each rival say?"""
    rows = any_rows(batch, batch.digits)
    views = seen(batch, rows)
    edges = batch.with_plus(rows)
    answer = program.write(*views)
    written = batch.written(inputs=decoder_inputs(answer), edges=edges)
    fitting = batch.written(inputs=program.own_prefix(views[0]), edges=edges)
    found = {"outside": {"right": written == answer}, "outside, fitting prefix": {"right": fitting == answer}}
    for name, rival in program.rivals(batch.digits - 1).items():
        found[f"rival {name}"] = {"right": written == program.write(*views, rival)}
    return found


@torch.no_grad()
def flipped(batch: Batch) -> dict[str, Tensor]:
    """The first digit in the prefix is 1 for 0, or 0 for 1, where the next column sums to 9: does its digit stay
    right?"""
    nine = batch.columns.sum[:, 0] == 9
    inputs = batch.inputs[nine]
    inputs[:, 1] = 1 - inputs[:, 1]
    logits = batch.model.decode(inputs.to(batch.device), batch.memory[nine])
    right = logits[:, 1].argmax(-1).cpu() == batch.sums.targets[nine, 1]
    return {"right": right.unsqueeze(1)}


def counted(parts: list[dict[str, Tensor]]) -> dict:
    """Digits that are "right" [N, T] in all batches, and their mean "loss" [N]."""
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    right = joined["right"]
    found = share(right.all(1)) | {"wrong_by_digit": (~right).sum(0).tolist()}
    if "loss" in joined:
        found["loss"] = joined["loss"].double().mean().item()
    return found


def share(right: Tensor) -> dict:
    return proportion(right) | {"wrong": int((~right).sum())}


def measure(model, settings: dict) -> dict:
    """All of it, on all sums of operands of so many digits."""
    num_digits = settings["num_digits"]
    pairs = every_pair(num_digits)
    pairs = pairs[torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))]
    found = extract(Batch(model, pairs[:SEARCHED_ON], 1))
    first = Batch(model, pairs[:BATCH], 2)
    variables = variables_of(found)
    tables = {
        "by pair": rebuild.tables(first, [[rebuild.PAIR] * num_digits] * (num_digits + 1)),
        "by variable": rebuild.tables(first, variables, one_pair=True),
        "by mean": rebuild.tables(first, variables),
    }
    everywhere = first.outcome(edges=first.with_plus(any_rows(first, first.digits)))
    checked = []
    for start in tqdm(range(0, len(pairs), BATCH), desc="trying all sums", leave=False, disable=None):
        batch = Batch(model, pairs[start : start + BATCH], 3 + len(checked))
        checked.append(on_sums(batch, found, tables))
    results = {name: counted([part[name] for part in checked]) for name in checked[0]}
    random_edges = counted([everywhere])
    whole = results["model"]["loss"]
    replaced = results["all_replaced"]
    replaced["loss_recovered"] = 1 - (replaced["loss"] - whole) / (random_edges["loss"] - whole)
    rivals = {name.removeprefix("rival "): results[name]["share"] for name in results if name.startswith("rival ")}
    best = max(rivals, key=rivals.get)
    return found | {
        "pairs": len(pairs),
        "loss": whole,
        "opposite_carries": results["opposite_carries"] | {"untrained": untrained(settings, pairs[:CONTROL_ON])},
        "outside": results["outside"]
        | {"fitting_prefix": results["outside, fitting prefix"], "rivals": rivals, "best_rival": best},
        "flipped_first_digit": results["flipped"],
        "control_random_edges": random_edges,
        "all_replaced": replaced,
        "rebuilt": {name: results[f"rebuilt {name}"] | {"entries": each.entries} for name, each in tables.items()},
        "readable": {name: readable.measure(first, t) for t, name in between(num_digits)},
        "weights": weights.measure(model, pairs[:SEARCHED_ON]),
        "lines": lines(digit_names(num_digits + 1)),
    }


def between(num_digits: int) -> list[tuple[int, str]]:
    """Digits of the answer, by index, and the column below each that can pass a carry on."""
    names = digit_names(num_digits)
    return [(t, names[t]) for t in range(1, num_digits - 1)]


def untrained(settings: dict, sums: Sums) -> dict:
    """The control of opposite carries: a model that cannot add, right by chance alone."""
    torch.manual_seed(0)
    batch = Batch(build(settings).eval(), sums, 0)
    return share(with_opposite_carries(batch, batch.memory))


def lines(names: list[str]) -> list[str]:
    """The look-ahead program in words: names are those of the digits, the columns have the same but the first."""
    found = []
    for t, name in enumerate(names[:-1]):
        carry = f"the carry out of the {names[t + 1]}"
        carry += "".join(f", or if they sum to 9, of the {lower}" for lower in names[t + 2 :])
        found.append(f"{name}: " + (f"last digit of the sum of the {name} + " if t else "") + carry)
    return [*found, f"{names[-1]}: last digit of the sum of the {names[-1]}"]


# --- results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    model_path: Path = setting(RESULTS / "best_model.pth", "a trained model of problem 1", metavar="FILE")
    data_dir: Path = setting(RESULTS.parent / "data", "folder of the rows it was trained on", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder for numbers and figures", metavar="DIR")


def main(settings: Settings) -> None:
    device.start("cpu")
    context = load_context(settings.model_path, settings.data_dir, settings.output_dir)
    if context.num_digits > EXHAUSTIVE_DIGITS:
        raise UserError(f"{settings.model_path}: this is done only for up to {EXHAUSTIVE_DIGITS} digits.")
    if context.warning:
        raise UserError(context.warning)
    with only_one(settings.output_dir, "an analysis"), Fast():
        results = context.write("program.json", measure(context.model, context.settings))
        figure.draw(results, digit_names(context.num_digits + 1), settings.output_dir / "program.png")
        print(findings(results))
        print(f"everything is in {settings.output_dir}")


def findings(results: dict) -> str:
    def wrong(entry: dict) -> str:
        return f"{entry['wrong']:,} of {entry['n']:,}"

    outside, rebuilt, opposite = results["outside"], results["rebuilt"], results["opposite_carries"]
    replaced = results["all_replaced"]
    found = [
        "the look-ahead program:",
        *(f"    {line}" for line in results["lines"]),
        f"each column from an unrelated sum with the same two digits and the opposite carry: {wrong(opposite)} answers "
        f"wrong (untrained model: {wrong(opposite['untrained'])})",
        f"each digit with columns of its own: {wrong(outside)} answers not as the program says, "
        f"{wrong(outside['fitting_prefix'])} after a prefix that fits",
        f"    the best rival ({outside['best_rival']}) predicts {outside['rivals'][outside['best_rival']]:.2%}, "
        f"the program {outside['share']:.2%}",
        f"first digit of the prefix wrong: {wrong(results['flipped_first_digit'])} second digits wrong where their "
        "column sums to 9",
        f"edges and heads, all at once from sums that agree in the variable alone: {wrong(replaced)} answers wrong",
        f"    loss recovered: {replaced['loss_recovered']:.3%}",
    ]
    for name, entry in rebuilt.items():
        found.append(f"memory rebuilt from {entry['entries']} pairs of vectors, {name}: {wrong(entry)} wrong")
    for name, entry in results["readable"].items():
        found.append(
            f"{name} that sum to 9: the carry that came in is readable in {entry['read']['share']:.1%}, "
            f"followed in {entry['followed']['share']:.1%} of {entry['followed']['n']:,} contradictions"
        )
    read = results["weights"]
    far = max(abs(e["mean"] - e["from_means"]) for head in read["where"].values() for e in head.values())
    found.append(
        f"attention to a digit's column: from mean query and mean keys to within {far:.2f}; with every pattern held at "
        f"its mean {read['right_with_mean_patterns']['share']:.1%} right"
    )
    return "\n".join(found)


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
