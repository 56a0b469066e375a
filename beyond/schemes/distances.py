"""RoPE and T5 know distances, not positions. Which of them make these models fail on longer sequences?

In trained models distances are clamped: two tokens farther apart than REACH are scored as if they stood REACH apart.
All keys stay, so attention is spread over as many as before; only distances change. With REACH = 15 no distance is
left that sequences of 16 tokens do not have.

RoPE's score is a sum over its waves, the pairs of dimensions that turn together. So distances can also be clamped for
some waves alone; and in range waves can be stopped, which shows which of them the model uses.
"""

import contextlib
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from lab import figures
from problem2.analysis.collapse import OverSeeds, draw_line
from problem2.analysis.evaluation import balanced_rows, judge, logit_differences
from problem2.attention import MultiHeadAttention, scaled_dot_product_attention
from problem2.dataset import Rows
from problem2.model import SortingClassifier
from problem2.positional_encoding import (
    PositionScheme,
    RotaryPositionalEncoding,
    T5PositionalEncoding,
    frequencies,
)

EACH = 100  # rows of each class and length
REACHES = (3, 7, 15, 23, 31, 47, 63)
LONGER = (2, 4, 8, 16)  # times the longest sequence of training
# RoPE's waves, by number from the fastest on, that are clamped alone, or that turn alone in range.
WAVES = ((0,), (1,), (2,), (3,), (0, 1), (2, 3))


def measure(model: SortingClassifier, in_range: Rows, trained: int) -> dict | None:
    """{experiment: {set of rows: numbers}}, or None for a scheme that is not asked about."""
    rotary = type(model.scheme) is RotaryPositionalEncoding
    if not rotary and type(model.scheme) is not T5PositionalEncoding:
        return None
    longer = {str(multiple * trained): balanced_rows(multiple * trained, EACH) for multiple in LONGER}
    longest = str(LONGER[-1] * trained)
    report = {"as trained": numbers_of(model, longer)}
    with clamped(model, trained - 1):
        report["clamped"] = numbers_of(model, longer)
    for reach in REACHES:
        with clamped(model, reach):
            report[f"clamped at {reach}"] = numbers_of(model, {longest: longer[longest]})
    for waves in WAVES if rotary else ():
        name = ", ".join(map(str, waves))
        with clamped(model, trained - 1, waves):
            report[f"clamped in wave {name}"] = numbers_of(model, longer)
        with only_turning(model, waves):
            report[f"in range, only wave {name} turns"] = numbers_of(model, {"test": in_range})
    return report


def numbers_of(model: SortingClassifier, sets: dict[str, Rows]) -> dict[str, dict]:
    """{set: {"balanced_accuracy", "constant": whether one answer is given to all rows}}"""
    found = {}
    for key, rows in sets.items():
        numbers = judge(logit_differences(model, rows.sequences), rows.labels)
        found[key] = {"balanced_accuracy": numbers["balanced_accuracy"], "constant": numbers["collapsed"]}
    return found


# --- changed models --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def clamped(model: SortingClassifier, reach: int, waves: tuple[int, ...] | None = None):
    """The model with distances of at most `reach`, for RoPE in these waves alone; as before when the block ends."""
    scheme = model.scheme
    attentions = []
    if isinstance(scheme, RotaryPositionalEncoding):
        attentions = [layer.attention for layer in model.layers]
        for attention in attentions:
            attention.forward = clamped_rotary(attention, scheme, reach, waves)
    else:
        scheme.bias = lambda positions: clamped_bias(scheme, positions, reach)
    try:
        yield
    finally:
        for attention in attentions:
            del attention.forward
        scheme.__dict__.pop("bias", None)


def clamp(near: Tensor, before: Tensor, after: Tensor, positions: Tensor, reach: int) -> Tensor:
    """[..., T, T] of queries and keys: `before` where the key stands more than `reach` before the query, `after` where
    it stands so far after it, else `near`."""
    apart = positions - positions[:, None]  # key minus query
    return torch.where(apart < -reach, before, torch.where(apart > reach, after, near))


def clamped_bias(scheme: PositionScheme, positions: Tensor, reach: int) -> Tensor:
    """The scheme's bias [H, T, T], that of `reach` at all greater distances."""
    bias = type(scheme).bias
    two = bias(scheme, torch.tensor([0, reach], device=positions.device))  # of two tokens that stand so far apart
    return clamp(bias(scheme, positions), two[:, 1:, :1], two[:, :1, 1:], positions, reach)


