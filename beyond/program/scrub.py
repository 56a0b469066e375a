"""Causal scrubbing: what may each part of the model be replaced by, before answers break?

An edge joins a column of the operands to a digit of the answer: it is the two memory vectors of the column, of a's
and b's digit, as the decoder attends to them while it writes that digit. Three columns and four digits make twelve
edges. Each position of the decoder gets a memory of its own, so that each edge can be replaced alone.

If an edge carries only one variable, such as the carry out of its column, it may come from any other pair in which
that variable has the same value. The heads of the encoder and the self-attention of the decoder are treated alike.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from beyond.program.variables import EDGE_VARIABLES, ENCODER_VARIABLES, EVERYTHING, NOTHING, SELF_VARIABLES, Columns
from lab.hooks import Hooks, Intervention, attention_modules, heads
from problem1.attention import create_causal_mask
from problem1.dataset import Sums, decoder_inputs

BAR = 0.9995  # a variable suffices if at most 0.05% of the answers become wrong
CHUNK = 1024  # rows in one forward pass: what the processor's cache holds


def resample(values: Tensor, generator: torch.Generator) -> Tensor:
    """[N] -> [N]: for each row a random one with the same value; each row is taken once."""
    shuffled = torch.randperm(len(values), generator=generator)
    sources = torch.empty_like(shuffled)
    sources[values.argsort(stable=True)] = shuffled[values[shuffled].argsort(stable=True)]
    return sources


class Batch:
    """Random pairs, among which all replacements are drawn, and the model's run on them without any."""

    def __init__(self, model, sums: Sums, seed: int = 0):
        self.model, self.sums, self.columns = model.eval(), sums, Columns.of(sums)
        self.inputs = decoder_inputs(sums.targets)
        self.generator = torch.Generator().manual_seed(seed)
        self.width, self.digits = sums.sources.shape[1], sums.targets.shape[1]
        self.device = next(model.parameters()).device
        self.plus_tells = False  # then '+' is no edge: each row keeps its own

    def __len__(self) -> int:
        return len(self.sums)

    # --- the model, with any of its activations taken from other rows ---------------------------------------------

    @cached_property
    @torch.no_grad()
    def recorded(self) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """The memory [N, S, d], heads' outputs [N, heads, positions, d_head] by module, and the digits written."""
        memory, written = [], []
        outputs = {name: [] for name in attention_modules(self.model)}
        for part in self._parts():
            with Hooks(self.model) as hooks:
                memory.append(self.model.encode(self.sums.sources[part].to(self.device)))
                logits = self.model.decode(self.inputs[part].to(self.device), memory[-1])
            written.append(logits.argmax(-1).cpu())
            for name, parts in outputs.items():
                own = [hooks.output(head.name) for head in heads(self.model) if head.module == name]
                parts.append(torch.stack(own, dim=1))
        joined = {name: torch.cat(parts) for name, parts in outputs.items()}
        return torch.cat(memory), joined, torch.cat(written)

    @property
    def memory(self) -> Tensor:
        return self.recorded[0]

    def heads(self, side: str) -> dict[str, int]:
        """How many heads each attention module of the encoder has, or each self-attention of the decoder."""
        return dict(Counter(head.module for head in heads(self.model, side, "self")))

    def _parts(self) -> list[slice]:
        return [slice(start, start + CHUNK) for start in range(0, len(self), CHUNK)]

    def _swap(self, rows: dict[str, Tensor], part: slice) -> dict[str, Intervention]:
        """Interventions that take heads' outputs from other rows: {module: rows [N, heads, positions]}."""
        interventions = {}
        for module, sources in rows.items():
            for number in range(sources.shape[1]):
                interventions[f"{module}.head{number}"] = self._from_rows(module, number, sources[part, number])
        return interventions

    def _from_rows(self, module: str, number: int, rows: Tensor) -> Intervention:
        """One head's output at each position from another row: rows [N, positions]"""
        recorded = self.recorded[1][module]
        _, count, length, width = recorded.shape

        def intervention(output: Tensor) -> Tensor:
            position = torch.arange(output.shape[1])  # perhaps not all positions
            flat = (rows[:, : len(position)] * count + number) * length + position
            return recorded.view(-1, width).index_select(0, flat.flatten().to(self.device)).view_as(output)

        return intervention

    @torch.no_grad()
    def encode(self, heads: dict[str, Tensor]) -> Tensor:
        """The memory [N, S, d] when heads of the encoder come from other rows."""
        return torch.cat([self._encode(part, heads) for part in self._parts()])

    def _encode(self, part: slice, heads: dict[str, Tensor]) -> Tensor:
        with Hooks(self.model, self._swap(heads, part)):
            return self.model.encode(self.sums.sources[part].to(self.device))

    @torch.no_grad()
    def parts(
        self,
        inputs: Tensor | None = None,
        encoder: dict[str, Tensor] | None = None,
        edges: Tensor | None = None,
        decoder: dict[str, Tensor] | None = None,
        memory: Tensor | None = None,
    ) -> Iterator[tuple[slice, Tensor]]:
        """Part by part: the rows, and the logits there after `inputs` [N, T] (by default the right digits).

        encoder, decoder: heads from other rows, {module: rows [N, heads, positions]}.
        edges [N, T, S]: the row whose memory the decoder's position t sees at each position of the source; [N, 1, S]:
        all positions see the same.
        memory: in place of the batch's own; it may have more rows, for `edges` to name. It may come from `encode`;
        `encoder` is for runs that may end early.
        """
        inputs = self.inputs if inputs is None else inputs
        memory = self.memory if memory is None else memory
        vectors, each = memory.flatten(0, 1), edges is not None and edges.shape[1] > 1
        projected = self._project(vectors) if each else []
        for part in self._parts():
            prefix = inputs[part].to(self.device)
            if edges is not None:
                index = (edges[part, : prefix.shape[1]] * self.width + torch.arange(self.width)).to(self.device)
                seen = None if each else vectors[index.squeeze(1)]
            else:
                seen = self._encode(part, encoder) if encoder else memory[part]
            with Hooks(self.model, self._swap(decoder or {}, part)):
                logits = self._decode_each(prefix, projected, index) if each else self.model.decode(prefix, seen)
            yield part, logits.cpu()

    def _project(self, vectors: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Keys and values [N·S, d] of all vectors of the memory, for each layer of the decoder."""
        modules = [layer.cross_attention for layer in self.model.decoder]
        return [(module.key(vectors), module.value(vectors)) for module in modules]

    def _decode_each(self, inputs: Tensor, projected: list[tuple[Tensor, Tensor]], index: Tensor) -> Tensor:
        """The model's `decode` where each position [N, T] attends to vectors of its own, index [N, T, S].

        Keys and values are projected before they are gathered: afterwards they would be T times as many.
        """
        x = self.model.embed(inputs)
        causal = create_causal_mask(inputs.shape[1], self.device)
        for layer, (keys, values) in zip(self.model.decoder, projected, strict=True):
            normed, attention = layer.self_norm(x), layer.cross_attention
            x = x + layer.self_attention(normed, normed, normed, causal)[0]
            Q = attention.query(layer.cross_norm(x)).unsqueeze(2)  # [N, T, 1, d]; below [N, T, S, d]
            K, V = (each.index_select(0, index.flatten()).view(*index.shape, -1) for each in (keys, values))
            Q, K, V = (each.unflatten(-1, (attention.num_heads, -1)) for each in (Q, K, V))
            weights = ((Q * K).sum(-1) / Q.shape[-1] ** 0.5).softmax(2)
            x = x + attention.output((weights.unsqueeze(-1) * V).sum(2).flatten(2))
            x = x + layer.feed_forward(layer.feed_forward_norm(x))
        return self.model.output(self.model.decoder_norm(x))

    def written(self, **replaced) -> Tensor:
        """The digits written, [N, T]; keywords as in `parts`."""
        return torch.cat([logits.argmax(-1) for _, logits in self.parts(**replaced)])

    def outcome(self, **replaced) -> dict[str, Tensor]:
        """Which digits are right and their losses, [N, T] each; keywords as in `parts`."""
        found = {"right": [], "loss": []}
        for part, logits in self.parts(**replaced):
            targets = self.sums.targets[part]
            found["right"].append(logits.argmax(-1) == targets)
            found["loss"].append(F.cross_entropy(logits.transpose(1, 2), targets, reduction="none"))
        return {name: torch.cat(parts) for name, parts in found.items()}

    def suffices(self, digit: int | None = None, before: float = 1.0, **replaced) -> tuple[bool, float]:
        """Do as many answers (or as many of one digit) stay right as BAR asks for? And the share that is right.

        They are compared with the run without replacements, or with the share `before` if that is less. It ends as
        soon as there are too many errors: the share is then of the rows seen so far.
        """
        targets = self.sums.targets

        def right(written: Tensor, part: slice) -> Tensor:
            right = written == targets[part, : written.shape[1]]
            return right.all(1) if digit is None else right[:, digit]

        before = min(before, right(self.recorded[2], slice(None)).double().mean().item())
        wrong = seen = 0
        for part, logits in self.parts(**replaced):
            written = logits.argmax(-1)
            wrong, seen = wrong + int((~right(written, part)).sum()), seen + len(written)
            if wrong > (1 - before + 1 - BAR) * len(self):
                return False, 1 - wrong / seen
        return True, 1 - wrong / seen

    # --- which rows to take them from -----------------------------------------------------------------------------

    def resample(self, values: Tensor | None) -> Tensor:
        """[N] for each row a random one with the same value; itself where no variable suffices (None)."""
        return torch.arange(len(self)) if values is None else resample(values, self.generator)

    def anything(self) -> Tensor:
        return torch.randperm(len(self), generator=self.generator)

    def own(self) -> Tensor:
        """[N, T, columns]: each edge from the row itself."""
        return torch.arange(len(self))[:, None, None].repeat(1, self.digits, self.digits - 1)

    def with_plus(self, rows: Tensor) -> Tensor:
        """rows [N, T or 1, columns] of each edge -> [N, T or 1, S]; at '+', a random row's if it tells nothing."""
        count = rows.shape[1]
        plus = [torch.arange(len(self)) if self.plus_tells else self.anything() for _ in range(count)]
        return torch.cat([rows, torch.stack(plus, 1).unsqueeze(2), rows], 2)

    def edges_like(self, variables: list[list[str]]) -> Tensor:
        """[N, T, columns]: for each edge a random row that agrees on variables[t][column]."""
        rows = self.own()
        for t, line in enumerate(variables):
            for k, name in enumerate(line):
                if name != EVERYTHING:
                    rows[:, t, k] = self.resample(EDGE_VARIABLES[name].of(self.columns.column(k)))
        return rows

    def encoder_values(self, name: str, position: int) -> Tensor | None:
        """[N] the value of one of ENCODER_VARIABLES at a position of the source; None for EVERYTHING."""
        n = self.digits - 1
        if name == EVERYTHING:
            return None
        if position == n or name == NOTHING:
            return torch.zeros(len(self), dtype=torch.long)
        column = position % (n + 1)
        own, partner = (self.columns.a, self.columns.b) if position < n else (self.columns.b, self.columns.a)
        below = self.columns.sum[:, column + 1] if column + 1 < n else torch.zeros_like(own[:, 0])
        carry_in = self.columns.carry_in[:, column]
        return ENCODER_VARIABLES[name].of(own[:, column], partner[:, column], carry_in, below)

    def encoder_like(self, variables: dict[str, list[list[str]]]) -> dict[str, Tensor]:
        """{module: rows [N, heads, positions]} that agree on variables[module][head][column]; random at '+'."""
        rows = {}
        for module, names_by_head in variables.items():
            rows[module] = torch.empty(len(self), len(names_by_head), self.width, dtype=torch.long)
            for head, names in enumerate(names_by_head):
                at_plus = EVERYTHING if self.plus_tells else NOTHING
                for position, name in enumerate([*names, at_plus, *names]):
                    rows[module][:, head, position] = self.resample(self.encoder_values(name, position))
        return rows

    def self_like(self, variables: list[str]) -> dict[str, Tensor]:
        """{module: rows [N, heads, positions]} for the decoder's self-attention: at each position all from one row."""
        columns = []
        for t, name in enumerate(variables):
            variable, column = SELF_VARIABLES.get(name), self.columns.column(max(t - 1, 0))
            columns.append(self.resample(variable.of(self.inputs[:, t], column) if variable else None))
        rows = torch.stack(columns, 1).unsqueeze(1)
        return {name: rows.expand(-1, count, -1) for name, count in self.heads("decoder").items()}
