"""Every number in the two expected.json follows from the course's rows or from arithmetic, none is taken on trust."""

import math

import pytest

from problem1 import generate_data as addition
from problem2 import generate_data as sorting
from tests.grading.submissions import EXPECTED

FIRST, SECOND = EXPECTED


def items(expected: dict, check: str) -> list[dict]:
    return [item for item in expected["items"] if item["check"] == check]


def test_known_baselines_are_shares_of_the_test_sums():
    """Greedy from token 0 can only be right below 1000, from token 1 only from 1000 on; where 0 also pads, only
    sums without any further zero are left."""
    targets = [row["target"] for row in addition.make_rows(3, 2000, 641 + 2)]
    below = sum(target[0] == 0 for target in targets)
    above = sum(target[0] == 1 for target in targets)
    no_zero = sum(target[0] == 0 and 0 not in target[1:] for target in targets)
    assert below + above == 2000
    assert [known["value"] for known in FIRST["known_values"]] == [below / 2000, above / 2000, no_zero / 2000]
    for known in FIRST["known_values"]:  # the sentences say the same numbers
        assert f"{known['value']:.1%}" in known["evidence"]
    (ablation,), (accuracy,) = items(FIRST, "ablation"), items(FIRST, "accuracy")
    assert ablation["test_rows"] == accuracy["proof"]["test_rows"] == len(targets)
    assert accuracy["proof"]["all"] == 900**2


def test_class_shares_are_those_of_the_extrapolation_sets():
    (table,) = items(SECOND, "table")
    assert table["lengths"] == [int(length) for length in table["class_shares"]]
    for length, share in table["class_shares"].items():
        rows = sorting.test_set("extrapolation", int(length))
        assert len(rows) == 500
        assert sum(row["is_sorted"] for row in rows) / len(rows) == share


def test_what_logs_of_models_that_know_nothing_show():
    rows = sorting.make_rows(8, 16, 2000, 641 + 2)
    for log in items(SECOND, "log"):
        assert log["class_share"] == sum(row["is_sorted"] for row in rows) / len(rows)
        assert log["chance_loss"] == pytest.approx(math.log(2), abs=1e-4)
    (log,) = items(FIRST, "log")
    assert log["chance_loss"] == pytest.approx((math.log(2) + 3 * math.log(10)) / 4, abs=1e-3)


def test_chance_band_holds_by_the_binomial():
    """What is said in the reason: 500 rows leave chance outside 0.41 … 0.59 at most once in 10,000."""
    outside = sum(math.comb(500, k) for k in range(501) if not 0.41 <= k / 500 <= 0.59) / 2**500
    assert outside < 1e-4
    (row,) = items(SECOND, "row")
    low, high = row["between"]
    assert low <= 0.41 and high >= 0.59


@pytest.mark.parametrize("expected", [FIRST, SECOND], ids=["problem1", "problem2"])
def test_points_add_up_and_every_band_has_its_reason(expected):
    assert sum(item["points"] for item in expected["items"]) == 50
    assert len({item["id"] for item in expected["items"]}) == len(expected["items"])
    for item in expected["items"]:
        if "steps" in item or "between" in item:
            assert len(item["reason"]) > 40


def test_every_file_of_the_contract_is_asked_for():
    run = {"best_model.pth", "training_log.json", "training_curves.png"}
    heads = {"ablation_results.json", "head_importance.png", "head_importance_ranking.txt", "head_specialization.json"}
    figures = {"extrapolation_curves.png", "learned_position_embeddings.png", "encoding_comparison.png"}
    asked = [{item["file"] for item in expected["items"]} for expected in (FIRST, SECOND)]
    assert asked[0] == run | {"attention_patterns/*", "examples/*"} | {f"head_analysis/{name}" for name in heads}
    schemes = {f"{scheme}/{name}" for scheme in ("sinusoidal", "learned", "none") for name in run}
    assert asked[1] == schemes | {f"extrapolation/{name}" for name in figures | {"extrapolation_results.json"}}
