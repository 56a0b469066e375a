"""What the population says: everything here follows from the tables."""

import itertools
import math

import numpy as np

from beyond.population.sources import CASES
from lab.statistics import wilson

Row = dict[str, str]
LOOKS_UP = 0.95  # a case goes by a source whose effect is at least this
# In which a look-ahead adder looks up; where its own column sums to 9, the digit just written shows the carry as well.
LOOK_AHEAD = [case.name for case in CASES if not case.own_nine]
RESHUFFLED = 10_000  # random orders of a permutation test


def effect(row: Row, case: str, source: str) -> float:
    return float(row.get(f"{case}: {source}") or 0)


def looks_ahead(row: Row, bar: float = LOOKS_UP) -> bool:
    return all(effect(row, case, "looked up") >= bar for case in LOOK_AHEAD)


def in_all_cases(row: Row) -> bool:
    """Also where its own column sums to 9."""
    return all(effect(row, case.name, "looked up") >= LOOKS_UP for case in CASES)


def handed_on(row: Row) -> float:
    """The mean effect of a 9's own memory where a carry comes through 9s."""
    through = [case.name for case in CASES if case.depth]
    return float(np.mean([effect(row, case, "handed on") for case in through]))


def share(holds: list[bool]) -> dict:
    return {"models": sum(holds), "of": len(holds), "interval_95": list(wilson(sum(holds), len(holds)))}


def group(rows: list[Row], prefix: str) -> list[Row]:
    return [row for row in rows if row["model"].startswith(prefix)]


def at_most(models: int) -> float:
    """The highest share of failures that is compatible with none among so many models (95%): the rule of three."""
    return 1 - 0.05 ** (1 / models)


# --- which algorithm, how often ----------------------------------------------------------------------------------


def algorithms(rows: list[Row]) -> dict:
    """How many look ahead; for each case and source, how many go by it, and how many lie between all and nothing."""
    cases = {}
    for case in CASES:
        names = [column.partition(": ")[2] for column in rows[0] if column.startswith(f"{case.name}: ")]
        found = {}
        for source in names:
            if source == "no carry":
                continue
            values = np.array([effect(row, case.name, source) for row in rows])
            found[source] = {
                "always": int((values >= LOOKS_UP).sum()),
                "never": int((np.abs(values) <= 1 - LOOKS_UP).sum()),
                "between": int(((np.abs(values) > 1 - LOOKS_UP) & (values < LOOKS_UP)).sum()),
                "mean": float(values.mean()),
            }
        cases[case.name] = found
    bars = {str(bar): share([looks_ahead(row, bar) for row in rows]) for bar in (0.9, LOOKS_UP, 0.99)}
    opposite = [int(row["wrong with opposite carries"]) for row in rows]
    return {
        "models": len(rows),
        "exact": share([row["wrong"] == "0" for row in rows]),
        "smallest_margins": quantiles([float(row["smallest margin"]) for row in rows]),
        "look_ahead": bars[str(LOOKS_UP)],
        "look_ahead_by_bar": bars,
        "looked_up_in_all_cases": share([in_all_cases(row) for row in rows]),
        "no_answer_changed_by_opposite_carries": share([wrong == 0 for wrong in opposite]),
        "not_as_the_program": quantiles([int(row["not as the program"]) for row in rows]),
        "not_as_the_program_if_look_ahead": quantiles(
            [int(row["not as the program"]) for row in rows if looks_ahead(row)]
        ),
        "cases": cases,
    }


def quantiles(values: list[float]) -> dict:
    """Least, median and most; nothing of no values."""
    if not values:
        return {}
    return {"least": min(values), "median": float(np.median(values)), "most": max(values)}


# --- what decides ------------------------------------------------------------------------------------------------


def variance(rows: list[Row], value, factors: dict[str, str]) -> dict:
    """The share of a value's variance that each factor explains alone, and how often a random relabelling of the rows
    explains as much (p). factors: {name: column}"""
    values = np.array([value(row) for row in rows])
    total = ((values - values.mean()) ** 2).sum()
    found = {}
    random = np.random.default_rng(0)
    for name, column in factors.items():
        labels = np.array([row[column] for row in rows])
        explained = between(values, labels)
        chance = [between(values, random.permutation(labels)) for _ in range(RESHUFFLED)]
        reached = sum(other >= explained - 1e-12 for other in chance)
        found[name] = {
            "share": float(explained / total) if total else 0.0,
            "p": (1 + reached) / (1 + RESHUFFLED),
        }
    return found


