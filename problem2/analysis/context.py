"""What every analysis needs: the trained models, the rows to test them on, and where results go."""

from dataclasses import dataclass
from pathlib import Path

import torch

from lab.files import versions, write_json
from problem2.checkpoint import load_model
from problem2.dataset import Rows
from problem2.model import SortingClassifier
from problem2.positional_encoding import SCHEMES

SEEDS = "seeds"  # in the folder of results: seeds/SEED/SCHEME, the same trainings with other seeds


@dataclass(frozen=True)
class Context:
    trained: dict[str, dict[int, SortingClassifier]]  # by scheme and seed; first the model of results/SCHEME
    sets: dict[str, Rows]  # of evaluation.test_sets
    test_lengths: tuple[int, ...]  # of the longer sets
    trained_lengths: tuple[int, int]  # of the shortest and the longest sequence of training
    folder: Path  # for all results
    config: dict  # the settings of the analysis, written into every file
    batch_size: int

    @property
    def models(self) -> dict[str, SortingClassifier]:
        """By scheme: the model of results/SCHEME."""
        return {name: next(iter(by_seed.values())) for name, by_seed in self.trained.items()}

    def write(self, name: str, numbers: dict) -> dict:
        """Write folder/name: the numbers, and what they were made from."""
        results = numbers | {"config": self.config, "versions": versions()}
        write_json(self.folder / name, results)
        return results


def load_models(results_dir: Path, device: torch.device | str) -> dict[str, dict[int, SortingClassifier]]:
    """Every scheme that has a checkpoint, with every seed that it was trained with: {scheme: {seed: model}}."""
    trained = {}
    for name in SCHEMES:
        path = results_dir / name / "best_model.pth"
        if not path.exists():
            continue
        model, settings = load_model(path, device)
        by_seed = {settings["seed"]: model}
        for other_path in sorted(results_dir.glob(f"{SEEDS}/*/{name}/best_model.pth")):
            other, its_settings = load_model(other_path, device)
            if its_settings == settings | {"seed": its_settings["seed"]}:
                by_seed.setdefault(its_settings["seed"], other)
            else:
                print(f"{other_path} was trained with other settings or data than {path}: left out")
        trained[name] = by_seed
    return trained
