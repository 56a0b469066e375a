"""The scripts as users start them: real processes, small models, files and refusals."""

import contextlib
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT, works

SMALL = ["--d-model", "16", "--num-heads", "4", "--num-layers", "1", "--d-ff", "16", "--max-len", "300"]


def read(path):
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Data, and two schemes trained a little, side by side, from the folder of the problem."""
    folder = tmp_path_factory.mktemp("trained")
    works(
        "problem2/generate_data.py",
        "--output-dir",
        folder / "data",
        "--train-size",
        300,
        "--val-size",
        50,
        "--test-size",
        60,
    )
    flags = ["--data-dir", folder / "data", "--output-dir", folder / "results", "--epochs", 2, *SMALL]
    said = works("problem2/train.py", "--encoding", "sinusoidal", "learned", *flags, cwd=ROOT / "problem2")
    return folder, flags, said


def test_training_leaves_what_the_contract_names(trained):
    folder, _, said = trained
    for name in ("sinusoidal", "learned"):
        assert re.search(rf"^{name} +[0-9.]+% of the test rows correct", said, re.MULTILINE)
        for file in ("best_model.pth", "training_log.json", "training_curves.png", "timing.json"):
            assert (folder / "results" / name / file).stat().st_size > 0
        log = read(folder / "results" / name / "training_log.json")
        assert all(len(log[key]) == 2 for key in ("train_loss", "train_acc", "val_loss", "val_acc"))
        assert 0 <= log["test_acc"] <= 1 and log["test_loss"] > 0 and "seconds" not in log
        assert log["config"]["encoding"] == name and log["seed"] == 641 and log["versions"]["torch"]


def test_the_same_seed_gives_the_same_bits_alone_or_side_by_side(trained):
    folder, flags, _ = trained
    works("problem2/train.py", "--encoding", "learned", *flags, "--output-dir", folder / "again")
    paths = [folder / where / "learned/best_model.pth" for where in ("results", "again")]
    first, again = (torch.load(path, weights_only=True)["model"] for path in paths)
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_stopped_run_is_resumed_and_a_finished_one_is_kept(trained):
    folder, flags, _ = trained
    flags = ["--encoding", "none", *flags, "--output-dir", folder / "kept"]
    works("problem2/train.py", *flags)
    assert "resuming after epoch 2" in works("problem2/train.py", *flags, "--resume")
    assert "held a run of 2 epochs" in works("problem2/train.py", *flags, "--epochs", 1)
    assert (folder / "kept/none/previous/best_model.pth").exists()


def test_the_next_command_is_for_what_was_trained(trained):
    said = trained[2]
    words = shlex.split(said.splitlines()[-1].partition("next: ")[2])
    assert words[:2] == ["python", "analyze.py"]  # as typed in problem2/
    done = subprocess.run(
        [sys.executable, *words[1:], "--sequence", "3", "15", "15"],
        cwd=ROOT / "problem2",
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.count("margin") == 2 and "--results-dir" in words and "--data-dir" in words


@contextlib.contextmanager
def two_that_train(flags, folder):
    """train.py with two schemes, when each of them has finished an epoch."""
    command = [*map(str, ["--encoding", "none", "learned", *flags, "--epochs", 9999, "--output-dir", folder])]
    process = subprocess.Popen(
        [sys.executable, ROOT / "problem2/train.py", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A suite that was itself started in the background ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    started = time.monotonic()
    while len([*folder.glob("*/last.pth")]) < 2 and time.monotonic() - started < 120:
        time.sleep(0.1)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_ctrl_c_says_how_to_go_on_and_leaves_nothing_behind(trained, tmp_path):
    with two_that_train(trained[1], tmp_path) as process:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all its processes
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in errors
    assert "Traceback" not in errors and "leaked" not in errors


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the child processes in /proc, as Linux has it")
def test_a_training_that_is_killed_ends_in_a_sentence(trained, tmp_path):
    with two_that_train(trained[1], tmp_path) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        trains = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(int(trains[0]), signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and "was killed" in errors and "--resume" in errors and "Traceback" not in errors


def test_a_scheme_that_is_named_twice_is_refused_at_once(refused):
    refused("problem2/train.py", "--encoding", "rope", "rope", words=["--encoding", "rope stands there twice"])


@pytest.fixture(scope="module")
def analysis(trained):
    folder, *_ = trained
    where = ["--data-dir", folder / "data", "--results-dir", folder / "results"]
    return folder / "results/extrapolation", works("problem2/analyze.py", *where, "--test-lengths", 20, 24)


def test_analysis_leaves_what_the_contract_names_and_prints_what_it_found(analysis):
    folder, said = analysis
    assert "not trained, so left out: none, randomized" in said
    results, details = read(folder / "extrapolation_results.json"), read(folder / "extrapolation_details.json")
    assert set(results) == {"sinusoidal", "learned"} and set(results["learned"]) == {"20", "24"}
    for name, line in results.items():
        for length, value in line.items():
            cell = details["schemes"][name]["sets"][f"extrapolation/{length}"]
            assert cell["accuracy"] == value and cell["rows"] == 500
            right = sum(round(cell[c]["accuracy"] * cell[c]["rows"]) for c in ("sorted", "unsorted"))
            assert abs(right / 500 - value) < 1e-6 and f" {value:.1%}" in said
            of_all_seeds = details["schemes"][name]["over_seeds"]
            assert of_all_seeds["seeds"] == [641] and of_all_seeds["sets"][f"extrapolation/{length}"]["mean"] == value
    by_length = read(folder / "accuracy_by_length.json")
    assert by_length["lengths"] == [*range(8, 25)] and set(by_length["schemes"]) == {"sinusoidal", "learned"}
    assert set(read(folder / "collapse.json")["seeds"]["641"]["nothing"]) == {"20", "24"}
    assert "One seed only" in said
    for file in (
        "extrapolation_curves.png",
        "collapse.png",
        "learned_position_embeddings.png",
        "encoding_comparison.png",
    ):
        assert (folder / file).read_bytes().startswith(b"\x89PNG") and file in said


def test_every_number_says_where_it_comes_from_and_comes_again(trained, analysis):
    folder, _ = analysis
    before = {path.name: path.read_bytes() for path in folder.glob("*") if path.name not in ("timing.json", ".lock")}
    for name in {name for name in before if name.endswith(".json")} - {"extrapolation_results.json"}:  # of its own form
        value = read(folder / name)
        assert value["versions"]["torch"] and value["config"]["test_lengths"] == [20, 24], name
    where = ["--data-dir", trained[0] / "data", "--results-dir", folder.parent]
    works("problem2/analyze.py", *where, "--test-lengths", 20, 24)
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_a_sequence_of_ones_own(trained, refused):
    where = ["--results-dir", trained[0] / "results", "--sequence", 3]
    lines = works("problem2/analyze.py", *where, 15, 41, 27).splitlines()[-2:]
    for name, line in zip(("sinusoidal", "learned"), lines, strict=True):
        margin, votes = re.fullmatch(rf"{name} .*sorted +margin (.*), by position (.*)", line).groups()
        assert abs(float(margin) - statistics.fmean(map(float, votes.split()))) < 0.1
        assert ("not sorted" in line) == margin.startswith("-")
    refused("problem2/analyze.py", *where, 100, words=["holds 100"])


def test_refusals(trained, tmp_path, refused):
    folder, flags, _ = trained
    train, analyze, results = "problem2/train.py", "problem2/analyze.py", ["--results-dir", folder / "results"]
    refused(analyze, "--results-dir", tmp_path, words=["no trained scheme"])
    refused(analyze, *results, "--data-dir", tmp_path / "typo", words=["correct --data-dir"])
    refused(train, *flags, "--encoding", "rotary", words=["must be one of sinusoidal"])
    refused(train, *flags, "--encoding", "rope", "--num-heads", 3, words=["multiple"])
    odd = ["--encoding", "randomized_rope", "--d-model", 12]  # heads of 3 dimensions
    refused(train, *flags, *odd, words=["--d-model 12", "multiple of 8"])
    refused("problem2/generate_data.py", "--min-train-len", 9, "--max-train-len", 8, words=["above"])
    (tmp_path / "train.json").write_text('[{"sequence": [2, 1], "is_sorted": 1, "length": 2}]')
    words = ["train.json, row 1", "must be 0 for this sequence"]
    refused(train, "--encoding", "rope", "--data-dir", tmp_path, "--output-dir", tmp_path, words=words)
    (tmp_path / "rope").mkdir()
    (tmp_path / "rope/best_model.pth").write_bytes(b"nothing")
    refused(analyze, "--results-dir", tmp_path, words=["damaged"])


def test_other_lengths_of_training_and_a_table_that_ends_with_them(tmp_path):
    sizes = ["--train-size", 100, "--val-size", 30, "--test-size", 30, "--min-train-len", 4, "--max-train-len", 6]
    works("problem2/generate_data.py", "--output-dir", tmp_path / "data", *sizes)
    where = ["--data-dir", tmp_path / "data", "--epochs", 1, *SMALL]
    works("problem2/train.py", "--encoding", "learned", *where, "--output-dir", tmp_path, "--max-len", 6)
    said = works(
        "problem2/analyze.py", "--data-dir", tmp_path / "data", "--results-dir", tmp_path, "--test-lengths", 12
    )
    assert "untouched none to compare" in said
    details = read(tmp_path / "extrapolation/extrapolation_details.json")
    assert details["trained_lengths"] == [4, 6] and "adjacent/6" in details["schemes"]["learned"]["sets"]
    assert read(tmp_path / "extrapolation/learned_position_embeddings.json")["trained_positions"] == 6
