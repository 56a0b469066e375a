"""The scripts as users start them: real processes, small models, files and refusals."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from lab.files import UserError
from problem2.side_by_side import as_flags, run_all

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--d-model", "16", "--num-heads", "4", "--num-layers", "1", "--d-ff", "16", "--max-len", "300"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def start(script, *flags, cwd=ROOT):
    command = [sys.executable, str(ROOT / "problem2" / script), *map(str, flags)]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


def works(script, *flags, **more):
    done = start(script, *flags, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refuses(script, *flags, **more):
    done = start(script, *flags, **more)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Data, and two schemes trained a little, side by side, from the folder of the problem."""
    folder = tmp_path_factory.mktemp("house")
    works("generate_data.py", "--output-dir", folder / "data", "--train-size", 300, "--val-size", 50, "--test-size", 60)
    flags = ["--data-dir", folder / "data", "--output-dir", folder / "results", "--epochs", 2, *SMALL]
    names = ["--encoding", "sinusoidal", "learned"]
    said = works("train.py", *names, *flags, cwd=ROOT / "problem2")
    return folder, flags, said


def test_training_leaves_what_the_contract_names(house):
    folder, _, said = house
    for name in ("sinusoidal", "learned"):
        assert f"[{name}] {name}: test" in said
        for file in ("best_model.pth", "training_log.json", "training_curves.png"):
            assert (folder / "results" / name / file).stat().st_size > 0
        log = json.loads((folder / "results" / name / "training_log.json").read_text())
        assert all(len(log[key]) == 2 for key in ("train_loss", "train_acc", "val_loss", "val_acc"))
        assert 0 <= log["test_acc"] <= 1 and log["test_loss"] > 0 and log["seconds"] > 0
        assert log["config"]["encoding"] == [name] and log["seed"] == 641 and log["versions"]["torch"]


def test_the_same_seed_gives_the_same_bits_alone_or_side_by_side(house):
    folder, flags, _ = house
    works("train.py", "--encoding", "learned", *flags, "--output-dir", folder / "again")
    first, again = (
        torch.load(folder / where / "learned" / "best_model.pth", weights_only=True)["model"]
        for where in ("results", "again")
    )
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_an_interrupted_run_goes_on(house):
    _, flags, _ = house
    said = works("train.py", "--encoding", "sinusoidal", *flags, "--resume")
    assert "resuming after epoch 2" in said


@pytest.fixture(scope="module")
def analysis(house):
    folder, *_ = house
    where = ["--data-dir", folder / "data", "--results-dir", folder / "results"]
    said = works("analyze.py", *where, "--test-lengths", 20, 24)
    return folder / "results" / "extrapolation", said


def test_analysis_leaves_what_the_contract_names(analysis):
    folder, said = analysis
    assert "not trained, so left out: none, randomized" in said
    results = json.loads((folder / "extrapolation_results.json").read_text())
    assert set(results) == {"sinusoidal", "learned"} and set(results["learned"]) == {"20", "24"}
    assert all(0 <= value <= 1 for line in results.values() for value in line.values())
    for file in ("extrapolation_curves", "learned_position_embeddings", "encoding_comparison", "extrapolation_bars"):
        assert (folder / f"{file}.png").read_bytes().startswith(b"\x89PNG")


def test_every_number_says_where_it_comes_from(analysis):
    folder, _ = analysis
    for path in folder.glob("*.json"):
        if path.name != "extrapolation_results.json":  # its form is the course's
            value = json.loads(path.read_text())
            assert "problem2/model.py" in value["code"] and value["versions"]["torch"], path


def test_details_and_results_agree(analysis):
    folder, _ = analysis
    results = json.loads((folder / "extrapolation_results.json").read_text())
    details = json.loads((folder / "extrapolation_details.json").read_text())["schemes"]
    for name, line in results.items():
        for length, value in line.items():
            cell = details[name]["sets"][f"extrapolation/{length}"]
            assert cell["accuracy"] == value and cell["rows"] == 500
            right = sum(round(cell[c]["accuracy"] * cell[c]["rows"]) for c in ("sorted", "unsorted"))
            assert abs(right / 500 - value) < 1e-6


