"""Heads by name: read every attention head's pattern and output, and scale, zero or replace any of them.

An attention module called "decoder.1.cross" has heads "decoder.1.cross.head0", "decoder.1.cross.head1", …;
code, JSON keys and figure titles all use these names. Models take an optional `tap` and hand it to each
attention; without one nothing is recorded, changed or paid for.

    tap = HeadTap(edits={"encoder.0.self.head1": zero})
    logits = model(source, target, tap=tap)             # the model without that head
    tap.pattern("decoder.1.cross.head3")                # [B, Tq, Tk]: where it looked
    tap.output("decoder.1.cross.head3")                 # [B, Tq, d_head]: what it said, after any edit
"""

from collections.abc import Callable

import torch
from torch import Tensor

Edit = Callable[[Tensor], Tensor]  # a head's output [B, Tq, d_head] -> what stands in its place


def zero(output: Tensor) -> Tensor:
    """The head says nothing."""
    return torch.zeros_like(output)


def scale(factor: float) -> Edit:
    """The head speaks `factor` times as loud."""
    return lambda output: output * factor


def replace(value: Tensor, positions: slice | list[int] = slice(None)) -> Edit:
    """At `positions` (all of them, if none are named) the head says `value` instead.

    `value` broadcasts to [B, Tq, d_head]: a mean output [Tq, d_head], or another run's outputs [B, Tq, d_head].
    """

    def edit(output: Tensor) -> Tensor:
        changed = output.clone()
        changed[:, positions] = value.expand_as(output)[:, positions]
        return changed

    return edit


class HeadTap:
    """Records what heads do during one forward pass and puts edits in their place."""

    def __init__(self, edits: dict[str, Edit] | None = None, record: bool = True):
        self.edits = edits or {}
        self.record = record
        self.patterns: dict[str, Tensor] = {}  # attention module's name -> [B, H, Tq, Tk]
        self.outputs: dict[str, Tensor] = {}  # attention module's name -> [B, H, Tq, d_head]
        self._unused = set(self.edits)

    def __call__(self, name: str, outputs: Tensor, patterns: Tensor) -> Tensor:
        """Called by the attention module `name`: outputs [B, H, Tq, d_head] -> outputs to go on with."""
        edits = {head: self.edits.get(f"{name}.head{head}") for head in range(outputs.shape[1])}
        if any(edits.values()):
            outputs = torch.stack(
                [edit(outputs[:, head]) if edit else outputs[:, head] for head, edit in edits.items()], dim=1
            )
            self._unused -= {f"{name}.head{head}" for head in edits}
        if self.record:
            self.patterns[name], self.outputs[name] = patterns.detach(), outputs.detach()
        return outputs

    def check(self) -> None:
        """After a forward pass: an edit that met no head was misspelt, and its experiment would mean nothing."""
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
