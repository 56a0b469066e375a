"""Sorted or not, as tensors: rows on disk, and augmentation that cannot change a label.

    [3, 15, 27, 41, 41, 58]  ->  1      (never a step down; equal neighbours are in order)
    [3, 15, 41, 27, 41, 58]  ->  0

Values 0 to 99 are tokens 0 to 99; 100 pads on the right and is no value.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.files import UserError, read_json
from problem2 import generate_data
from problem2.generate_data import LARGEST, is_sorted

DEFAULT = generate_data.Settings.output_dir  # where the data is, if no other folder is named
PAD, VOCAB_SIZE = LARGEST + 1, LARGEST + 2


@dataclass(frozen=True)
class Rows:
    """Rows as tensors."""

    sequences: Tensor  # [N, T], padded on the right with PAD
    labels: Tensor  # [N] 1 = sorted

    def lengths(self) -> Tensor:
        return (self.sequences != PAD).sum(1)

    def length_range(self) -> tuple[int, int]:
        """The shortest and the longest length."""
        lengths = self.lengths()
        return int(lengths.min()), int(lengths.max())

    def __len__(self) -> int:
        return len(self.labels)

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
    larger = padded[:, :, None] > padded[:, None, :]
    return larger.triu(1).sum((1, 2))


def drawing_weights(rows: Rows) -> Tensor:
    """[N] how often each row is drawn in training: an unsorted one in proportion to 1 / √inversions.

    The course's swaps leave most unsorted rows with dozens of inversions and few with one or two, and nearly all
    errors are among those few. Sorted rows are drawn as often as unsorted ones.
    """
    unsorted = (rows.labels == 0).double() / inversions(rows.sequences).clamp(min=1).sqrt()
    is_sorted = rows.labels.double()
    return unsorted / unsorted.sum().clamp(min=1) + is_sorted / is_sorted.sum().clamp(min=1)


def score(model, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Loss of each row, and whether it is classified correctly: [B], [B]."""
    rows = Rows(*batch)
    logits = model(rows.sequences)
    return F.cross_entropy(logits, rows.labels, reduction="none"), logits.argmax(1) == rows.labels


