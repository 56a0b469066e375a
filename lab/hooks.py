"""Heads and feed-forward layers by name: record what each does, and ablate or replace any of them.

    with Hooks(model, {"encoder.0.self.head1": zero}) as hooks:
        logits = model(source, target)                # the model without that head
    hooks.pattern("decoder.1.cross.head3")            # [B, Tq, Tk]: where it attends
    hooks.output("decoder.1.cross.head3")             # [B, Tq, d_head]: its output, after any intervention
    hooks.output("encoder.0.feed_forward")            # [B, T, d_model]

Models know nothing of this: PyTorch calls the hooks while the context lasts. A head is its columns of what goes into
the layer `output` of its attention module; the module's second output are the patterns of all its heads.
Code, JSON and page use the names above; people read the short form, D1.cross.3.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

Intervention = Callable[[Tensor], Tensor]  # an output, [B, Tq, d_head] of a head -> what takes its place
PATH = re.compile(r"(encoder|decoder|layers)\.(\d+)\.(\w+)")  # of a part of a layer, in the model
SIDES = {"encoder": "encoder", "decoder": "decoder", "layers": "encoder"}
ATTENTION = {"attention": "self", "self_attention": "self", "cross_attention": "cross"}


class Head(NamedTuple):
    """A head by its place in a model: Head("decoder", 1, "cross", 3)"""

    side: str
    layer: int
    kind: str
    number: int

    @classmethod
    def parse(cls, name: str) -> "Head":
        """decoder.1.cross.head3 -> Head("decoder", 1, "cross", 3)"""
        side, layer, kind, number = name.split(".")
        return cls(side, int(layer), kind, int(number.removeprefix("head")))

    @property
    def module(self) -> str:
        """The attention module it belongs to: decoder.1.cross"""
        return f"{self.side}.{self.layer}.{self.kind}"

    @property
    def name(self) -> str:
        """decoder.1.cross.head3"""
        return f"{self.module}.head{self.number}"

    @property
    def short(self) -> str:
        """D1.cross.3, and E1.3 in an encoder, which has no attention but to itself"""
        kind = "" if self.side == "encoder" else f"{self.kind}."
        return f"{self.side[0].upper()}{self.layer}.{kind}{self.number}"


def short_name(name: str) -> str:
    """As people read it: 'encoder.1.self.head3' -> 'E1.3', 'decoder.1.cross.head3' -> 'D1.cross.3'.

    Of whole modules: 'decoder.1.cross' -> 'D1.cross', 'encoder.0.feed_forward' -> 'E0.feed-forward'.
    """
    if ".head" in name:
        return Head.parse(name).short
    side, layer, kind = name.split(".")
    return f"{side[0].upper()}{layer}.{kind.replace('_', '-')}"


def attention_modules(model: nn.Module) -> dict[str, nn.Module]:
    """{"encoder.0.self": module, …}, from the source to the output"""
    modules = {}
    for path, module in model.named_modules():
        match = PATH.fullmatch(path)
        if match and match[3] in ATTENTION:
            modules[f"{SIDES[match[1]]}.{match[2]}.{ATTENTION[match[3]]}"] = module
    return modules


def feed_forward_layers(model: nn.Module, side: str | None = None) -> dict[str, nn.Module]:
    """{"encoder.0.feed_forward": layer, …}, of both sides or of one"""
    layers = {}
    for path, module in model.named_modules():
        match = PATH.fullmatch(path)
        if match and match[3] == "feed_forward" and side in (None, SIDES[match[1]]):
            layers[f"{SIDES[match[1]]}.{match[2]}.feed_forward"] = module
    return layers


def heads(model: nn.Module, side: str | None = None, kind: str | None = None) -> list[Head]:
    """All heads, from the source to the output; or those of one side ("encoder") or of one kind ("cross")."""
    found = []
    for name, module in attention_modules(model).items():
        found += [Head.parse(f"{name}.head{number}") for number in range(module.num_heads)]
    return [head for head in found if side in (None, head.side) and kind in (None, head.kind)]


def head_names(model: nn.Module, side: str | None = None, kind: str | None = None) -> list[str]:
    """The same by name: ["encoder.0.self.head0", …]"""
    return [head.name for head in heads(model, side, kind)]


def columns(module: nn.Module, number: int) -> slice:
    """A head's columns of what goes into `module.output`, which are also the rows of its query, key and value layers"""
    width = module.output.in_features // module.num_heads
    return slice(number * width, (number + 1) * width)


