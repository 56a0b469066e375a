"""The short form of `python -m tests.fault_injection`: the same functions with small counts."""

import pickle
import random
import subprocess
import sys

import pytest

from lab.files import write_bytes
from tests.fault_injection.disturb import ROOT, Tally, differences, kills, places, restarts, torn
from tests.fault_injection.malformed import MaliciousPickle, read
from tests.fault_injection.scripts import JOBS, READERS, RESTARTED, TRAIN1, Inputs

GENERATE = next(iter(JOBS))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return Inputs(tmp_path_factory.mktemp("inputs"))


@pytest.mark.parametrize("template", [GENERATE, TRAIN1 + " --epochs 6"], ids=["generate_data", "train"])
def test_a_killed_script_leaves_whole_files_and_goes_on_to_the_same_bits(inputs, tmp_path, template):
    tally = Tally()
    kills(inputs.command(template, out="{out}"), 4, tmp_path / "work", tally)
    assert not tally.failures
    assert tally.counts["kills"] == 4 and tally.counts["kills within a write"] >= 2


def test_a_second_run_that_is_cut_off_is_resumed_to_the_same_bits(inputs, tmp_path):
    tally = Tally()
    restarts(inputs.command(RESTARTED, out="{out}"), tmp_path / "work", tally, step=10)
    assert not tally.failures and tally.counts["restarts cut off"] >= 4


def test_help_starts_nothing():
    """The long form takes a quarter of an hour."""
    said = subprocess.run(
        [sys.executable, "-m", "tests.fault_injection", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0 and "every fault for every script" in said.stdout


def test_places_that_cannot_be_used(inputs, tmp_path):
    tally = Tally()
    few = GENERATE.replace("30000", "3000")
    places(inputs.command(few, out="{out}"), tmp_path / "work", tally)
    assert not tally.failures and tally.counts["refusals"] >= 6


@pytest.mark.parametrize("name", READERS)
def test_malformed_files_are_refused_or_made_sense_of(inputs, tmp_path, name):
    tally = Tally()
    read(name, 6, inputs, tmp_path, tally)
    assert not tally.failures and tally.counts["malformed inputs"] >= 6


def test_torn_files_and_differences_are_noticed(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        write_bytes(folder / "log.json", b'{"loss": 1}\n')
        write_bytes(folder / "timing.json", folder.name.encode())
    assert not torn(one) and not differences(one, other)
    write_bytes(other / "log.json", b'{"loss": 2}\n')
    assert differences(one, other) == ["log.json"]
    cut = ["log.json", "best_model.pth", "curves.png", "report.pdf", "summary.txt"]
    for name in cut:
        write_bytes(one / name, b'{"loss"')
    assert torn(one) == sorted(cut)


def test_a_refusal_is_one_sentence_with_exit_code_2():
    tally, wrong = Tally(), [(1, "error: no."), (2, "error: a\nerror: b"), (2, "Traceback (most\nerror: x"), (-9, "")]
    for code, errors in [*wrong, (2, "error: no room.")]:
        tally.check_refusal("a script", code, errors)
    assert len(tally.failures) == len(wrong)


def test_code_inside_a_pickle_would_be_noticed(tmp_path):
    for number in range(20):
        pickle.loads(pickle.dumps(MaliciousPickle(tmp_path / "trap", random.Random(number))))
        (tmp_path / "trap").rmdir()
