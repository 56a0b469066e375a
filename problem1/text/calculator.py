"""A trained model as a calculator: numbers in, numbers out, any length.

    from problem1.text.calculator import load
    calculator = load()                            # problem1/results/text/best_model.pth
    calculator.add(123456789, 987654321)           # 1111111110, as the model writes it
    calculator.add_many([(1, 2), (10**5000, 7)])   # one batch

Nothing is corrected: what the model writes is what is returned.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from lab import device as devices
from lab.files import UserError
from lab.statistics import margins
from problem1.text.dataset import END, PAD, START, SYMBOLS, Pairs, characters, columns, decoder_inputs, right_answer
from problem1.text.model import LONGEST
from problem1.text.trained import MODEL, load_model

PRECISIONS = ("float32", "float64")
POSITIONS_AT_ONCE = 1_000_000  # of a batch, blanks included: some 300 MB
CLASSIC_POSITIONS_AT_ONCE = 50_000  # attention over all characters needs more


@dataclass(frozen=True)
class Prediction:
    """What the model wrote, the highest digit first, and the logit margin of each symbol."""

    symbols: list[str]  # digits, if it has learned to add
    margins: list[float]  # how far each symbol's logit lies above the next best, the END's last of all
    ended: bool  # whether the model wrote its END in the positions it had

    @property
    def text(self) -> str:
        return "".join(self.symbols)

    @property
    def number(self) -> int | None:
        """None where the text is not a number."""
        return int(self.text) if self.ended and self.text.isdigit() else None


class Calculator:
    def __init__(self, model: torch.nn.Module, settings: dict):
        self.model, self.settings = model.eval(), settings

    def add(self, a: int, b: int) -> int:
        return self.add_many([(a, b)])[0]

    def add_many(self, pairs: list[tuple[int, int]]) -> list[int]:
        """Sums of many pairs, in batches of about the same length."""
        for number in (number for pair in pairs for number in pair):
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise ValueError(f"the model adds whole numbers from 0 on, not {number!r:.60}")
        texts = [(str(a), str(b)) for a, b in pairs]
        sums = []
        for (a, b), prediction in zip(texts, self.predict(texts), strict=True):
            if prediction.number is None:
                raise ArithmeticError(f"the model wrote no number for {a:.20} + {b:.20}: {prediction.text!r:.60}")
            sums.append(prediction.number)
        return sums

    def predict(self, pairs: Pairs) -> list[Prediction]:
        """What the model writes for operands given as decimal strings without leading zeros."""
        local = self.settings["scheme"] == "place_value"
        at_once = POSITIONS_AT_ONCE if local else CLASSIC_POSITIONS_AT_ONCE
        by_length = sorted(range(len(pairs)), key=lambda row: max(map(len, pairs[row])))
        predictions: dict[int, Prediction] = {}
        batch: list[int] = []
        for row in [*by_length, None]:
            full = row is None or (len(batch) + 1) * (max(map(len, pairs[row])) + 2) > at_once
            if batch and full:
                written = self._generate([pairs[index] for index in batch])
                predictions |= zip(batch, map(self._read, *written), strict=True)
                batch = []
            batch.append(row)
        return [predictions[row] for row in range(len(pairs))]

    def _generate(self, pairs: Pairs) -> tuple[list[list[int]], list[list[float]]]:
        """Symbols in the order they were written, and their logit margins: each [B, T]."""
        device = next(self.model.parameters()).device
        if self.settings["scheme"] == "place_value":
            tokens, by_symbol = self.model.generate(columns(pairs).to(device))
        else:
            sources = characters(pairs).to(device)
            if sources.shape[1] > LONGEST and self.settings["scheme"] != "none":
                raise UserError(
                    f"this model has positions for {LONGEST:,} characters, and the sum has {sources.shape[1]:,}: "
                    "choose one trained with --scheme place_value."
                )
            longest = 2 + max(len(number) for pair in pairs for number in pair)
            tokens = self.model.generate(sources, longest, START, (sources != PAD)[:, None, None, :])
            with torch.inference_mode():
                by_symbol = margins(self.model(sources, decoder_inputs(tokens)), tokens)
        return tokens.tolist(), by_symbol.tolist()

    def _read(self, tokens: list[int], margins: list[float]) -> Prediction:
        ended = END in tokens
        length = tokens.index(END) if ended else len(tokens)
        symbols, margins = [SYMBOLS[token] for token in tokens[:length]], margins[: length + ended]
        if self.settings["order"] == "reversed":
            symbols, margins = symbols[::-1], margins[:length][::-1] + margins[length:]
        return Prediction(symbols, margins, ended)


def load(path: Path | str = MODEL, device: str = "cpu", precision: str = "float32") -> Calculator:
    """precision: of all weights and activations; float64 takes about twice the time of float32 on a CPU"""
    model, settings = load_model(Path(path), devices.start(device))
    return Calculator(model.to(getattr(torch, precision)), settings)


def is_right(pair: tuple[str, str], prediction: Prediction) -> bool:
    return prediction.ended and prediction.text == right_answer(pair)
