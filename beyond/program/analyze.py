"""Is the program that was read off the addition model the one it runs?

    python beyond/program/analyze.py        # of the model that problem1/train.py made

search.py finds what each edge from a column to a digit carries, program.py the program that uses it. Both come from
samples; here they are tested on all pairs:

scrubs         each activation is replaced by that of a random pair that agrees on its variable alone: is the answer
               still right?
interchange    columns of random pairs are put into one memory, three that fit together, three that need not, and
               twelve (for each digit others): does the model write what the program says?
controls       all edges from random pairs; a random direction in place of the one that tells the carry
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

import torch
from torch import Tensor
from tqdm import tqdm

from beyond.program import figure, probes
from beyond.program.interchange import any_rows, contradictory, fitting_rows, seen
from beyond.program.program import Program, Source, lines, read_rules
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
from problem1.dataset import decoder_inputs, every_pair

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "problem1/results"
BATCH = 8_100  # pairs among which replacements are drawn; with three digits there are 100 batches
FITTED_ON = 24_300  # contradictory inputs of each kind from which the program is read
NINES = 0.35  # so often one of their columns sums to 9, where most of the program shows
DESCRIBES = 0.9  # a program that predicts fewer answers than this does not describe the model
SCRUBS = {
    "edges": "edges",
    "decoder_self": "decoder self-attention",
    "encoder": "encoder heads",
    "everything": "all at once",
}
FORMS = {
    "three_fitting": "three columns that fit together",
    "three_any": "three columns that need not fit",
    "twelve_any": "twelve columns, others for each digit",
}
CASES = {
    "below_or_own": "the carry comes from the column below (and is not in the memory of the digit's own column)",
    "looked_up_or_handed_on": "a column of 9: the columns below it are looked up (the carry is not handed on)",
    "written_or_below": "the digit's own columns sum to 9: the carry is read off the digit just written",
}


# --- extraction ------------------------------------------------------------------------------------------------------


def greedy(batch: Batch, rows: Tensor) -> Tensor:
    """What the model writes, digit by digit, when each digit sees the columns of `rows`."""
    edges, inputs = batch.with_plus(rows), batch.inputs[:, :1]
    for _ in range(batch.digits):
        inputs = torch.cat([inputs, batch.written(inputs=inputs, edges=edges)[:, -1:]], 1)
    return inputs[:, 1:]


def read_program(batch: Batch) -> tuple[Program, dict[str, dict]]:
    """The program, and the case table, from contradictory inputs: three columns for each row and twelve."""
    samples = []
    for digits in (1, batch.digits):
        rows = any_rows(batch, digits, NINES)
        samples.append((*seen(batch, rows), greedy(batch, rows)))
    together = [torch.cat(parts) for parts in zip(*samples, strict=True)]
    columns = batch.digits - 1
    program = Program(columns, tuple(read_rules(t, *together) for t in range(batch.digits)))
    table = cases(*samples[0])
    table["written_or_below"] = cases(*samples[1])["written_or_below"]  # only there the digit written contradicts
    return program, table


def cases(sums: Tensor, carry_in: Tensor, answer: Tensor) -> dict[str, dict]:
    """Where two sources of a carry disagree: how often the digit goes by the first, and by the second.

    Rows are chosen so that other 9s play no part.
    """
    columns = sums.shape[2]
    names = digit_names(columns + 1)
    table: dict[str, dict] = {question: {} for question in CASES}

    def compare(question: str, name: str, t: int, where: Tensor, *both: Source) -> None:
        before = answer[:, t - 1] if t else torch.zeros_like(answer[:, 0])
        used = (answer[:, t] - (sums[:, t, t - 1] if t else 0)) % 10
        one, other = (source.carry(t, sums, carry_in, before) for source in both)
        where = where & (one != other)
        table[question][name] = {
            "first": proportion((used == one)[where]),
            "second": proportion((used == other)[where]),
        }

    for t in range(columns):
        here, nine = Source("columns", t), sums[:, t] == 9
        if t:
            compare("below_or_own", names[t], t, ~nine[:, t - 1] & ~nine[:, t], here, Source("own"))
        through = torch.ones(len(nine), dtype=torch.bool)
        for depth in range(columns - t - 1):
            through = through & nine[:, t + depth]
            where = through & ~nine[:, t + depth + 1]
            both = (Source("columns", t, depth + 1), Source("columns", t, depth))
            compare("looked_up_or_handed_on", f"{names[t]}, {names[t + depth + 1]} 9", t, where, *both)
        if t == 1:
            compare("written_or_below", names[t], t, nine[:, 0] & ~nine[:, 1], Source("written"), here)
    return table


def direction(batch: Batch) -> dict[str, dict]:
    """Can the carry be changed by one direction of the memory of the column below, as the digit sees it?

    The direction that best tells the carry (linear discriminant analysis, fitted on half of the pairs) is set to its
    value in a random other pair; a random direction is the control. Counted: digits that change as they should,
    among pairs of the other half whose carry differs. Columns that sum to 9 are left out.
    """
    n, half, found = batch.digits - 1, len(batch) // 2, {}
    other, carry = batch.anything(), batch.columns.sum > 9
    for t in range(1, n):
        both = batch.memory.cpu()[:, [t, n + 1 + t]].flatten(1).double()  # the column's two vectors
        usable = batch.columns.sum[:, t] != 9
        no, yes = (both[:half][usable[:half] & (carry[:half, t] == value)] for value in (False, True))
        mean = yes.mean(0) - no.mean(0)
        within = torch.cat([no - no.mean(0), yes - yes.mean(0)])
        weights = torch.linalg.lstsq(within.T @ within / len(within) + 1e-6 * torch.eye(len(mean)), mean[:, None])
        weights = weights.solution.flatten()
        drawn = torch.randn(len(mean), generator=batch.generator, dtype=torch.double)
        where = usable & usable[other] & (carry[:, t] != carry[other, t]) & (torch.arange(len(batch)) >= half)
        expected = (batch.sums.targets[:, t] + carry[other, t].long() - carry[:, t].long()) % 10
        entry = {}
        for name, read, step in (
            ("fitted", weights, mean / (weights @ mean)),
            ("random", drawn, drawn / (drawn @ drawn)),
        ):
            changed = both + ((both[other] - both) @ read)[:, None] * step
            memory = batch.memory.cpu().clone()
            memory[:, [t, n + 1 + t]] = changed.view(len(batch), 2, -1).to(memory)
            edges = batch.own()
            edges[:, t, t] += len(batch)
            plus = torch.arange(len(batch))[:, None, None].expand(-1, batch.digits, 1)
            rows = torch.cat([edges, plus, edges], 2)
            written = batch.written(edges=rows, memory=torch.cat([batch.memory, memory.to(batch.memory)]))
            entry[name] = proportion((written[:, t] == expected)[where])
        names = digit_names(n + 1)
        found[f"{names[t + 1]} to {names[t]}"] = entry
    return found


# --- measurements ----------------------------------------------------------------------------------------------------


def counted(parts: list[dict[str, Tensor]]) -> dict:
    """Batches' digits that are "right" [N, T], and subsets of rows by name [N] -> answers right in all, and in each."""
    subsets = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    right = subsets.pop("right")
    found = _counted(right.all(1)) | {"wrong_by_digit": (~right).sum(0).tolist()}
    return found | {name: _counted(right[rows].all(1)) for name, rows in subsets.items()}


