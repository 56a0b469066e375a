"""The strict protocol's models: max pooling, causal attention; and its rows."""

import pytest
import torch

from beyond.schemes import runs, strict
from problem2 import dataset, generate_data
from problem2.dataset import PAD, to_rows
from problem2.positional_encoding import SCHEMES
from tests.problem2.test_model import ROWS, SMALL


def make(name, pooling, causal=False, **changes):
    torch.manual_seed(0)
    return strict.MODELS[pooling, causal](encoding_type=name, **SMALL | changes).eval()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SCHEMES)
def test_padding_changes_nothing(name, causal):
    model, rows = make(name, "max", causal), to_rows(ROWS).sequences
    alone = torch.cat([model(torch.tensor([row])) for row in ROWS])
    torch.testing.assert_close(model(rows), alone, atol=1e-5, rtol=1e-5)
    wider = torch.nn.functional.pad(rows, (0, 5), value=PAD)
    torch.testing.assert_close(model(wider), alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_none_sees_order_when_attention_is_causal(pooling):
    row = torch.tensor([[3, 15, 41, 27, 41, 58, 9, 70]])
    turned = row[:, torch.randperm(8, generator=torch.Generator().manual_seed(0))]
    plain, causal = make("none", pooling), make("none", pooling, True)
    torch.testing.assert_close(plain(row), plain(turned), atol=1e-6, rtol=1e-6)
    assert (causal(row) - causal(turned)).abs().max() > 1e-4


def test_smooth_maximum_is_for_training_alone():
    """One position objects by 5 and a thousand agree by 3: the result must not depend on how many agree."""
    model = make("none", "max")
    votes = torch.tensor([[[5.0, 0.0]] + [[-3.0, 0.0]] * 1000, [[-3.0, 0.0]] * 1001])
    model.votes = lambda x, mask: (votes, torch.ones(2, 1001, dtype=torch.bool))
    logits = model(torch.zeros(2, 1001, dtype=torch.long))
    assert (logits[:, 0] - logits[:, 1]).tolist() == [5.0, -3.0]
    smooth = model.train()(torch.zeros(2, 1001, dtype=torch.long))
    assert (smooth[1, 0] - smooth[1, 1]) > 0 and smooth[0, 0] > logits[0, 0]


def test_a_run_of_the_course_is_train_py_s_and_a_strict_one_has_fresh_rows():
    rows = dict.fromkeys(("train", "val", "test"), strict.sample_rows(300, 8, 16, torch.Generator().manual_seed(0)))
    course = runs.task_of(runs.config_of_run("rope", "course", 1, None), rows)
    fresh = runs.task_of(runs.config_of_run("rope", "strict", 1, None), rows)
    assert torch.equal(course.proportions, dataset.drawing_weights(rows["train"])) and fresh.proportions is None
    assert course.val[0] is rows["val"].sequences and not torch.equal(fresh.val[0], rows["val"].sequences)
    assert fresh.augment is strict.resample
    settings = runs.config_of_run("none_causal", "strict", 1, 7)
    assert (settings["epochs"], settings["encoding"], settings["causal"]) == (7, "none", True)
    assert type(runs.build(settings)) is strict.CausalMaxPooling


# --- rows -----------------------------------------------------------------------------------------------------------


def test_fresh_rows_are_of_both_kinds():
    rows = strict.sample_rows(4000, 8, 16, torch.Generator().manual_seed(0))
    assert set(rows.lengths().tolist()) == set(range(8, 17))
    assert 0.46 < rows.labels.float().mean() < 0.54
    mild = dataset.inversions(rows.part(rows.labels == 0).sequences) == 1
    assert 0.46 < mild.float().mean() < 0.58  # a rough one may come out mild by chance


def test_fresh_rough_negatives_are_as_disordered_as_the_courses():
    course = dataset.to_rows([row["sequence"] for row in generate_data.test_set("extrapolation", 64)])
    fresh = strict.sample_rows(2000, 64, 64, torch.Generator().manual_seed(0), adjacent=0.0)
    unsorted = [rows.part(rows.labels == 0).sequences for rows in (course, fresh)]
    expected, found = (dataset.descents(sequences).sum(1).float().mean() for sequences in unsorted)
    assert abs(expected - found) < 1.0


def test_two_runs_are_sorted_each():
    rows = strict.sample_rows(2000, 8, 16, torch.Generator().manual_seed(0), adjacent=0.0, two_runs=1.0)
    assert 0.46 < rows.labels.float().mean() < 0.56
    steps_down = dataset.descents(rows.part(rows.labels == 0).sequences)
    assert (steps_down.sum(1) == 1).all()
    assert steps_down.any(0)[:14].all()  # the cut may be anywhere
    assert ((rows.sequences != PAD).sum(1) == rows.lengths()).all() and rows.sequences.max() <= PAD


def test_uneven_rows_have_ties_and_wide_gaps_everywhere():
    rows = strict.sample_rows(2000, 8, 16, torch.Generator().manual_seed(0), uneven=1.0)
    assert 0.46 < rows.labels.float().mean() < 0.56 and rows.sequences.max() == PAD
    ordered = rows.part(rows.labels == 1).sequences
    gaps = ordered.diff(dim=1).masked_fill(ordered[:, 1:] == PAD, 0)
    assert (gaps[:, :7] > 60).any(0).all() and (gaps[:, :7] == 0).any(0).all() and (gaps >= 0).all()
    assert ordered[:, 0].max() > 80 and ordered.min() == 0 and (ordered == dataset.LARGEST).any()