def clamped_rotary(attention: MultiHeadAttention, scheme: PositionScheme, reach: int, waves: tuple[int, ...] | None):
    """A forward function for `attention` whose scores know no distance above `reach` in these waves (None: in all)."""

    def forward(query: Tensor, key: Tensor, value: Tensor, mask=None, bias=None, rotate=None):
        Q = attention.split_heads(attention.query(query))
        K = attention.split_heads(attention.key(key))
        V = attention.split_heads(attention.value(value))
        positions = torch.arange(Q.shape[2], device=Q.device)
        far = scheme.rotation(torch.full_like(positions, reach))  # turns all tokens as if they stood at `reach`
        chosen = torch.zeros(Q.shape[-1] // 2, dtype=torch.bool, device=Q.device)
        chosen[list(range(len(chosen)) if waves is None else waves)] = True
        chosen = chosen.repeat_interleave(2)  # a wave turns two dimensions
        part = K * chosen  # of these waves only
        near = rotate(Q) @ rotate(part).transpose(-2, -1)
        before = far(Q) @ part.transpose(-2, -1)
        after = Q @ far(part).transpose(-2, -1)
        change = (clamp(near, before, after, positions, reach) - near) / math.sqrt(Q.shape[-1])
        heads, weights = scaled_dot_product_attention(rotate(Q), rotate(K), V, mask, change)
        return attention.output(attention.combine_heads(heads)), weights

    return forward


@contextlib.contextmanager
def only_turning(model: SortingClassifier, waves: tuple[int, ...]):
    """A RoPE model in which only these waves turn; as before when the block ends."""
    scheme = model.scheme

    def rotation(positions: Tensor):
        angles = positions[:, None] * frequencies(scheme.d_model // scheme.num_heads, positions.device)
        turning = torch.zeros_like(angles[0])
        turning[list(waves)] = 1
        angles = angles * turning
        turns = torch.complex(angles.cos(), angles.sin())
        return lambda heads: torch.view_as_real(torch.view_as_complex(heads.unflatten(-1, (-1, 2))) * turns).flatten(-2)

    scheme.rotation = rotation
    try:
        yield
    finally:
        del scheme.rotation


# --- figure ----------------------------------------------------------------------------------------------------

# (scheme, experiment) -> its words in the figure; a period is that of the wave in tokens.
SHOWN = {
    ("rope", "as trained"): "RoPE: nothing changed",
    ("rope", "clamped"): "all distances clamped",
    ("rope", "clamped in wave 0"): "only in wave 0 (period 6)",
    ("rope", "clamped in wave 1"): "only in wave 1 (period 63)",
    ("rope", "clamped in wave 2"): "only in wave 2 (period 628)",
    ("rope", "clamped in wave 3"): "only in wave 3 (period 6,283)",
    ("t5", "as trained"): "T5: nothing changed",
    ("t5", "clamped"): "all distances clamped",
}


def draw(found: dict[str, dict[str, dict[str, OverSeeds]]], path: Path, seeds: int) -> None:
    """{scheme: {experiment: {length: numbers over seeds}}} as a table, darker where more rows are judged right."""
    columns = [*found["rope"]["as trained"]]
    figure, axes = plt.subplots(figsize=(4.4, 2.6))
    for row, (scheme, experiment) in enumerate(SHOWN):
        draw_line(axes, row, dict(enumerate(found[scheme][experiment].values())))
    axes.set_yticks(range(len(SHOWN)), SHOWN.values())
    axes.set_xticks(range(len(columns)), columns)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(SHOWN) - 0.5, -0.5), xlabel="length of the rows")
    axes.axhline([scheme for scheme, _ in SHOWN].index("t5") - 0.5, color="black", linewidth=0.8)
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.suptitle(title(found))
    caption = "Clamped: tokens farther apart than 15 are scored as if 15 apart.\nBalanced accuracy, "
    caption += f"lowest to highest of {seeds} seeds. One answer: to at least 99% of the rows."
    figures.save(figure, path, caption, vector=True)


def title(found: dict[str, dict[str, dict[str, OverSeeds]]]) -> str:
    """The finding, where these runs give it."""
    repaired = []
    for scheme in ("rope", "t5"):
        broken = [*found[scheme]["as trained"].values()][-1].constant
        if broken and all(cell.low >= 0.9 for cell in found[scheme]["clamped"].values()):
            repaired.append({"rope": "RoPE", "t5": "T5"}[scheme])
    return f"Trained distances only: {' and '.join(repaired)} repaired" if repaired else "Distances clamped"
