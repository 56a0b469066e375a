"""A trained model as a calculator: numbers in, numbers out, any length.

    from problem1.text.calculator import load
    calculator = load()                            # problem1/results/text/best_model.pth
    calculator.add(123456789, 987654321)           # 1111111110, as the model writes it
    calculator.add_many([(1, 2), (10**5000, 7)])   # one batch

Nothing is corrected: what the model writes is what comes back.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from lab import parallel
from problem1.text.dataset import END, PAD, START, SYMBOLS, Pairs, characters, columns, right_answer, to_number, to_text
from problem1.text.train import PROBLEM, load_model

MODEL = PROBLEM / "results" / "text" / "best_model.pth"
PLACES_AT_ONCE = 50_000  # of a batch, blanks included: some 200 MB


@dataclass(frozen=True)
class Answer:
    """What the model wrote, most significant symbol first, and how sure it was of each symbol."""

    text: str
    leads: list[float]  # by how much each symbol's logit leads the next best, the END's last of all
    ended: bool  # whether the model wrote its END in the places it had

    @property
    def number(self) -> int | None:
        """None where the text is not a number."""
        return to_number(self.text) if self.ended and self.text.isdigit() else None


class Calculator:
    def __init__(self, model: torch.nn.Module, settings):
        self.model, self.settings = model.eval(), settings

    def add(self, a: int, b: int) -> int:
        return self.add_many([(a, b)])[0]

    def add_many(self, pairs: list[tuple[int, int]]) -> list[int]:
        """Sums of many pairs, in batches of about the same length."""
        for number in (number for pair in pairs for number in pair):
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise ValueError(f"the model adds whole numbers from 0 on, and {number!r:.60} is none")
        texts = [(to_text(a), to_text(b)) for a, b in pairs]
        sums = []
        for pair, answer in zip(texts, self.answer(texts), strict=True):
            if answer.number is None:
                raise ArithmeticError(
                    f"the model wrote no number for {pair[0]:.20} + {pair[1]:.20}: {answer.text!r:.60}"
                )
            sums.append(answer.number)
        return sums

    def answer(self, pairs: Pairs) -> list[Answer]:
        """What the model writes for operands given as decimal strings without leading zeros."""
        by_length = sorted(range(len(pairs)), key=lambda row: max(map(len, pairs[row])))
        answers: list[Answer | None] = [None] * len(pairs)
        batch: list[int] = []
        for row in by_length:
            if batch and (len(batch) + 1) * (max(map(len, pairs[row])) + 2) > PLACES_AT_ONCE:
                self._answer(pairs, batch, answers)
                batch = []
            batch.append(row)
        if batch:
            self._answer(pairs, batch, answers)
        return answers

    def _answer(self, pairs: Pairs, batch: list[int], answers: list) -> None:
        tokens, leads = self._generate([pairs[row] for row in batch])
        for row, written, lead in zip(batch, tokens.tolist(), leads.tolist(), strict=True):
            ended = END in written
            length = written.index(END) if ended else len(written)
            symbols = [SYMBOLS[token] for token in written[:length]]
            lead = lead[: length + ended]
            if self.settings.order == "reversed":
                symbols, lead = symbols[::-1], lead[:length][::-1] + lead[length:]
            answers[row] = Answer("".join(symbols), lead, ended)

    def _generate(self, pairs: Pairs) -> tuple[torch.Tensor, torch.Tensor]:
        """Symbols in the order they were written, and their leads: each [B, T]."""
        device = next(self.model.parameters()).device
        if self.settings.scheme == "places":
            tokens, logits = self.model.generate(columns(pairs).to(device))
            best = logits.topk(2).values
            return tokens, best[..., 0] - best[..., 1]
        sources = characters(pairs).to(device)
        longest = 2 + max(len(number) for pair in pairs for number in pair)
        tokens = self.model.generate(sources, longest, START, (sources != PAD)[:, None, None, :])
        written = torch.cat([torch.full_like(tokens[:, :1], START), tokens[:, :-1]], 1)
        with torch.inference_mode():
            best = self.model(sources, written).topk(2).values
        return tokens, best[..., 0] - best[..., 1]


def load(path: Path | str = MODEL, device: str = "cpu") -> Calculator:
    return Calculator(*load_model(Path(path), parallel.start(device)))


def is_right(pair: tuple[str, str], answer: Answer) -> bool:
    return answer.ended and answer.text == right_answer(pair)
