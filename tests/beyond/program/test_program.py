"""The look-ahead program and the replacements: they break what they should and nothing else."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beyond.program import analyze, program, readable, rebuild, weights
from beyond.program.analyze import counted, on_sums
from beyond.program.interchange import any_rows, opposite_carries, random_match, seen, with_opposite_carries
from beyond.program.scrub import Batch, resample
from beyond.program.variables import EDGE_VARIABLES, ENCODER_VARIABLES, SELF_VARIABLES, Columns
from problem1.analysis.rows import sums_of
from problem1.checkpoint import load_model
from problem1.dataset import START, decoder_inputs, every_pair, random_pairs
from problem1.train import Settings
from tests.conftest import ROOT
from tests.problem1 import analysis_models

CHECKPOINT = Settings.output_dir / "best_model.pth"


@pytest.fixture(scope="module")
def committed():
    return load_model(CHECKPOINT)[0]


@pytest.fixture(scope="module")
def batch(committed):
    return Batch(committed, random_pairs(3, 1500, seed=3))


# --- the program ------------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.data())
def test_the_program_and_all_its_rivals_add_real_sums(columns, data):
    """Where all columns come from one sum, all sources of a carry agree."""
    size = 10 ** (columns - 1)
    numbers = st.integers(size, 10 * size - 1)
    pairs = data.draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
    pairs += [(10 * size - 1, size), (4 * size + 5 * (size // 9), 5 * size + 4 * (size // 9))]
    sums = sums_of(pairs, columns)
    it = Columns.of(sums)
    seen_by_each = [part.unsqueeze(1).expand(-1, columns + 1, -1) for part in (it.sum, it.carry_in)]
    for made in (None, *program.rivals(columns).values()):
        assert program.write(*seen_by_each, made).tolist() == sums.targets.tolist()
    assert program.own_prefix(seen_by_each[0]).tolist() == decoder_inputs(sums.targets).tolist()


def views(sums, carry_in) -> tuple[torch.Tensor, torch.Tensor]:
    """All digits see the same columns."""
    return tuple(torch.tensor(values).expand(1, 4, 3).clone() for values in (sums, carry_in))


def test_rivals_differ_where_columns_contradict_each_other():
    """Ones that carry, tens of 9 whose memory has seen no carry: looked up, 5 9 12 is 602; handed on, it is 592."""
    assert program.write(*views([5, 9, 12], [0, 0, 0])).tolist() == [[0, 6, 0, 2]]
    rivals = program.rivals(3)
    handed_on = rivals["digit 1 as position 1 sees it, handed on after 0"]
    assert program.write(*views([5, 9, 12], [0, 0, 0]), handed_on).tolist() == [[0, 5, 0, 2]]
    sums, carry_in = views([5, 4, 12], [0, 0, 0])
    sums[:, 0] = 12  # what the position of the thousands sees: a carry out of the tens
    assert program.write(sums, carry_in).tolist() == [[1, 5, 5, 2]]
    assert program.write(sums, carry_in, rivals["digit 1 as position 0 sees it"]).tolist() == [[1, 6, 5, 2]]
    assert program.look_ahead(3) not in rivals.values() and len({*rivals.values()}) == len(rivals)


def test_a_prefix_can_show_another_carry_where_the_own_column_sums_to_9():
    sums, _ = views([9, 4, 12], [0, 0, 0])
    shown = torch.ones(1, 4, dtype=torch.long)
    assert program.own_prefix(sums).tolist() == [[START, 0, 9, 5]]
    assert program.own_prefix(sums, shown).tolist() == [[START, 1, 9, 5]]


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


def test_any_columns_are_no_sum_and_may_be_given_more_9s(batch):
    rows = any_rows(batch, 1)
    edges = batch.with_plus(rows)  # the same for all digits, in both ways to compute it
    assert torch.equal(batch.written(edges=edges), batch.written(edges=edges.expand(-1, batch.digits, -1)))
    sums, carry_in = seen(batch, rows)
    sent = (sums + carry_in)[:, 0, 1:] // 10
    assert (sent != carry_in[:, 0, :-1]).any()
    rows = any_rows(batch, 4)
    assert (rows != rows[:, :1]).any()
    nines = batch.columns.sum[any_rows(batch, 4, nines=1.0), torch.arange(3)]
    assert (nines == 9).all()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=50), st.integers(0, 99), st.data())
def test_a_random_match_has_the_value_that_is_wanted(values, seed, data):
    wanted = torch.tensor(data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=50)))
    values = torch.tensor(values)
    found = random_match(values, wanted, torch.Generator().manual_seed(seed))
    assert (values[found] == wanted).all()
    with pytest.raises(ValueError):
        random_match(values, torch.tensor([11]), torch.Generator())


def test_columns_with_the_opposite_carry_have_the_same_digits(committed):
    whole = Batch(committed, random_pairs(3, 6000, seed=4))
    it = whole.columns
    rows = opposite_carries(whole)
    column = torch.arange(3)
    assert (it.a[rows, column] == it.a).all() and (it.b[rows, column] == it.b).all()
    assert (it.carry_in[rows, column] != it.carry_in)[:, :2].all()
    right = with_opposite_carries(whole, whole.memory)
    assert right.all()  # the committed model looks ahead
    broken = whole.memory.clone()  # a memory in which a column is that of another sum, whatever is asked for
    broken[:, 2] = whole.memory[whole.anything(), 2]
    assert with_opposite_carries(whole, broken).double().mean() < 0.5


def test_answers_and_their_digits_are_counted_over_all_batches():
    right = torch.tensor([[True, True], [True, False], [True, True]])
    found = counted([{"right": right, "loss": torch.ones(3, 2)}, {"right": right, "loss": torch.zeros(3, 2)}])
    assert (found["n"], found["wrong"], found["wrong_by_digit"], found["loss"]) == (6, 2, [0, 2], 0.5)


# --- a whole model ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(committed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyze, "BATCH", 3000)
        patch.setattr(analyze, "SEARCHED_ON", 1500)
        patch.setattr(analyze, "CONTROL_ON", 6000)
        patch.setattr(analyze, "every_pair", lambda digits: random_pairs(digits, 6000, seed=5))
        return analyze.measure(committed, load_model(CHECKPOINT)[1])


def test_the_committed_model_is_a_look_ahead_adder(measured):
    assert measured["opposite_carries"]["wrong"] == 0
    assert measured["opposite_carries"]["untrained"]["share"] < 0.01
    assert measured["all_replaced"]["share"] > 0.97 and measured["all_replaced"]["loss_recovered"] > 0.99
    assert measured["control_random_edges"]["share"] < 0.02
    outside = measured["outside"]
    assert outside["share"] > max(outside["rivals"].values()) and outside["fitting_prefix"]["share"] > outside["share"]
    assert measured["rebuilt"]["by pair"]["wrong"] == 0
    assert measured["rebuilt"]["by mean"]["share"] < 0.5 < measured["rebuilt"]["by variable"]["share"]
    assert (
        measured["readable"]["tens"]["read"]["share"] > 0.9 and measured["readable"]["tens"]["followed"]["share"] < 0.02
    )
    assert "ones: last digit of the sum of the ones" in analyze.findings(measured)


def test_committed_numbers_hold_on_other_pairs(committed):
    found = json.loads((ROOT / "beyond/program/results/program.json").read_text())
    fresh = Batch(committed, random_pairs(3, 6000, seed=9))
    again = on_sums(fresh, found, {})
    for name in ("all_replaced", "outside", "opposite_carries"):
        entry = found[name]
        share = counted([again[name]])["share"]
        assert abs(share - entry["share"]) < 0.005 + 4 * (entry["share"] * (1 - entry["share"]) / 6000) ** 0.5, name


# --- the memory, rebuilt and read ------------------------------------------------------------------------------------


def test_a_rebuilt_memory_is_looked_up_by_value_alone(batch):
    """The vectors of a table are those that were put into it, at the column's two positions."""
    names = [["sum > 9"] * 3] * 4
    made = rebuild.tables(batch, names)
    assert made.entries == 4 * 3 * 2
    carrying = batch.columns.sum[:, 1] > 9
    row = made.edges(batch.columns)[carrying.nonzero()[0, 0], 2, 1]
    expected = batch.memory[carrying][:, [1, 5]].mean(0)
    torch.testing.assert_close(made.memory[row][[1, 5]], expected, atol=1e-5, rtol=0)
    one = rebuild.tables(batch, names, one_pair=True)
    chosen = rebuild.middle_pair(carrying.long(), rebuild.value(rebuild.PAIR, batch.columns.column(1)))
    assert len(rebuild.value(rebuild.PAIR, batch.columns.column(1))[chosen & carrying].unique()) == 1
    torch.testing.assert_close(
        one.memory[row][[1, 5]], batch.memory[chosen & carrying][:, [1, 5]].mean(0), atol=1e-5, rtol=0
    )


