"""What every analysis needs: the trained models, the rows to test them on, and where results go."""

from dataclasses import dataclass
from pathlib import Path

import torch

from lab.files import versions, write_json
from problem2.checkpoint import load_model
from problem2.dataset import Rows
from problem2.model import SortingClassifier
from problem2.positional_encoding import SCHEMES


@dataclass(frozen=True)
class Context:
    models: dict[str, SortingClassifier]  # by scheme
    sets: dict[str, Rows]  # of evaluation.test_sets
    trained_lengths: tuple[int, int]  # of the shortest and the longest sequence of training
    folder: Path  # for all results
    config: dict  # the settings of the analysis, written into every file
    batch_size: int

    def write(self, name: str, numbers: dict) -> dict:
        """Write folder/name: the numbers, and what they were made from."""
        results = numbers | {"config": self.config, "versions": versions()}
        write_json(self.folder / name, results)
        return results


def load_models(results_dir: Path, device: torch.device | str) -> dict[str, SortingClassifier]:
    """Every scheme that has a checkpoint."""
    models = {}
    for name in SCHEMES:
        path = results_dir / name / "best_model.pth"
        if path.exists():
            models[name], _ = load_model(path, device)
    return models
