"""Sorted or not, as tensors: rows on disk, and augmentation that cannot change a label.

    [3, 15, 27, 41, 41, 58]  ->  1      (never a step down; equal neighbours are in order)
    [3, 15, 41, 27, 41, 58]  ->  0

Values 0 to 99 are tokens 0 to 99; 100 pads on the right and is no value.
"""

import sys
from pathlib import Path
from typing import NamedTuple

if not __package__:  # for a script in this folder that says `from dataset import …`
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.files import UserError, read_json
from problem2 import generate_data
from problem2.generate_data import LARGEST, is_sorted

DEFAULT = generate_data.Settings.output_dir  # where the data is, if no other folder is named
PAD = LARGEST + 1
VOCAB_SIZE = LARGEST + 2


class Rows(NamedTuple):
    """Rows as tensors, from the file to the model. How many there are: len(rows.labels)."""

    sequences: Tensor  # [N, T], padded on the right with PAD
    labels: Tensor  # [N] 1 = sorted

    def lengths(self) -> Tensor:
        """[N] without the padding"""
        return (self.sequences != PAD).sum(1)

    def length_range(self) -> tuple[int, int]:
        """The shortest and the longest length."""
        lengths = self.lengths()
        return int(lengths.min()), int(lengths.max())

    def part(self, chosen) -> "Rows":
        """The chosen rows (a slice, indices or a mask)."""
        return Rows(self.sequences[chosen], self.labels[chosen])


def to_rows(sequences: list[list[int]]) -> Rows:
    """Lists of values, of any lengths, labelled."""
    tensors = [torch.tensor(sequence) for sequence in sequences]
    padded = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)
    return Rows(padded, label(padded))


def descents(sequences: Tensor) -> Tensor:
    """[N, T] -> [N, T-1] True where a value is larger than the next: what makes a sequence unsorted"""
    return (sequences[:, :-1] > sequences[:, 1:]) & (sequences[:, 1:] != PAD)


def label(sequences: Tensor) -> Tensor:
    """[N, T] -> [N] 1 where nothing descends"""
    return (~descents(sequences).any(1)).long()


def inversions(sequences: Tensor) -> Tensor:
    """[N, T] -> [N] how many pairs of values are in the wrong order, neighbours or not: 0 where sorted"""
    padded = sequences.masked_fill(sequences == PAD, LARGEST)  # on the right, in order with everything
    larger = padded[:, :, None] > padded[:, None, :]  # [N, T, T]: at i, j whether value i is above value j
    return larger.triu(1).sum((1, 2))  # j to the right of i


def drawing_weights(rows: Rows) -> Tensor:
    """[N] how often each row is drawn in training: an unsorted one in proportion to 1 / √inversions.

    The course's swaps leave most unsorted rows with dozens of inversions and few with one or two, and nearly all
    errors are among those few. Sorted rows are drawn as often as unsorted ones.
    """
    is_unsorted = (rows.labels == 0).double()
    is_sorted = rows.labels.double()
    unsorted = is_unsorted / inversions(rows.sequences).clamp(min=1).sqrt()
    # Each class adds up to 1; a class without rows stays 0.
    return unsorted / unsorted.sum().clamp(min=1) + is_sorted / is_sorted.sum().clamp(min=1)


def score(model, rows: Rows) -> tuple[Tensor, Tensor]:
    """Loss of each row, and whether it is classified correctly: [B], [B]."""
    logits = model(rows.sequences)
    losses = F.cross_entropy(logits, rows.labels, reduction="none")
    return losses, logits.argmax(1) == rows.labels


def score_without_padding(model, rows: Rows) -> tuple[Tensor, Tensor]:
    """`score` of the columns that some row fills."""
    filled = (rows.sequences != PAD).any(0)
    return score(model, Rows(rows.sequences[:, filled], rows.labels))


