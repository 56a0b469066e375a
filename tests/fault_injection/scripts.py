"""Every script with small inputs of its own."""

import shutil
from collections import ChainMap
from pathlib import Path

from beyond.any_length.dataset import generate
from lab.files import write_text
from tests.fault_injection.disturb import ROOT, run

OPTIONS = {
    "MODEL": "--d-model 16 --d-ff 16 --num-heads 2 --dropout 0.1 --epochs 16 --device cpu",
    "TINY": "--d-model 8 --d-ff 8 --num-heads 1 --epochs 1 --device cpu",
    "LAYER": "--num-layers 1",
    "SIZES": "--train-size 2000 --val-size 200 --test-size 200",
    "NONE": "--encoding none",
    "SEQUENCE": "--sequence 3 9 --device cpu --results-dir",
    "FEW": "--train-size 3 --val-size 2 --test-size 2",
}
TRAIN1 = "problem1/train.py MODEL LAYER --data-dir {rows1} --output-dir {out}"
TRAIN_TEXT = "beyond/any_length/train.py MODEL --epoch-rows 1280 --data-dir {rows_text} --output-dir {out}"
TRAIN2 = "problem2/train.py MODEL LAYER --encoding learned --max-len 600 --data-dir {rows2} --output-dir {out}"
ANALYZE1 = "problem1/analyze.py --num-samples 2 --device cpu --data-dir {rows1} --output-dir {out}"
ANALYZE_TEXT = "beyond/any_length/analyze.py --num-samples 20 --output-dir {out}"
ANALYZE2 = "problem2/analyze.py --test-lengths 20 24 --device cpu --output-dir {out}"
STUDY = (
    "beyond/schemes/study.py --encoding none --protocols course --seeds 1 --epochs 2 --lengths 20 --output-dir {out}"
)
PREDICT = "problem1/predict.py 34+56 --model-path"
PREDICT_TEXT = "beyond/any_length/predict.py 34+56 --model-path"
INPUTS = {
    "rows1": "problem1/generate_data.py --num-digits 2 SIZES --output-dir {out}",
    "rows2": "problem2/generate_data.py SIZES --generate-extrapolation --output-dir {out}",
    "few1": "problem1/generate_data.py --num-digits 2 FEW --output-dir {out}",
    "few2": "problem2/generate_data.py FEW --output-dir {out}",
    "model1": TRAIN1,
    "model_text": TRAIN_TEXT,
    "model2": TRAIN2,
}
# Each epoch is better than the one before, so that a checkpoint of the first is noticed where the last one's belongs.
RESTARTED = TRAIN1 + " --d-model 32 --d-ff 32 --dropout 0 --lr 0.02 --epochs 3"
# Every script that is disturbed, and how many kills it gets.
JOBS = {
    "problem1/generate_data.py --num-digits 40 --train-size 30000 --output-dir {out}": 5,
    TRAIN1: 9,
    ANALYZE1 + " --model-path {model1}/best_model.pth": 5,
    PREDICT + " {model1}/best_model.pth": 2,
    TRAIN_TEXT: 9,
    ANALYZE_TEXT + " --model-path {model_text}/best_model.pth": 5,
    "problem2/generate_data.py --train-size 30000 --generate-extrapolation --output-dir {out}": 5,
    TRAIN2: 9,
    ANALYZE2 + " --results-dir {model2} --data-dir {rows2}": 4,
    STUDY + " --data-dir {rows2}": 3,
    "beyond/rounding/analyze.py --model-path {model1}/best_model.pth --data-dir {rows1} --output-dir {out}": 3,
    "{tree}/report/build.py --output {out}/report.pdf": 3,
    "-m grading {model1} --json {out}/grade.json": 3,
}
# What is read: a folder, the files in it that are malformed, how many there are, and the command that reads them.
READERS = {
    "rows of addition": ("few1", "train.json", 280, "problem1/train.py TINY --data-dir {live} --output-dir {out}"),
    "rows of text": (
        "few_text",
        "train.json",
        280,
        "beyond/any_length/train.py TINY --data-dir {live} --output-dir {out}",
    ),
    "rows of sorting": ("few2", "train.json", 280, "problem2/train.py TINY NONE --data-dir {live} --output-dir {out}"),
    "checkpoint of addition": ("model1", "best_model.pth", 520, PREDICT + " {live}/best_model.pth"),
    "checkpoint of text": ("model_text", "best_model.pth", 520, PREDICT_TEXT + " {live}/best_model.pth"),
    "checkpoint of sorting": ("model2", "learned/best_model.pth", 520, "problem2/analyze.py SEQUENCE {live}"),
    "last.pth": ("model1", "last.pth", 100, TRAIN1.replace("{out}", "{live} --resume")),
    "finished run": ("model1", "*.json", 60, "problem1/train.py TINY --data-dir {few1} --output-dir {live}"),
    "results for the report": ("tree", "problem1/results/*", 100, "{live}/report/build.py --output {live}/report.pdf"),
    "submission": ("submission", "**/*", 250, "-m grading {live} --json -"),
}


class Inputs(dict):
    """Folders by name, each made when it is first asked for."""

    def __init__(self, work: Path):
        self.work = work

    def __missing__(self, name: str) -> Path:
        folder = self.work / name
        if name in INPUTS:
            code, errors = run(self.command(INPUTS[name], out=folder))
            if code:
                raise RuntimeError(f"{name} cannot be made: {errors}")
        else:
            {"tree": tree, "submission": submission}.get(name, text_rows)(folder)
        self[name] = folder
        return folder

    def command(self, template: str, **paths) -> list[str]:
        words = " ".join(OPTIONS.get(word, word) for word in template.split()).split()
        return [word.format_map(ChainMap(paths, self)) for word in words]


def text_rows(folder: Path) -> None:
    """Sums as text of numbers with one or two digits; or a few of them."""
    few = folder.name == "few_text"
    generate(folder, {"train": 3 if few else 2000, "val": 3 if few else 200, "test": 3 if few else 200}, max_digits=2)


def tree(folder: Path) -> None:
    """A report that reads one result, with the report/build.py and the lab/ of this repository."""
    shutil.copytree(ROOT / "lab", folder / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    lines = ["#set document(date: none)", '#let result = json("/problem1/results/numbers.json")', "#result.errors", ""]
    write_text(folder / "report/report.typ", "\n".join(lines))
    write_text(folder / "problem1/results/numbers.json", '{"errors": 0}\n')
    shutil.copy(ROOT / "report/build.py", folder / "report")


def submission(folder: Path) -> None:
    """This repository's results, as if somebody had handed them in."""
    for part in (".", "head_analysis", "sinusoidal", "learned", "none", "extrapolation"):
        for place in ROOT.glob(f"problem*/results/{part}"):
            for path in [*place.glob("*.json"), *place.glob("best_model.pth")]:
                (folder / place.relative_to(ROOT)).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, folder / path.relative_to(ROOT))
