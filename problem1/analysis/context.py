"""What every analysis starts from: a trained model, the rows it is asked about, and where results go.

`Trial` is the one way experiments are run: the model on fixed rows under any interventions of its heads.
`Context` adds the files, and judges first whether the model can add at all: of one that cannot, the numbers
still are what was measured, but they tell nothing about how addition is done.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.files import read_json, write_json
from lab.hooks import HeadHooks, Intervention
from lab.provenance import provenance
from lab.statistics import wilson
from problem1.dataset import Sums, carries, decoder_inputs, longest_chain

CAN_ADD = 0.9  # exact match on the test rows from which on "how does it add" is a question at all
PLACES = ["ones", "tens", "hundreds", "thousands"]
CLASSES = ["no carry", "one carry", "separate carries", "carry chain"]


def places(count: int) -> list[str]:
    """Names of `count` decimal places, most significant first: 3 -> hundreds, tens, ones"""
    names = [PLACES[power] if power < len(PLACES) else f"10^{power}" for power in range(count)]
    return names[::-1]


def source_places(num_digits: int) -> list[str]:
    """Axis labels of the source: a 100, a 10, a 1, +, b 100, b 10, b 1"""
    powers = [str(10**power) if power < 5 else f"10^{power}" for power in range(num_digits)][::-1]
    return [f"a {power}" for power in powers] + ["+"] + [f"b {power}" for power in powers]


def pick(sums: Sums, rows) -> Sums:
    """Some of the rows: an index tensor, a mask or a slice."""
    return Sums(sums.sources[rows], sums.targets[rows])


def join(parts: list[Sums]) -> Sums:
    return Sums(torch.cat([part.sources for part in parts]), torch.cat([part.targets for part in parts]))


def carry_classes(sums: Sums) -> Tensor:
    """[N] index into CLASSES; a chain is two or more neighbouring columns that carry."""
    carry = carries(sums)
    number, chain = carry.sum(1), longest_chain(carry)
    return torch.where(chain > 1, 3, number.clamp(max=2))


class Trial:
    """A model on fixed rows: logits under any interventions. The encoder runs again only when its own interventions change."""

    def __init__(self, model, sums: Sums, batch_size: int = 1024):
        device = next(model.parameters()).device
        self.model, self.sums = model.eval(), sums
        sources, prefixes = sums.sources.to(device), decoder_inputs(sums.targets).to(device)
        self.batches = list(zip(sources.split(batch_size), prefixes.split(batch_size), strict=True))
        self.kept: tuple[dict, list[Tensor]] | None = None  # interventions of the encoder, and the memories they gave

    @torch.no_grad()
    def logits(self, interventions: dict[str, Intervention] | None = None) -> Tensor:
        """[N, T, vocabulary]; an edit must suit every batch (or all rows be in one)."""
        interventions = interventions or {}
        encoder = {name: edit for name, edit in interventions.items() if name.startswith("encoder.")}
        decoder = {name: edit for name, edit in interventions.items() if name not in encoder}
        if self.kept is None or self.kept[0] != encoder:
            hooks = HeadHooks(encoder, record=False)
            self.kept = encoder, [self.model.encode(sources, hooks=hooks) for sources, _ in self.batches]
            hooks.check()
        hooks = HeadHooks(decoder, record=False)
        parts = zip(self.batches, self.kept[1], strict=True)
        out = [self.model.decode(prefixes, memory, hooks=hooks).cpu() for (_, prefixes), memory in parts]
        hooks.check()
        return torch.cat(out)

    @torch.no_grad()
    def record(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Unedited: every head's pattern [N, Tq, Tk] and output [N, Tq, d_head], by its name."""
        recorders = []
        for sources, prefixes in self.batches:
            recorders.append(HeadHooks())
            self.model(sources, prefixes, hooks=recorders[-1])
        names = self.model.head_names()
        patterns = {name: torch.cat([hooks.pattern(name) for hooks in recorders]).cpu() for name in names}
        outputs = {name: torch.cat([hooks.output(name) for hooks in recorders]) for name in names}
        return patterns, outputs

    def right(self, interventions: dict[str, Intervention] | None = None) -> tuple[Tensor, float]:
        """Which digits are right, given right ones before them [N, T], and the mean loss.

        A row is right as a whole exactly when greedy decoding would write it (see `score` in dataset.py): that
        holds for an edited model too, as long as its interventions at one position do not depend on later ones.
        """
        logits = self.logits(interventions)
        loss = F.cross_entropy(logits.transpose(1, 2), self.sums.targets).item()
        return logits.argmax(-1) == self.sums.targets, loss


def share(hits: Tensor) -> dict:
    """How many of [N] are true, with the 95% Wilson interval; None where there are none to count."""
    count, total = int(hits.sum()), len(hits)
    if total == 0:
        return {"share": None, "interval_95": None, "n": 0}
    return {"share": count / total, "interval_95": list(wilson(count, total)), "n": total}


@dataclass
class Context:
    """The model under study, and the folder its results go to."""

    model: torch.nn.Module
    rows: dict[str, Sums]  # train, val and test
    output_dir: Path
    batch_size: int = 1024
    settings: dict = field(default_factory=dict)  # those the model was trained with

    @cached_property
    def test(self) -> Trial:
        return Trial(self.model, self.rows["test"], self.batch_size)

    @cached_property
    def recorded(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Patterns and outputs of all heads on the test rows."""
        return self.test.record()

    @cached_property
    def mean_outputs(self) -> dict[str, Tensor]:
        """Each head's mean output over the test rows, at each position: [Tq, d_head]"""
        return {name: output.mean(0) for name, output in self.recorded[1].items()}

    @cached_property
    def right(self) -> Tensor:
        """[N, T] which digits of the test rows are right."""
        return self.test.right()[0]

    @property
    def heads(self) -> list[str]:
        return self.model.head_names()

    @property
    def num_digits(self) -> int:
        return self.rows["test"].num_digits

    @cached_property
    def accuracy(self) -> float:
        return share(self.right.all(1))["share"]

    @property
    def meaningful(self) -> bool:
        return self.accuracy >= CAN_ADD

    @property
    def warning(self) -> str | None:
        if self.meaningful:
            return None
        return (
            f"This model answers only {self.accuracy:.1%} of the test sums right, so it has not learned to add. "
            "What follows is what was measured, but it says nothing about how addition is done: a head that can "
            "go without loss from a model that fails anyway is not redundant. No conclusions are drawn."
        )

    def caption(self, text: str) -> str:
        """A figure's caption, headed by a warning where the model cannot add."""
        if self.meaningful:
            return text
        return f"WARNING: a model that cannot add (accuracy {self.accuracy:.1%}); no conclusions. {text}"

    def write(self, name: str, numbers: dict) -> dict:
        """Write output_dir/name and return what was written, as a figure may be drawn from it."""
        judged = {"meaningful": self.meaningful, "warning": self.warning, "test_accuracy": self.accuracy}
        write_json(self.output_dir / name, judged | numbers | {"model": self.settings} | self.stamp)
        return read_json(self.output_dir / name, "run analyze.py again.")

    @cached_property
    def stamp(self) -> dict:
        return provenance(next(self.model.parameters()).device)
