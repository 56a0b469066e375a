"""The model's algorithm as a program: where each digit of the answer takes its carry from.

It is read where the model's variables contradict each other. Columns of different pairs are put into one memory, so
that the carry handed on in the memory of the tens is not the one that the ones produce, and so on; what is written
then shows which of them a digit goes by. The result is a program that adds, and that predicts what the model writes
even where its inputs belong to no sum.
"""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace

import torch
from torch import Tensor

from beyond.program.variables import EVERYTHING, NOTHING, Columns, class_of
from problem1.dataset import Sums

GAIN = 0.01  # a rule must predict this share of the answers better to be part of the program


@dataclass(frozen=True)
class Source:
    """Where a digit takes its carry from.

    kind "columns": the carry out of the column below, as the position `seen_by` of the decoder sees the columns. A
    sum of 9 passes on what comes from below: `look_ahead` such columns are looked through, then the carry handed on
    in the memory counts. kind "own": the carry that the encoder has added into the digit's own column. kind
    "written": the digit written last (an answer starts with 1 exactly when a carry comes out of the first column).
    """

    kind: str
    seen_by: int = 0
    look_ahead: int = 0

    def carry(self, digit: int, sums: Tensor, carry_in: Tensor, written: Tensor) -> Tensor:
        """sums, carry_in [N, T, columns]: what each digit sees; written [N]: the digit before -> [N]"""
        if self.kind == "written":
            return written % 10 % 2
        if self.kind == "own":
            return carry_in[:, digit, digit - 1]
        sums, carry_in = sums[:, self.seen_by], carry_in[:, self.seen_by]

        def carry_out(column: int, look_ahead: int) -> Tensor:
            if look_ahead == 0:
                below = carry_in[:, column]
            elif column + 1 == sums.shape[1]:
                below = torch.zeros_like(sums[:, 0])
            else:
                below = carry_out(column + 1, look_ahead - 1)
            return torch.where(sums[:, column] == 9, below, (sums[:, column] > 9).long())

        return carry_out(digit, self.look_ahead)


def sources(digit: int, columns: int) -> list[Source]:
    """All that a digit could take its carry from."""
    if digit == columns:
        return []
    depths = range(columns - digit)
    found = [Source("columns", seen_by, depth) for seen_by in range(digit, -1, -1) for depth in depths]
    return found + [Source("own")] * (digit > 0) + [Source("written")] * (digit == 1)


@dataclass(frozen=True)
class Rule:
    """Take the carry from `source` where all of `when` holds: {"own": 9's class 0, 1 or 2, "below_nine", "written"}."""

    source: Source
    when: dict[str, int] = field(default_factory=dict)


def features(digit: int, sums: Tensor, written: Tensor) -> dict[str, Tensor]:
    """What the choice of a source may depend on: {name: [N]}"""
    found = {"below_nine": (sums[:, digit, digit] == 9).long()}
    if digit:
        found["own"] = class_of(sums[:, digit, digit - 1])
    if digit == 1:
        found["written"] = written
    return found


@dataclass(frozen=True)
class Program:
    """The extracted program: for each digit of the answer, where its carry comes from; later rules win."""

    columns: int
    rules: tuple[tuple[Rule, ...], ...]

    def digit(self, t: int, sums: Tensor, carry_in: Tensor, written: Tensor) -> Tensor:
        """Digit t of the answer [N]; arguments as in Source.carry."""
        carry = torch.zeros_like(written)
        for rule in self.rules[t]:
            chosen = torch.ones_like(written, dtype=torch.bool)
            found = features(t, sums, written) if rule.when else {}
            for name, value in rule.when.items():
                chosen &= found[name] == value
            carry = torch.where(chosen, rule.source.carry(t, sums, carry_in, written), carry)
        return carry if t == 0 else (sums[:, t, t - 1] + carry) % 10

    def write(self, sums: Tensor, carry_in: Tensor) -> Tensor:
        """sums, carry_in [N, T, columns]: what each digit sees of each column -> the answer [N, T]"""
        written = [torch.zeros_like(sums[:, 0, 0])]
        for t in range(self.columns + 1):
            written.append(self.digit(t, sums, carry_in, written[-1]))
        return torch.stack(written[1:], 1)

    def add(self, sums: Sums) -> Tensor:
        """The answers of real pairs, where every digit sees the same columns."""
        it = Columns.of(sums)
        return self.write(*(tensor.unsqueeze(1).expand(-1, self.columns + 1, -1) for tensor in (it.sum, it.carry_in)))

    def as_json(self) -> list[list[dict]]:
        return [[asdict(rule) for rule in rules] for rules in self.rules]

    @classmethod
    def from_json(cls, rules: list[list[dict]]) -> "Program":
        read = (tuple(Rule(Source(**rule["source"]), rule["when"]) for rule in line) for line in rules)
        return cls(len(rules) - 1, tuple(read))


