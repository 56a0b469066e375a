"""Heads by name: record what every attention head does, and ablate or replace any of them.

An attention module called "decoder.1.cross" has heads "decoder.1.cross.head0", "decoder.1.cross.head1", …;
code and JSON keys use these names, and people read the short form, D1.cross.3 (`short_name`). Models take optional
`hooks` and hand them to each attention module; without hooks nothing is recorded or changed.

    hooks = HeadHooks(interventions={"encoder.0.self.head1": zero})
    logits = model(source, target, hooks=hooks)         # the model without that head
    hooks.pattern("decoder.1.cross.head3")              # [B, Tq, Tk]: where it attends
    hooks.output("decoder.1.cross.head3")               # [B, Tq, d_head]: its output, after any intervention
"""

from collections.abc import Callable

import torch
from torch import Tensor

Intervention = Callable[[Tensor], Tensor]  # a head's output [B, Tq, d_head] -> what takes its place


def zero(output: Tensor) -> Tensor:
    """Zero ablation."""
    return torch.zeros_like(output)


def replace(value: Tensor, positions: slice | list[int] = slice(None)) -> Intervention:
    """`value` instead of the head's output, at `positions` (by default all of them).

    `value` broadcasts to [B, Tq, d_head]: a mean output [Tq, d_head] for mean ablation, or another run's outputs
    [B, Tq, d_head] for patching.
    """

    def intervention(output: Tensor) -> Tensor:
        changed = output.clone()
        changed[:, positions] = value.expand_as(output)[:, positions]
        return changed

    return intervention


class HeadHooks:
    """Records what heads do during one forward pass, and applies interventions."""

    def __init__(self, interventions: dict[str, Intervention] | None = None, record: bool = True):
        self.interventions = interventions or {}
        self.record = record
        self.patterns: dict[str, Tensor] = {}  # attention module's name -> [B, H, Tq, Tk]
        self.outputs: dict[str, Tensor] = {}  # attention module's name -> [B, H, Tq, d_head]
        self._unused = set(self.interventions)

    def __call__(self, name: str, outputs: Tensor, patterns: Tensor) -> Tensor:
        """Called by the attention module `name` with outputs [B, H, Tq, d_head]; returns those to go on with."""
        heads = [f"{name}.head{number}" for number in range(outputs.shape[1])]
        if any(head in self.interventions for head in heads):
            unchanged: Intervention = lambda output: output  # noqa: E731
            changed = [self.interventions.get(head, unchanged)(outputs[:, n]) for n, head in enumerate(heads)]
            outputs = torch.stack(changed, dim=1)
            self._unused -= set(heads)
        if self.record:
            self.patterns[name], self.outputs[name] = patterns.detach(), outputs.detach()
        return outputs

    def check(self) -> None:
        """After a forward pass: an intervention that met no head was misspelt, and its experiment means nothing."""
        if self._unused:
            raise KeyError(f"no head is called {sorted(self._unused)[0]}")

    def pattern(self, head: str) -> Tensor:
        module, number = split_name(head)
        return self.patterns[module][:, number]

    def output(self, head: str) -> Tensor:
        module, number = split_name(head)
        return self.outputs[module][:, number]


def split_name(head: str) -> tuple[str, int]:
    """'decoder.1.cross.head3' -> ('decoder.1.cross', 3)"""
    module, _, number = head.rpartition(".head")
    return module, int(number)


def short_name(name: str) -> str:
    """As people read it: 'encoder.1.self.head3' -> 'E1.3', 'decoder.1.cross.head3' -> 'D1.cross.3'.

    Of whole modules: 'decoder.1.cross' -> 'D1.cross', 'encoder.0.feed_forward' -> 'E0.feed-forward'.
    """
    side, layer, *rest = name.split(".")
    parts = [part.removeprefix("head").replace("_", "-") for part in rest]
    if side == "encoder" and len(parts) == 2:
        parts = parts[1:]  # an encoder has no attention but to itself
    return ".".join([side[0].upper() + layer, *parts])
