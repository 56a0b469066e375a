"""Train the transformer on addition: results/best_model.pth, training_log.json, training_curves.png.

    python problem1/train.py                                # data is made if it is missing; about a minute
    python problem1/train.py --epochs 5 --output-dir try    # a short try elsewhere
    python problem1/train.py --resume                       # go on where a stopped run was
    torchrun --nproc_per_node=2 problem1/train.py           # several processes, each a share of every batch
    python problem1/train.py --task text                    # addition as text, any length (problem1/text/train.py)

Accuracy is exact match: the whole answer right, first digit included.
"""

import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.settings import as_plain, from_plain, parse, peek, run, setting

if __name__ == "__main__" and peek("task") == "text":  # another task, in a room of its own
    runpy.run_path(str(Path(__file__).resolve().parent / "text" / "train.py"), run_name="__main__")
    sys.exit()

from lab import checkpoint, parallel
from lab.files import UserError
from lab.training import Recipe, Task, evaluate, train
from problem1.dataset import VOCAB_SIZE, load_or_generate, score, seen_in, swap_columns
from problem1.generate_data import LONGEST
from problem1.model import Seq2SeqTransformer

HERE = Path(__file__).resolve().parent
KIND = "problem1/digits"
TASKS = ("digits", "text")
PRECISIONS = {"float32": "highest", "bfloat16": "medium"}  # flag -> PyTorch's name for how products are computed


@dataclass(frozen=True)
class Settings:
    task: str = setting("digits", "digits: this one; text: sums of any length (see --task text --help)", choices=TASKS)
    data_dir: Path = setting(HERE / "data", "folder of train.json, val.json and test.json", metavar="DIR")
    output_dir: Path = setting(HERE / "results", "folder for checkpoints, log and curves", metavar="DIR")
    batch_size: int = setting(64, "rows in a step", minimum=1)
    epochs: int = setting(32, "passes over the training rows", minimum=1)
    lr: float = setting(2e-3, "highest learning rate, after the warm-up", minimum=0)
    d_model: int = setting(64, "width of the model", minimum=1, maximum=8192)
    num_heads: int = setting(4, "attention heads in each attention", minimum=1, maximum=8192)
    num_layers: int = setting(2, "layers of the encoder, and of the decoder", minimum=1, maximum=64)
    d_ff: int = setting(256, "inner width of the feed-forward layers", minimum=1, maximum=65536)
    dropout: float = setting(0.0, "share of activations dropped while training", minimum=0, maximum=0.9)
    weight_decay: float = setting(0.5, "AdamW's pull of the weights towards zero", minimum=0)
    average: float = setting(
        0.995,
        "share of itself that the running mean of the weights keeps in a step; the mean is what is validated and "
        "kept (0: the weights of the moment)",
        minimum=0,
        maximum=0.9999,
    )
    precision: str = setting(
        "float32",
        "of matrix products in training; bfloat16 is faster for large batches on processors that have it, and less "
        "sure of the rarest sums",
        choices=(*PRECISIONS,),
    )
    device: str = setting("auto", "cpu, cuda or mps; auto takes the fastest there is")
    seed: int = setting(641, "seed of weights, order of rows and augmentation", minimum=0)
    resume: bool = setting(False, "go on after the last finished epoch of an interrupted run")


def build(settings: Settings, num_digits: int) -> Seq2SeqTransformer:
    layers, longest = settings.num_layers, 2 * num_digits + 2
    return Seq2SeqTransformer(
        VOCAB_SIZE,
        settings.d_model,
        settings.num_heads,
        layers,
        layers,
        settings.d_ff,
        settings.dropout,
        longest,
    )


def recipe(settings: Settings) -> Recipe:
    changes = {"weight_decay": settings.weight_decay, "average": settings.average}
    return Recipe(settings.epochs, settings.batch_size, settings.lr, **changes)


def load_model(path: Path, device: torch.device | str = "cpu") -> tuple[Seq2SeqTransformer, Settings, int]:
    """A checkpoint's model, ready to be asked, its settings and the digits of its operands."""
    loaded = checkpoint.load(path, KIND)
    settings = from_plain(Settings, loaded["settings"], str(path))
    num_digits = loaded["settings"].get("num_digits")
    if type(num_digits) is not int or not 1 <= num_digits <= LONGEST or settings.d_model % settings.num_heads:
        raise UserError(f"{path} has settings of which no model can be built: {checkpoint.REMEDY}")
    model = checkpoint.rebuild(lambda: build(settings, num_digits), loaded["model"], path)
    return model.to(device).eval(), settings, num_digits


def main(settings: Settings) -> None:
    device = parallel.start(settings.device)
    if settings.d_model % settings.num_heads:
        raise UserError(
            f"--d-model {settings.d_model} cannot be shared among --num-heads {settings.num_heads} heads: "
            "choose a multiple."
        )
    with parallel.lead_first():
        rows = load_or_generate(settings.data_dir)
    num_digits = rows["train"].num_digits
    torch.set_float32_matmul_precision(PRECISIONS[settings.precision])
    torch.manual_seed(settings.seed)
    model = build(settings, num_digits).to(device)
    task = Task(KIND, *((sums.sources, sums.targets) for sums in rows.values()), score, swap_columns)
    log = train(
        model,
        task,
        recipe(settings),
        as_plain(settings) | {"num_digits": num_digits},
        settings.output_dir,
        settings.seed,
        settings.resume,
    )
    # A score on sums that training cannot have shown it, with no digits swapped within columns either.
    new = ~seen_in(rows["test"], rows["train"])
    _, accuracy = evaluate(model, (rows["test"].sources[new], rows["test"].targets[new]), score)
    if parallel.rank() == 0:
        shown = len(new) - int(new.sum())
        print(
            f"test: {log['test_acc']:.2%} of {len(new):,} sums right. {shown:,} of them come of a training pair by "
            f"swapping digits within columns; of the {len(new) - shown:,} others {accuracy:.2%} are right. "
            f"{log['seconds']:.0f} s; everything is in {settings.output_dir}"
        )
    parallel.stop()


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