def zero(output: Tensor) -> Tensor:
    """Zero ablation."""
    return torch.zeros_like(output)


def replace(value: Tensor, positions: slice | list[int] = slice(None)) -> Intervention:
    """`value` instead of the output, at `positions` (by default all of them).

    `value` broadcasts to [B, Tq, d_head]: a mean output [Tq, d_head] for mean ablation, or another run's outputs
    [B, Tq, d_head] for patching.
    """

    def intervention(output: Tensor) -> Tensor:
        changed = output.clone()
        changed[:, positions] = value.expand_as(output)[:, positions]
        return changed

    return intervention


class Hooks:
    """While the context lasts, outputs are changed by the interventions {name: intervention} and recorded.

    The recordings are of the last pass, and stay when the context has ended.
    """

    def __init__(self, model: nn.Module, interventions: dict[str, Intervention] | None = None):
        self.interventions = interventions or {}
        self.modules = attention_modules(model)
        self.layers = feed_forward_layers(model)
        # A misspelt name would change nothing, and its experiment would mean nothing.
        unknown = self.interventions.keys() - self.layers.keys() - {*head_names(model)}
        if unknown:
            raise KeyError(f"no head and no layer is called {min(unknown)}")
        self._patterns: dict[str, Tensor] = {}  # attention module's name -> [B, H, Tq, Tk]
        self._outputs: dict[str, Tensor] = {}  # of a module all heads' outputs side by side, or of a layer: [B, Tq, d]
        self._handles = []

    def __enter__(self) -> "Hooks":
        for name, module in self.modules.items():
            self._handles.append(module.output.register_forward_pre_hook(partial(self._change_heads, name)))
            self._handles.append(module.register_forward_hook(partial(self._keep_patterns, name)))
        for name, layer in self.layers.items():
            self._handles.append(layer.register_forward_hook(partial(self._change_layer, name)))
        return self

    def __exit__(self, *error) -> None:
        for handle in self._handles:
            handle.remove()

    def pattern(self, head: str) -> Tensor:
        """[B, Tq, Tk]"""
        place = Head.parse(head)
        return self._patterns[place.module][:, place.number]

    def output(self, name: str) -> Tensor:
        """Of a head [B, Tq, d_head], of a feed-forward layer [B, T, d_model]"""
        if name in self.layers:
            return self._outputs[name]
        head = Head.parse(name)
        return self._outputs[head.module][..., columns(self.modules[head.module], head.number)]

    def _change_heads(self, name: str, output_layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        """Called with what goes into the output layer of the attention module `name`; returns what goes in instead."""
        module = self.modules[name]
        together = inputs[0]
        chosen = [number for number in range(module.num_heads) if f"{name}.head{number}" in self.interventions]
        if chosen:
            together = together.clone()
        for number in chosen:
            own = columns(module, number)
            together[..., own] = self.interventions[f"{name}.head{number}"](together[..., own])
        self._outputs[name] = together.detach()
        return (together,)

    def _keep_patterns(self, name: str, module: nn.Module, inputs: tuple, outputs: tuple[Tensor, Tensor]) -> None:
        self._patterns[name] = outputs[1].detach()

    def _change_layer(self, name: str, layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        if name in self.interventions:
            output = self.interventions[name](output)
        self._outputs[name] = output.detach()
        return output
