"""What every analysis starts from: a trained model, its rows, and the folder for results.

`Context` judges first whether the model can add at all. For one that cannot, the numbers are still what was
measured, but they show nothing about how addition is done.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from lab.files import UserError, versions, write_json
from lab.hooks import head_names
from problem1.analysis.interventions import InterventionRunner
from problem1.checkpoint import load_model
from problem1.dataset import Sums, load_or_generate

CAN_ADD = 0.9  # exact match on the test rows from which on "how does it add" is a question at all


@dataclass
class Context:
    """The model of an analysis, its rows, and the folder its results go to."""

    model: torch.nn.Module
    rows: dict[str, Sums]  # train, val and test
    output_dir: Path
    batch_size: int = 1024
    settings: dict = field(default_factory=dict)  # those the model was trained with
    num_samples: int = 6  # example sums to draw
    results: dict[str, dict] = field(default_factory=dict)  # of the analyses so far: {"ablation": what run returned}

    @cached_property
    def test(self) -> InterventionRunner:
        return InterventionRunner(self.model, self.rows["test"], self.batch_size)

    @cached_property
    def correct(self) -> Tensor:
        """[N, T] which digits of the test rows are right"""
        return self.test.right_and_loss()[0]

    @cached_property
    def accuracy(self) -> float:
        """Exact match on the test rows."""
        return self.correct.all(1).double().mean().item()

    @cached_property
    def mean_outputs(self) -> dict[str, Tensor]:
        """The mean output of each head [Tq, d_head] and feed-forward layer [Tq, d_model] over the test rows, at each
        position."""
        return {name: output.mean(0) for name, output in self.test.recorded.outputs.items()}

    @property
    def heads(self) -> list[str]:
        """Their names, from the source to the output."""
        return head_names(self.model)

    @property
    def num_digits(self) -> int:
        return self.rows["test"].num_digits

    @property
    def meaningful(self) -> bool:
        return self.accuracy >= CAN_ADD

    @property
    def warning(self) -> str | None:
        if self.meaningful:
            return None
        return (
            f"This model gets only {self.accuracy:.1%} of the test sums right, so it has not learned to add. "
            "What follows is what was measured, but it shows nothing about how addition is done: a head that can "
            "be removed without loss from a model that fails anyway is not redundant. No conclusions are drawn."
        )

    def caption(self, text: str) -> str:
        """A figure's caption, headed by a warning where the model cannot add."""
        if self.meaningful:
            return text
        return f"WARNING: a model that cannot add (accuracy {self.accuracy:.1%}); no conclusions. {text}"

    def write(self, name: str, numbers: dict) -> dict:
        """Write output_dir/name: the numbers, whether they mean anything, and what they were made from."""
        results = {"meaningful": self.meaningful, "warning": self.warning, "test_accuracy": self.accuracy}
        results |= numbers | {"config": self.settings, "versions": versions()}
        write_json(self.output_dir / name, results)
        return results


def load_context(model_path: Path, data_dir: Path, output_dir: Path, batch_size: int = 1024, device="cpu") -> Context:
    """The model and the data, which must have operands of the same length."""
    model, settings = load_model(model_path, device)
    rows = load_or_generate(data_dir)
    if rows["test"].num_digits != settings["num_digits"]:
        raise UserError(
            f"{model_path} adds numbers of {settings['num_digits']} digits, but {data_dir} holds "
            f"numbers of {rows['test'].num_digits}: name the data it was trained on with --data-dir."
        )
    return Context(model, rows, output_dir, batch_size, settings)