def between(values: np.ndarray, labels: np.ndarray) -> float:
    """The sum of squares between groups."""
    found = 0.0
    for label in np.unique(labels):
        members = values[labels == label]
        found += len(members) * (members.mean() - values.mean()) ** 2
    return found


MEASURES = {
    "handed on through 9s": handed_on,
    "hundreds if 9: written": lambda row: effect(row, "hundreds if 9", "written"),
}


def grid(rows: list[Row], size: int) -> dict:
    """Initial weights against order of rows: every pair of the first seeds."""
    diagonal = {f"seed{seed}" for seed in range(size)}
    chosen = [row for row in rows if row["model"].startswith("grid") or row["model"] in diagonal]
    factors = {"initial weights": "embedding", "order of rows": "order"}
    found = {name: variance(chosen, value, factors) for name, value in MEASURES.items()}
    return {"models": len(chosen), "variance": found}


def exchanged(rows: list[Row], pairs: tuple) -> dict:
    """Initial weights exchanged part by part between two seeds that end in different algorithms.

    Within a pair the three parts are crossed, so each part's effect is a difference of two means over four models.
    """
    by_beginning = {
        (row["embedding"], row["encoder"], row["decoder"], row["order"]): row
        for row in rows
        if not row["model"].startswith(("plain", "nudged"))
    }
    found = []
    for first, second in pairs:
        seeds = (str(first), str(second))
        entry = {"pair": [first, second], "models": 0, "effects": {}}
        cells = {}
        for parts in itertools.product((0, 1), repeat=3):
            # All with the first seed's order of rows; the second seed itself has another one.
            cells[parts] = by_beginning[(*(seeds[part] for part in parts), seeds[0])]
        entry["models"] = len(cells)
        for name, value in MEASURES.items():
            values = {parts: value(row) for parts, row in cells.items()}
            entry["effects"][name] = {
                part: float(np.mean([value if parts[number] else -value for parts, value in values.items()]) * 2)
                for number, part in enumerate(("embedding", "encoder", "decoder"))
            }
        # All initial weights of the second seed, but the first one's order of rows: does it still not look ahead?
        entry["kept_in_another_order"] = not looks_ahead(cells[1, 1, 1])
        entry["look_ahead"] = {"".join("AB"[part] for part in parts): looks_ahead(row) for parts, row in cells.items()}
        found.append(entry)
    return {"pairs": found, "models": sum(entry["models"] for entry in found)}


def compared(rows: list[Row], one: str, other: str) -> dict:
    """Two groups with the same seeds: how many look ahead in each; and in how many seeds both agree."""
    pairs = []
    by_name = {row["model"]: row for row in rows}
    for row in group(rows, other):
        twin = by_name.get(one + row["model"].removeprefix(other))
        if twin:
            pairs.append((looks_ahead(twin), looks_ahead(row)))
    return {
        one: share([first for first, _ in pairs]),
        other: share([second for _, second in pairs]),
        "agree": share([first == second for first, second in pairs]),
        "p": sign_test(pairs),
    }


def sign_test(pairs: list[tuple[bool, bool]]) -> float:
    """McNemar's exact test, two-sided: of the seeds in which both groups differ, is either way equally likely?"""
    changed = [first for first, second in pairs if first != second]
    n = len(changed)
    k = sum(changed)
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(min(k, n - k) + 1)) / 2**n)


# --- what shows from outside, and what all have in common --------------------------------------------------------


OUTSIDE = {
    "smallest margin": lambda row: float(row["smallest margin"]),
    "test loss": lambda row: float(row["test loss"]),
    "first perfect epoch": lambda row: float(row["first perfect epoch"] or 99),
    "critical heads": lambda row: sum(int(row[name]) for name in row if name.startswith("critical ")),
    "lost without the most critical head": lambda row: float(row["lost without it"]),
}


def from_outside(rows: list[Row]) -> dict:
    """How well a number that needs no look inside tells the models that look ahead from the others: the chance that
    it is larger in one that does than in one that does not (0.5: it tells nothing), and p."""
    found = {}
    yes = np.array([looks_ahead(row) for row in rows])
    random = np.random.default_rng(0)
    for name, value in OUTSIDE.items():
        values = np.array([value(row) for row in rows])
        area = larger(values, yes)
        chance = [abs(larger(values, random.permutation(yes)) - 0.5) for _ in range(2_000)]
        reached = sum(other >= abs(area - 0.5) - 1e-12 for other in chance)
        found[name] = {"larger_in_look_ahead": area, "p": (1 + reached) / 2_001}
    return found


