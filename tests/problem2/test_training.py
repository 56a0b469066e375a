"""What decides a run: flags, and which rows it draws."""

import torch

from problem2 import dataset, train
from problem2.train import Settings


def test_flags_decide_the_configuration_and_the_recipe():
    config = train.config_of(Settings(encoding=("rope",)))
    changed = train.config_of(Settings(encoding=("rope",), epochs=3, batch_size=8))
    assert config["encoding"] == "rope" and (changed["epochs"], changed["batch_size"]) == (3, 8)
    assert {name for name in config if config[name] != changed[name]} == {"epochs", "batch_size"}
    recipe = train.make_recipe(Settings(lr=0.5))
    assert recipe.lr == 0.5 and recipe.ema_decay == config["ema_decay"] > 0


def test_hard_rows_are_drawn_more_often_in_training_alone():
    made = dataset.to_rows([[1, 2, 3], [3, 2, 1], [1, 3, 2], [5, 5, 6]])
    task = train.make_task(dict.fromkeys(("train", "val", "test"), made), 2)
    assert torch.equal(task.proportions, dataset.drawing_weights(made)) and task.proportions[2] > task.proportions[1]
    assert task.val[0] is made.sequences and task.test[0] is made.sequences
