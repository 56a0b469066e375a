"""What the trained model writes for a sum, whether it is right, and the smallest logit margins.

    python problem1/predict.py 347 + 159                                  # the model that train.py made
    python problem1/predict.py --model-path try/best_model.pth 347+159    # another one

The model was trained on operands with one number of digits (three by default) and is used for these alone. Longer
numbers are added by the model of beyond/any_length.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.installed

import torch

from lab import device
from lab.files import UserError, shown
from lab.settings import command, parse, run, setting
from lab.statistics import margins
from problem1.analysis.rows import digit_names, digits_text
from problem1.checkpoint import load_model
from problem1.dataset import START, decoder_inputs
from problem1.generate_data import PLUS

MODEL = Path(__file__).resolve().parent / "results" / "best_model.pth"
SUM = re.compile(r"\s*([0-9]+)\s*\+\s*([0-9]+)\s*=?\s*")
LISTED = 3  # digits with the smallest logit margins


@dataclass(frozen=True)
class Settings:
    sum: tuple[str, ...] = setting((), "two whole numbers with + between them", metavar="SUM", positional=True)
    model_path: Path = setting(MODEL, "the trained model", metavar="FILE")


def read_sum(words, example: str = "python problem1/predict.py 347 + 159") -> tuple[str, str]:
    """["007", "+", "5"] -> ("7", "5")"""
    line = " ".join(words)
    if not line.strip():
        raise UserError(f"there is no sum: give one, as in: {example}")
    match = SUM.fullmatch(line)
    if not match:
        raise UserError(f"{shown(line, 60)!r} is not a sum of two whole numbers from 0 on: write it as in 347 + 159.")
    a, b = match.groups()
    return a.lstrip("0") or "0", b.lstrip("0") or "0"


@torch.no_grad()
def predict(pair: tuple[str, str], path: Path) -> tuple[str, list[float]]:
    """What the model writes, without leading zeros, and the logit margin of each symbol."""
    model, settings = load_model(path)
    digits = settings["num_digits"]
    if {len(number) for number in pair} != {digits}:
        of_any_length = Path(__file__).resolve().parents[1] / "beyond/any_length/predict.py"
        raise UserError(
            f"{path} was trained on operands of exactly {digits} digits, without leading zeros; "
            f"for others: {command(of_any_length)} {pair[0]} + {pair[1]}"
        )
    a = [int(digit) for digit in pair[0]]
    b = [int(digit) for digit in pair[1]]
    source = torch.tensor([[*a, PLUS, *b]])
    written = model.generate(source, digits + 1, START)
    logits = model(source, decoder_inputs(written))
    by_digit = margins(logits, written)[0].tolist()
    text = digits_text(written[0])
    start = 1 if text[0] == "0" else 0  # 0506 is shown as 506
    return text[start:], by_digit[start:]


def report(pair: tuple[str, str], text: str, by_digit: list[float], right: str) -> str:
    """Three lines: the sum, whether it is right, and the digits that were closest to being others."""
    smallest = sorted(range(len(text)), key=lambda index: by_digit[index])[:LISTED]
    names = digit_names(len(text))
    listed = [f"{text[index]} ({names[index]}) {by_digit[index]:.1f}" for index in smallest]
    return (
        f"{pair[0]} + {pair[1]} = {text}\n"
        f"{'right' if text == right else f'wrong: it is {right}'}\n"
        f"smallest logit margins (a digit's logit above the next best): {', '.join(listed) or 'none'}"
    )


def main(settings: Settings) -> None:
    pair = read_sum(settings.sum)
    device.start("cpu")
    text, by_digit = predict(pair, settings.model_path)
    print(report(pair, text, by_digit, str(int(pair[0]) + int(pair[1]))))
    print(f"model: {settings.model_path}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