def batches_of_one_length(rows: Rows, batch_size: int, generator: torch.Generator) -> Rows:
    """The same rows in another order: each batch has rows of nearly one length, so that there is hardly any padding to
    compute, and batches come in random order. The rows left over, fewer than a batch, come last, of any length.

    The share of sorted rows differs between batches: the shorter a row is, the fewer inversions it has, and the more
    often it is drawn if it is unsorted (`drawing_weights`).
    """
    lengths = rows.lengths().cpu()
    full = len(lengths) // batch_size * batch_size  # how many rows fill whole batches
    shortest_first = lengths[:full].argsort(stable=True)
    batches = shortest_first.view(-1, batch_size)  # a line of indices for each batch
    batches = batches[torch.randperm(len(batches), generator=generator)]
    order = torch.arange(len(lengths))
    order[:full] = batches.flatten()
    return rows.part(order.to(rows.labels.device))


# --- augmentation: changes that keep the label -----------------------------------------------------------------


def augment(rows: Rows, generator: torch.Generator) -> Rows:
    """Each row with up to four values replaced, reflected or not, then relabelled: new rows in every epoch."""
    sequences = rows.sequences
    for _ in range(4):
        sequences = replace_one(sequences, generator)
    turn = torch.rand(len(sequences), 1, generator=generator) < 0.5
    sequences = torch.where(turn.to(sequences.device), reflect(sequences), sequences)
    return Rows(relabel(sequences, generator), rows.labels)


def relabel(sequences: Tensor, generator: torch.Generator | None = None, band_exponent: float = 1.0) -> Tensor:
    """Other values in the same order: the distinct values of each row become other distinct values, the smallest
    the smallest and so on, equal ones staying equal. No comparison changes, so neither does the label.

        [3, 15, 41, 27, 41]  ->  [50, 52, 60, 53, 60]      3 < 15 < 27 < 41  become  50 < 52 < 53 < 60

    The new values lie in a band of 0 … 99 of random width. In a narrow band a value says nothing about where it
    belongs, and differences are small: only comparing values with each other helps there. The larger
    `band_exponent`, the more bands are narrow.
    """
    count, width = sequences.shape
    # Which of the values 0 … 99 a row has, how many that are, and the rank of each among them.
    present = torch.zeros(count, VOCAB_SIZE, dtype=torch.long)
    present.scatter_(1, sequences.cpu(), 1)
    present = present[:, :PAD]
    distinct = present.sum(1, keepdim=True)
    ranks = present.cumsum(1) - 1
    # The band: at least as many values as are needed, from `lowest` on.
    random = torch.rand(count, 2, 1, generator=generator)
    spread = distinct + ((PAD - distinct + 1) * random[:, 0] ** band_exponent).long()
    lowest = ((PAD - spread + 1) * random[:, 1]).long()
    # A random choice from the band: the values with the smallest random keys; outside the band a key is larger.
    values = torch.arange(PAD)
    outside = (values < lowest) | (values >= lowest + spread)
    keys = torch.rand(count, PAD, generator=generator).masked_fill(outside, 2.0)
    chosen = keys.topk(min(width, PAD), largest=False).indices
    # As many as are needed, in ascending order; PAD, above all values, fills the rest.
    chosen = chosen.masked_fill(torch.arange(chosen.shape[1]) >= distinct, PAD).sort(1).values
    # From an old value by its rank to the new one. (A value that the row lacks gets one, too, which nobody reads.)
    table = chosen.gather(1, ranks.clamp(0, chosen.shape[1] - 1))
    table = F.pad(table, (0, 1), value=PAD)  # padding stays padding
    return table.to(sequences.device).gather(1, sequences)


def reflect(sequences: Tensor) -> Tensor:
    """Back to front, and v -> 99 - v: two reversals of the order, so the label stays."""
    lengths = (sequences != PAD).sum(1, keepdim=True)
    source = lengths - 1 - torch.arange(sequences.shape[1], device=sequences.device)  # negative at padding
    reflected = LARGEST - sequences.gather(1, source.clamp(min=0))
    return torch.where(source >= 0, reflected, PAD)


