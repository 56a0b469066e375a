"""The model on fixed rows, with any of its heads and feed-forward layers ablated, patched or frozen.

Heads go by the names of lab/hooks.py, feed-forward layers by "encoder.0.feed_forward" … "decoder.1.feed_forward".
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.hooks import Hooks, Intervention, feed_forward_layers, head_names
from problem1.dataset import Sums, decoder_inputs


@dataclass(frozen=True)
class Recording:
    """One run without interventions."""

    logits: Tensor  # [N, T, vocabulary], on the CPU
    patterns: dict[str, Tensor]  # of each head, [N, Tq, Tk], on the CPU
    outputs: dict[str, Tensor]  # of each head [N, Tq, d_head], of each feed-forward layer [N, Tq, d_model]


class InterventionRunner:
    """A model on fixed rows: its logits under any interventions.

    The decoder reads the right digits, or `prefixes` [N, T] where given. The encoder runs again only when the
    interventions in it change.
    """

    def __init__(self, model, sums: Sums, batch_size: int = 1024, prefixes: Tensor | None = None):
        self.model = model.eval()
        self.sums = sums
        self.prefixes = decoder_inputs(sums.targets) if prefixes is None else prefixes
        self.in_encoder = {*head_names(model, "encoder"), *feed_forward_layers(model, "encoder")}
        device = next(model.parameters()).device
        sources = sums.sources.to(device).split(batch_size)
        inputs = self.prefixes.to(device).split(batch_size)
        self.batches = list(zip(sources, inputs, strict=True))
        self._encoded: tuple[dict, list[Tensor]] | None = None  # the encoder's interventions, and its memories

    @cached_property
    @torch.no_grad()
    def recorded(self) -> Recording:
        """The run without interventions, with every head's pattern and every output."""
        logits = []
        memories = []
        recordings = []
        for sources, inputs in self.batches:
            with Hooks(self.model) as hooks:
                memories.append(self.model.encode(sources))
                logits.append(self.model.decode(inputs, memories[-1]).cpu())
            recordings.append(hooks)
        self._encoded = {}, memories
        names = head_names(self.model)
        patterns = {name: torch.cat([part.pattern(name) for part in recordings]).cpu() for name in names}
        names += feed_forward_layers(self.model)
        outputs = {name: torch.cat([part.output(name) for part in recordings]) for name in names}
        return Recording(torch.cat(logits), patterns, outputs)

    @torch.no_grad()
    def logits(self, interventions: dict[str, Intervention] | None = None) -> Tensor:
        """[N, T, vocabulary]; an intervention must suit every batch (or all rows be in one)."""
        if not interventions:
            return self.recorded.logits
        encoder = {name: change for name, change in interventions.items() if name in self.in_encoder}
        decoder = {name: change for name, change in interventions.items() if name not in self.in_encoder}
        if self._encoded is None or self._encoded[0] != encoder:
            with Hooks(self.model, encoder):
                self._encoded = encoder, [self.model.encode(sources) for sources, _ in self.batches]
        logits = []
        with Hooks(self.model, decoder):
            for (_, inputs), memory in zip(self.batches, self._encoded[1], strict=True):
                logits.append(self.model.decode(inputs, memory).cpu())
        return torch.cat(logits)

    def right_and_loss(self, interventions: dict[str, Intervention] | None = None) -> tuple[Tensor, float]:
        """Which digits are right, given right ones before them [N, T], and the mean loss.

        A row is right as a whole exactly when greedy decoding would write it (see `score` in dataset.py): that
        holds under interventions too, as long as those at one position do not depend on later ones.
        """
        logits = self.logits(interventions)
        loss = F.cross_entropy(logits.transpose(1, 2), self.sums.targets).item()
        return logits.argmax(-1) == self.sums.targets, loss
