"""What decides a run: the protocol's defaults, changed by flags; which rows it draws."""

import pytest
import torch

from problem2 import dataset, training
from problem2.positional_encoding import SCHEMES
from problem2.trained import MORE, PROTOCOLS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_flags_take_the_place_of_the_protocols_defaults(protocol):
    settings = training.Settings(encoding=("rope",), protocol=protocol)
    config, expected = training.config_of(settings), PROTOCOLS[protocol]
    assert (config["epochs"], config["batch_size"]) == (expected["epochs"], expected["batch_size"])
    assert config["lr"] == MORE[protocol]["lr"]
    assert training.make_recipe(config).ema_decay == expected["ema_decay"]
    changed = training.config_of(training.Settings(encoding=("rope",), protocol=protocol, epochs=3, batch_size=8))
    assert (changed["epochs"], changed["batch_size"]) == (3, 8)
    assert {name for name in config if config[name] != changed[name]} == {"epochs", "batch_size"}


def test_hard_rows_are_drawn_more_often_in_training_alone():
    rows = dict.fromkeys(("train", "val", "test"), dataset.sample_rows(300, 8, 16, torch.Generator().manual_seed(0)))
    course, strict = (
        training.make_task(training.config_of(training.Settings(encoding=(next(iter(SCHEMES)),), protocol=name)), rows)
        for name in ("course", "strict")
    )
    assert strict.score is dataset.score and strict.augment is dataset.resample
    assert torch.equal(course.weights, dataset.drawing_weights(rows["train"])) and strict.weights is None
    assert course.val[0] is rows["val"].sequences and course.test[0] is rows["test"].sequences
