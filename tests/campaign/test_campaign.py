"""The campaign of benchmarks/campaign.py in small: the same functions with small counts."""

import json

import pytest

from benchmarks import campaign, campaign_kills, campaign_places, campaign_rest, campaign_rubbish
from benchmarks.campaign_common import Tally, differences, one_sentence, torn
from lab.files import write_bytes


def quiet(*_):
    pass


def test_scripts_that_are_killed_leave_whole_files_and_end_as_if_undisturbed(tmp_path):
    tally = campaign_kills.campaign(tmp_path, 4, 1, ("rows of digits", "report"), quiet)
    assert tally.counts["kills"] == 4 and not tally.failures, tally.failures


def test_a_training_of_sorting_that_is_killed(tmp_path):
    tally = campaign_kills.campaign(tmp_path, 2, 2, ("training of sorting",), quiet)
    assert tally.counts["kills"] == 2 and not tally.failures, tally.failures


def test_places_that_cannot_be_used(tmp_path):
    tally = campaign_places.campaign(tmp_path, ("rows of digits",), quiet)
    assert tally.counts["refusals"] >= 3 and not tally.failures, tally.failures


@pytest.mark.parametrize("part", campaign_rubbish.SHARES)
def test_rubbish_is_refused_or_made_sense_of(part, tmp_path):
    tally = Tally()
    part(tmp_path, 12, tally)
    assert tally.counts["tried"] >= 12 and not tally.failures, tally.failures


def test_other_threads_and_batches_give_the_same_answers_and_stale_results_are_known(tmp_path):
    tally = campaign_rest.determinism(tmp_path, epochs=0, rows=1000)
    assert tally.counts["predictions compared"] == 8000 and not tally.failures, tally.failures


def test_numbers_at_the_edges():
    tally = campaign_rest.numerics(keys=2000)
    assert tally.counts["gradients checked"] >= 10 and not tally.failures, tally.failures


def test_epochs_take_no_memory(tmp_path):
    tally = campaign_rest.memory(tmp_path / "run", epochs=20)
    assert not tally.failures, tally.failures


# --- would it notice? --------------------------------------------------------------------------------------------


def test_torn_files_and_differences_are_noticed(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        write_bytes(folder / "log.json", b'{"loss": 1, "seconds": 2}')
    assert not torn(one) and not differences(one, other)
    write_bytes(other / "log.json", b'{"loss": 1, "seconds": 3}')
    assert not differences(one, other)
    write_bytes(other / "log.json", b'{"loss": 2, "seconds": 2}')
    assert differences(one, other) == ["log.json"]
    for name in ("log.json", "best_model.pth", "curves.png", "report.pdf", "what"):
        write_bytes(one / name, b'{"loss"')
    assert len(torn(one)) == 5


def test_a_refusal_is_one_sentence_with_exit_code_2():
    assert one_sentence(2, "error: no room.") is None
    for code, errors in ((1, "error: no."), (2, "error: a\nerror: b"), (2, "Traceback (most\nerror: x"), (-9, "")):
        assert one_sentence(code, errors)


def test_what_fails_is_counted_shown_and_the_exit_code(tmp_path, monkeypatch, capsys):
    def fails(settings, work):
        tally = Tally()
        tally.count("tried")
        tally.check(False, "it broke")
        return tally

    monkeypatch.setattr(campaign, "PARTS", {"memory": ("of old", fails)})
    assert campaign.main(campaign.Settings(output=tmp_path / "campaign.json")) == 1
    assert json.loads((tmp_path / "campaign.json").read_text())["failed"] == 1
    assert "FAILED: it broke" in capsys.readouterr().out
