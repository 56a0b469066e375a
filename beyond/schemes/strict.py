"""The strict protocol: rows that leave no pair of neighbours out, a model with max pooling, and causal attention.

What is strict: each epoch has fresh rows, half of the unsorted ones with a single swap of two neighbours, so that
only comparing neighbours helps; and the position with the strongest objection decides, as one violation is enough.
"""

import torch
from torch import Tensor

from problem1.attention import create_causal_mask
from problem2.dataset import LARGEST, PAD, Rows, label, relabel
from problem2.model import SortingClassifier, both


class MaxPooling(SortingClassifier):
    """The position with the strongest vote for "not sorted" decides."""

    def pool(self, votes: Tensor, real: Tensor) -> Tensor:
        objection = (votes[..., 0] - votes[..., 1]).masked_fill(~real, torch.finfo(votes.dtype).min)
        # Training takes the smooth maximum, so that every position gets a gradient; the maximum alone learns slowly.
        # Evaluation takes the maximum: the smooth one grows with the length, and would call long sequences unsorted.
        strongest = objection.logsumexp(1) if self.training else objection.amax(1)
        return torch.stack([strongest, -strongest], 1) / 2


class Causal(SortingClassifier):
    """Each position attends only to itself and to earlier ones."""

    def attention_mask(self, real: Tensor) -> Tensor | None:
        earlier = create_causal_mask(real.shape[1], real.device).bool()
        return both(super().attention_mask(real), earlier)


class CausalMaxPooling(Causal, MaxPooling):
    pass


MODELS = {  # (pooling, causal) -> class
    ("mean", False): SortingClassifier,
    ("mean", True): Causal,
    ("max", False): MaxPooling,
    ("max", True): CausalMaxPooling,
}


# --- rows --------------------------------------------------------------------------------------------------------


def sample_rows(
    size: int,
    shortest: int,
    longest: int,
    generator: torch.Generator | None = None,
    adjacent: float = 0.5,
    two_runs: float = 0.0,
    uneven: float = 0.0,
) -> Rows:
    """Fresh rows: half are sorted, and the few of one value alone. Of the others a share `adjacent` has one pair of
    neighbours swapped, a share `two_runs` is two sorted runs one after the other, and the rest is disordered as the
    course's rows are. A share `uneven` of all rows has ties and wide gaps, at the ends as well."""
    lengths = torch.randint(shortest, longest + 1, (size, 1), generator=generator)
    padding = torch.arange(longest) >= lengths
    values = torch.randint(LARGEST + 1, (size, longest), generator=generator)
    some = torch.rand(size, 1, generator=generator) < uneven
    values = torch.where(some, sample_uneven(size, longest, generator), values)
    values = values.masked_fill(padding, PAD)
    runs = sort_in_two(values, lengths, generator)
    values = values.sort(1).values
    mild = swap_neighbours(values, generator)
    rough = shuffle_some(values, lengths, generator)
    kind = 2 * torch.rand(size, 1, generator=generator) - 1  # below 0: sorted
    values = torch.where(kind < 0, values, torch.where(kind < adjacent, mild, rough))
    values = torch.where(kind >= 1 - two_runs, runs, values)
    return Rows(values, label(values))


def sample_uneven(size: int, width: int, generator: torch.Generator | None = None) -> Tensor:
    """[size, width] sampled, in random order: between two random bounds, with gaps from all alike (power 0) to a few
    wide ones and many ties (power 6)."""
    power = 6 * torch.rand(size, 1, generator=generator)
    gaps = torch.rand(size, width, generator=generator).clamp(1e-6, 1 - 1e-6).log().neg() ** power
    gaps[:, 0] = 0
    low, high = (1.4 * torch.rand(size, 2, generator=generator) - 0.2).clamp(0, 1).sort(1).values.split(1, 1)
    share = low + (high - low) * gaps.cumsum(1) / gaps.sum(1, keepdim=True)
    values = ((LARGEST + 1) * share).long().clamp(max=LARGEST)
    return values.gather(1, torch.rand(size, width, generator=generator).argsort(1))


def sort_in_two(values: Tensor, lengths: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """[N, T] cut at a random position, either part sorted: at most one step down, of any size."""
    cut = 1 + (torch.rand(len(values), 1, generator=generator) * (lengths - 1)).long()
    late = (torch.arange(values.shape[1]) >= cut) * (PAD + 1)  # lifts the second part above the first
    return (values + late).sort(1).values - late


def swap_neighbours(values: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One swap of two neighbours that differ in each sorted row [N, T] (none where all values are equal)."""
    steps = (values[:, :-1] < values[:, 1:]) & (values[:, 1:] != PAD)
    position = torch.rand(steps.shape, generator=generator).masked_fill(~steps, -1.0).argmax(1, keepdim=True)
    possible = steps.gather(1, position)
    return torch.where(possible, _swap(values, position, position + 1), values)


def shuffle_some(values: Tensor, lengths: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """max(2, L // 3) swaps of random positions in each sorted row [N, T]; first and last where they cancelled out."""
    swaps = torch.clamp(lengths // 3, min=2)
    for number in range(int(swaps.max())):
        draws = torch.rand(len(values), 2, generator=generator)
        i = (draws[:, :1] * lengths).long()
        j = (i + 1 + (draws[:, 1:] * (lengths - 1)).long()) % lengths  # any position but i
        values = torch.where(number < swaps, _swap(values, i, j), values)
    ends = _swap(values, torch.zeros_like(lengths), lengths - 1)
    return torch.where(label(values).bool().unsqueeze(1), ends, values)


def _swap(values: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """[N, T], [N, 1], [N, 1] -> [N, T] with positions i and j exchanged"""
    return values.scatter(1, i, values.gather(1, j)).scatter(1, j, values.gather(1, i))


def resample(rows: Rows, generator: torch.Generator) -> Rows:
    """For the strict protocol: as many fresh rows, of both kinds and of the same lengths, in place of those given.

    Short rows of evenly spread values lack many pairs of neighbours that other rows have: in long rows neighbours
    differ by 1 or not at all, in some rows by nearly 99. So most rows have uneven gaps, and half of all rows are put
    in bands, most of them narrow.
    """
    device = rows.labels.device
    count, longest = rows.sequences.shape
    shortest, _ = rows.length_range()
    fresh = sample_rows(count, shortest, longest, generator, two_runs=0.25, uneven=0.6)
    in_band = torch.rand(count, 1, generator=generator) < 0.5
    banded = relabel(fresh.sequences, generator, band_exponent=2.0)
    sequences = torch.where(in_band, banded, fresh.sequences)
    return Rows(sequences.to(device), fresh.labels.to(device))
