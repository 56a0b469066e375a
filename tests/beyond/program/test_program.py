"""The extracted program: planted ones are found, replacements break what they should and nothing else."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beyond.population import statements
from beyond.program import analyze as program
from beyond.program.analyze import check, counted
from beyond.program.interchange import any_rows, fitting_rows, seen
from beyond.program.program import Program, Rule, Source, in_words, lines, read_rules, sources
from beyond.program.scrub import Batch, resample
from beyond.program.variables import EDGE_VARIABLES, ENCODER_VARIABLES, SELF_VARIABLES, Columns
from problem1.analysis.rows import digit_names, sums_of
from problem1.checkpoint import load_model
from problem1.dataset import every_pair, random_pairs
from problem1.train import Settings
from tests.conftest import ROOT
from tests.problem1 import analysis_models

CHECKPOINT = Settings.output_dir / "best_model.pth"
NAMES = digit_names(4)
LOOK_AHEAD = Program(
    3, ((Rule(Source("columns", 0, 2)),), (Rule(Source("columns", 1, 1)),), (Rule(Source("columns", 2)),), ())
)
THROUGH_THOUSANDS = Rule(Source("columns", 0, 1), {"own": 2, "written": 1})
HANDED_ON = Program(
    3,
    (
        (Rule(Source("columns", 0, 1)),),
        (Rule(Source("columns", 1, 0)), Rule(Source("written"), {"own": 1}), THROUGH_THOUSANDS),
        (Rule(Source("columns", 2)), Rule(Source("own"), {"own": 1})),
        (),
    ),
)


@pytest.fixture(scope="module")
def committed():
    return load_model(CHECKPOINT)[0]


@pytest.fixture(scope="module")
def batch(committed):
    return Batch(committed, random_pairs(3, 1500, seed=3))


# --- the program ------------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.data())
def test_any_program_adds_real_pairs(columns, data):
    """Where all variables come from one pair, all sources of a carry agree: each rule there can be adds."""
    rules = []
    for t in range(columns + 1):
        found = sources(t, columns)
        rules.append((Rule(data.draw(st.sampled_from(found))),) if found else ())
        if t == 1 and rules[1]:  # the digit written tells the carry only where its column sums to 9
            other = next(source for source in found if source.kind != "written")
            rules[1] = (Rule(other), Rule(rules[1][0].source, {"own": 1}))
    size = 10 ** (columns - 1)
    numbers = st.integers(size, 10 * size - 1)
    pairs = data.draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
    pairs += [(10 * size - 1, size), (4 * size + 5 * (size // 9), 5 * size + 4 * (size // 9))]
    sums = sums_of(pairs, columns)
    made = Program(columns, tuple(rules))
    assert made.add(sums).tolist() == sums.targets.tolist()
    assert Program.from_json(json.loads(json.dumps(made.as_json()))) == made


def views(sums, carry_in) -> tuple[torch.Tensor, torch.Tensor]:
    """All digits see the same columns."""
    return tuple(torch.tensor(values).expand(1, 4, 3) for values in (sums, carry_in))


def test_programs_differ_where_their_variables_contradict_each_other():
    """Ones that carry, tens of 9 whose memory has seen no carry: looked up, 5 9 12 is 602; handed on, it is 592."""
    assert LOOK_AHEAD.write(*views([5, 9, 12], [0, 0, 0])).tolist() == [[0, 6, 0, 2]]
    assert HANDED_ON.write(*views([5, 9, 12], [0, 0, 0])).tolist() == [[0, 5, 9, 2]]
    # Hundreds of 9: the digit written before tells HANDED_ON whether a carry came.
    sums, carry_in = (torch.tensor(values).expand(1, 4, 3).clone() for values in ([9, 12, 0], [0, 0, 0]))
    sums[:, 1, 1] = 3
    assert LOOK_AHEAD.write(sums, carry_in).tolist() == [[1, 9, 2, 0]]
    assert HANDED_ON.write(sums, carry_in).tolist() == [[1, 0, 2, 0]]


@pytest.mark.parametrize("planted", [LOOK_AHEAD, HANDED_ON], ids=["looked up", "handed on"])
def test_a_planted_program_is_read_off_contradictory_answers(planted):
    generator = torch.Generator().manual_seed(0)
    sums = torch.randint(2, 18, (6000, 4, 3), generator=generator)
    sums = torch.where(torch.rand(sums.shape, generator=generator) < 0.35, 9, sums)
    carry_in = torch.randint(2, sums.shape, generator=generator)
    carry_in[:, :, 2] = 0
    answer = planted.write(sums, carry_in)
    found = Program(3, tuple(read_rules(t, sums, carry_in, answer) for t in range(4)))
    assert (found.write(sums, carry_in) == answer).all()
    words = in_words(found, NAMES)
    assert len(words) == 4 and words[3] == "ones: last digit of the sum of the ones"
    if planted is LOOK_AHEAD:
        assert found == planted
    else:
        assert "digit just written" in words[1] and "holds already" in words[2]
        assert "as their memory holds it" in words[0]
    noise = torch.randint(10, answer[:, 1].shape, generator=generator)
    assert len(read_rules(1, sums, carry_in, torch.stack([answer[:, 0], noise, *answer[:, 2:].unbind(1)], 1))) < 4


# --- replacements -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.integers(1, 30), st.integers(0, 99))
def test_resampling_is_a_permutation_within_each_value(count, values, seed):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(values, (count,), generator=generator)
    rows = resample(drawn, generator)
    assert rows.sort().values.tolist() == list(range(count))
    assert (drawn[rows] == drawn).all()


def test_variables_have_the_values_they_are_said_to_have():
    sums = every_pair(3)
    tens = Columns.of(sums).column(1)
    expected = [1, 2, 2, 3, 4, 10, 10, 11, 19, 20, 38]
    assert [len(variable.of(tens).unique()) for variable in EDGE_VARIABLES.values()] == expected
    assert (EDGE_VARIABLES["last digit of sum + carry in"].of(tens) == sums.targets[:, 2]).all()


def test_a_variable_is_marked_with_what_its_values_depend_on():
    """Marked as telling of the carry or of the partner: then, and only then, other carries or partners change it."""
    own, partner = torch.arange(100) // 10, torch.arange(100) % 10
    none, one = torch.zeros(100, dtype=torch.long), torch.ones(100, dtype=torch.long)
    for variable in EDGE_VARIABLES.values():
        without, with_it = (variable.of(Columns(own, partner, carry)) for carry in (none, one))
        assert variable.carry == (without != with_it).any(), variable.name
    for variable in ENCODER_VARIABLES.values():
        plain = variable.of(own, partner, none, none)
        assert variable.carry == (plain != variable.of(own, partner, one, one + 9)).any(), variable.name
        assert variable.partner == (plain != variable.of(own, 9 - partner, none, none)).any(), variable.name
    for variable in SELF_VARIABLES.values():
        without, with_it = (variable.of(own, Columns(own, partner, carry)) for carry in (none, one))
        assert variable.carry == (without != with_it).any(), variable.name


def test_what_comes_from_the_row_itself_changes_nothing_and_what_comes_from_another_writes_its_answer(batch):
    plain = batch.model.decode(batch.inputs, batch.model.encode(batch.sums.sources)).argmax(-1)
    own = torch.arange(len(batch))
    edges = own[:, None, None].expand(-1, 4, 7)
    shapes = {name: outputs.shape[1:3] for name, outputs in batch.recorded[1].items()}
    rows = {name: own[:, None, None].expand(-1, *shape) for name, shape in shapes.items() if "cross" not in name}
    encoder = {name: value for name, value in rows.items() if "encoder" in name}
    decoder = {name: value for name, value in rows.items() if "decoder" in name}
    everything = {"edges": edges, "memory": batch.encode(encoder), "decoder": decoder}
    for replaced in ({"edges": edges}, {"encoder": encoder}, {"decoder": decoder}, everything):
        assert (batch.written(**replaced) == plain).all()
    other = batch.anything()
    for replaced in ({"edges": other[:, None, None].expand(-1, 4, 7)}, {"memory": batch.memory[other]}):
        assert (batch.written(inputs=batch.inputs[other], **replaced) == plain[other]).all()


def test_a_variable_that_is_too_coarse_breaks_the_digit_and_only_this_one(batch):
    ones = batch.columns.column(2)
    for name, right in (("last digit of sum", True), ("sum > 9", False), ("nothing", False)):
        rows = batch.own()
        rows[:, 3, 2] = batch.resample(EDGE_VARIABLES[name].of(ones))
        written = batch.written(edges=batch.with_plus(rows)) == batch.sums.targets
        assert written[:, :3].double().mean() > 0.99
        assert (written[:, 3].double().mean().item() > 0.99) is right
        enough, share = batch.suffices(3, edges=batch.with_plus(rows))
        assert enough is right and (share > 0.99) is right


def test_fitting_columns_are_a_sum_and_any_columns_are_not(batch):
    for rows, fits in ((fitting_rows(batch), True), (any_rows(batch, 1), False)):
        sums, carry_in = seen(batch, rows)
        edges = batch.with_plus(rows)  # the same for all digits, in both ways to compute it
        assert torch.equal(batch.written(edges=edges), batch.written(edges=edges.expand(-1, batch.digits, -1)))
        sent = (sums + carry_in)[:, 0, 1:] // 10
        assert bool((sent == carry_in[:, 0, :-1]).all()) is fits
    rows = any_rows(batch, 4)
    assert (rows != rows[:, :1]).any()
    nines = batch.columns.sum[any_rows(batch, 4, nines=1.0), torch.arange(3)]
    assert (nines == 9).all()


def test_answers_are_counted_in_all_rows_and_in_subsets():
    part = {"right": torch.tensor([[True, True], [True, False], [True, True]])}
    part["some"] = torch.tensor([True, True, False])
    found = counted([part, part])
    assert (found["n"], found["wrong"], found["wrong_by_digit"]) == (6, 2, [0, 2])
    assert (found["some"]["n"], found["some"]["wrong"]) == (4, 2)


# --- a whole model ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(committed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "BATCH", 1500)
        patch.setattr(program, "FITTED_ON", 3000)
        return program.measure(committed, sums=1500)


def test_the_committed_model_runs_the_program_read_off_it(measured):
    assert measured["program_right"]["wrong"] == 0 and measured["pairs"] == 1500
    assert measured["scrubs"]["edges"]["share"] > 0.99 and measured["scrubs"]["everything"]["share"] > 0.97
    assert measured["interchange"]["three_fitting"]["share"] > 0.99
    assert measured["control_random_edges"]["share"] < 0.02
    assert all(entry["random"]["share"] < 0.05 for entry in measured["direction"].values())
    assert len(measured["edges"]) == 4 and all(len(line) == 3 for line in measured["edges"])
    used = [edge for line in measured["edges"] for edge in line if edge["variable"] != "nothing"]
    assert all(edge["accuracy"] >= measured["bar"] > edge["coarser"] for edge in used)
    assert "ones: last digit of the sum of the ones" in program.findings(measured).splitlines()


def test_committed_numbers_hold_on_other_pairs(committed):
    found = json.loads((ROOT / "beyond/program/results/program.json").read_text())
    again = check(Batch(committed, random_pairs(3, 2000, seed=9)), found)
    assert again["program"]["right"].all() and found["program_right"]["wrong"] == 0
    for name, entry in (found["scrubs"] | found["interchange"]).items():
        share = counted([again[name]])["share"]
        assert abs(share - entry["share"]) < 0.005 + 4 * (entry["share"] * (1 - entry["share"]) / 2000) ** 0.5, name
    assert found["lines"] == lines(found, NAMES)


def test_statements_count_models(measured):
    other = json.loads(json.dumps(measured))
    other["plus"]["tells"], other["edges"][2][0]["variable"] = True, "sum"
    table = statements.count({"one": measured, "other": other}, statements.STATEMENTS)
    holding = {row["statement"]: row["holds"] for row in table}
    assert holding["'+' is not used"] == ["one"] and all(row["of"] == 2 for row in table)
    assert holding["no column tells anything to a digit of a lower place"] == ["one"]
    text = statements.statement_lines(table)
    assert len(text) == 1 + len(table) and any("1 of 2" in line for line in text)
    assert statements.in_short(other)["lines"] == measured["lines"]


def test_a_model_that_is_not_always_right_is_measured_by_its_own_errors():
    one = Batch(analysis_models.adder(), every_pair(2)[::7])
    errors = (one.recorded[2] != one.sums.targets).any(1)
    assert errors.any() and one.suffices() == (True, 1 - int(errors.sum()) / len(one))
    edges = one.with_plus(any_rows(one, one.digits))
    enough, share = one.suffices(edges=edges)
    assert not enough and share < 0.1