def _counted(right: Tensor) -> dict:
    return proportion(right) | {"wrong": int((~right).sum())}


def extract(batch: Batch, fitted: Batch) -> dict:
    """Variables of edges, encoder and self-attention, and the program."""
    program, table = read_program(fitted)
    plus = batch.written(edges=batch.with_plus(batch.own())) == batch.sums.targets
    batch.plus_tells = not batch.suffices(edges=batch.with_plus(batch.own()))[0]
    first_layer, heads = next(iter(batch.heads("encoder").items()))
    nothing = {first_layer: [[NOTHING] * (batch.digits - 1)] * heads}
    without = batch.written(encoder=batch.encoder_like(nothing)) == batch.sums.targets
    return {
        "bar": BAR,
        "searched_on": len(batch),
        "fitted_on": 2 * len(fitted),
        "edges": search_edges(batch),
        "encoder": search_encoder(batch),
        "decoder_self": search_self(batch),
        "plus": proportion(plus.all(1)) | {"tells": batch.plus_tells},
        "first_encoder_layer_random": proportion(without.all(1)),
        "program": program.as_json(),
        "cases": table,
        "direction": direction(batch),
    }


def check(batch: Batch, found: dict) -> dict[str, dict[str, Tensor]]:
    """All scrubs and interchanges on one batch: for each the digits that are "right", and subsets of rows."""
    batch.plus_tells = found["plus"]["tells"]
    targets, program = batch.sums.targets, Program.from_json(found["program"])
    variables = [[edge["variable"] for edge in line] for line in found["edges"]]
    encoder, decoder = batch.encoder_like(found["encoder"]), batch.self_like(found["decoder_self"])
    scrubbed = batch.encode(encoder)
    written = {
        "edges": batch.written(edges=batch.with_plus(batch.edges_like(variables))),
        "encoder": batch.written(memory=scrubbed),
        "decoder_self": batch.written(decoder=decoder),
        "everything": batch.written(
            memory=scrubbed, edges=batch.with_plus(batch.edges_like(variables)), decoder=decoder
        ),
        "program": program.add(batch.sums),
    }
    results = {name: {"right": digits == targets} for name, digits in written.items()}
    forms = {
        "three_fitting": fitting_rows(batch),
        "three_any": any_rows(batch, 1),
        "twelve_any": any_rows(batch, batch.digits),
    }
    for form, rows in forms.items():
        views = seen(batch, rows)
        answer = program.write(*views)
        written = batch.written(inputs=decoder_inputs(answer), edges=batch.with_plus(rows))
        own = views[0][:, 1, 0]  # what the second digit sees of the first column: it tells most of the first digit
        results[form] = {
            "right": written == answer,
            "informative": (answer != targets).any(1) if form == "three_fitting" else contradictory(*views, answer),
            "first_digit_fits": (own == 9) | ((own > 9) == (answer[:, 0] == 1)),
        }
    return results


