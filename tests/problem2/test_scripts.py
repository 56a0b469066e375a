"""The scripts as users start them: real processes, small models, files and refusals."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

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
def trained(tmp_path_factory):
    """Data, and two schemes trained a little, side by side, from the folder of the problem."""
    folder = tmp_path_factory.mktemp("trained")
    works("generate_data.py", "--output-dir", folder / "data", "--train-size", 300, "--val-size", 50, "--test-size", 60)
    flags = ["--data-dir", folder / "data", "--output-dir", folder / "results", "--epochs", 2, *SMALL]
    names = ["--encoding", "sinusoidal", "learned"]
    said = works("train.py", *names, *flags, cwd=ROOT / "problem2")
    return folder, flags, said


def test_training_leaves_what_the_contract_names(trained):
    folder, _, said = trained
    for name in ("sinusoidal", "learned"):
        assert f"{name}: done" in said
        for file in ("best_model.pth", "training_log.json", "training_curves.png", "timing.json"):
            assert (folder / "results" / name / file).stat().st_size > 0
        log = json.loads((folder / "results" / name / "training_log.json").read_text())
        assert all(len(log[key]) == 2 for key in ("train_loss", "train_acc", "val_loss", "val_acc"))
        assert 0 <= log["test_acc"] <= 1 and log["test_loss"] > 0 and "seconds" not in log
        assert log["config"]["encoding"] == name and log["seed"] == 641 and log["versions"]["torch"]


def test_the_same_seed_gives_the_same_bits_alone_or_side_by_side(trained):
    folder, flags, _ = trained
    works("train.py", "--encoding", "learned", *flags, "--output-dir", folder / "again")
    first, again = (
        torch.load(folder / where / "learned" / "best_model.pth", weights_only=True)["model"]
        for where in ("results", "again")
    )
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_stopped_run_is_resumed_and_a_finished_one_is_kept(trained):
    folder, flags, _ = trained
    flags = [*flags, "--output-dir", folder / "kept"]
    works("train.py", "--encoding", "none", *flags)
    assert "resuming after epoch 2" in works("train.py", "--encoding", "none", *flags, "--resume")
    assert "held a run of 2 epochs" in works("train.py", "--encoding", "none", *flags, "--epochs", 1)
    assert (folder / "kept" / "none" / "previous" / "best_model.pth").exists()


@pytest.fixture(scope="module")
def analysis(trained):
    folder, *_ = trained
    where = ["--data-dir", folder / "data", "--results-dir", folder / "results"]
    said = works("analyze.py", *where, "--test-lengths", 20, 24)
    return folder / "results" / "extrapolation", said


def test_analysis_leaves_what_the_contract_names(analysis):
    folder, said = analysis
    assert "not trained, so left out: none, randomized" in said
    results = json.loads((folder / "extrapolation_results.json").read_text())
    assert set(results) == {"sinusoidal", "learned"} and set(results["learned"]) == {"20", "24"}
    assert all(0 <= value <= 1 for line in results.values() for value in line.values())
    for file in ("extrapolation_curves.png", "learned_position_embeddings.png", "encoding_comparison.png"):
        assert (folder / file).read_bytes().startswith(b"\x89PNG") and file in said


def test_analysis_prints_what_it_found(analysis):
    folder, said = analysis
    summary = json.loads((folder / "training_summary.json").read_text())["schemes"]["learned"]
    assert f"{summary['test_acc']:.2%}" in said and "seconds" not in said
    wrong = json.loads((folder / "failures.json").read_text())["schemes"]["learned"]["test"]["wrong"]
    assert f"learned: {wrong} of 60 test rows wrong" in said


def test_figures_do_not_depend_on_a_study(trained, analysis):
    folder, _ = analysis
    before = {path.name: path.read_bytes() for path in folder.glob("*") if path.name not in ("timing.json", ".lock")}
    (folder.parent / "study").mkdir()
    (folder.parent / "study" / "study.json").write_text("{}")
    where = ["--data-dir", trained[0] / "data", "--results-dir", folder.parent]
    works("analyze.py", *where, "--test-lengths", 20, 24)
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_every_number_says_where_it_comes_from(analysis):
    folder, _ = analysis
    for path in folder.glob("*.json"):
        if path.name not in ("extrapolation_results.json", "timing.json"):  # the course's form, and what git ignores
            value = json.loads(path.read_text())
            assert value["versions"]["torch"] and value["config"]["test_lengths"] == [20, 24], path


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


def test_a_sequence_of_ones_own(trained):
    folder, *_ = trained
    said = works("analyze.py", "--results-dir", folder / "results", "--sequence", 3, 15, 41, 27)
    assert "values 3 and 4 are 41 and 27" in said and "sinusoidal" in said and "vote" in said
    assert "holds 100" in refuses("analyze.py", "--results-dir", folder / "results", "--sequence", 3, 100)


def test_refusals(trained, tmp_path):
    _, flags, _ = trained
    assert "no trained scheme" in refuses("analyze.py", "--results-dir", tmp_path)
    assert "multiple" in refuses("train.py", "--encoding", "rope", *flags, "--num-heads", 3)
    for width in (12, 20):  # heads of 3 and of 5 dimensions
        message = refuses("train.py", *flags, "--encoding", "randomized_rope", "--d-model", width)
        assert f"--d-model {width}" in message and "multiple of 8" in message
    assert "correct --data-dir" in refuses("train.py", *flags, "--data-dir", tmp_path / "typo")
    assert "correct --data-dir" in refuses(
        "analyze.py", "--results-dir", trained[0] / "results", "--data-dir", tmp_path / "typo"
    )
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


def test_other_lengths_of_training_and_a_table_that_ends_with_them(tmp_path):
    sizes = ["--train-size", 100, "--val-size", 30, "--test-size", 30, "--min-train-len", 4, "--max-train-len", 6]
    works("generate_data.py", "--output-dir", tmp_path / "data", *sizes)
    where = ["--data-dir", tmp_path / "data", "--epochs", 1, *SMALL]
    works("train.py", "--encoding", "learned", *where, "--output-dir", tmp_path, "--max-len", 6)
    said = works("analyze.py", "--data-dir", tmp_path / "data", "--results-dir", tmp_path, "--test-lengths", 12)
    assert "untouched none to compare" in said
    details = json.loads((tmp_path / "extrapolation" / "extrapolation_details.json").read_text())
    assert details["trained_lengths"] == [4, 6] and "adjacent/6" in details["schemes"]["learned"]["sets"]
    table = json.loads((tmp_path / "extrapolation" / "learned_position_embeddings.json").read_text())
    assert table["trained_positions"] == 6


def test_one_scheme_is_trained_by_two_processes(trained):
    folder, flags, _ = trained
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29631"]
    command += [str(ROOT / "problem2/train.py"), "--encoding", "learned", *map(str, flags)]
    done = subprocess.run(
        [*command, "--output-dir", str(folder / "two")], env=ENVIRONMENT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    first, second = (
        json.loads((folder / where / "learned" / "training_log.json").read_text()) for where in ("results", "two")
    )
    assert first["train_loss"] == pytest.approx(second["train_loss"], rel=1e-4)