def conditions(found: dict[str, Tensor]) -> Iterator[tuple[dict[str, int], Tensor]]:
    """All conditions on one feature or on two: what they ask for, and where they hold."""
    single = [({name: value}, tensor == value) for name, tensor in found.items() for value in tensor.unique().tolist()]
    yield from single
    for (first, here), (second, there) in itertools.combinations(single, 2):
        if first.keys() != second.keys():
            yield first | second, here & there


def read_rules(t: int, sums: Tensor, carry_in: Tensor, answer: Tensor) -> tuple[Rule, ...]:
    """The rules that best predict digit t: one for all, then exceptions, as long as one gains GAIN of the rows."""
    columns = sums.shape[2]
    if t == columns:
        return ()
    before = answer[:, t - 1] if t else torch.zeros_like(answer[:, 0])
    own = sums[:, t, t - 1] if t else torch.zeros_like(before)
    right = {
        source: (own + source.carry(t, sums, carry_in, before)) % 10 == answer[:, t] for source in sources(t, columns)
    }
    best = max(right, key=lambda source: int(right[source].sum()))
    rules, predicted = [Rule(best)], right[best]
    found = list(conditions(features(t, sums, before)))
    while True:
        gains = {
            (number, source): int(hits[where].sum()) - int(predicted[where].sum())
            for source, hits in right.items()
            for number, (_, where) in enumerate(found)
        }
        number, source = max(gains, key=gains.get)
        if gains[number, source] < GAIN * len(answer):
            return tuple(rules)
        when, where = found[number]
        rules.append(Rule(source, when))
        predicted = torch.where(where, right[source], predicted)


# --- the program in words --------------------------------------------------------------------------------------------


def lines(found: dict, names: list[str]) -> list[str]:
    """All that was found, in words: a line for each digit, then for the edges and the heads."""
    program = Program.from_json(found["program"])
    values = [
        edge["values"] for line in found["edges"] for edge in line if edge["variable"] not in (NOTHING, EVERYTHING)
    ]
    unknown = sum(edge["variable"] == EVERYTHING for line in found["edges"] for edge in line)
    edges = f"edges: {len(values)} of {sum(map(len, found['edges']))} carry a variable"
    edges += f" of {min(values)} to {max(values)} values" if values else ""
    edges += f", {unknown} more than any that was tried" if unknown else ", the others nothing"
    heads = {
        f"{module}.head{number}": [name for name in dict.fromkeys(line) if name != NOTHING]
        for module, lines in found["encoder"].items()
        for number, line in enumerate(lines)
    }
    used = [f"{head} ({' / '.join(variables)})" for head, variables in heads.items() if variables]
    encoder = f"encoder: {len(used)} of {len(heads)} heads tell something: {'; '.join(used) or 'none'}"
    others = [  # the first position has only itself to attend to
        f"{name} ({variable.removeprefix('own token, ')})"
        for name, variable in zip(names[1:], found["decoder_self"][1:], strict=True)
        if variable != "own token"
    ]
    self_attention = f"decoder self-attention, beside the position's own token: {'; '.join(others) or 'nothing'}"
    return [*in_words(program, names), edges, encoder, self_attention]


def in_words(program: Program, names: list[str]) -> list[str]:
    """One line for each digit; `names` are those of the digits, the columns have the same but the first."""
    lines = []
    for t, rules in enumerate(program.rules):
        if not rules:
            lines.append(f"{names[t]}: last digit of the sum of the {names[t]}")
            continue
        first = rules[0].source
        line = f"{names[t]}: " + (f"last digit of the sum of the {names[t]} + " if t else "") + _source(first, t, names)
        for rule in rules[1:]:
            same = replace(rule.source, seen_by=t) == replace(first, seen_by=t)
            text = f"the same{_seen_by(rule.source, t, names)}" if same else _source(rule.source, t, names)
            line += f"; but if {_condition(rule.when, t, names)}: {text}"
        lines.append(line)
    return lines


def _source(source: Source, digit: int, names: list[str]) -> str:
    if source.kind == "written":
        return "the digit just written"
    if source.kind == "own":
        return f"the carry that the memory of the {names[digit]} holds already"
    columns = names[1:][digit : digit + source.look_ahead + 1]
    text = f"the carry out of the {columns[0]}" + "".join(
        f", or if they sum to 9, of the {name}" for name in columns[1:]
    )
    if columns[-1] != names[-1]:
        text += ", as their memory holds it"
    return text + _seen_by(source, digit, names)


def _seen_by(source: Source, digit: int, names: list[str]) -> str:
    return "" if source.seen_by == digit else f" (as the position that writes the {names[source.seen_by]} sees it)"


def _condition(when: dict[str, int], digit: int, names: list[str]) -> str:
    parts = []
    for name, value in when.items():
        if name == "written":
            parts.append(f"the digit just written is {value}")
        elif name == "own":
            parts.append(f"the {names[digit]} sum to {('less than 9', '9', 'more than 9')[value]}")
        else:
            parts.append(f"the {names[digit + 1]} {'sum' if value else 'do not sum'} to 9")
    return " and ".join(parts)