def measure(model, sums: int | None = None, num_digits: int = 3) -> dict:
    """The program of a model of operands of `num_digits` digits, tested on all pairs, or on `sums` random others."""
    pairs = every_pair(num_digits)
    pairs = pairs[torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))]
    found = extract(Batch(model, pairs[:BATCH], 1), Batch(model, pairs[-FITTED_ON:], 2))
    tested = pairs if sums is None else pairs[BATCH : BATCH + sums]
    checked = []
    for start in tqdm(range(0, len(tested), BATCH), desc="scrubbing", leave=False, disable=None):
        batch = Batch(model, tested[start : start + BATCH], 3 + len(checked))
        checked.append(check(batch, found))
        if start == 0:
            everywhere = batch.written(edges=batch.with_plus(any_rows(batch, batch.digits)))
            random_edges = counted([{"right": everywhere == batch.sums.targets}])
    results = {name: counted([part[name] for part in checked]) for name in checked[0]}
    return found | {
        "pairs": len(tested),
        "program_right": results["program"],
        "control_random_edges": random_edges,
        "scrubs": {name: results[name] for name in SCRUBS},
        "interchange": {name: results[name] for name in FORMS},
        "lines": lines(found, digit_names(num_digits + 1)),
    }


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
        raise UserError(f"{settings.model_path}: the program is read off only for up to {EXHAUSTIVE_DIGITS} digits.")
    if context.warning:
        raise UserError(context.warning)
    with only_one(settings.output_dir, "an analysis"), Fast():
        results = context.write("program.json", measure(context.model, num_digits=context.num_digits))
        figure.draw(results, digit_names(context.num_digits + 1), settings.output_dir / "program.png")
        print(findings(results))
        probed = context.write("probes.json", {"first_readable": probes.measure(context)})
        print(probes.findings(probed["first_readable"]))
        print(f"everything is in {settings.output_dir}")


def findings(results: dict) -> str:
    def wrong(entry: dict) -> str:
        return f"{entry['wrong']:,} of {entry['n']:,}"

    scrubs, forms, control = results["scrubs"], results["interchange"], results["control_random_edges"]
    twelve = forms["twelve_any"]
    directions = [
        f"{edge} " + ", ".join(f"{name} {100 * (cell['share'] or 0):.1f}%" for name, cell in entry.items())
        for edge, entry in results["direction"].items()
    ]
    described = forms["three_fitting"]["share"] >= DESCRIBES
    return "\n".join(
        [
            *([] if described else ["WARNING: the program does not describe this model, see below."]),
            *results["lines"],
            f"wrong by the program: {wrong(results['program_right'])} sums",
            "wrong with replacements that agree on the variable alone: "
            + "; ".join(f"{text} {wrong(scrubs[name])}" for name, text in SCRUBS.items()),
            "not what the program says: " + "; ".join(f"{text} {wrong(forms[name])}" for name, text in FORMS.items()),
            f"    where variables contradict each other: {wrong(forms['three_any']['informative'])} and "
            f"{wrong(twelve['informative'])}; if the first digit fits its column: {wrong(twelve['first_digit_fits'])}",
            f"control, all edges from random pairs: {control['n'] - control['wrong']:,} of {control['n']:,} right",
            f"carry changed by one direction of a column's memory: {'; '.join(directions) or 'not measured'}",
        ]
    )


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
