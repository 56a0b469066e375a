"""A trained model of the text task, from the checkpoint that train.py wrote."""

from pathlib import Path

from lab import checkpoint
from lab.fast import accelerate
from problem1.text.place_value import PlaceValueTransformer

KIND = "problem1/text"
MODEL = Path(__file__).resolve().parents[1] / "results" / "text" / "best_model.pth"  # the default train.py's


def build(settings: dict) -> PlaceValueTransformer:
    """The untrained model with these settings (those of train.py)."""
    return PlaceValueTransformer(**{name: settings[name] for name in ("d_model", "num_heads", "d_ff", "dropout")})


def load_model(path: Path) -> tuple[PlaceValueTransformer, dict]:
    """The model in a checkpoint, ready for evaluation, and the settings it was trained with."""
    content = checkpoint.load(path, KIND)
    model = checkpoint.rebuild(build, content, path)
    return accelerate(model).eval(), content["settings"]
