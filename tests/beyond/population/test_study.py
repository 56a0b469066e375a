"""The study of the population: a model is trained as it is said to be; tables and what follows from them."""

import copy

import pytest
import torch

from beyond.population import runs, study, summary, table
from beyond.population.runs import Model, initial_weights, part_of
from beyond.population.sources import CASES
from beyond.population.study import POPULATION
from lab.files import UserError, read_json
from problem1.checkpoint import build
from problem1.dataset import load_or_generate, random_pairs
from problem1.train import Settings, config_of
from tests.conftest import run

SETTINGS = {"d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16, "dropout": 0.0, "num_digits": 3}


# --- one model ----------------------------------------------------------------------------------------------------


def test_initial_weights_come_from_the_seed_of_their_part():
    whole = {}
    for seed in (0, 1, 2):
        torch.manual_seed(seed)
        whole[seed] = build(SETTINGS).state_dict()
    mixed = initial_weights(Model(0, 1, 2, order=5), SETTINGS).state_dict()
    wanted = {"embedding": 0, "encoder": 1, "decoder": 2}
    for name, value in mixed.items():
        assert torch.equal(value, whole[wanted[part_of(name)]][name]), name
    assert {part_of(name) for name in mixed} == {*wanted}
    plain = initial_weights(Model.of(1), SETTINGS).state_dict()  # as train.py --seed 1 begins
    assert all(torch.equal(value, whole[1][name]) for name, value in plain.items())
    nudged = initial_weights(Model.of(1, nudge=1e-7), SETTINGS).state_dict()
    changed = torch.cat([(nudged[name] - plain[name]).flatten() for name in plain])
    assert 0 < changed.abs().max() < 1e-6


def test_a_model_is_trained_measured_and_found_again(tmp_path, monkeypatch):
    """Few rows and epochs; the first call trains, the second one reads."""
    small = {"epochs": 2, "batch_size": 128, "d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16}
    monkeypatch.setattr(runs, "Settings", lambda **flags: Settings(**(flags | small)))
    monkeypatch.setattr(runs, "every_pair", lambda digits: random_pairs(digits, 500, seed=0))
    monkeypatch.setattr(runs, "MEASURED_ON", 6000)
    monkeypatch.setattr(runs, "REPLACED_IN", 200)
    folder = tmp_path / "seed0"
    fields = vars(Model.of(0, each_epoch=True))
    measured = runs.train_and_measure(tmp_path / "data", folder, **fields)
    assert measured["pairs"] == 500 and 0 < measured["wrong"] <= 500 and measured["smallest_margin"] < 0
    assert [entry["epoch"] for entry in measured["epochs"]] == [1, 2]
    assert measured["sources"] in [entry["sources"] for entry in measured["epochs"]]  # those of the best epoch
    stamp = (folder / "best_model.pth").stat().st_mtime_ns
    assert runs.train_and_measure(tmp_path / "data", folder, **fields) == measured
    assert (folder / "best_model.pth").stat().st_mtime_ns == stamp
    given = {name: value.tolist() for name, value in vars(runs.load(tmp_path / "data/3-digits", "val")).items()}
    course = {name: value.tolist() for name, value in vars(load_or_generate()["val"]).items()}
    assert given == course  # the homework's rows
    row = table.row("seed0", measured | {"settings": fields})
    assert row["wrong"] == str(measured["wrong"]) and row["embedding"] == "0"


def test_the_recipe_is_that_of_the_homework():
    log = read_json(Settings.output_dir / "training_log.json", "")["config"]
    rows = load_or_generate()
    ours = config_of(Settings(seed=641, hard_weight=Model.of(641).hard_weight), rows)
    assert {name: log[name] for name in ours} == ours


def test_the_population_has_the_models_that_it_is_said_to_have():
    by_kind = {}
    for name in POPULATION:
        kind = name.rstrip("0123456789x-")
        by_kind[kind] = by_kind.get(kind, 0) + 1
    assert by_kind == {"seed": 100, "grid": 12, "plain": 24, "nudged": 8, "parts": 28, "five": 10}
    assert len({tuple(vars(model).values()) for model in POPULATION.values()}) == len(POPULATION)


# --- the tables ---------------------------------------------------------------------------------------------------


def made_row(name: str, **changes) -> dict[str, str]:
    """A model that looks every carry up, with some columns changed."""
    found = {"model": name, "embedding": "0", "encoder": "0", "decoder": "0", "order": "0", "hard_weight": "3"}
    found |= {
        "nudge": "0",
        "tried on": "810000",
        "wrong": "0",
        "smallest margin": "5",
        "first perfect epoch": "9",
        "test loss": "1e-05",
    }
    found |= {"wrong with opposite carries": "0", "not as the program": "7", "with a fitting prefix": "0"}
    for case in CASES:
        found |= {f"{case.name}: looked up": "1", f"{case.name}: plus": "0", f"{case.name}: no carry": "0"}
        if case.depth:
            found[f"{case.name}: handed on"] = "0"
    found["hundreds if 9: written"] = "0"
    found["tens: added"] = "0"
    parts = ("columns of higher places", "'+'", "encoder attention", "encoder attention, layer 0")
    found |= {f"wrong without {part}": "0" for part in (*parts, "decoder self-attention")}
    found |= {f"critical {group}": "1" for group in table.HEADS}
    return found | {"most critical": "E1.1", "lost without it": "0.5"} | changes


RIPPLE = {"hundreds through a 9: looked up": "0", "hundreds through a 9: handed on": "1"}
RIPPLE |= {"thousands through two 9s: handed on": "1", "wrong with opposite carries": "4000"}


def test_a_row_is_replaced_and_all_others_stay_to_the_byte(tmp_path):
    path = tmp_path / "population.csv"
    order = ["seed0", "seed1", "seed2"]
    rows = [made_row(name) for name in order]
    table.update(path, rows[1:], order)
    table.update(path, rows[:1], order)
    before = path.read_bytes()
    assert table.read(path) == rows
    table.update(path, [made_row("seed1")], order)
    assert path.read_bytes() == before
    table.update(path, [made_row("seed1", wrong="3")], order)
    assert [row["wrong"] for row in table.read(path)] == ["0", "3", "0"]
    path.write_text("name,wrong\nseed1,3\n")
    with pytest.raises(UserError, match="other columns"):
        table.update(path, [made_row("seed1")], order)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="no table"):
        table.read(path)


def test_numbers_are_short_and_never_minus_zero():
    assert [table.plain(value, 3) for value in (1.0, -0.0001, 0.12345, None)] == ["1", "0", "0.123", ""]
    assert table.plain(1e-7) == "1e-07" and table.plain(810_000) == "810000"


# --- what follows from them --------------------------------------------------------------------------------------


def test_algorithms_are_counted():
    rows = [made_row("seed0"), made_row("seed1", **RIPPLE), made_row("seed2", **{"hundreds if 9: looked up": "0.2"})]
    found = summary.algorithms(rows)
    assert found["look_ahead"]["models"] == 2 and found["look_ahead"]["of"] == 3
    assert found["no_answer_changed_by_opposite_carries"]["models"] == 2
    assert found["cases"]["hundreds if 9"]["looked up"]["between"] == 1
    assert found["cases"]["hundreds through a 9"]["handed on"]["always"] == 1
    assert summary.at_most(100) == pytest.approx(0.0295, abs=0.0005)  # the rule of three


def test_variance_goes_to_the_factor_that_decides():
    rows = []
    for weights in range(4):
        for order in range(4):
            name = f"seed{weights}" if weights == order else f"grid{weights}x{order}"
            rows.append(made_row(name, embedding=str(weights), order=str(order), **(RIPPLE if weights == 2 else {})))
    found = summary.grid(rows, 4)
    assert found["models"] == 16
    handed = found["variance"]["handed on through 9s"]
    assert handed["initial weights"]["share"] == pytest.approx(1) and handed["initial weights"]["p"] < 0.01
    assert handed["order of rows"]["share"] == pytest.approx(0) and handed["order of rows"]["p"] > 0.5


def test_the_part_whose_exchange_changes_the_algorithm_is_found():
    rows = []
    for embedding in "03":
        for encoder in "03":
            for decoder in "03":
                parts = {"embedding": embedding, "encoder": encoder, "decoder": decoder}
                rows.append(made_row(f"parts{len(rows)}", **parts, **(RIPPLE if encoder == "3" else {})))
    # The second seed itself has its own order of rows, and is none of the eight.
    seed3 = made_row("seed3", embedding="3", encoder="3", decoder="3", order="3")
    found = summary.exchanged([seed3, *rows], ((0, 3),))
    assert found == summary.exchanged([*rows, seed3], ((0, 3),))
    effects = found["pairs"][0]["effects"]["handed on through 9s"]
    assert effects["encoder"] == pytest.approx(2 / 3) and effects["embedding"] == effects["decoder"] == 0
    assert found["pairs"][0]["look_ahead"]["ABA"] is False and found["models"] == 8
    assert found["pairs"][0]["kept_in_another_order"] is True


def test_what_shows_from_outside_and_what_changes_in_pairs():
    rows = [made_row(f"seed{n}", **{"smallest margin": str(n)}, **(RIPPLE if n < 10 else {})) for n in range(20)]
    found = summary.from_outside(rows)
    assert found["smallest margin"]["larger_in_look_ahead"] == 1 and found["smallest margin"]["p"] < 0.01
    assert found["test loss"] == {"larger_in_look_ahead": 0.5, "p": 1.0}
    one_way = [(True, False)] * 5
    assert summary.sign_test(one_way) == summary.sign_test([*one_way, (True, True)]) == 2 / 2**5  # five heads of five
    assert summary.sign_test([(True, False), (False, True)]) == summary.sign_test([(True, True)]) == 1


def test_the_study_writes_tables_summary_and_figures(tmp_path, monkeypatch, capsys):
    rows = [made_row(f"seed{n}", **(RIPPLE if n % 3 == 0 else {})) for n in range(6)]
    rows += [made_row(f"plain{n}", hard_weight="0", **RIPPLE) for n in range(3)]
    table.write(tmp_path / "population.csv", rows)
    epochs = [copy.copy(made_row("seed0")) | {"epoch": str(n), "validation": "1"} for n in (1, 2)]
    table.write(tmp_path / "epochs.csv", epochs)
    study.sum_up(tmp_path)
    found = read_json(tmp_path / "population.json", "")
    assert found["seeds"]["look_ahead"]["models"] == 4 and found["compared"]["plain"]["plain"]["models"] == 0
    assert "grid" not in found and (tmp_path / "population.png").exists() and (tmp_path / "epochs.pdf").exists()
    printed = capsys.readouterr().out
    assert "five of six cases: 4 of 6" in printed


def test_an_unknown_model_is_refused(refused):
    refused("beyond/population/study.py", "--models", "seed1000", words=["seed1000"])


def test_committed_rows_follow_from_committed_code():
    """Rows of the population, in its order, each made from what the code says of its model; all seeds are there."""
    rows = table.read(study.Settings.output_dir / "population.csv")
    names = [row["model"] for row in rows]
    assert names == [name for name in POPULATION if name in {*names}]
    assert len(summary.group(rows, "seed")) == study.SEEDS
    for row in rows:
        this = POPULATION[row["model"]]
        assert all(row[name] == table.plain(getattr(this, name)) for name in table.BEGINNING)
    assert (study.Settings.output_dir / "population.csv").stat().st_size < 100_000


def test_help_names_the_models():
    assert "parts3-8-8" in run("beyond/population/study.py", "--help").stdout
