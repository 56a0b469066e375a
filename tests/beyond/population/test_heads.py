"""Statements on heads are counted over models."""

import pytest

from beyond.population import heads, statements
from problem1.analysis import patching
from tests.problem1 import analysis_models


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    return analysis_models.context(analysis_models.adder(), tmp_path_factory.mktemp("results"))


def test_statements_are_counted_over_models(context, monkeypatch):
    monkeypatch.setattr(patching, "PAIRS", 100)
    found = heads.measure(context.model, context.rows)
    listed = [label for kind in found["critical"].values() for label in kind]
    assert 0 < len(set(listed)) == len(listed) <= 6
    models = {name: found | {"prunable": {"alone": 3, "together": count}} for name, count in (("a", 2), ("b", 3))}
    counted = {row["statement"]: row for row in statements.count(models, heads.STATEMENTS)}
    entry = counted["fewer heads can go together than one at a time"]
    assert entry["holds"] == ["a"] and entry["of"] == 2
    assert heads.measure(analysis_models.untrained(), analysis_models.rows()) == {"meaningful": False}
