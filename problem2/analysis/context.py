"""What every analysis needs: the trained models, their predictions on the test sets, and where results go."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import Tensor

from lab.files import UserError, versions, write_json
from problem2.analysis.evaluation import predict
from problem2.checkpoint import load_model
from problem2.dataset import Rows
from problem2.model import SortingClassifier
from problem2.positional_encoding import SCHEMES


@dataclass(frozen=True)
class Context:
    models: dict[str, SortingClassifier]  # by scheme
    sets: dict[str, Rows]  # of evaluation.test_sets
    trained: tuple[int, int]  # the shortest and the longest sequence of training
    lengths: tuple[int, ...]  # of the longer sets
    data_dir: Path
    results_dir: Path
    folder: Path  # for what is found
    config: dict  # the settings of the analysis, written into every file
    batch_size: int

    @cached_property
    def margins(self) -> dict[str, dict[str, Tensor]]:
        """{scheme: {set: margins [N]}}, computed once for all analyses."""
        return {name: predict(model, self.sets, self.batch_size) for name, model in self.models.items()}

    def write(self, name: str, numbers: dict) -> None:
        write_json(self.folder / name, numbers | {"config": self.config, "versions": versions()})

    def show(self, finding: str, *files: str) -> None:
        """Print a finding and the files that have more of it."""
        print(finding)
        print(f"  -> {', '.join(files)}", flush=True)


def load_models(results_dir: Path, device) -> dict[str, SortingClassifier]:
    """Every scheme that has a checkpoint; says which have none."""
    paths = {name: results_dir / name / "best_model.pth" for name in SCHEMES}
    models = {name: load_model(path, device)[0] for name, path in paths.items() if path.exists()}
    missing = [name for name in SCHEMES if name not in models]
    if not models:
        raise UserError(f"{results_dir} has no trained scheme: run train.py first, or name another with --results-dir.")
    if missing:
        print(f"not trained, so left out: {', '.join(missing)} (train.py --encoding {missing[0]} trains one)")
    return models


def table(rows: list[list[str]]) -> str:
    """Text in columns as wide as their longest cell: the first to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for first, *cells in rows:
        line = [first.ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  " + "   ".join(line).rstrip())
    return "\n".join(lines)