def larger(values: np.ndarray, yes: np.ndarray) -> float:
    """How often a value of those that hold is larger than one of those that do not; ties count half."""
    one, other = values[yes][:, None], values[~yes][None, :]
    return float(((one > other) + 0.5 * (one == other)).mean()) if one.size and other.size else 0.5


STATEMENTS = {
    "no column of a higher place tells a digit anything": lambda row: (
        float(row["wrong without columns of higher places"]) <= 0.001
    ),
    "'+' tells nothing": lambda row: float(row["wrong without '+'"]) <= 0.001,
    "the attention of encoder layer 0 tells nothing": lambda row: (
        float(row["wrong without encoder attention, layer 0"]) <= 0.001
    ),
    "without the encoder's attention at least a tenth is wrong": lambda row: (
        float(row["wrong without encoder attention"]) >= 0.1
    ),
    "decoder self-attention tells nothing but its own token": lambda row: (
        float(row["wrong without decoder self-attention"]) <= 0.001
    ),
    "the encoder does not add a carry into the tens": lambda row: abs(effect(row, "tens", "added")) <= 0.05,
    "the tens take their carry from the ones they see": lambda row: effect(row, "tens", "looked up") >= LOOKS_UP,
    "a head of the last encoder layer is critical": lambda row: int(row["critical E1"]) > 0,
    "a head of the first encoder layer is critical": lambda row: int(row["critical E0"]) > 0,
    "a cross-attention head is critical": lambda row: int(row["critical D0.cross"]) + int(row["critical D1.cross"]) > 0,
    "a self-attention head of the decoder is critical": lambda row: (
        int(row["critical D0.self"]) + int(row["critical D1.self"]) > 0
    ),
    "the most critical head is in the encoder": lambda row: row["most critical"].startswith("E"),
}


def statements(rows: list[Row]) -> dict[str, dict]:
    """For how many models each holds; of what holds in all, the highest share of exceptions that this allows."""
    found = {}
    for name, holds in STATEMENTS.items():
        counted = share([holds(row) for row in rows])
        if counted["models"] == counted["of"]:
            counted["exceptions_at_most"] = at_most(counted["of"])
        found[name] = counted
    return found


# --- when --------------------------------------------------------------------------------------------------------


def over_training(epochs: list[Row]) -> dict:
    """For each model the epoch after which what is looked up stays within a tenth of where it ends, in each case that
    counts; the first epoch with 99% of the validation sums right; and how much is ever looked up in the least case."""
    by_model: dict[str, list[Row]] = {}
    for row in epochs:
        by_model.setdefault(row["model"], []).append(row)
    found = {}
    for name, rows in by_model.items():
        looked_up = np.array([[effect(row, case, "looked up") for case in LOOK_AHEAD] for row in rows])
        distance = np.abs(looked_up - looked_up[-1]).max(1)
        settled = next(n for n in range(len(rows)) if max(distance[n:]) <= 0.1)
        found[name] = {
            "looks_ahead": looks_ahead(rows[-1]),
            "most_on_the_way": float(looked_up.min(1).max()),
            "settled_after_epoch": settled + 1,
            "first_epoch_of_99_percent": next(
                (n for n, row in enumerate(rows, 1) if float(row["validation"]) >= 0.99), None
            ),
        }
    return found


def of_five_digits(rows: list[Row]) -> dict:
    """Over how many columns of 9 does each digit look? And how many sums are wrong."""
    columns = [name for name in rows[0] if name.startswith("digit ")]
    by_depth: dict[str, list[float]] = {}
    for name in columns:
        by_depth.setdefault(name.rpartition(" ")[2], []).extend(float(row[name]) for row in rows)
    return {
        "models": len(rows),
        "exact": share([row["wrong"] == row["wrong of hard pairs"] == "0" for row in rows]),
        "looked_up_through_9s": {depth: quantiles(values) for depth, values in by_depth.items()},
        "look_ahead": share([all(float(row[name]) >= LOOKS_UP for name in columns) for row in rows]),
        "no_answer_changed_by_opposite_carries": share([row["wrong with opposite carries"] == "0" for row in rows]),
    }
