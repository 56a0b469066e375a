"""A trained model of the text task: loaded from the checkpoint that train.py wrote, and run on sums.

model, settings = load_model(MODEL)
(prediction,) = predict(model, [("123456789", "987654321")])
prediction.text                                # "1111111110", as the model writes it
"""

from dataclasses import dataclass
from pathlib import Path

from beyond.any_length.dataset import END, SYMBOLS, Pairs, columns, right_answer
from beyond.any_length.place_value import PlaceValueTransformer
from lab import checkpoint

KIND = "problem1/text"
MODEL = Path(__file__).resolve().parent / "results" / "best_model.pth"  # the default train.py's


def build(settings: dict) -> PlaceValueTransformer:
    """The untrained model with these settings (those of train.py)."""
    return PlaceValueTransformer(**{name: settings[name] for name in ("d_model", "num_heads", "d_ff", "dropout")})


def load_model(path: Path) -> tuple[PlaceValueTransformer, dict]:
    """The model in a checkpoint, ready for evaluation, and the settings it was trained with."""
    content = checkpoint.load(path, KIND)
    model = checkpoint.rebuild(build, content, path)
    return model.eval(), content["settings"]


@dataclass(frozen=True)
class Prediction:
    """What the model wrote, the highest digit first, and the logit margin of each symbol."""

    symbols: list[str]  # digits, if it has learned to add
    margins: list[float]  # how far each symbol's logit lies above the next best, the END's last of all
    ended: bool  # whether the model wrote its END in the positions it had

    @property
    def text(self) -> str:
        return "".join(self.symbols)

    def is_right(self, pair: tuple[str, str]) -> bool:
        return self.ended and self.text == right_answer(pair)


def predict(model: PlaceValueTransformer, pairs: Pairs) -> list[Prediction]:
    """What the model writes for operands given as decimal strings without leading zeros, any length."""
    tokens, margins = model.generate(columns(pairs))
    return [read(*row) for row in zip(tokens.tolist(), margins.tolist(), strict=True)]


def read(tokens: list[int], margins: list[float]) -> Prediction:
    """The model writes the units first, and what comes after its END means nothing."""
    ended = END in tokens
    length = tokens.index(END) if ended else len(tokens)
    symbols = [SYMBOLS[token] for token in tokens[:length]]
    return Prediction(symbols[::-1], margins[:length][::-1] + margins[length : length + ended], ended)
