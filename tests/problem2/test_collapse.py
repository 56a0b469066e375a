"""Changed codes: what each experiment does to them, on models whose dependence on one band is known by construction."""

import json
import math
from pathlib import Path

import pytest
import torch

from lab.files import UserError
from problem2.analysis import by_length, collapse
from problem2.analysis.collapse import EXPERIMENTS, OverSeeds, as_text, bands, codes_of
from problem2.analysis.evaluation import balanced_rows
from problem2.dataset import label
from problem2.positional_encoding import SinusoidalPositionalEncoding
from tests.problem2.test_model import make

RESULTS = Path(__file__).resolve().parents[2] / "problem2/results"
TRAINED = 16
SCHEME = SinusoidalPositionalEncoding(32)


def codes(name: str, length: int):
    return codes_of(EXPERIMENTS[name], SCHEME, torch.arange(length), TRAINED)


def test_each_wave_is_in_one_band_and_the_fastest_come_first():
    found = bands(32, TRAINED)
    assert [wave for waves in found.values() for wave in waves] == [*range(16)]
    assert found["fastest"] == [0] and found["middle"] == [1, 2, 3] and found["quarter"] == [4]
    turns = TRAINED / (2 * math.pi * 10_000 ** (2 * 4 / 32))
    assert 0.25 <= turns < 0.4


def test_only_the_waves_that_are_named_change():
    true = SCHEME.code(torch.arange(64))
    squeezed = SCHEME.code(torch.arange(64) * (15 / 63))
    assert torch.equal(codes("nothing", 64), true) and torch.equal(codes("all squeezed", 64), squeezed)
    middle = codes("middle squeezed", 64)
    assert torch.equal(middle[:, 2:8], squeezed[:, 2:8])
    assert torch.equal(middle[:, :2], true[:, :2]) and torch.equal(middle[:, 8:], true[:, 8:])
    still = codes("in range, only slow", 12)
    assert torch.equal(still[:, 10:], true[:12, 10:]) and torch.equal(still[:, :10], true[[7] * 12, :10])


def test_untrained_directions_are_removed_or_added_and_nothing_else():
    directions = collapse.trained_directions(SCHEME.code(torch.arange(TRAINED)))
    assert len(directions) == 7  # of 32
    inside = directions.T @ directions
    true = SCHEME.code(torch.arange(64))
    removed = codes("untrained directions removed", 64)
    torch.testing.assert_close(removed, true @ inside, atol=1e-5, rtol=0)
    assert (true - removed)[32:].norm(dim=1).min() > 1  # so there is something to remove
    added = codes("all squeezed, untrained directions added", 64)
    change = added - codes("all squeezed", 64)
    torch.testing.assert_close(change, true - removed, atol=1e-5, rtol=0)
    in_range = codes("in range, untrained directions added", 12) - true[:12]
    assert (in_range @ inside).abs().max() < 1e-4 and in_range.norm(dim=1).min() > 0.5


class OneWave(torch.nn.Module):
    """Right as long as its wave's phase tells apart what training has told apart; else it says "unsorted".

    It reads the sine and cosine of one wave off the codes and compares them with those of the trained positions.
    """

    def __init__(self, wave: int):
        super().__init__()
        self.scheme = SinusoidalPositionalEncoding(32)
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.wave = slice(2 * wave, 2 * wave + 2)
        self.known = SCHEME.code(torch.arange(0, TRAINED, 0.01))[:, self.wave]

    def forward(self, x):
        read = self.scheme.code(torch.arange(x.shape[1]))[:, self.wave]
        known = torch.cdist(read, self.known).amin(1).max() < 0.02
        moves = read.std(0).sum() > 0.05
        is_sorted = label(x).double() if known and moves else torch.zeros(len(x), dtype=torch.double)
        return torch.stack([0.5 - is_sorted, is_sorted - 0.5], 1)


@pytest.mark.parametrize("wave", [3, 4])
def test_the_experiments_find_the_wave_that_a_planted_model_depends_on(wave):
    rows = {length: balanced_rows(int(length), 20) for length in ("16", "64")}
    model = OneWave(wave)
    report = collapse.measure(model, rows["16"], {"64": rows["64"]}, TRAINED)
    right = {name for name in EXPERIMENTS for cell in report[name].values() if cell["balanced_accuracy"] == 1}
    constant = {name for name in EXPERIMENTS for cell in report[name].values() if cell["constant"]}
    own, other = ("middle", "quarter") if wave == 3 else ("quarter", "middle")
    assert {f"{own} squeezed", f"only {other} true", "only slow true", "all squeezed"} <= right
    assert {"nothing", f"{other} squeezed", f"only {own} true", "slow squeezed", "fastest squeezed"} <= constant
    assert f"in range, only {own}" in right and f"in range, only {other}" in constant
    assert model.scheme.code(torch.arange(3)).shape == (3, 32) and "code" not in vars(model.scheme)


