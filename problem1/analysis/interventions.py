"""The model on fixed rows, with any of its heads and feed-forward layers ablated, patched or frozen.

Heads go by the names of lab/hooks.py, feed-forward layers by "encoder.0.feed_forward" … "decoder.1.feed_forward".
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.hooks import HeadHooks, Intervention
from problem1.dataset import Sums, decoder_inputs
from problem1.model import FeedForward


def feed_forward_layers(model) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, FeedForward)]


@contextmanager
def feed_forward_hooks(model, interventions: dict[str, Intervention], keep: dict[str, list] | None = None) -> Iterator:
    """Change the outputs of feed-forward layers, and append each to keep[name], while the context lasts."""

    def hook(name: str):
        def change(module, inputs, output: Tensor) -> Tensor:
            output = interventions[name](output) if name in interventions else output
            if keep is not None:
                keep.setdefault(name, []).append(output)
            return output

        return change

    wanted = [name for name in feed_forward_layers(model) if keep is not None or name in interventions]
    handles = [model.get_submodule(name).register_forward_hook(hook(name)) for name in wanted]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


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
        device = next(model.parameters()).device
        self.model, self.sums = model.eval(), sums
        self.prefixes = decoder_inputs(sums.targets) if prefixes is None else prefixes
        sources, inputs = sums.sources.to(device).split(batch_size), self.prefixes.to(device).split(batch_size)
        self.batches = list(zip(sources, inputs, strict=True))
        self._encoded: tuple[dict, list[Tensor]] | None = None  # the encoder's interventions, and its memories

    @cached_property
    @torch.no_grad()
    def recorded(self) -> Recording:
        """The run without interventions, with every head's pattern and every output."""
        logits, hooks, memories, layers = [], [], [], {}
        with feed_forward_hooks(self.model, {}, layers):
            for sources, inputs in self.batches:
                hooks.append(HeadHooks())
                memories.append(self.model.encode(sources, hooks=hooks[-1]))
                logits.append(self.model.decode(inputs, memories[-1], hooks=hooks[-1]).cpu())
        self._encoded = {}, memories
        heads = self.model.head_names()
        patterns = {head: torch.cat([part.pattern(head) for part in hooks]).cpu() for head in heads}
        outputs = {head: torch.cat([part.output(head) for part in hooks]) for head in heads}
        outputs |= {name: torch.cat(parts) for name, parts in layers.items()}
        return Recording(torch.cat(logits), patterns, outputs)

    @torch.no_grad()
    def logits(self, interventions: dict[str, Intervention] | None = None) -> Tensor:
        """[N, T, vocabulary]; an intervention must suit every batch (or all rows be in one)."""
        if not interventions:
            return self.recorded.logits
        encoder = {name: change for name, change in interventions.items() if name.startswith("encoder.")}
        decoder = {name: change for name, change in interventions.items() if name not in encoder}
        layers = set(feed_forward_layers(self.model))
        if self._encoded is None or self._encoded[0] != encoder:
            hooks = HeadHooks({name: encoder[name] for name in encoder.keys() - layers}, record=False)
            with feed_forward_hooks(self.model, encoder):
                self._encoded = encoder, [self.model.encode(sources, hooks=hooks) for sources, _ in self.batches]
            hooks.check()
        hooks = HeadHooks({name: decoder[name] for name in decoder.keys() - layers}, record=False)
        parts = zip(self.batches, self._encoded[1], strict=True)
        with feed_forward_hooks(self.model, decoder):
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
