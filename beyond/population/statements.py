"""Which statements on the algorithm hold for how many models: each is tested on what program.py measured of each."""

from problem1.analysis.tables import aligned

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
    return all(any("partner" in names[k] or "both" in names[k] for names in heads) for k in range(len(heads[0])))


# What may hold of one model of three-digit sums and not of another: {statement: does it hold?}
STATEMENTS = {
    "'+' is not used": lambda it: not it["plus"]["tells"],
    "no column tells anything to a digit of a lower place": lambda it: below_main(it) == {"nothing"},
    "each edge needs at most 20 values": lambda it: all(
        (e["values"] or 99) <= 20 for line in it["edges"] for e in line
    ),
    "each digit learns its partner's in the encoder": partners,
    "attention in the first encoder layer is not used": lambda it: it["first_encoder_layer_random"]["share"] >= 0.999,
    "decoder self-attention tells nothing but the position's own token": lambda it: (
        set(it["decoder_self"][1:]) == {"own token"}
    ),
    "tens: the carry comes by cross-attention from the ones": lambda it: follows(it, "below_or_own", "first", "tens"),
    "tens: the encoder has added the carry already": lambda it: follows(it, "below_or_own", "second", "tens"),
    "a 9 in the hundreds: the thousands look the tens up": lambda it: follows(
        it, "looked_up_or_handed_on", "first", "hundreds 9"
    ),
    "a 9 in the tens: the ones are looked up": lambda it: follows(it, "looked_up_or_handed_on", "first", "tens 9"),
    "a 9 in the tens: the encoder hands the carry on": lambda it: follows(
        it, "looked_up_or_handed_on", "second", "tens 9"
    ),
    "a 9 in the hundreds: their digit's carry is read off the digit just written": lambda it: follows(
        it, "written_or_below", "first"
    ),
    "everything replaced at once: at least 99% right": lambda it: it["scrubs"]["everything"]["share"] >= 0.99,
    "the program predicts 99% of what is written from three columns that need not fit": lambda it: (
        it["interchange"]["three_any"]["share"] >= 0.99
    ),
}


def count(models: dict[str, dict], statements: dict) -> list[dict]:
    """{model: what was measured of it}, {statement: does it hold?} -> for each statement, the models it holds for."""
    return [
        {"statement": text, "holds": [name for name, found in models.items() if holds(found)], "of": len(models)}
        for text, holds in statements.items()
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
