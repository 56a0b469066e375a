"""The comparison of schemes and seeds: the runs it plans, what it keeps, and how seeds are put together."""

import torch

from lab import checkpoint
from lab.files import write_json
from lab.settings import as_plain
from problem1.text import lengths, study, train
from problem1.text.model import build


def test_all_runs_share_everything_but_scheme_order_and_seed(tmp_path):
    runs = study.all_runs(study.Settings(output_dir=tmp_path, longer_seeds=1))
    same_budget = {name: its for name, its in runs.items() if "longer" not in name}
    assert len(same_budget) == 5 + 3 * 2 * 3 and len(runs) == len(same_budget) + 2
    varied = {"scheme", "order", "seed"}
    plain = [{k: v for k, v in as_plain(its).items() if k not in varied} for its in same_budget.values()]
    assert all(other == plain[0] for other in plain)
    assert len({its.output_dir for its in runs.values()}) == len(runs)


def test_a_measured_run_is_not_repeated_and_a_changed_one_is(tmp_path, monkeypatch):
    settings = train.Settings(
        scheme="none", d_model=16, num_heads=2, d_ff=16, data_dir=tmp_path / "data", output_dir=tmp_path, device="cpu"
    )
    torch.manual_seed(0)
    model = {"kind": train.KIND, "settings": as_plain(settings), "model": build(settings).state_dict()}
    checkpoint.save(tmp_path / "best_model.pth", model)
    log = {"config": as_plain(settings), "test_loss": 2.5, "test_acc": 0.0, "seconds": 1.0, "parameters": 7}
    write_json(tmp_path / "training_log.json", log | {"first_perfect_epoch": None})
    monkeypatch.setattr(lengths, "CLASSIC_LENGTHS", (8,))
    monkeypatch.setattr(train, "main", lambda settings: (_ for _ in ()).throw(AssertionError("trained again")))

    first = study.one_run(("none, plain, seed 0", settings, 3))
    assert first["lengths"]["8"]["random"] == lengths.share(0, 3) and first["steps"] == 1600
    monkeypatch.setattr(study, "by_length", lambda *_: "measured again")
    assert study.one_run(("none, plain, seed 0", settings, 3)) == first
    assert study.one_run(("none, plain, seed 0", settings, 4))["lengths"] == "measured again"
    monkeypatch.setattr(study, "code_digest", lambda path: "other code")
    assert study.one_run(("none, plain, seed 0", settings, 4))["measured_by"]["lengths.py"] == "other code"


def test_seeds_are_put_together(tmp_path):
    def run(scheme: str, seed: int, right: int) -> dict:
        result = {"random": lengths.share(right, 10), "chain": lengths.share(10, 10)}
        return {
            "scheme": scheme,
            "order": "plain",
            "longer": False,
            "seed": seed,
            "test_acc": 0.5,
            "lengths": {"32": result, "64": result},
        }

    groups = study.summary([run("places", 0, 10), run("none", 0, 2), run("none", 1, 6)])
    assert list(groups) == ["places", "none, plain"] and groups["none, plain"]["seeds"] == 2
    point = groups["none, plain"]["random"]["64"]
    assert point["mean"] == 0.4 and point["seeds"] == [0.2, 0.6]
    assert point["low"] == lengths.share(2, 10)["interval_95"][0]
    assert point["high"] == lengths.share(6, 10)["interval_95"][1]
    study.draw({"groups": groups, "training_characters": 32}, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