def test_a_sequence_of_ones_own(house):
    folder, *_ = house
    said = works("analyze.py", "--results-dir", folder / "results", "--sequence", 3, 15, 41, 27)
    assert "place 3 holds 41, place 4 holds 27" in said and "sinusoidal" in said and "votes" in said
    assert "holds 100" in refuses("analyze.py", "--results-dir", folder / "results", "--sequence", 3, 100)


def test_refusals(house, tmp_path):
    _, flags, _ = house
    assert "no trained scheme" in refuses("analyze.py", "--results-dir", tmp_path)
    assert "multiple" in refuses("train.py", "--encoding", "rope", *flags, "--num-heads", 3)
    done = start("train.py", "--encoding", "rotary")
    assert done.returncode == 2 and "must be one of sinusoidal" in done.stderr
    bad = tmp_path / "data"
    bad.mkdir()
    (bad / "train.json").write_text('[{"sequence": [2, 1], "is_sorted": 1, "length": 2}]')
    message = refuses("train.py", "--encoding", "rope", "--data-dir", bad, "--output-dir", tmp_path)
    assert "train.json, row 1" in message and "steps down from 2 to 1" in message
    (tmp_path / "rope").mkdir()
    (tmp_path / "rope" / "best_model.pth").write_bytes(b"nothing")
    assert "damaged" in refuses("analyze.py", "--results-dir", tmp_path)
    assert "above" in refuses("generate_data.py", "--min-train-len", 9, "--max-train-len", 8)


def test_several_bad_runs_are_all_named(tmp_path):
    (tmp_path / "train.json").write_text("[]")
    message = refuses("train.py", "--data-dir", tmp_path, "--output-dir", tmp_path, "--encoding", "rope", "t5")
    assert "train.json" in message


@dataclass(frozen=True)
class Choice:
    name: str = "a"
    numbers: tuple[int, ...] = ()
    loud: bool = False
    limit: int | None = None


def test_settings_become_the_command_line_that_makes_them():
    assert as_flags(Choice()) == ["--name", "a"]
    assert as_flags(Choice("b", (1, 2), True, 3)) == ["--name", "b", "--numbers", "1", "2", "--loud", "--limit", "3"]


def test_one_run_that_fails_does_not_stop_the_others(tmp_path, capfd):
    script = tmp_path / "script.py"
    script.write_text("import sys; print('hello from', sys.argv[2]); sys.exit(sys.argv[2] == 'b')")
    with pytest.raises(UserError, match="second did not finish"):
        run_all(script, {"first": Choice("a"), "second": Choice("b"), "third": Choice("c")}, workers=2)
    said = capfd.readouterr().out
    assert "[first] hello from a" in said and "[second] hello from b" in said and "[third] hello from c" in said


def test_a_study_of_one_scheme(house):
    folder, *_ = house
    where = ["--data-dir", folder / "data", "--output-dir", folder / "study"]
    said = works(
        "study.py",
        *where,
        "--encoding",
        "window",
        "--protocols",
        "strict",
        "--seeds",
        5,
        641,
        "--epochs",
        1,
        "--lengths",
        24,
    )
    assert "2 runs summed up" in said
    report = json.loads((folder / "study" / "study" / "study.json").read_text())
    its = report["summary"]["strict"]["window"]
    assert its["seeds"] == [5, 641] and its["sets"]["adjacent/24"]["rows"] == 500
    assert (folder / "study" / "strict" / "window" / "best_model.pth").exists()
    assert (folder / "study" / "seeds" / "5" / "strict" / "window" / "measured.json").exists()
    assert report["runs"][0]["sets"]["test"]["rows"] == 60