def test_a_probe_reads_what_is_planted_and_nothing_else(batch, monkeypatch):
    planted = batch.memory.clone()
    planted[:, 1, 0] = batch.columns.carry_in[:, 1].float()
    noise = torch.randn(planted.shape, generator=torch.Generator().manual_seed(0))
    shares = []
    for memory in (planted, noise):
        monkeypatch.setattr(Batch, "memory", memory)
        shares.append(readable.probe(batch, 1)["read"]["share"])
    assert shares[0] == 1.0 and shares[1] < 0.75


def test_the_parts_of_the_decoder_add_up_to_the_logits(committed):
    sums = random_pairs(3, 300, seed=6)
    logits, parts, seen_by = weights.decode(committed, sums)
    torch.testing.assert_close(logits, committed(sums.sources, decoder_inputs(sums.targets)), atol=1e-4, rtol=0)
    for shares in weights.direct(committed, parts, sums).values():
        assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    pattern = seen_by[0]["pattern"]
    assert weights.by_column(pattern).sum(-1).sub(1).abs().max() < 1e-5
    same = weights.decode(committed, sums, {0: pattern, 1: seen_by[1]["pattern"]})[0]
    torch.testing.assert_close(same, logits, atol=1e-5, rtol=0)


def test_a_model_that_is_not_always_right_is_measured_by_its_own_errors():
    one = Batch(analysis_models.adder(), every_pair(2)[::7])
    errors = (one.recorded[2] != one.sums.targets).any(1)
    assert errors.any() and one.suffices() == (True, 1 - int(errors.sum()) / len(one))
    edges = one.with_plus(any_rows(one, one.digits))
    enough, share = one.suffices(edges=edges)
    assert not enough and share < 0.1


def test_models_of_other_sizes_are_measured_too():
    found = analyze.measure(analysis_models.adder(), analysis_models.SETTINGS)
    assert found["pairs"] == 8100 and len(found["edges"]) == 3 and found["readable"] == {}
    assert found["lines"][0] == "hundreds: the carry out of the tens, or if they sum to 9, of the ones"
    assert "untrained model" in analyze.findings(found)
