"""Which statements on the algorithm hold for how many models: each is tested on what program.py measured of each."""

from pathlib import Path

from beyond.program.variables import ENCODER_VARIABLES, NOTHING
from lab.files import read_json
from problem1.analysis.tables import aligned

SENTENCES = read_json(Path(__file__).with_name("statements.json"), "restore it.")  # {id: sentence}, as the report reads
FOLLOWS = 0.95  # a digit goes by a source that it follows in this share of the cases where sources disagree


def follows(measured: dict, question: str, which: str, among: str = "") -> bool:
    """In all cases of a question whose name holds `among`, the digit goes by the first (or the second) source."""
    shares = [case[which]["share"] for name, case in measured["cases"][question].items() if among in name]
    return all(share is not None and share >= FOLLOWS for share in shares)


def below_main(measured: dict) -> set[str]:
    """What columns tell digits of a lower place."""
    return {edge["variable"] for t, line in enumerate(measured["edges"]) for edge in line[: max(t - 1, 0)]}


def partners(measured: dict) -> bool:
    """At every column some head of the encoder must bring the other operand's digit."""
    heads = [names for module in measured["encoder"].values() for names in module]
    bring_it = [name for name, variable in ENCODER_VARIABLES.items() if variable.partner]
    return all(any(names[k] in bring_it for names in heads) for k in range(len(heads[0])))


# What may hold of one model of three-digit sums and not of another: {id of statements.json: does it hold?}
STATEMENTS = {
    "plus_not_used": lambda it: not it["plus"]["tells"],
    "nothing_to_lower_places": lambda it: below_main(it) == {NOTHING},
    "edges_of_20_values": lambda it: all((e["values"] or 99) <= 20 for line in it["edges"] for e in line),
    "partners_in_encoder": partners,
    "first_encoder_layer_not_used": lambda it: it["first_encoder_layer_random"]["share"] >= 0.999,
    "decoder_self_attention_not_used": lambda it: set(it["decoder_self"][1:]) == {"own token"},
    "tens_carry_from_ones": lambda it: follows(it, "below_or_own", "first", "tens"),
    "tens_carry_added_by_encoder": lambda it: follows(it, "below_or_own", "second", "tens"),
    "hundreds_9_looked_up": lambda it: follows(it, "looked_up_or_handed_on", "first", "hundreds 9"),
    "tens_9_looked_up": lambda it: follows(it, "looked_up_or_handed_on", "first", "tens 9"),
    "tens_9_handed_on": lambda it: follows(it, "looked_up_or_handed_on", "second", "tens 9"),
    "hundreds_9_read_off_written": lambda it: follows(it, "written_or_below", "first"),
    "everything_replaced": lambda it: it["scrubs"]["everything"]["share"] >= 0.99,
    "program_predicts": lambda it: it["interchange"]["three_any"]["share"] >= 0.99,
}


def count(models: dict[str, dict], statements: dict) -> list[dict]:
    """{model: what was measured of it}, {id: does it hold?} -> for each statement, the models it holds for."""
    return [
        {
            "statement": SENTENCES[name],
            "holds": [model for model, measured in models.items() if holds(measured)],
            "of": len(models),
        }
        for name, holds in statements.items()
    ]


def statement_lines(table: list[dict]) -> list[str]:
    rows = [[row["statement"], f"{len(row['holds'])} of {row['of']}", ", ".join(row["holds"])] for row in table]
    return aligned("statement|holds for|models", rows)


def in_short(found: dict) -> dict:
    """A model's program in words, and how often it was right."""
    shares = {
        group: {key: entry["share"] for key, entry in found[group].items()} for group in ("scrubs", "interchange")
    }
    return {"lines": found["lines"], "cases": found["cases"]} | shares