def by_length(rows: tuple[Tensor, Tensor], batch_size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The same rows in another order: each batch has rows of nearly one length, so that there is hardly any padding to
    compute, and batches come in random order. The rows left over, fewer than a batch, come last, of any length.

    The share of sorted rows differs between batches: the shorter a row is, the fewer inversions it has, and the more
    often it is drawn if it is unsorted (`drawing_weights`).
    """
    lengths = (rows[0] != PAD).sum(1).cpu()
    full = len(lengths) // batch_size * batch_size
    batches = lengths[:full].argsort(stable=True).view(-1, batch_size)
    order = torch.arange(len(lengths))
    order[:full] = batches[torch.randperm(len(batches), generator=generator)].flatten()
    order = order.to(rows[0].device)
    return rows[0][order], rows[1][order]


def score_without_padding(model, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """`score` of the columns that some row fills."""
    sequences, labels = batch
    return score(model, (sequences[:, (sequences != PAD).any(0)], labels))


# --- augmentation: changes that keep the label -----------------------------------------------------------------


def relabel(sequences: Tensor, generator: torch.Generator | None = None, band_exponent: float = 1.0) -> Tensor:
    """Other values in the same order: the distinct values of each row become other distinct values, the smallest
    the smallest and so on, equal ones staying equal. No comparison changes, so neither does the label.

    The new values lie in a band of 0 … 99 of random width. In a narrow band a value says nothing about where it
    belongs, and differences are small: only comparing values with each other helps there. The larger
    `band_exponent`, the more bands are narrow.
    """
    count, width = sequences.shape
    present = torch.zeros(count, VOCAB_SIZE, dtype=torch.long).scatter_(1, sequences.cpu(), 1)[:, :PAD]
    ranks, distinct = present.cumsum(1) - 1, present.sum(1, keepdim=True)
    bands = torch.rand(count, 2, 1, generator=generator)
    spread = distinct + ((PAD - distinct + 1) * bands[:, 0] ** band_exponent).long()  # how many values the band has
    lowest = ((PAD - spread + 1) * bands[:, 1]).long()
    values = torch.arange(PAD)
    keys = torch.rand(count, PAD, generator=generator)
    keys = keys.masked_fill((values < lowest) | (values >= lowest + spread), 2.0)
    chosen = keys.topk(min(width, PAD), largest=False).indices  # a random choice from the band
    chosen = chosen.masked_fill(torch.arange(chosen.shape[1]) >= distinct, PAD).sort(1).values
    table = F.pad(chosen.gather(1, ranks.clamp(0, chosen.shape[1] - 1)), (0, 1), value=PAD)  # [B, 101] old -> new
    return table.to(sequences.device).gather(1, sequences)


def reflect(sequences: Tensor) -> Tensor:
    """Back to front, and v -> 99 - v: two reversals of the order, so the label stays."""
    lengths = (sequences != PAD).sum(1, keepdim=True)
    source = lengths - 1 - torch.arange(sequences.shape[1], device=sequences.device)
    return torch.where(source >= 0, LARGEST - sequences.gather(1, source.clamp(min=0)), PAD)


def replace_one(sequences: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Another value comes and one goes: the mean of two neighbours in order comes between them, then any value goes.
    A row whose label would change stays as it is."""
    device, sequences = sequences.device, sequences.cpu()
    count, width = sequences.shape
    draws = torch.rand(count, width, generator=generator)
    ordered = (sequences[:, :-1] <= sequences[:, 1:]) & (sequences[:, 1:] != PAD)
    left = draws[:, 1:].masked_fill(~ordered, -1.0).argmax(1, keepdim=True)
    comes = (sequences.gather(1, left) + sequences.gather(1, left + 1)) // 2
    place = torch.arange(width + 1)
    longer = F.pad(sequences, (0, 1), value=PAD).gather(1, place - (place > left).long()).scatter(1, left + 1, comes)
    goes = (draws[:, :1] * ((sequences != PAD).sum(1, keepdim=True) + 1)).long()
    changed = longer.gather(1, place[:-1] + (place[:-1] >= goes).long())
    allowed = ordered.any(1) & (label(changed) == label(sequences))
    return torch.where(allowed.unsqueeze(1), changed, sequences).to(device)


def augment(batch: tuple[Tensor, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Each row with up to four values replaced, reflected or not, then relabelled: new rows in every epoch."""
    sequences, labels = batch
    for _ in range(4):
        sequences = replace_one(sequences, generator)
    turn = (torch.rand(len(labels), 1, generator=generator) < 0.5).to(sequences.device)
    return relabel(torch.where(turn, reflect(sequences), sequences), generator), labels


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
    for name, value in (("length", len(row["sequence"])), ("is_sorted", int(is_sorted(row["sequence"])))):
        if row[name] != value or type(row[name]) is not int:
            return f'"{name}" is {row[name]!r}, but must be {value} for this sequence'
    return None


def values_problem(sequence) -> str | None:
    """None, or why this is not a sequence of values."""
    if not isinstance(sequence, list) or not sequence or not all(type(value) is int for value in sequence):
        return "must be a list of at least one whole number"
    outside = [value for value in sequence if not 0 <= value <= LARGEST]
    return f"holds {outside[0]}, which is not between 0 and {LARGEST}" if outside else None


def load_or_generate(data_dir: Path = DEFAULT) -> dict[str, Rows]:
    """train, val and test. In the default folder, data that is missing is generated; any other folder must hold it."""
    names = ("train", "val", "test")
    missing = not any((Path(data_dir) / f"{name}.json").exists() for name in names)
    if missing and Path(data_dir) == DEFAULT:
        print(f"no data in {data_dir} yet: generating it", flush=True)
        generate_data.generate(generate_data.Settings())
    if not Path(data_dir).is_dir():
        raise UserError(
            f"{data_dir} does not exist: correct --data-dir, or generate data there with "
            f"generate_data.py --output-dir {data_dir}."
        )
    return {name: load(Path(data_dir) / f"{name}.json") for name in names}


def load_test_set(data_dir: Path, kind: str, length: int) -> Rows:
    """The test set of one length, generated first if it is missing; kind is "extrapolation" or "adjacent"."""
    path = Path(data_dir) / kind / f"test_len_{length}.json"
    if not path.exists():
        generate_data.write_rows(path, generate_data.test_set(kind, length))
    return load(path)
