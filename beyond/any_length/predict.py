"""A sum of any length, as the text model writes it; whether it is right, and the smallest logit margins.

    python beyond/any_length/predict.py 123456789 + 987654321
    python beyond/any_length/predict.py --model-path try/best_model.pth 12+3

Leading zeros are left out. The model of problem1/train.py, for three digits, has problem1/predict.py.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lab.installed

from beyond.any_length.checkpoint import MODEL, load_model, predict
from beyond.any_length.dataset import right_answer
from lab import device
from lab.settings import parse, run, setting
from problem1.predict import read_sum, report

EXAMPLE = "python beyond/any_length/predict.py 123456789 + 987654321"


@dataclass(frozen=True)
class Settings:
    sum: tuple[str, ...] = setting((), "two whole numbers with + between them", metavar="SUM", positional=True)
    model_path: Path = setting(MODEL, "the trained model", metavar="FILE")


def main(settings: Settings) -> None:
    pair = read_sum(settings.sum, EXAMPLE)
    device.start("cpu")
    model, _ = load_model(settings.model_path)
    (prediction,) = predict(model, [pair])
    print(report(pair, prediction.text, prediction.margins, right_answer(pair)))
    if not prediction.ended:
        print("the model did not end its answer in the positions it had")
    print(f"model: {settings.model_path}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
