"""The study of seeds: trained once, measured on random and on hard pairs."""

import json

import pytest

from beyond.population import study as seeds


@pytest.fixture
def run_seeds(tmp_path, monkeypatch, capfd):
    """study.py on such runs instead of its own: what it writes, and what it prints."""

    def run(runs: dict, names) -> tuple[dict, str]:
        monkeypatch.setattr(seeds, "RUNS", runs)
        seeds.main(seeds.Settings(runs=tuple(names), output_dir=tmp_path, data_dir=tmp_path / "data"))
        return json.loads((tmp_path / "robustness.json").read_text())["runs"], capfd.readouterr().out

    return run


SMALLEST = {"epochs": 2, "batch_size": 16, "d_model": 8, "num_heads": 1, "num_layers": 1, "d_ff": 8}


def test_seeds_are_trained_once_and_again_with_other_settings(tmp_path, run_seeds):
    runs = {name: seeds.Run("tiny", SMALLEST | {"seed": number}, 2, 64) for number, name in enumerate("ab")}
    found, _ = run_seeds(runs, runs)
    assert [*found] == ["a", "b"] and found["a"]["pairs"] == 8100 and found["a"]["steps"] == 8
    assert str(tmp_path) not in json.dumps(found)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("seeds/*/best_model.pth")}
    assert run_seeds(runs, runs)[0] == found and len(stamps) == 2
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}
    runs = {name: seeds.Run("tiny", run.flags | {"epochs": 1}, 2, 64) for name, run in runs.items()}
    changed, _ = run_seeds(runs, runs)
    assert changed["a"]["steps"] == 4 and changed["a"]["smallest_margin"] != found["a"]["smallest_margin"]


def test_seeds_of_longer_numbers_are_measured_on_random_and_on_hard_pairs(run_seeds):
    shares = {"plain": 0.0, "hard": 1.0}
    runs = {name: seeds.Run(name, SMALLEST, 4, 40, hard_share=share, samples=500) for name, share in shares.items()}
    run_seeds(runs, ["hard"])
    found, printed = run_seeds(runs, ["plain"])
    assert [*found] == ["plain", "hard"] and found["plain"]["config"]["data"] != found["hard"]["config"]["data"]
    for result in found.values():
        assert not result["exhaustive"] and result["pairs"] == 500 and result["hard"]["pairs"] == 100
        assert result["hard"]["errors"] > 90 and "the model writes" in result["hard"]["wrong_sums"][0]
    assert "wrong of       100 hard pairs" in printed
