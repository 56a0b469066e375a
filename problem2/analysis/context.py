"""What every analysis needs: the trained models, the test rows, and where results go."""

from dataclasses import dataclass
from pathlib import Path

from lab.files import UserError, versions, write_json
from problem2.dataset import Rows
from problem2.model import SortingClassifier
from problem2.positional_encoding import SCHEMES
from problem2.trained import load_model


@dataclass(frozen=True)
class Context:
    models: dict[str, SortingClassifier]  # by scheme
    rows: dict[str, Rows]  # train, val and test
    data_dir: Path
    results_dir: Path
    folder: Path  # for what is found
    config: dict  # the settings of the analysis, written into every file
    lengths: tuple[int, ...]
    batch_size: int
    limit: int | None  # rows of each longer test set; None: see extrapolation.rows_used

    @property
    def trained(self) -> tuple[int, int]:
        """The shortest and the longest sequence of training."""
        return self.rows["train"].length_range()

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
