"""Why does a scheme fail on longer sequences? Positions or distances it never saw, or attention diluted over more keys?

All three come with length, so length alone cannot tell them apart. Each experiment below changes one at a time: the
trained model stays as it is, and its tokens are put at other positions. With training up to 16 tokens:

                        positions and distances as in training     never seen in training
    keys as in training     trained length (16)                    shifted: positions; stretched: distances as well
    many more keys          position interpolation (256)           as it is (256)

Shifting changes no distance, so the relative schemes cannot notice it: their 100% there is an identity, no finding.
Interpolation needs positions between two integers; a table (learned, onehot) rounds them down, so that about 17
neighbours share one row. "clamped" gives every token beyond the trained length the last trained position, which is
what a table that is looked up with a clamped index does.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from problem2.analysis.evaluation import KINDS, judge, logit_differences
from problem2.dataset import Rows, load_test_set
from problem2.model import SortingClassifier

FACTOR = 16  # causes are separated at this many times the longest sequence of training
SHIFT = 528  # beyond every position of training; a multiple of the width would give onehot its own codes again
Move = Callable[[Tensor, int], Tensor]  # positions, longest sequence of training -> other positions


def interpolate(positions: Tensor, trained: int) -> Tensor:
    """A long sequence at fractions between the positions of training."""
    return positions * ((trained - 1) / positions.amax(-1, keepdim=True))


# name -> length as a multiple of the longest of training, and where the tokens are put, if not where they belong
CONDITIONS: dict[str, tuple[int, Move | None]] = {
    "trained length": (1, None),
    "shifted": (1, lambda positions, trained: positions + SHIFT),
    "stretched": (1, lambda positions, trained: positions * FACTOR),
    "as it is": (FACTOR, None),
    "position interpolation": (FACTOR, interpolate),
    "clamped": (FACTOR, lambda positions, trained: positions.clamp(max=trained - 1)),
}


@contextlib.contextmanager
def moved(model: SortingClassifier, move: Move, trained: int = 16):
    """The model with its tokens at other positions, and as before when the block ends."""
    positions = model.scheme.positions
    model.scheme.positions = lambda lengths, width: move(positions(lengths, width), trained)
    try:
        yield model
    finally:
        del model.scheme.positions


def test_sets(data_dir: Path, trained: int) -> dict[str, Rows]:
    """The test sets that the experiments use: {"extrapolation/16": rows, …}"""
    lengths = (trained, FACTOR * trained)
    return {f"{kind}/{length}": load_test_set(data_dir, kind, length) for kind in KINDS for length in lengths}


def measure(model: SortingClassifier, sets: dict[str, Rows], trained: int, known: dict[str, dict]) -> dict[str, dict]:
    """{kind: {condition: numbers of `judge`}}, on the sets of `test_sets`.

    known: the numbers of the unchanged model on some of the sets; they are not measured again.
    """
    report = {}
    for kind in KINDS:
        report[kind] = {}
        for name, (multiple, move) in CONDITIONS.items():
            key = f"{kind}/{trained * multiple}"
            rows = sets[key]
            if move is None and key in known and known[key]["rows"] == len(rows.labels):
                report[kind][name] = known[key]
                continue
            with moved(model, move, trained) if move else contextlib.nullcontext():
                report[kind][name] = judge(logit_differences(model, rows.sequences), rows.labels)
    return report