def test_a_range_is_never_better_than_it_was():
    assert as_text(OverSeeds(1, 1, 1, False)) == "100%"
    assert as_text(OverSeeds(0.8349, 0.9, 0.9501, False)) == "83–96%"
    assert as_text(OverSeeds(0.9985, 0.999, 0.9995, False)) == "99–100%"
    assert as_text(OverSeeds(0.5, 0.5, 0.5, True)) == "one answer"


def test_the_title_says_a_finding_only_where_the_runs_give_it():
    results = json.loads((RESULTS / "extrapolation/collapse.json").read_text())
    assert collapse.title(results) == "Waves 1 to 3 are enough for the collapse; the 11 slow ones do not matter"
    results["seeds"]["642"]["only slow true"]["256"]["balanced_accuracy"] = 0.7
    assert collapse.title(results).endswith("?")


# --- accuracy by length ------------------------------------------------------------------------------------------


def test_rows_are_balanced_and_of_one_length():
    rows = balanced_rows(24, 50)
    assert rows.length_range() == (24, 24) and rows.labels.tolist() == [1] * 50 + [0] * 50
    assert torch.equal(label(rows.sequences), rows.labels)


def test_every_length_up_to_four_times_the_trained_ones_is_tested():
    assert by_length.lengths_to_test((8, 16), 256) == [*range(8, 65), 96, 128, 192, 256]
    assert by_length.lengths_to_test((8, 16), 24) == [*range(8, 25)]
    assert by_length.lengths_to_test((2, 3), 2) == [2, 3]
    assert by_length.lengths_to_test((1, 2), 4) == [2, 3, 4]  # no row of one value is unsorted


class RightUpTo(torch.nn.Module):
    """Right on rows of at most `length`, and says "unsorted" to every longer one."""

    def __init__(self, length: int):
        super().__init__()
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.length = length

    def forward(self, x):
        is_sorted = label(x).double() * (x.shape[1] <= self.length)
        return torch.stack([0.5 - is_sorted, is_sorted - 0.5], 1)


def test_where_a_scheme_fails_is_found():
    rows = {length: balanced_rows(length, 10) for length in (8, 9, 10, 11)}
    report = by_length.measure(RightUpTo(9), rows)
    assert report == {"balanced_accuracy": [1, 1, 0.5, 0.5], "first_failure": 10, "constant_from": 10}
    assert by_length.measure(RightUpTo(99), rows)["first_failure"] is None
    results = {"lengths": [8, 9, 10, 11], "works": 0.9}
    results["schemes"] = {"learned": {"1": report, "2": report | {"first_failure": 11}}, "none": {"1": report}}
    assert by_length.title(results) == "First length below 90%: learned 10 to 11, none 10"
    assert "learned: below 90% at length 10 (seed 1), at length 11 (seed 2)" in by_length.findings(results)
    assert "One seed only" in by_length.findings(results)


@pytest.mark.parametrize("seed", ["641", "643"])
def test_committed_accuracies_by_length_are_those_of_the_committed_models(seed):
    from problem2.analysis.context import load_models

    results = json.loads((RESULTS / "extrapolation/accuracy_by_length.json").read_text())
    model = load_models(RESULTS, "cpu")["sinusoidal"][int(seed)]
    chosen = {length: balanced_rows(length, by_length.EACH) for length in (16, 19, 21)}
    found = by_length.measure(model, chosen)["balanced_accuracy"]
    stored = results["schemes"]["sinusoidal"][seed]["balanced_accuracy"]
    assert found == [stored[results["lengths"].index(length)] for length in chosen]


def test_other_seeds_of_the_same_training_are_found_and_others_left_out(tmp_path, capsys):
    from lab import checkpoint
    from problem2.analysis.context import load_models
    from problem2.checkpoint import KIND

    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8, "dropout": 0.0, "max_len": 32}
    settings = sizes | {"encoding": "none", "seed": 641, "lr": 0.1}
    places = {"none": {}, "seeds/7/none": {"seed": 7}, "seeds/8/none": {"seed": 8, "lr": 0.2}}
    for place, other in places.items():
        weights = make("none", **{name: value for name, value in sizes.items()}).state_dict()
        checkpoint.save(
            tmp_path / place / "best_model.pth",
            {"kind": KIND, "settings": settings | other, "epoch": 1, "model": weights},
        )
    assert [*load_models(tmp_path, "cpu")["none"]] == [641, 7]
    assert "seeds/8/none/best_model.pth was trained with other settings" in capsys.readouterr().out
    for seed in ([641], None):
        content = {"kind": KIND, "settings": settings | {"seed": seed}, "epoch": 1, "model": weights}
        checkpoint.save(tmp_path / "none/best_model.pth", content)
        with pytest.raises(UserError, match="which seed"):
            load_models(tmp_path, "cpu")
