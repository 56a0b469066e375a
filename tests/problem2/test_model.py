"""The classifier: padding changes nothing, `none` cannot see order, every parameter learns."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from problem2.dataset import PAD, to_rows
from problem2.model import create_model
from problem2.positional_encoding import SCHEMES

NAMES = list(SCHEMES)
SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32, "max_len": 64}
ROWS = [[3, 15, 41, 27, 41, 58, 9, 70], [1, 2, 3], [99, 0, 50, 50, 50]]


def make(name, **changes):
    torch.manual_seed(0)
    return create_model(name, **SMALL | changes).eval()


@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_nothing(name):
    model, rows = make(name), to_rows(ROWS).sequences
    together = model(rows)
    wider = torch.nn.functional.pad(rows, (0, 5), value=PAD)
    alone = torch.cat([model(torch.tensor([row])) for row in ROWS])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(wider), alone, atol=1e-5, rtol=1e-5)
    assert together.shape == (3, 2) and together.isfinite().all()


@pytest.mark.parametrize("form", [(3, 8), (3, 1, 1, 8)])
def test_a_mask_says_what_is_real(form):
    model, rows = make("sinusoidal"), to_rows(ROWS).sequences
    mask = rows != PAD
    noise = rows.masked_fill(~mask, 7)
    torch.testing.assert_close(model(noise, mask.reshape(form)), model(rows))
    torch.testing.assert_close(model(noise, mask.reshape(form).long()), model(rows))
    assert not torch.allclose(model(noise), model(rows))


def test_none_cannot_see_order():
    row = torch.tensor([[3, 15, 41, 27, 41, 58, 9, 70]])
    turned = row[:, torch.randperm(8, generator=torch.Generator().manual_seed(0))]
    model = make("none")
    torch.testing.assert_close(model(row), model(turned), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
def test_every_other_scheme_sees_order(name):
    model = make(name)
    row = torch.tensor([[3, 15, 27, 41, 58, 70]])
    assert (model(row) - model(row.flip(1))).abs().max() > 1e-4


def test_mean_of_logits_is_the_courses_mean_of_features():
    model, rows = make("sinusoidal"), torch.tensor([[3, 15, 41], [1, 2, 3]])
    kept = {}
    model.norm.register_forward_hook(lambda module, inputs, output: kept.update(features=output))
    torch.testing.assert_close(model(rows), model.output(kept["features"].mean(1)), atol=1e-6, rtol=1e-5)


def test_window_reads_no_farther_than_its_layers_reach():
    model = make("window", num_layers=2)
    row = torch.tensor([[3, 15, 41, 27, 41, 58, 9, 70]])
    changed = row.clone()
    changed[0, 7] = 1
    votes, others = model.votes(row)[0][0], model.votes(changed)[0][0]
    torch.testing.assert_close(votes[:5], others[:5])
    assert (votes[5] - others[5]).abs().max() > 1e-6


def test_every_parameter_learns():
    for name in NAMES:
        model = make(name).train()
        model(to_rows(ROWS).sequences)[:, 1].sum().backward()
        dead = [label for label, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        assert dead == [], name


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="no position scheme"):
        create_model("sine")
    for name in ("rope", "randomized_rope"):
        with pytest.raises(ValueError, match="must be even, not 3"):
            make(name, d_model=12)


def test_a_script_in_the_folder_can_import_it():
    """As in the course: `from model import …`, with nothing but the folder itself on the path."""
    code = "from model import create_model; import sys; create_model('rope'); print('dataset' in sys.modules)"
    folder = Path(__file__).resolve().parents[2] / "problem2"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
