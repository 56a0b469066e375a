"""The model on fixed rows, with any of its heads ablated, patched or frozen."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.hooks import HeadHooks, Intervention
from problem1.dataset import Sums, decoder_inputs


@dataclass(frozen=True)
class Recording:
    """One run without interventions."""

    logits: Tensor  # [N, T, vocabulary], on the CPU
    patterns: dict[str, Tensor]  # of each head, [N, Tq, Tk], on the CPU
    outputs: dict[str, Tensor]  # of each head, [N, Tq, d_head], where the model is

    def subset(self, rows: Tensor) -> "Recording":
        def taken(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            return {head: tensor[rows.to(tensor.device)] for head, tensor in tensors.items()}

        return Recording(self.logits[rows], taken(self.patterns), taken(self.outputs))


class InterventionRunner:
    """A model on fixed rows: its logits under any interventions.

    The decoder reads the right digits, or `prefixes` [N, T] where given. The encoder runs again only when the
    interventions in it change.
    """

    def __init__(self, model, sums: Sums, batch_size: int = 1024, prefixes: Tensor | None = None):
        device = next(model.parameters()).device
        self.model, self.sums = model.eval(), sums
        self.prefixes = decoder_inputs(sums.targets) if prefixes is None else prefixes
        sources, inputs = sums.sources.to(device).split(batch_size), self.prefixes.to(device).split(batch_size)
        self.batches = list(zip(sources, inputs, strict=True))
        self._encoded: tuple[dict, list[Tensor]] | None = None  # the encoder's interventions, and its memories

    def subset(self, rows: Tensor) -> "InterventionRunner":
        """The same on some of the rows, in one batch; what is recorded is not run again."""
        sums = Sums(self.sums.sources[rows], self.sums.targets[rows])
        runner = InterventionRunner(self.model, sums, len(rows), self.prefixes[rows])
        runner.recorded = self.recorded.subset(rows)
        return runner

    @cached_property
    @torch.no_grad()
    def recorded(self) -> Recording:
        """The run without interventions, with every head's pattern and output."""
        logits, hooks, memories = [], [], []
        for sources, inputs in self.batches:
            hooks.append(HeadHooks())
            memories.append(self.model.encode(sources, hooks=hooks[-1]))
            logits.append(self.model.decode(inputs, memories[-1], hooks=hooks[-1]).cpu())
        self._encoded = {}, memories
        heads = self.model.head_names()
        patterns = {head: torch.cat([part.pattern(head) for part in hooks]).cpu() for head in heads}
        outputs = {head: torch.cat([part.output(head) for part in hooks]) for head in heads}
        return Recording(torch.cat(logits), patterns, outputs)

    @torch.no_grad()
    def logits(self, interventions: dict[str, Intervention] | None = None) -> Tensor:
        """[N, T, vocabulary]; an intervention must suit every batch (or all rows be in one)."""
        if not interventions:
            return self.recorded.logits
        encoder = {head: change for head, change in interventions.items() if head.startswith("encoder.")}
        decoder = {head: change for head, change in interventions.items() if head not in encoder}
        if self._encoded is None or self._encoded[0] != encoder:
            hooks = HeadHooks(encoder, record=False)
            self._encoded = encoder, [self.model.encode(sources, hooks=hooks) for sources, _ in self.batches]
            hooks.check()
        hooks = HeadHooks(decoder, record=False)
        parts = zip(self.batches, self._encoded[1], strict=True)
        logits = [self.model.decode(inputs, memory, hooks=hooks).cpu() for (_, inputs), memory in parts]
        hooks.check()
        return torch.cat(logits)

    def evaluate(self, interventions: dict[str, Intervention] | None = None) -> tuple[Tensor, float]:
        """Which digits are right, given right ones before them [N, T], and the mean loss.

        A row is right as a whole exactly when greedy decoding would write it (see `score` in dataset.py): that
        holds under interventions too, as long as those at one position do not depend on later ones.
        """
        logits = self.logits(interventions)
        loss = F.cross_entropy(logits.transpose(1, 2), self.sums.targets).item()
        return logits.argmax(-1) == self.sums.targets, loss
