"""A trained model as a calculator: numbers in, numbers out, any length.

    from problem1.text.calculator import load
    calculator = load()                            # problem1/results/text/best_model.pth
    calculator.add(123456789, 987654321)           # 1111111110, as the model writes it
    calculator.add_many([(1, 2), (10**5000, 7)])   # one batch

Nothing is corrected: what the model writes is what is returned.
"""

from dataclasses import dataclass
from pathlib import Path

from problem1.text.dataset import END, SYMBOLS, Pairs, columns, right_answer
from problem1.text.place_value import PlaceValueTransformer
from problem1.text.trained import MODEL, load_model

POSITIONS_AT_ONCE = 1_000_000  # of a batch, blanks included: some 300 MB


@dataclass(frozen=True)
class Prediction:
    """What the model wrote, the highest digit first, and the logit margin of each symbol."""

    symbols: list[str]  # digits, if it has learned to add
    margins: list[float]  # how far each symbol's logit lies above the next best, the END's last of all
    ended: bool  # whether the model wrote its END in the positions it had

    @property
    def text(self) -> str:
        return "".join(self.symbols)


class Calculator:
    def __init__(self, model: PlaceValueTransformer):
        self.model = model.eval()

    def add(self, a: int, b: int) -> int:
        return self.add_many([(a, b)])[0]

    def add_many(self, pairs: list[tuple[int, int]]) -> list[int]:
        if any(type(number) is not int or number < 0 for pair in pairs for number in pair):
            raise ValueError("the model adds whole numbers from 0 on")
        predictions = self.predict([(str(a), str(b)) for a, b in pairs])
        for prediction in predictions:
            if not (prediction.ended and prediction.text.isdigit()):
                raise ArithmeticError(f"the model wrote no number: {prediction.text!r:.60}")
        return [int(prediction.text) for prediction in predictions]

    def predict(self, pairs: Pairs) -> list[Prediction]:
        """What the model writes for operands given as decimal strings without leading zeros."""
        predictions: dict[int, Prediction] = {}
        longest_first = sorted(range(len(pairs)), key=lambda row: -max(map(len, pairs[row])))
        while longest_first:
            count = max(1, POSITIONS_AT_ONCE // (2 + max(map(len, pairs[longest_first[0]]))))
            batch, longest_first = longest_first[:count], longest_first[count:]
            sources = columns([pairs[row] for row in batch])
            tokens, margins = self.model.generate(sources)
            predictions |= zip(batch, map(read, tokens.tolist(), margins.tolist()), strict=True)
        return [predictions[row] for row in range(len(pairs))]


def read(tokens: list[int], margins: list[float]) -> Prediction:
    """The model writes the units first, and what comes after its END means nothing."""
    ended = END in tokens
    length = tokens.index(END) if ended else len(tokens)
    symbols = [SYMBOLS[token] for token in tokens[:length]]
    return Prediction(symbols[::-1], margins[:length][::-1] + margins[length : length + ended], ended)


def load(path: Path = MODEL) -> Calculator:
    return Calculator(load_model(path)[0])


def is_right(pair: tuple[str, str], prediction: Prediction) -> bool:
    return prediction.ended and prediction.text == right_answer(pair)
