"""Ask a trained model for a sum, and see what it writes, whether it is right, and where it was least sure.

python problem1/ask.py 123456789 + 987654321        # addition as text: operands of any length
python problem1/ask.py "7 + 0042"                   # leading zeros are left out
python problem1/ask.py --task digits 347 + 159      # the three-digit model
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.files import UserError
from lab.settings import parse, run, setting
from problem1.dataset import START, SYMBOLS, Sums, decoder_inputs
from problem1.generate_data import PLUS, to_digits
from problem1.text import calculator
from problem1.text.calculator import Answer, is_right
from problem1.text.dataset import right_answer
from problem1.train import HERE, TASKS, load_model

SUM = re.compile(r"\s*([0-9]+)\s*\+\s*([0-9]+)\s*=?\s*")
LISTED = 3  # of the digits it was least sure of


@dataclass(frozen=True)
class Settings:
    sum: tuple[str, ...] = setting((), "two whole numbers with + between them", metavar="SUM", positional=True)
    task: str = setting("text", "which model: text, any length; digits, three-digit operands", choices=TASKS)
    model_path: Path | None = setting(None, "its checkpoint (default: the one train.py wrote)", metavar="FILE")


def read_sum(words) -> tuple[str, str]:
    """["007", "+", "5"] -> ("7", "5")"""
    text = " ".join(words)
    if not text.strip():
        raise UserError("there is no sum to ask for: give one, as in: python problem1/ask.py 123456789 + 987654321")
    match = SUM.fullmatch(text)
    if not match:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise UserError(f"{shown!r} is not a sum of two whole numbers from 0 on: write it as in 123456789 + 987654321.")
    a, b = (number.lstrip("0") or "0" for number in match.groups())
    return a, b


def ask_text(pair: tuple[str, str], settings: Settings) -> Answer:
    """The model of any length (or whichever was trained with --task text)."""
    return calculator.load(settings.model_path or calculator.MODEL).answer([pair])[0]


@torch.inference_mode()
def ask_digits(pair: tuple[str, str], settings: Settings) -> Answer:
    """The model of fixed width: shorter operands are filled up with zeros, although it was trained on none."""
    model, _, digits = load_model(settings.model_path or HERE / "results" / "best_model.pth", "cpu")
    longest = max(map(len, pair))
    if longest > digits:
        raise UserError(
            f"this model was trained on operands of {digits} digits, and {longest} are too many for it: "
            "leave out --task digits to ask the one for any length."
        )
    a, b = (to_digits(int(number), digits) for number in pair)
    source = torch.tensor([[*a, PLUS, *b]])
    written = model.generate(source, digits + 1, START)
    best = model(source, decoder_inputs(Sums(source, written)))[0].topk(2).values
    symbols = "".join(SYMBOLS[token] for token in written[0].tolist())
    text = symbols.lstrip("0") or "0"
    return Answer(text, (best[:, 0] - best[:, 1]).tolist()[-len(text) :], ended=True)


def report(pair: tuple[str, str], answer: Answer) -> str:
    lines = [
        f"{pair[0]} + {pair[1]} = {answer.text}",
        "right" if is_right(pair, answer) else f"wrong: it is {right_answer(pair)}",
    ]
    doubts = sorted(range(len(answer.text)), key=lambda index: answer.leads[index])[:LISTED]
    places = [f"the {answer.text[i]} of 10^{len(answer.text) - 1 - i} (by {answer.leads[i]:.1f})" for i in doubts]
    lines.append(f"least sure of {', '.join(places)}: by how much its logit leads the next best")
    return "\n".join(lines)


def main(settings: Settings) -> None:
    pair = read_sum(settings.sum)
    print(report(pair, ask_text(pair, settings) if settings.task == "text" else ask_digits(pair, settings)))


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