def replace_one(sequences: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Another value comes and one goes: the mean of two neighbours in order comes between them, then any value goes.
    A row whose label would change stays as it is.

        [3, 15, 41, 27]  ->  [3, 9, 15, 41, 27]  ->  [3, 9, 41, 27]      9 comes between 3 and 15, 15 goes
    """
    device = sequences.device
    sequences = sequences.cpu()
    count, width = sequences.shape
    random = torch.rand(count, width, generator=generator)
    # A random one of the pairs in order, by its left position [N, 1]: that with the largest random number.
    ordered = (sequences[:, :-1] <= sequences[:, 1:]) & (sequences[:, 1:] != PAD)
    left = random[:, 1:].masked_fill(~ordered, -1.0).argmax(1, keepdim=True)
    comes = (sequences.gather(1, left) + sequences.gather(1, left + 1)) // 2
    # The row one longer: all positions after `left` take the value before them, and the first of these the new one.
    place = torch.arange(width + 1)
    longer = F.pad(sequences, (0, 1), value=PAD)
    longer = longer.gather(1, place - (place > left).long())
    longer = longer.scatter(1, left + 1, comes)
    # One shorter again: from the position that goes on, each takes the value after it.
    lengths = (sequences != PAD).sum(1, keepdim=True)
    goes = (random[:, :1] * (lengths + 1)).long()
    changed = longer.gather(1, place[:-1] + (place[:-1] >= goes).long())
    allowed = ordered.any(1) & (label(changed) == label(sequences))
    return torch.where(allowed.unsqueeze(1), changed, sequences).to(device)


# --- rows on disk ----------------------------------------------------------------------------------------------


def load(path: Path) -> Rows:
    """A file of rows as tensors, every row checked: a wrong label would teach a wrong model."""
    path = Path(path)
    hint = "correct it, or generate it again with generate_data.py."
    rows = read_json(path, hint)
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path} must hold a list of at least one row: {hint}")
    for number, row in enumerate(rows, 1):
        problem = _row_problem(row)
        if problem:
            raise UserError(f"{path}, row {number}: {problem}; {hint}")
    return to_rows([row["sequence"] for row in rows])


def _row_problem(row) -> str | None:
    """None, or what is wrong with a row."""
    if not isinstance(row, dict) or not {"sequence", "is_sorted", "length"} <= set(row):
        return 'not of the form {"sequence": […], "is_sorted": 0 or 1, "length": L}'
    problem = values_problem(row["sequence"])
    if problem:
        return f'"sequence" {problem}'
    right = {"length": len(row["sequence"]), "is_sorted": int(is_sorted(row["sequence"]))}
    for name, value in right.items():
        if row[name] != value or type(row[name]) is not int:
            return f'"{name}" is {row[name]!r}, but must be {value} for this sequence'
    return None


def values_problem(sequence) -> str | None:
    """None, or why this is not a sequence of values."""
    if not isinstance(sequence, list) or not sequence or not all(type(value) is int for value in sequence):
        return "must be a list of at least one whole number"
    for value in sequence:
        if not 0 <= value <= LARGEST:
            return f"holds {value}, which is not between 0 and {LARGEST}"
    return None


def load_or_generate(data_dir: Path = DEFAULT) -> dict[str, Rows]:
    """train, val and test. In the default folder, data that is missing is generated; any other folder must hold it."""
    data_dir = Path(data_dir)
    paths = {name: data_dir / f"{name}.json" for name in ("train", "val", "test")}
    if data_dir == DEFAULT and not any(path.exists() for path in paths.values()):
        print(f"no data in {data_dir} yet: generating it", flush=True)
        generate_data.generate(generate_data.Settings())
    if not data_dir.is_dir():
        raise UserError(
            f"{data_dir} does not exist: correct --data-dir, or generate data there with "
            f"generate_data.py --output-dir {data_dir}."
        )
    return {name: load(path) for name, path in paths.items()}


def load_test_set(data_dir: Path, kind: str, length: int) -> Rows:
    """The test set of one length; kind is "extrapolation" or "adjacent".

    One that is missing is generated first, with the default seed: test sets do not depend on the training rows.
    """
    path = Path(data_dir) / kind / f"test_len_{length}.json"
    if not path.exists():
        generate_data.write_rows(path, generate_data.test_set(kind, length))
    return load(path)
