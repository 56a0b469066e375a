"""What a trained model writes for a sum, whether it is right, and the smallest logit margins.

    python problem1/predict.py 347 + 159                        # the model that train.py made
    python problem1/predict.py 123456789 + 987654321            # longer: the model that text/train.py made
    python problem1/predict.py --model-path try/best_model.pth 347+159    # a model of either kind

The model of train.py was trained on operands with one number of digits (three by default) and is used for these
alone; the model of addition as text reads operands of any length. Leading zeros are left out.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import checkpoint, device
from lab.files import UserError, shown
from lab.settings import parse, run, setting
from lab.statistics import margins
from problem1 import trained
from problem1.dataset import START, SYMBOLS, decoder_inputs
from problem1.generate_data import PLUS
from problem1.text import trained as text
from problem1.text.dataset import right_answer
from problem1.text.trained import Prediction

HERE = Path(__file__).resolve().parent
MODELS = {"digits": HERE / "results" / "best_model.pth", "text": text.MODEL}
SUM = re.compile(r"\s*([0-9]+)\s*\+\s*([0-9]+)\s*=?\s*")
LISTED = 3  # digits with the smallest logit margins
NAMES = ("units", "tens", "hundreds", "thousands")


@dataclass(frozen=True)
class Settings:
    sum: tuple[str, ...] = setting((), "two whole numbers with + between them", metavar="SUM", positional=True)
    model_path: Path | None = setting(None, "use this checkpoint, of either task", metavar="FILE")


def read_sum(words) -> tuple[str, str]:
    """["007", "+", "5"] -> ("7", "5")"""
    line = " ".join(words)
    if not line.strip():
        raise UserError("there is no sum: give one, as in: python problem1/predict.py 123456789 + 987654321")
    match = SUM.fullmatch(line)
    if not match:
        raise UserError(
            f"{shown(line, 60)!r} is not a sum of two whole numbers from 0 on: write it as in 123456789 + 987654321."
        )
    a, b = (number.lstrip("0") or "0" for number in match.groups())
    return a, b


def choose(pair: tuple[str, str], named: Path | None) -> tuple[Path, str]:
    """The checkpoint to use, and why this one."""
    if named is not None:
        return named, "named with --model-path"
    if not MODELS["digits"].exists():
        return MODELS["text"], f"because {MODELS['digits']} does not exist"
    digits = checkpoint.load(MODELS["digits"], trained.KIND)["settings"].get("num_digits")
    if {len(number) for number in pair} == {digits}:
        return MODELS["digits"], f"trained on operands of exactly {digits} digits"
    return MODELS["text"], f"because {MODELS['digits']} was trained on operands of exactly {digits} digits"


def predict(pair: tuple[str, str], path: Path) -> Prediction:
    """By a model of either kind."""
    if checkpoint.load(path, trained.KIND, text.KIND)["kind"] == text.KIND:
        return text.predict(text.load_model(path)[0], [pair])[0]
    return predict_digits(pair, path)


@torch.inference_mode()
def predict_digits(pair: tuple[str, str], path: Path) -> Prediction:
    model, settings = trained.load_model(path)
    digits = settings["num_digits"]
    if {len(number) for number in pair} != {digits}:
        raise UserError(
            f"{path} was trained on operands of exactly {digits} digits, without leading zeros: "
            f"use --model-path {MODELS['text']} for others."
        )
    a, b = ([int(digit) for digit in number] for number in pair)
    source = torch.tensor([[*a, PLUS, *b]])
    written = model.generate(source, digits + 1, START)
    by_digit = margins(model(source, decoder_inputs(written)), written)[0].tolist()
    symbols = [SYMBOLS[token] for token in written[0].tolist()]
    start = 1 if symbols[0] == "0" else 0  # 0506 is shown as 506
    return Prediction(symbols[start:], by_digit[start:], ended=True)


def report(pair: tuple[str, str], prediction: Prediction) -> str:
    digits, by_digit = prediction.symbols, prediction.margins
    smallest = sorted(range(len(digits)), key=lambda index: by_digit[index])[:LISTED]
    names = [*NAMES, *(f"10^{power}" for power in range(len(NAMES), len(digits)))][: len(digits)][::-1]
    listed = [f"{digits[index]} ({names[index]}) {by_digit[index]:.1f}" for index in smallest]
    return (
        f"{pair[0]} + {pair[1]} = {prediction.text}\n"
        f"{'right' if prediction.is_right(pair) else f'wrong: it is {right_answer(pair)}'}\n"
        f"smallest logit margins (a digit's logit above the next best): {', '.join(listed) or 'none'}"
    )


def main(settings: Settings) -> None:
    pair = read_sum(settings.sum)
    device.start("cpu")
    path, why = choose(pair, settings.model_path)
    print(report(pair, predict(pair, path)))
    print(f"model: {path}, {why}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
