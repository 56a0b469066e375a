"""Small files that could take minutes or all memory: the work is bounded, and so is what one submission costs."""

import json
import os
import signal
import sys
import time
from functools import partial

import pytest

from grading import checks, child
from grading import folder as files
from grading.child import grade_apart
from grading.grade import grade
from grading.layouts import MAX_KEY, MAX_WORDS, leaves, words
from grading.pages import feedback
from tests.grading.submissions import EXPECTED, LOG, PROBLEM2, SHARES, TABLE, change
from tests.grading.verdicts import problem_with, survives
from tests.grading.with_issues import RANKING


def nested(depth: int, values: int) -> str:
    return "[" * depth + "1," * values + "1" + "]" * depth


WORDY = {"sinusoidal " + "x " * 10**6: {"test acc head 3 " * 50: [0.5] * 50_000}}
COSTLY = {  # a text, and where it stands
    "deep, 42 kB": (nested(900, 20_000), [TABLE]),
    "deep, 202 kB": (nested(900, 99_000), [LOG]),
    "deep, 3 MB": (nested(900, 1_500_000), [LOG]),
    "long list": ('{"train_loss": [' + "1," * 7_900_000 + "1]}", [LOG]),
    "long keys": (json.dumps(WORDY), [TABLE]),
    "half a comment": ('""' * 8_000_000, [LOG]),
    "a word without end": ("redundan" * 5000, [RANKING]),
    "a number without end": ("1" * 200_000, [RANKING]),
    "claims without end": ("prun 1% all heads 11. " * 500_000, [RANKING]),
    "beside the table": (nested(9, 2_000_000), [f"{PROBLEM2}/extrapolation/{n}.json" for n in range(9)]),
}


@pytest.mark.parametrize("name", COSTLY)
def test_small_files_that_could_stop_a_reader(folder, name):
    """Each once took from ten seconds to minutes; now far less than the limit that is given here."""
    text, places = COSTLY[name]
    change(folder, TABLE, sinusoidal=SHARES)  # so that what stands beside the table is read
    for place in places:
        (folder / place).write_text(text)
    report = survives(folder, partial(grade_apart, seconds=8))
    assert report.score >= 80  # the rest is graded


def test_the_work_for_a_json_file_is_bounded(folder):
    assert [*leaves(json.loads(nested(900, 20_000)))] == []
    (keys,) = (keys for keys, _ in leaves({"k " * 10**6: 1}))
    assert len(keys[0]) == MAX_KEY and len(words(keys[0])) == MAX_WORDS
    (folder / LOG).write_text(nested(1, files.MAX_VALUES))
    assert "more than 100,000 values" in problem_with(survives(folder), "training-log")


def test_each_json_file_is_parsed_once(folder, monkeypatch):
    parsed = []
    monkeypatch.setattr(files.Folder, "_parse", lambda self, path: parsed.append(path) or {})
    survives(folder, grade)
    assert len(parsed) == len({*parsed}) >= 5


def test_figures_beyond_a_budget_are_not_unpacked(folder, monkeypatch):
    looked_at = []
    picture = files.Folder.picture
    monkeypatch.setattr(files.Folder, "picture", lambda self, path: looked_at.append(path) or picture(self, path))
    monkeypatch.setattr(checks, "MAX_PIXELS", 30_000)  # the second of 120 x 160 is beyond it
    report = survives(folder, grade)
    assert report.score == 100 and sum("attention_patterns" in path for path in looked_at) == 2
    monkeypatch.setattr(files, "MAX_ALL_PIXELS", 70_000)
    assert "too many pixels together" in problem_with(survives(folder, grade), "head-importance")


def spend_time(*_):
    time.sleep(60)


def spend_memory(*_):
    return [bytes(2**20 + n) for n in range(2000)]


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


LIMITS = {spend_time: "more than 1 seconds", spend_memory: "more than 400 MB", die: "ended the grading process"}


@pytest.mark.skipif(sys.platform != "linux", reason="what is patched here reaches the child only if that is a copy")
@pytest.mark.parametrize("spend", LIMITS, ids=lambda spend: spend.__name__)
def test_whatever_a_submission_costs_there_is_a_verdict(folder, monkeypatch, spend):
    monkeypatch.setattr(child, "grade", spend)
    report = grade_apart(folder, EXPECTED, seconds=1 if spend is spend_time else 20, memory=400 * files.MEGABYTE)
    assert not report.passed and report.score == 0
    assert "could not be read, because" in report.verdict() and LIMITS[spend] in report.verdict()
    assert report.verdict() in report.table() and report.gradescope()["score"] == 0
    assert "could not be read" in feedback(report, report)
