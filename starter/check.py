"""Is my code right? Checks of the homework's code, in the order in which one writes it.

    python check.py                     everything below this folder, in about ten seconds
    python check.py attention model     only these parts: attention, model, training, encodings, sorting
    python check.py attention.mask      only this check
    python check.py FOLDER              another folder: below it, whatever holds attention.py is problem 1 and
                                        whatever holds positional_encoding.py is problem 2; folders named
                                        problem1 and problem2 before any others
    python check.py --list              what is checked, and what is not

Exit code 0: all ok; 1: something is wrong or to do; 2: wrong use.
Started by root with CHECK_USER=NAME in the environment, it runs your code as that user.

How it works. A check is a pair of functions. The *probe* runs your code in a process of its own, on a copy of your
files, and hands back plain tensors. The *judge* compares them, in this process, with what PyTorch's own functions
give on your own weights, or with a property that has to hold (a hidden token changes nothing). No number depends on
a seed, and no attribute of your classes has to have a certain name. A known mistake is named only if what you
computed equals what that mistake gives.

It is one file because one file is handed out. Its rooms, each after a line "# --- name": what probes and judges share;
the parts named above, each probe followed by its judge; the process that runs the student's code; the process that
judges; the command.
"""

import sys

if __name__ == "__main__" and sys.path and sys.path[0] and __file__.startswith(sys.path[0]):
    del sys.path[0]  # your files are beside this one: what is imported here must be Python's own, not yours

if sys.version_info < (3, 10):  # noqa: UP036 (a student may have an older one)
    print("check.py: error: Python 3.10 or newer is needed, not " + sys.version.split()[0] + ".", file=sys.stderr)
    sys.exit(2)

import argparse
import ast
import contextlib
import importlib
import inspect
import io
import itertools
import json
import math
import os
import queue
import re
import runpy
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import traceback
import types
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import MagicMock

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ModuleNotFoundError as error:
    print(
        f"check.py: error: {error.name} is missing: pip install torch, or use the environment that has it.",
        file=sys.stderr,
    )
    sys.exit(2)

PARTS = {  # part -> the file that it is about
    "attention": "problem1/attention.py",
    "model": "problem1/model.py",
    "training": "problem1/train.py",
    "encodings": "problem2/positional_encoding.py",
    "sorting": "problem2/model.py and train.py",
}
NOT_LOOKED_AT = "analyze.py, figures, report, speed, and whether a whole training succeeds"
# of wall-clock time, for a check and for all checks of a problem
CHECK_SECONDS = 15
PROBLEM_SECONDS = 60
STARTING_SECONDS = 15  # more, for a process that has said nothing yet: it imports PyTorch
# bytes that the process with your code may take and write
MEMORY = 3 * 2**30
FILE_SIZE = 16 * 2**20
# tokens of our own rows; 0 to 9 are digits
START = 11
PLUS = 10
PAD = 12
VOCABULARY = 13


class Wrong(Exception):
    """Raised by a judge: what was done, what came out, where to look."""


class Missing(Exception):
    """Raised in a probe: a file, class or function is not there yet."""


@dataclass
class Check:
    name: str  # "attention.mask": part and check
    title: str
    after: tuple[str, ...]  # checks that this one stands on
    probe: object
    judge: object = None

    @property
    def part(self) -> str:
        return self.name.partition(".")[0]

    @property
    def problem(self) -> int:
        return 2 if self.part in ("encodings", "sorting") else 1


@dataclass
class Result:
    check: Check
    verdict: str  # "ok", "to do", "WRONG" or "not tried"
    message: str = ""
    remarks: list[str] = field(default_factory=list)


CHECKS: dict[str, Check] = {}


def check(name: str, title: str, after: str = ""):
    """Decorator: this function is the probe of a check. Its judge follows, decorated with `@judge`."""

    def register(probe):
        CHECKS[name] = Check(name, title, tuple(after.split()), probe)
        return probe

    return register


def judge(function):
    """Decorator: this function judges what the probe above it has seen. It returns remarks, or raises Wrong."""
    [*CHECKS.values()][-1].judge = function
    return function


# --- what probes and judges share ------------------------------------------------------------------------------------


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def same(a, b, tolerance: float = 1e-4, nan: bool = False) -> bool:
    """Whether two tensors have one shape and the same numbers; NaN equals nothing, or NaN."""
    if not torch.is_tensor(a) or not torch.is_tensor(b) or a.shape != b.shape:
        return False
    return torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=nan)


def expect(found, right: torch.Tensor, what: str, mistakes: dict[str, torch.Tensor], hint: str = "") -> None:
    """Raise Wrong unless `found` is `right`; a mistake is named if `found` is exactly what that mistake gives."""
    if same(found, right):
        return
    if not torch.is_tensor(found):
        raise Wrong(f"{what} should be a tensor of shape {shape(right)}, but is {found!r}. {hint}")
    for message, result in mistakes.items():
        if same(found, result):
            raise Wrong(message)
    if found.shape != right.shape:
        raise Wrong(f"{what} should have shape {shape(right)}, but has {shape(found)}. {hint}")
    if not torch.isfinite(found).all():
        raise Wrong(
            f"{what}: {int((~torch.isfinite(found)).sum())} of {found.numel()} numbers are NaN or infinite. {hint}"
        )
    raise Wrong(f"{what} differs from the right one by up to {distance(found, right):.3g}. {hint}")


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.double() - b.double()).abs().max())


def shape(tensor: torch.Tensor) -> str:
    return f"[{', '.join(map(str, tensor.shape))}]"


def shape_of(value) -> str:
    return shape(value) if torch.is_tensor(value) else repr(value)


def first(output):
    """The first tensor of what a module returns: some return attention weights beside it."""
    return output[0] if isinstance(output, (tuple, list)) else output


def attempt(function, *arguments, **keywords):
    """What the function returns, or its exception as text: for what no docstring asks for."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def with_names(function, values: dict):
    """Call a function with those of the values whose names its parameters have; with other names, in this order."""
    parameters = inspect.signature(function).parameters
    known = {name: value for name, value in values.items() if name in parameters}
    if len(known) == len(values) or len(known) == len(parameters):
        return function(**known)
    return function(*[*values.values()][: len(parameters)])


# --- attention -------------------------------------------------------------------------------------------------------

Q = random(2, 3, 4, 8, seed=1)
K = random(2, 3, 6, 8, seed=2)
V = random(2, 3, 6, 8, seed=3)
SQUARE = random(2, 3, 5, 8, seed=4)  # queries, keys and values of one length


def copies(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """What a student's function gets: it may change it."""
    return [tensor.clone() for tensor in tensors]


def torch_attention(q, k, v, mask=None):
    """Output and weights by PyTorch's own function; the weights are its output for the identity as values."""
    mask = None if mask is None else mask.bool()
    weights = F.scaled_dot_product_attention(q, k, torch.eye(k.shape[-2]).to(q), attn_mask=mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), weights


def masks() -> dict[str, tuple[torch.Tensor, ...]]:
    """Name -> queries, keys, values, mask (1: may attend). Every query may attend to something."""
    padding = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    padding[0, ..., 4:] = False
    padding[1, ..., 1:3] = False
    any_mask = random(2, 3, 4, 6, seed=5) > -0.3
    any_mask[..., 0] = True
    return {
        "a causal mask [1, 1, T, T]": (SQUARE, SQUARE, SQUARE, torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()),
        "a padding mask [B, 1, 1, Tk]": (Q, K, V, padding),
        "a mask for each head [B, H, Tq, Tk]": (Q, K, V, any_mask),
    }


def own_mask_type(code) -> torch.dtype:
    """Masks are given in the type that the student's own create_causal_mask returns."""
    mask = attempt(code.attention.create_causal_mask, 3)
    return mask.dtype if torch.is_tensor(mask) else torch.float32


def both(result) -> list:
    """Output and weights as a list, whatever was returned."""
    return list(result) if isinstance(result, (tuple, list)) else [result, None]


def expect_both(seen: list, right: tuple, what: str, mistakes: dict[str, torch.Tensor], hint: str) -> None:
    """Output and weights must be the right ones; a mistake is known by its weights."""
    if len(seen) != 2 or seen[1] is None:
        raise Wrong(f"{what}: it should return two tensors, the output and the weights.")
    if same(seen[0], right[1]) and same(seen[1], right[0]):
        raise Wrong(f"{what}: it returns the weights first and then the output; the docstring says output, weights.")
    for message, weights in mistakes.items():
        if same(seen[1], weights, nan=True) and not same(right[1], weights):
            raise Wrong(message)
    expect(seen[1], right[1], f"{what}: the weights", {}, hint)
    expect(seen[0], right[0], f"{what}: the output", {}, "The weights are right: look at how they meet the values.")


def forbidden_calls(folder: Path) -> list[str]:
    """Where attention.py and model.py use PyTorch's own attention, which the homework wants written."""
    found = []
    for path in [folder / name for name in ("attention.py", "model.py") if (folder / name).exists()]:
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute):
                    home = ast.unparse(node.value).rpartition(".")[2]
                    whole = f"{home}.{node.attr}"
                    if whole in ("F.scaled_dot_product_attention", "functional.scaled_dot_product_attention") or (
                        home == "nn" and node.attr.startswith(("MultiheadAttention", "Transformer"))
                    ):
                        found.append(f"{path.name}, line {node.lineno}: {whole}")
    return found


@check("attention.scores", "scaled_dot_product_attention gives PyTorch's output and weights, without a mask")
def _(code):
    attention = code.attention.scaled_dot_product_attention
    return {
        "four": both(attention(*copies(Q, K, V))),
        "three": attempt(lambda: both(attention(*copies(Q[0], K[0], V[0])))),
        "forbidden": forbidden_calls(code.folder),
    }


@judge
def _(seen):
    scores = Q @ K.transpose(-2, -1)
    by_keys = scores / math.sqrt(6)
    scaled = scores / math.sqrt(8)
    mistakes = {
        "Your weights are softmax(Q Kᵀ): the division by √d is missing (d = 8 here).": scores.softmax(-1),
        "Your weights are softmax(Q Kᵀ / d): divide by the square root of d.": (scores / 8).softmax(-1),
        "Your weights are softmax(Q Kᵀ · √d): divide by √d, do not multiply.": (scaled * 8).softmax(-1),
        "You divide by √(number of keys). Divide by √d, the last dimension of Q.": by_keys.softmax(-1),
        "Your softmax is over the queries. It should be over the keys, the last dimension.": scaled.softmax(-2),
        "Your softmax is over the heads. It should be over the keys, the last dimension.": scaled.softmax(1),
        "Your weights are the scaled scores: the softmax is missing.": scaled,
    }
    what = "Queries [2, 3, 4, 8], keys and values [2, 3, 6, 8]"
    expect_both(seen["four"], torch_attention(Q, K, V), what, mistakes, "The formula is softmax(Q Kᵀ / √d) V.")
    remarks = [f"{place}. The homework wants attention written from scratch." for place in seen["forbidden"]]
    three = seen["three"]
    if isinstance(three, str) or not same(three[0], torch_attention(Q[0], K[0], V[0])[0]):
        remarks.append("inputs without a head dimension, [B, T, d], do not work. The homework does not need them.")
    return remarks


@check("attention.mask", "what a mask hides gets no weight, and the rest of a row adds up to 1", "attention.scores")
def _(code):
    attention = code.attention.scaled_dot_product_attention
    kind = own_mask_type(code)
    seen = {name: both(attention(*copies(q, k, v, mask.to(kind)))) for name, (q, k, v, mask) in masks().items()}
    q, k, v, mask = masks()["a causal mask [1, 1, T, T]"]
    blind = mask.clone()
    blind[..., 2, :] = False
    other = {
        "bool": mask,
        "float": mask.float(),
        "int": mask.long(),
        "rank 2": mask[0, 0].to(kind),
        "blind": blind.to(kind),
    }
    return seen, {name: attempt(lambda m: both(attention(*copies(q, k, v, m)))[1], m) for name, m in other.items()}


@judge
def _(seen):
    cases, other = seen
    for name, (q, k, v, mask) in masks().items():
        scores = q @ k.transpose(-2, -1) / math.sqrt(8)
        late = scores.softmax(-1) * mask
        reverse = "you hide what should be seen and see what should be hidden: 1 means may attend."
        mistakes = {
            "you get what you get without a mask: it is never applied.": scores.softmax(-1),
            "your output is what comes out if the mask is applied after the softmax: the weights of a row no longer "
            f"add up to 1 ({late.sum(-1).min():.2f} here). Mask the scores, before the softmax.": late,
            reverse: scores.masked_fill(mask, -math.inf).softmax(-1),
            f"{reverse} ": scores.masked_fill(mask, -1e9).softmax(-1),
            "you set hidden scores to 0, and a score of 0 still gets weight: -inf.": (scores * mask).softmax(-1),
            "you add the mask to the scores. It holds 1 and 0: put -inf where it is 0.": (scores + mask).softmax(-1),
        }
        mistakes = {f"With {name} {message}": weights for message, weights in mistakes.items()}
        right = torch_attention(q, k, v, mask)
        hint = "Mask the scores before the softmax, with -inf where the mask is 0."
        weights = cases[name][1]
        if torch.is_tensor(weights) and weights.shape == mask.expand_as(right[1]).shape:
            leak = weights.masked_fill(mask, 0.0).abs().max()
            hint = (
                f"Hidden positions get weight up to {leak:.2g}: they still get weight. {hint}" if leak > 1e-6 else hint
            )
        expect_both(cases[name], right, f"With {name}", mistakes, hint)
    remarks = []
    q, k, v, mask = masks()["a causal mask [1, 1, T, T]"]
    right = torch_attention(q, k, v, mask)[1]
    kinds = [kind for kind in ("bool", "float", "int") if not same(other[kind], right)]
    if kinds:
        remarks.append(f"masks of type {' and '.join(kinds)} do not work; those of your create_causal_mask do.")
    if not same(other["rank 2"], right):
        remarks.append("a mask [T, T] does not work; [1, 1, T, T] does, which is what the docstring asks for.")
    blind = other["blind"]
    if torch.is_tensor(blind) and torch.isnan(blind).any():
        remarks.append("a query that may attend to nothing gets NaN. The homework has no such query.")
    return remarks


@check("attention.large", "scores in the hundreds give finite weights", "attention.scores")
def _(code):
    return both(code.attention.scaled_dot_product_attention(*copies(100 * Q, K, V)))


@judge
def _(seen):
    expect_both(
        seen,
        torch_attention(100 * Q, K, V),
        "Queries 100 times as large",
        {},
        "exp() of a few hundred overflows: use torch.softmax, or subtract each row's maximum first.",
    )


@check("attention.gradients", "gradients reach Q, K and V", "attention.scores")
def _(code):
    inputs = [tensor.clone().requires_grad_() for tensor in (Q, K, V)]
    output = both(code.attention.scaled_dot_product_attention(*inputs))[0]
    if output.requires_grad:
        (output * random(*output.shape, seed=6)).sum().backward()
    return [tensor.grad for tensor in inputs]


@judge
def _(seen):
    inputs = [tensor.clone().requires_grad_() for tensor in (Q, K, V)]
    output = torch_attention(*inputs)[0]
    (output * random(*output.shape, seed=6)).sum().backward()
    for name, found, tensor in zip("QKV", seen, inputs, strict=True):
        hint = "Look for .detach(), .data, .item(), no_grad, or a tensor made anew."
        if found is None:
            raise Wrong(f"No gradient reaches {name}, so what comes before it would never learn. {hint}")
        expect(found, tensor.grad, f"The gradient of {name}", {}, hint)


@check("attention.inputs", "inputs stay as they are, and the same inputs give the same output", "attention.mask")
def _(code):
    q, k, v, mask = masks()["a causal mask [1, 1, T, T]"]
    inputs = [q.clone(), k.clone(), v.clone(), mask.to(own_mask_type(code))]
    before = [tensor.clone() for tensor in inputs]
    outputs = [both(code.attention.scaled_dot_product_attention(*[t.clone() for t in inputs]))[0] for _ in range(2)]
    code.attention.scaled_dot_product_attention(*inputs)
    return {"changed": [not torch.equal(a, b) for a, b in zip(before, inputs, strict=True)], "outputs": outputs}


@judge
def _(seen):
    changed = [name for name, is_changed in zip(("Q", "K", "V", "mask"), seen["changed"], strict=True) if is_changed]
    if changed:
        raise Wrong(
            f"After the call {' and '.join(changed)} held other numbers than before. Look for operations in place: "
            "names that end in _, +=, /=, or an assignment to a slice."
        )
    if not same(*seen["outputs"]):
        raise Wrong("Called twice with the same inputs it gives two outputs: is there dropout in it?")


@check("attention.causal_mask", "create_causal_mask: [1, 1, T, T], 1 on and below the diagonal")
def _(code):
    return [code.attention.create_causal_mask(size) for size in (5, 1)]


@judge
def _(seen):
    for found, size in zip(seen, (5, 1), strict=True):
        right = torch.ones(1, 1, size, size).tril()
        if torch.is_tensor(found) and torch.isinf(found.float()).any():
            raise Wrong("It holds -inf. The docstring asks for 1 where a query may attend and 0 where not.")
        mistakes = {
            "The diagonal is 0: a position should be allowed to attend to itself.": right.tril(-1),
            "It is upper triangular: position i sees what comes after it. It should see 0 … i.": right.transpose(
                -2, -1
            ),
            "It is the opposite: 1 above the diagonal, where a position must not look.": 1 - right,
            "The diagonal above is 1, too: position i sees position i + 1, which it should predict.": torch.ones_like(
                right
            ).tril(1),
            "It is full of ones: nothing is hidden.": torch.ones_like(right),
            f"It has shape [{size}, {size}]; the docstring asks for [1, 1, {size}, {size}].": right[0, 0],
        }
        expect(found.float() if torch.is_tensor(found) else found, right, f"create_causal_mask({size})", mistakes)


@check("attention.heads", "split_heads gives head h its own columns; combine_heads is the inverse")
def _(code):
    module = code.attention.MultiHeadAttention(12, 3)
    return module.split_heads(random(2, 5, 12)), module.combine_heads(random(2, 3, 5, 4))


@judge
def _(seen):
    x = random(2, 5, 12)
    heads = random(2, 3, 5, 4)
    expect(
        seen[0],
        x.view(2, 5, 3, 4).transpose(1, 2),
        "split_heads of [2, 5, 12] into 3 heads",
        {
            "split_heads takes the numbers in the order in which they lie in memory, so a head gets parts of other "
            "positions. First view [B, T, H, d_k], then transpose dimensions 1 and 2.": x.view(2, 3, 5, 4),
            "split_heads gives head h every third column. It should have d_k neighbours: columns h·d_k … (h+1)·d_k - "
            "1. View as [B, T, H, d_k], not [B, T, d_k, H].": x.view(2, 5, 4, 3).permute(0, 3, 1, 2),
            "split_heads gives [B, T, H, d_k]: transpose dimensions 1 and 2.": x.view(2, 5, 3, 4),
        },
    )
    expect(
        seen[1],
        heads.transpose(1, 2).reshape(2, 5, 12),
        "combine_heads of [2, 3, 5, 4]",
        {
            "combine_heads reshapes without transposing back, so positions and heads are mixed up. Transpose "
            "dimensions 1 and 2 first.": heads.reshape(2, 5, 12),
            "combine_heads puts the heads' columns one beside the other in turn. Head h should fill columns h·d_k … "
            "(h+1)·d_k - 1.": heads.permute(0, 2, 3, 1).reshape(2, 5, 12),
        },
    )


def multi_head_cases() -> list[tuple[torch.Tensor, ...]]:
    """query, key, value, mask: all the same; all different; of different lengths."""
    x = random(2, 5, 12, seed=1)
    mask = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    mask[0, ..., 4:] = False
    mask[1, ..., 1, :3] = False
    key = random(2, 7, 12, seed=3)
    value = random(2, 7, 12, seed=4)
    return [
        (x, x, x, torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()),
        (random(2, 5, 12, seed=2), key[:, :5], value[:, :5], mask[..., :5]),
        (random(2, 5, 12, seed=2), key, value, mask),
    ]


@check(
    "attention.multihead",
    "MultiHeadAttention gives PyTorch's output and weights, on your own projections",
    "attention.scores attention.mask attention.heads",
)
def _(code):
    module = code.attention.MultiHeadAttention(12, 3).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            # Biases away, so that it does not matter which belongs to which matrix.
            parameter.copy_(torch.randn_like(parameter) / 3 if parameter.ndim > 1 else torch.zeros_like(parameter))
    *cases, longer = [(q, k, v, mask.to(own_mask_type(code))) for q, k, v, mask in multi_head_cases()]
    return {
        "seen": [both(module(*case)) for case in cases],
        "7 keys for 5 queries": attempt(lambda: both(module(*longer))),
        "parameters": {name: parameter for name, parameter in module.named_parameters() if parameter.ndim > 1},
        "10 dimensions for 3 heads": attempt(lambda: type(code.attention.MultiHeadAttention(10, 3)).__name__),
    }


def readings(parameters: dict[str, torch.Tensor], heads: int, size: int) -> list[list[torch.Tensor]]:
    """The size x size projections, in each of the ways in which the parameters can be read as such.

    Three in one matrix are taken apart, in blocks or head by head; what each head has for itself is put together.
    """
    groups = {}  # parameters whose names differ in a number only
    for name, parameter in parameters.items():
        groups.setdefault((re.sub(r"\d+", "*", name), parameter.shape), []).append(parameter)
    width = size // heads
    whole = []
    for (_, shape), group in groups.items():
        if len(group) % heads == 0 and tuple(shape) in ((width, size), (size, width)):
            side = list(shape).index(width)
            whole += [torch.cat(group[k : k + heads], side) for k in range(0, len(group), heads)]
        elif tuple(shape) == (heads, size, width):
            whole += [matrix.movedim(0, 1).flatten(1) for matrix in group]
        else:
            whole += [matrix.flatten(0, -2) if shape[-1] == size else matrix.flatten(1) for matrix in group]
    blocks, by_head = [], []
    for matrix in whole:
        if matrix.shape[1] == size and matrix.shape[0] % size == 0:
            parts = matrix.shape[0] // size
            blocks += matrix.split(size, 0)
            by_head += [part.flatten(0, 1) for part in matrix.unflatten(0, (heads, parts, width)).unbind(1)]
        elif matrix.shape[0] == size and matrix.shape[1] % size == 0:
            parts = matrix.shape[1] // size
            blocks += matrix.split(size, 1)
            by_head += [part.flatten(1) for part in matrix.unflatten(1, (heads, parts, width)).unbind(2)]
    return [blocks, by_head]


def multi_head(weights, query, key, value, mask, variant: str = ""):
    """Multi-head attention with 3 heads and four given matrices; `variant` names a mistake."""
    q, k, v = (x @ matrix.T for x, matrix in zip((query, key, value), weights, strict=False))
    if variant == "split":
        q, k, v = (x.reshape(x.shape[0], 3, x.shape[1], 4) for x in (q, k, v))
    else:
        q, k, v = (x.unflatten(-1, (3, 4)).transpose(1, 2) for x in (q, k, v))
    if variant == "scale":
        q = q * 2  # undoes the division by √4
    if variant == "width":
        q = q * 2 / math.sqrt(12)
    output, attention = torch_attention(q, k, v, None if variant == "mask" else mask)
    output = output.reshape(query.shape) if variant == "combine" else output.transpose(1, 2).flatten(2)
    return output if variant == "output" else output @ weights[3].T, attention


@judge
def _(seen):
    *cases, longer = multi_head_cases()
    both_readings = [matrices[:5] for matrices in readings(seen["parameters"], 3, 12) if len(matrices) >= 4]
    for output, weights in seen["seen"]:
        if shape_of(output) != "[2, 5, 12]":
            raise Wrong(f"The output for queries [2, 5, 12] should have their shape, but is {shape_of(output)}.")
        if weights is not None and shape_of(weights) != "[2, 3, 5, 5]":
            raise Wrong(
                "The weights should be [batch, heads, Tq, Tk], [2, 3, 5, 5] here, for each head its own, but are "
                f"{shape_of(weights)}."
            )
    if not both_readings:
        numbers = sum(parameter.numel() for parameter in seen["parameters"].values())
        if numbers < 4 * 12 * 12:
            raise Wrong(
                f"Its matrices have {numbers} numbers; for queries, keys, values and the output it needs four matrices "
                "of d_model x d_model, 576 numbers here. A plain list hides modules from PyTorch: use attributes or "
                "nn.ModuleList."
            )
        return ["your projections are stored in a way that this check does not know, so results were not compared."]

    def gives(variant: str, cases: list, seen: list) -> bool:
        """Whether some order of the matrices, with this mistake, gives what was seen."""
        orders = itertools.chain(*(itertools.permutations(matrices, 4) for matrices in both_readings))
        # nn.Linear keeps its matrix transposed; a matrix of one's own may stand beside it.
        for order, turned, last_turned in itertools.product(orders, (False, True), (False, True)):
            chosen = [matrix.T if turned else matrix for matrix in order[:3]]
            chosen.append(order[3].T if last_turned else order[3])
            if all(agrees(multi_head(chosen, *case, variant), both) for case, both in zip(cases, seen, strict=True)):
                return True
        return False

    different = seen["seen"][1:]
    if not gives("", cases, seen["seen"]):
        named = {
            "mask": "The mask is not handed on to scaled_dot_product_attention.",
            "scale": "The scores of the heads are not divided by √d_k (d_k = d_model / num_heads = 4 here).",
            "width": "The scores are divided by √d_model. Divide by √d_k, the width of one head.",
            "split": "Heads are split by a view alone, so a head gets parts of other positions: use split_heads.",
            "combine": "Heads are joined without transposing back: use combine_heads.",
            "output": "The output projection is missing: combine the heads, then apply a fourth matrix.",
        }
        for variant, message in named.items():
            if gives(variant, cases[1:], different):
                raise Wrong(message)
        query, key, value, mask = cases[1]
        swapped = {
            "Keys are computed from `query`; they come from `key`.": (query, query, value, mask),
            "Values are computed from `key`; they come from `value`.": (query, key, key, mask),
            "Values are computed from `query`; they come from `value`.": (query, key, query, mask),
            "Keys are computed from `value`; they come from `key`.": (query, value, value, mask),
            "Keys and values change places: keys come from `key`, values from `value`.": (query, value, key, mask),
            "Queries, keys and values are all computed from `query`.": (query, query, query, mask),
        }
        for message, case in swapped.items():
            if gives("", [case], different):
                raise Wrong(message)
        raise Wrong(
            "With three different inputs and a mask, no assignment of your matrices to queries, keys, values and "
            "output gives your result. In order: project, split_heads, scaled_dot_product_attention with the mask, "
            "combine_heads, project. Is the result of each step used in the next?"
        )
    if isinstance(seen["7 keys for 5 queries"], str):
        raise Wrong(
            f"Right for 5 queries and 5 keys; for 5 queries and 7 keys: {seen['7 keys for 5 queries']}. Attention to "
            "the source needs it. Take lengths from the tensor itself, not from `query`."
        )
    if not gives("", [longer], [seen["7 keys for 5 queries"]]):
        raise Wrong(
            "Right for 5 queries and 5 keys, wrong for 5 queries and 7 keys, which attention to the source needs."
        )
    remarks = []
    if any(weights is None for _, weights in seen["seen"]):
        remarks.append("MultiHeadAttention returns no weights unless asked; the docstring wants (output, weights).")
    if seen["10 dimensions for 3 heads"] == "MultiHeadAttention":
        remarks.append("MultiHeadAttention(10, 3) is not refused: 10 dimensions cannot be split among 3 heads.")
    return remarks


def agrees(right: tuple, found: list) -> bool:
    """Output and weights; weights that were not returned agree with anything."""
    return same(right[0], found[0]) and (found[1] is None or same(right[1], found[1]))


# --- model -----------------------------------------------------------------------------------------------------------


def formula(positions: torch.Tensor, width: int) -> torch.Tensor:
    """[T] -> [T, width]: sin(p / 10000^(2i/width)) in column 2i, cos in column 2i + 1, in double precision"""
    angles = positions.double().unsqueeze(1) / 10_000 ** (torch.arange(0, width, 2).double() / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def expect_formula(found, right: torch.Tensor, what: str) -> None:
    """What was added to zeros must be the formula; `right` is [T, width]."""
    length, width = right.shape
    position = torch.arange(length)
    angles = position.double().unsqueeze(1) / 10_000 ** (torch.arange(0, width, 2).double() / width)
    other = position.double().unsqueeze(1) / 10_000 ** (torch.arange(width // 2).double() / width)
    mistakes = {
        "Positions are counted from 1; the first is 0.": formula(position + 1, width),
        "Sines fill the first half of the columns and cosines the second. The formula alternates: sin in column 2i, "
        "cos in column 2i + 1.": torch.cat([angles.sin(), angles.cos()], 1),
        "Sines and cosines change places: even columns are sines.": torch.stack(
            [angles.cos(), angles.sin()], -1
        ).flatten(1),
        "The exponent is i / d where the formula has 2i / d.": torch.stack([other.sin(), other.cos()], -1).flatten(1),
        "All columns are sines: the odd ones should be cosines.": torch.stack([angles.sin(), angles.sin()], -1).flatten(
            1
        ),
        "Nothing is added to x.": torch.zeros(length, width),
    }
    expect(
        found,
        right[None].expand(2, -1, -1).float(),
        what,
        {message: result[None].expand(2, -1, -1).float() for message, result in mistakes.items()},
        "PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos(p / 10000^(2i/d)), the same for each row of the batch.",
    )


def added(module, length: int, width: int) -> torch.Tensor:
    """What a module of positions adds to x."""
    x = random(2, length, width, seed=7)
    return first(module(x)).detach() - x


@check("model.position", "PositionalEncoding adds the formula's sines and cosines")
def _(code):
    module = with_names(code.model.PositionalEncoding, {"d_model": 16, "max_len": 40, "dropout": 0.0}).eval()
    return added(module, 24, 16), sum(p.numel() for p in module.parameters() if p.requires_grad)


@judge
def _(seen):
    found, parameters = seen
    expect_formula(found, formula(torch.arange(24), 16), "What is added to x, for 24 positions of 16 dimensions,")
    if parameters:
        raise Wrong(f"It has {parameters} trainable numbers. The formula is fixed: register_buffer, not nn.Parameter.")


@check("model.feed_forward", "FeedForward is W2 relu(W1 x + b1) + b2, on each position alone")
def _(code):
    module = with_names(code.model.FeedForward, {"d_model": 8, "d_ff": 20, "dropout": 0.5}).eval()
    x = random(2, 5, 8, seed=8)
    return {
        "output": first(module(x)),
        "again": first(module(x)),
        "turned": first(module(x.flip(1))),
        "parameters": {name: parameter for name, parameter in module.named_parameters()},
    }


@judge
def _(seen):
    output = seen["output"]
    x = random(2, 5, 8, seed=8)
    expect_steady(output, seen["again"], "[2, 5, 8]")
    if not same(seen["turned"], output.flip(1)):
        raise Wrong(
            "A position's output depends on the other positions. The same two layers act on each position alone."
        )
    found = seen["parameters"].values()
    named = {shape(p): p for p in (p.squeeze(-1) if p.ndim == 3 else p for p in found)}  # a convolution of width 1
    inner = named.get("[20, 8]")
    outer = named.get("[8, 20]")
    if inner is None or outer is None:
        sizes = ", ".join(named) or "none"
        raise Wrong(f"It needs a matrix from 8 to 20 dimensions and one back. Its parameters: {sizes}.")
    hidden = x @ inner.T + named.get("[20]", torch.zeros(20))
    bias = named.get("[8]", torch.zeros(8))
    if same(output, hidden.relu() @ outer.T + bias):
        return None
    if same(output, (x @ outer + named.get("[20]", torch.zeros(20))).relu() @ inner + bias):  # x W1 in place of W1 x
        return None
    expect_not = {
        "There is no ReLU: two linear layers without one between them are one linear layer.": hidden @ outer.T + bias,
        "The ReLU comes after the second layer. It belongs between the two.": (hidden @ outer.T + bias).relu(),
        "There is a ReLU after the second layer, too: nothing could ever be subtracted from x.": (
            hidden.relu() @ outer.T + bias
        ).relu(),
        "x is added: the residual connection belongs to the layers around it.": hidden.relu() @ outer.T + bias + x,
    }
    for message, result in expect_not.items():
        if same(output, result):
            raise Wrong(message)
    for name in ("gelu", "silu", "elu", "leaky_relu", "tanh"):
        if same(output, getattr(torch.nn.functional, name)(hidden) @ outer.T + bias):
            return [f"FeedForward uses {name}; the homework's formula has a ReLU."]
    raise Wrong(
        f"It differs from W2 relu(W1 x + b1) + b2, on your own weights, by up to "
        f"{distance(output, hidden.relu() @ outer.T + bias):.3g}."
    )


def expect_steady(output, again, size: str, when: str = "") -> None:
    """An output must have this shape, and in eval mode be the same twice."""
    if shape_of(output) != size:
        raise Wrong(f"The output{when} should be {size}, but is {shape_of(output)}.")
    if not same(output, again, nan=True):
        raise Wrong("In eval mode one input gives two outputs. Use nn.Dropout: model.eval() switches it off.")


def silence(module: nn.Module) -> None:
    """Set every matrix to zero, and the biases beside it; layer norms stay. What remains is the residual stream."""
    for part in module.modules():
        own = [*part.parameters(recurse=False)]
        if any(parameter.ndim > 1 for parameter in own):
            for parameter in own:
                parameter.data.zero_()


def expect_residuals(found, x: torch.Tensor) -> None:
    """After `silence` a layer hands x on, up to layer norms."""
    if same(F.layer_norm(found, x.shape[-1:]), F.layer_norm(x, x.shape[-1:]), 1e-2):
        return
    raise Wrong(
        "With all matrices set to zero the layer should hand x on (x + 0, up to the layer norms), but it does not: a "
        "residual connection is missing. Each sublayer is x + sublayer(…)."
    )


def layer(code, name: str) -> nn.Module:
    values = {"d_model": 16, "num_heads": 2, "d_ff": 24, "dropout": 0.5}
    return with_names(getattr(code.model, name), values).eval()


@check(
    "model.encoder",
    "EncoderLayer: attention among positions, mask respected, residuals and layer norms",
    "attention.multihead model.feed_forward",
)
def _(code):
    module = layer(code, "EncoderLayer")
    x = random(2, 6, 16, seed=9)
    mask = torch.ones(2, 1, 1, 6).to(own_mask_type(code))
    mask[..., 4:] = 0
    changed = x.clone()
    changed[:, 4:] = random(2, 2, 16, seed=10)
    order = [3, 0, 5, 1, 4, 2]
    other = x.clone()
    other[:, 0] = random(2, 16, seed=11)
    seen = {
        "output": first(module(x, None)),
        "again": first(module(x, None)),
        "permuted": first(module(x[:, order], None)),
        "first changed": first(module(other, None)),
        "large": [first(module(factor * x, None)) - factor * x for factor in (1000, 2000)],
        "masked": first(module(x, mask)),
        "masked, changed": first(module(changed, mask)),
    }
    silence(module)
    return seen | {"silent": first(module(x, None))}


@judge
def _(seen):
    x = random(2, 6, 16, seed=9)
    output = seen["output"]
    order = [3, 0, 5, 1, 4, 2]
    expect_steady(output, seen["again"], "[2, 6, 16]")
    if not same(seen["permuted"], output[:, order], 1e-3):
        raise Wrong(
            "With the positions in another order each should get the same output as before. Is there a mask inside?"
        )
    if same(seen["first changed"][:, 1:], output[:, 1:], 1e-6):
        raise Wrong(
            "Position 0 was changed, and no other position's output is different: is the attention's output used?"
        )
    if not same(seen["masked"][:, :4], seen["masked, changed"][:, :4], 1e-4):
        raise Wrong(
            "With a mask [2, 1, 1, 6] that hides positions 4 and 5, changing them changes the outputs of the others "
            f"by up to {distance(seen['masked'][:, :4], seen['masked, changed'][:, :4]):.2g}. Hand the mask on to the "
            "attention."
        )
    expect_residuals(seen["silent"], x)
    expect_norms(output, *seen["large"])


def expect_norms(output: torch.Tensor, large: torch.Tensor, larger: torch.Tensor) -> None:
    """Norms after the sublayers leave rows of one size; with norms before them, what is added to x does not grow."""
    size = output.square().mean(-1).sqrt()
    if same(size, size.mean().expand_as(size), 1e-2) or same(large, larger, 2e-2):
        return
    raise Wrong(
        f"A layer norm is missing: outputs have sizes from {size.min():.2f} to {size.max():.2f}, where norms after "
        "the sublayers make all alike, and what is added to x grows with x, which norms before them prevent. Each "
        "sublayer has its own."
    )


@check(
    "model.decoder",
    "DecoderLayer: causal, attends to the memory, both masks respected",
    "attention.multihead model.feed_forward",
)
def _(code):
    module = layer(code, "DecoderLayer")
    x = random(2, 5, 16, seed=12)
    memory = random(2, 7, 16, seed=13)
    causal = torch.ones(1, 1, 5, 5).tril().to(own_mask_type(code))
    padding = torch.ones(2, 1, 1, 7).to(own_mask_type(code))
    padding[..., 5:] = 0
    later = x.clone()
    later[:, 3:] = random(2, 2, 16, seed=14)
    earlier = x.clone()
    earlier[:, 0] = random(2, 16, seed=17)
    hidden = memory.clone()
    hidden[:, 5:] = random(2, 2, 16, seed=15)
    other = memory.clone()
    other[:, 1] = random(2, 16, seed=16)
    seen = {
        "output": first(module(x, memory, padding, causal)),
        "again": first(module(x, memory, padding, causal)),
        "later tokens changed": first(module(later, memory, padding, causal)),
        "first token changed": first(module(earlier, memory, padding, causal)),
        "hidden memory changed": first(module(x, hidden, padding, causal)),
        "seen memory changed": first(module(x, other, padding, causal)),
        "large": [first(module(factor * x, memory, padding, causal)) - factor * x for factor in (1000, 2000)],
    }
    silence(module)
    return seen | {"silent": first(module(x, memory, padding, causal))}


@judge
def _(seen):
    x = random(2, 5, 16, seed=12)
    output = seen["output"]
    expect_steady(output, seen["again"], "[2, 5, 16]")
    if same(seen["seen memory changed"], output, 1e-6):
        raise Wrong(
            "The encoder's output can change without any effect: cross-attention takes keys and values from it."
        )
    if not same(seen["later tokens changed"][:, :3], output[:, :3], 1e-4):
        raise Wrong(
            "With a causal tgt_mask, changing x at positions 3 and 4 changes outputs before them. Self-attention "
            "needs tgt_mask."
        )
    if same(seen["first token changed"][:, 1:], output[:, 1:], 1e-6):
        raise Wrong("Changing x at position 0 changes no later output: is the self-attention's output used?")
    if not same(seen["hidden memory changed"], output, 1e-4):
        raise Wrong(
            "Changing what src_mask hides of the encoder's output changes the result: cross-attention needs src_mask."
        )
    expect_residuals(seen["silent"], x)
    expect_norms(output, *seen["large"])


def build_model(code, encoder_layers: int = 2, decoder_layers: int = 2, dropout: float = 0.0) -> nn.Module:
    values = {"vocab_size": VOCABULARY, "d_model": 32, "num_heads": 4}
    values |= {"num_encoder_layers": encoder_layers, "num_decoder_layers": decoder_layers}
    return with_names(code.model.Seq2SeqTransformer, values | {"d_ff": 64, "dropout": dropout, "max_len": 32})


def logits_of(code, model, src, tgt, src_mask=None):
    """The model's logits, with a causal mask, if it takes masks."""
    takes = inspect.signature(model.forward).parameters
    masks = {"tgt_mask": torch.ones(1, 1, tgt.shape[1], tgt.shape[1]).tril().to(own_mask_type(code))}
    if src_mask is not None:
        masks["src_mask"] = src_mask.to(own_mask_type(code))
    return first(model(src, tgt, **{name: mask for name, mask in masks.items() if name in takes}))


def answer_of(a: int, b: int) -> list[int]:
    return [int(digit) for digit in f"{a + b:04}"]


PAIRS = [(123, 456), (999, 104), (250, 250), (347, 159), (812, 388), (604, 405), (555, 446), (731, 206)]
MORE_PAIRS = [(100, 207), (909, 191), (468, 332), (777, 333), (215, 790), (640, 361), (831, 177), (302, 507)]


def rows(pairs) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources [N, 7] and targets [N, 4]"""
    sources = [[*map(int, str(a)), PLUS, *map(int, str(b))] for a, b in pairs]
    return torch.tensor(sources), torch.tensor([answer_of(a, b) for a, b in pairs])


def started(targets: torch.Tensor) -> torch.Tensor:
    """What the decoder reads: START, then all digits but the last."""
    return torch.cat([torch.full_like(targets[:, :1], START), targets[:, :-1]], 1)


@check(
    "model.logits",
    "Seq2SeqTransformer gives logits [B, T, vocabulary], the same twice in eval mode",
    "model.encoder model.decoder",
)
def _(code):
    model = build_model(code, dropout=0.5).eval()
    sources, targets = rows(PAIRS)
    return [logits_of(code, model, sources, started(targets)) for _ in range(2)]


@judge
def _(seen):
    expect_steady(*seen, f"[8, 4, {VOCABULARY}]")
    if not torch.isfinite(seen[0]).all():
        raise Wrong("The logits are not finite. Look at the masks: a query that may attend to nothing gives NaN.")
    if same(seen[0].sum(-1), torch.ones(8, 4)) or same(seen[0].exp().sum(-1), torch.ones(8, 4)):
        raise Wrong(
            "The outputs are probabilities. CrossEntropyLoss applies the softmax itself: return the last layer's "
            "output."
        )


@check(
    "model.causal",
    "no logit depends on later target tokens; each depends on earlier ones, and on their order",
    "model.logits",
)
def _(code):
    model = build_model(code).eval()
    sources, targets = rows(PAIRS)
    tokens = started(targets)
    later = tokens.clone()
    later[:, 2:] = (later[:, 2:] + 3) % 10
    earlier = tokens.clone()
    earlier[:, 1] = (earlier[:, 1] + 3) % 10
    four_seven = torch.tensor([[START, 4, 7, 5]]).expand(8, -1)
    seven_four = torch.tensor([[START, 7, 4, 5]]).expand(8, -1)
    shallow = build_model(code, 1, 1).eval()  # a second causal layer could tell the order even without positions
    return {
        "tokens": logits_of(code, model, sources, tokens),
        "later": logits_of(code, model, sources, later),
        "earlier": logits_of(code, model, sources, earlier),
        "47": logits_of(code, shallow, sources, four_seven)[:, 3],
        "74": logits_of(code, shallow, sources, seven_four)[:, 3],
        "takes a mask": "tgt_mask" in inspect.signature(model.forward).parameters,
    }


@judge
def _(seen):
    if not same(seen["tokens"][:, :2], seen["later"][:, :2]):
        where = "`forward` takes no tgt_mask and makes none."
        if seen["takes a mask"]:
            where = "Hand tgt_mask on to each decoder layer."
        raise Wrong(
            "Changing target tokens 2 and 3 changes the logits at positions 0 and 1: every position sees the digit "
            f"that it should predict. {where}"
        )
    if same(seen["tokens"][:, 2:], seen["earlier"][:, 2:], 1e-6):
        raise Wrong(
            "Changing target token 1 changes no later logit: the decoder does not see what it has written so far."
        )
    if same(seen["47"], seen["74"]):
        raise Wrong("After the digits 4, 7 the model says the same as after 7, 4: the decoder gets no positions.")


@check("model.source", "logits depend on the source and its order, and not on what src_mask hides", "model.logits")
def _(code):
    model = build_model(code).eval()
    sources, targets = rows(PAIRS)
    tokens = started(targets)
    other = sources.clone()
    other[:, 0] = other[:, 0] % 9 + 1
    turned = sources.clone()
    turned[:, [0, 2]] = sources[:, [2, 0]]
    padded = F.pad(sources, (0, 2), value=PAD)
    changed = F.pad(sources, (0, 2), value=5)
    mask = torch.ones(8, 1, 1, 9)
    mask[..., 7:] = 0
    seen = {
        "source": logits_of(code, model, sources, tokens),
        "other": logits_of(code, model, other, tokens),
        "turned": logits_of(code, model, turned, tokens),
    }
    if "src_mask" in inspect.signature(model.forward).parameters:
        seen["hidden"] = [logits_of(code, model, source, tokens, mask) for source in (padded, changed)]
        memory = first(model.encode(padded, mask.to(own_mask_type(code))))
        seen["memory"] = [memory, first(model.encode(changed, mask.to(own_mask_type(code))))]
    return seen


@judge
def _(seen):
    if same(seen["source"], seen["other"], 1e-6):
        raise Wrong("Changing the first digit of the source changes no logit: the decoder does not see the source.")
    if same(seen["source"], seen["turned"]):
        raise Wrong("347 and 743 as first number give the same logits: the encoder gets no positions.")
    if "hidden" not in seen:
        return ["`forward` takes no src_mask. The homework's sums have one length, so nothing has to be hidden."]
    if not same(*(memory[:, :7] for memory in seen["memory"])):
        raise Wrong(
            "Changing source tokens that src_mask hides changes the encoder's output elsewhere: hand src_mask on to "
            "its layers."
        )
    if not same(*seen["hidden"]):
        raise Wrong(
            "Changing source tokens that src_mask hides changes the logits, though not what the encoder makes of the "
            "others: hand src_mask on to the decoder, too."
        )


@check("model.parameters", "every layer has parameters of its own, and gradients reach all of them", "model.logits")
def _(code):
    sizes = {}
    for shape_of_model in ((1, 1), (3, 1), (1, 3)):
        sizes[str(shape_of_model)] = sum(p.numel() for p in build_model(code, *shape_of_model).parameters())
    for name in ("EncoderLayer", "DecoderLayer"):
        values = {"d_model": 32, "num_heads": 4, "d_ff": 64, "dropout": 0.0}
        sizes[name] = sum(p.numel() for p in with_names(getattr(code.model, name), values).parameters())
    model = build_model(code)
    sources, targets = rows(PAIRS)
    F.cross_entropy(logits_of(code, model, sources, started(targets)).transpose(1, 2), targets).backward()
    silent = [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or (parameter.ndim > 1 and not parameter.grad.any()))
    ]
    return {"sizes": sizes, "silent": silent}


@judge
def _(seen):
    sizes = seen["sizes"]
    for kind, deep in (("EncoderLayer", "(3, 1)"), ("DecoderLayer", "(1, 3)")):
        grown = sizes[deep] - sizes["(1, 1)"]
        if grown != 2 * sizes[kind]:
            raise Wrong(
                f"Two more layers should bring twice the {sizes[kind]:,} parameters of an {kind}, but bring "
                f"{grown:,}. One layer used several times ([layer] * n), layers in a plain list, or a number of "
                "layers that is not used?"
            )
    if seen["silent"]:
        names = ", ".join(seen["silent"][:4]) + (" …" if len(seen["silent"]) > 4 else "")
        raise Wrong(
            f"After a backward pass {len(seen['silent'])} parameters have no gradient: {names}. They are never used, "
            "or cut off."
        )


def memorise(code) -> dict:
    """A model after 150 steps on eight sums. Adam by hand: importing torch.optim's takes two seconds."""
    if "learned" in code.cache:
        return code.cache["learned"]
    torch.manual_seed(0)
    model = build_model(code)
    sources, targets = rows(PAIRS)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    moments = [(torch.zeros_like(parameter), torch.zeros_like(parameter)) for parameter in parameters]
    losses = []
    for step in range(1, 151):
        loss = F.cross_entropy(logits_of(code, model, sources, started(targets)).transpose(1, 2), targets)
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient, (mean, square) in zip(parameters, gradients, moments, strict=True):
                if gradient is None:
                    continue
                mean.lerp_(gradient, 0.1)
                square.lerp_(gradient.square(), 0.02)
                step_size = 3e-3 * min(1, step / 20) / (1 - 0.9**step)
                parameter -= step_size * mean / ((square / (1 - 0.98**step)).sqrt() + 1e-8)
    code.cache["learned"] = {"model": model.eval(), "losses": losses}
    return code.cache["learned"]


@check(
    "model.learns", "the model learns eight sums by heart in 150 steps", "model.causal model.source model.parameters"
)
def _(code):
    learned = memorise(code)
    sources, targets = rows(PAIRS)
    with torch.no_grad():
        return learned["losses"], logits_of(code, learned["model"], sources, started(targets))


@judge
def _(seen):
    losses, logits = seen
    right = int((logits.argmax(-1) == rows(PAIRS)[1]).all(1).sum())
    if right < 8:
        raise Wrong(
            f"After 150 steps the loss is {losses[-1]:.2f} (at the beginning {losses[0]:.2f}), and {right} of the 8 "
            "sums are right. A sound model has all 8. Look at how layers are initialised, and at embeddings that are "
            "far smaller or larger than the position codes."
        )


@check("model.generate", "generate writes what greedy decoding with your own forward writes", "model.learns")
def _(code):
    model = memorise(code)["model"]
    sources, _ = rows(PAIRS)
    takes = inspect.signature(model.generate).parameters
    device = {"device": "cpu"} if "device" in takes else {}
    seen = {"device": str(takes["device"].default) if device else "cpu", "found": {}, "greedy": {}}
    for start in (START, 3):
        tokens = torch.full((8, 1), start)
        with torch.no_grad():
            for _ in range(6):
                tokens = torch.cat([tokens, logits_of(code, model, sources, tokens)[:, -1:].argmax(-1)], 1)
        seen["greedy"][start] = tokens
        seen["found"][start] = model.generate(sources, max_len=5, start_token=start, **device)
    return seen


@judge
def _(seen):
    for start in (START, 3):
        found = seen["found"][start]
        greedy = seen["greedy"][start]
        if not torch.is_tensor(found) or found.ndim != 2 or not 4 <= found.shape[1] <= 6 or len(found) != 8:
            raise Wrong(f"generate(8 sources, max_len=5) should return tokens [8, 5], but returns {shape_of(found)}.")
        length = found.shape[1]
        with_start = greedy[:, :length]
        without = greedy[:, 1 : length + 1]
        if torch.equal(found, with_start) or torch.equal(found, without):
            continue
        body = found[:, 1:] if (found[:, 0] == start).all() else found
        agree = [int((body[:, i] == greedy[:, i + 1]).sum()) for i in range(4)]
        raise Wrong(
            f"From start token {start}: of the 8 answers {agree[0]}, {agree[1]}, {agree[2]} and {agree[3]} have the "
            "first, second, third and fourth token that your own forward would choose. Begin with start_token; use a "
            "causal mask; take the argmax at the last position; append it."
        )
    if seen["device"] not in ("cpu", "None"):
        return [f"generate takes device={seen['device']!r} unless told otherwise; src.device works everywhere."]


# --- training --------------------------------------------------------------------------------------------------------


class Batch(dict):
    """A batch that is a dictionary, and a tuple too: `batch["input"]` works, and `for source, target in loader`."""

    def __iter__(self):
        return iter(self.values())


def json_of_sums(pairs) -> list[dict]:
    sources, targets = rows(pairs)
    return [{"input": s, "target": t} for s, t in zip(sources.tolist(), targets.tolist(), strict=True)]


def json_of_sequences() -> list[dict]:
    values = [sorted((7 * i * i + 13 * j * (i + 1)) % 100 for j in range(8 + i % 5)) for i in range(16)]
    values = [row if i % 2 else row[::-1] for i, row in enumerate(values)]
    return [{"sequence": row, "is_sorted": int(row == sorted(row)), "length": len(row)} for row in values]


def write_data(code, train: list[dict], other: list[dict]) -> Path:
    """A data folder with these rows in train.json, and in val.json and test.json."""
    folder = Path(tempfile.mkdtemp(dir=code.scratch))
    for name, part in (("train", train), ("val", other), ("test", other)):
        (folder / f"{name}.json").write_text(json.dumps(part))
    return folder


def loader_of(code, data: list[dict], batch: Batch):
    """The rows in batches of eight: by the student's own dataset.py if it can, otherwise from `batch`."""
    try:
        loader = code.dataset.create_dataloaders(str(write_data(code, data, data)), 8)[1]  # that of val.json
        if sum(len(next(iter(part.values())) if isinstance(part, dict) else part[0]) for part in loader) == len(data):
            return loader
    except Exception:
        pass
    items = [{name: tensor[i] for name, tensor in batch.items()} for i in range(len(data))]
    collate = lambda part: Batch({name: torch.stack([item[name] for item in part]) for name in part[0]})  # noqa: E731
    return torch.utils.data.DataLoader(items, batch_size=8, collate_fn=collate)


def sums_loader(code, pairs):
    sources, targets = rows(pairs)
    return loader_of(code, json_of_sums(pairs), Batch(input=sources, target=targets))


class Optimizer:
    """Stands in for an optimizer: notes the gradients of each step, and leaves the weights as they are."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.steps = []
        self.param_groups = [{"params": [*model.parameters()], "lr": 1e-3}]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.model.parameters():
            parameter.grad = None

    def step(self, *_, **__) -> None:
        gradients = [
            p.grad.flatten() if p.grad is not None else torch.zeros(p.numel()) for p in self.model.parameters()
        ]
        self.steps.append(torch.cat(gradients).detach().clone())

    def state_dict(self) -> dict:
        return {}


def call(function, model, loader, optimizer=None):
    """Call train_epoch or evaluate with what its parameters are named after."""
    given = {
        "model": model,
        "load": loader,
        "data": loader,
        "crit": nn.CrossEntropyLoss(),
        "loss": nn.CrossEntropyLoss(),
    }
    given |= {"optim": optimizer, "device": torch.device("cpu"), "sched": types.SimpleNamespace(step=lambda *_: None)}
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        fitting = [value for part, value in given.items() if part in name.lower()]
        if fitting:
            arguments[name] = fitting[0]
        elif parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            raise TypeError(f"{function.__name__} has a parameter {name!r} that this check does not know")
    return function(**arguments)


def repeater(model: nn.Module, forward, given: dict):
    """A function that makes this very call again, some of its arguments changed: in eval mode, without gradients."""

    def again(**changed) -> torch.Tensor:
        mode = model.training
        model.eval()
        with torch.no_grad():
            logits = first(forward(model, **(given | changed)))
        model.train(mode)
        return logits

    return again


def sees_ahead(call: dict) -> bool:
    """Whether the first logits of a call of the seq2seq model, with its masks, change with the decoder's last token."""
    name = call["names"][1]
    tokens = call["inputs"][1]
    if tokens.ndim != 2 or tokens.shape[1] < 2 or tokens.is_floating_point():
        return False
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 3) % 10
    return not same(call["again"]()[:, 0], call["again"](**{name: other})[:, 0])


def shows_padding(call: dict) -> bool:
    """Whether the mask (or the lengths) that a call of the classifier was given hides something else than padding."""
    if len(call["parameters"]) < 2:
        return False
    name = call["parameters"][1]
    real = call["inputs"][0] != 100
    right = real.sum(1) if "len" in name else real.float()
    given = call["inputs"][1] if len(call["inputs"]) > 1 else None
    if given is not None:
        if given.numel() != right.numel():
            return False
        right = right.reshape(given.shape).to(given.dtype)
    return not same(call["again"](), call["again"](**{name: right}), 1e-3)


@contextlib.contextmanager
def watch(class_name: str, instead=None):
    """Note each call of a model of this class: its arguments, its logits (with gradients), its mode.

    instead(arguments, logits) -> other logits, to be given back in place of the model's own.
    """
    calls = []
    originals = {}
    modules = [module for module in [*sys.modules.values()] if isinstance(module, types.ModuleType)]
    for cls in {vars(module).get(class_name) for module in modules}:
        if inspect.isclass(cls):
            originals[cls] = cls.forward

    def watched(original):
        names = [*inspect.signature(original).parameters][1:]

        def forward(self, *arguments, **keywords):
            output = original(self, *arguments, **keywords)
            named = dict(zip(names, arguments, strict=False)) | keywords
            logits = first(output)
            if logits.requires_grad:
                logits.retain_grad()
            tensors = {name: value for name, value in named.items() if torch.is_tensor(value)}
            inputs = [*tensors.values()][:2]
            call = {"inputs": inputs, "names": [*tensors], "logits": logits, "training": self.training}
            calls.append(call | {"parameters": names, "again": repeater(self, original, named)})
            if instead is None or (torch.is_grad_enabled() and logits.requires_grad and self.training):
                return output
            changed = instead(inputs, logits)
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        forward.__wrapped__ = original
        return forward

    for cls, original in originals.items():
        cls.forward = watched(original)
    try:
        yield calls
    finally:
        for cls, original in originals.items():
            cls.forward = original


def has_functions(code) -> bool:
    """Whether train.py has the homework's functions. A train.py without any is watched while it runs as a script."""
    names = ("train_epoch", "compute_accuracy", "calculate_accuracy")
    return any(hasattr(code.train.module, name) for name in names)


def run_script(code, data: Path, *more: str) -> dict:
    """Run train.py for one epoch of eight rows; returns training_log.json and the number of the optimizer's steps."""
    output = Path(tempfile.mkdtemp(dir=code.scratch))
    flags = {
        "--data-dir": data,
        "--output-dir": output,
        "--batch-size": 8,
        "--epochs": 1,
        "--d-model": 32,
        "--d-ff": 64,
    }
    flags |= {"--num-heads": 4, "--num-layers": 1, "--dropout": 0, "--device": "cpu", "--seed": 1}
    from torch.optim.optimizer import register_optimizer_step_post_hook

    steps = []
    hook = register_optimizer_step_post_hook(lambda *_: steps.append(1))
    before = sys.argv
    sys.argv = ["train.py", *more, *map(str, itertools.chain(*flags.items()))]
    try:
        runpy.run_path(str(code.folder / "train.py"), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"train.py ended with exit code {end.code}") from None
    finally:
        sys.argv = before
        hook.remove()
    logs = [*output.rglob("training_log.json")]
    return {"log": json.loads(logs[0].read_text()) if logs else {}, "steps": len(steps)}


def calm(model: nn.Module) -> nn.Module:
    """Without dropout, whatever its default is: a gradient is then that of its batch."""
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return model


def train_once(code) -> dict:
    """One epoch on two batches; what the model was given, and the gradient at its logits."""
    if "trained" in code.cache:
        return code.cache["trained"]
    torch.manual_seed(0)
    if has_functions(code):
        model = calm(build_model(code)).eval()
        optimizer = Optimizer(model)
        alone = Optimizer(model)
        with watch("Seq2SeqTransformer") as calls:
            call(code.train.train_epoch, model, sums_loader(code, PAIRS + MORE_PAIRS), optimizer)
            optimizer.zero_grad()
            call(code.train.train_epoch, model, sums_loader(code, MORE_PAIRS), alone)
        seen = steps_of(optimizer, alone, calls)
    else:
        import_leniently("train")  # so that the model's class is there to be watched
        with watch("Seq2SeqTransformer") as calls:
            ran = run_script(code, write_data(code, json_of_sums(PAIRS), json_of_sums(MORE_PAIRS)))
        seen = {"steps": ran["steps"], "expected": 1}
    kept = [one for one in calls if one["logits"].requires_grad and len(one["inputs"]) == 2]
    code.cache["trained"] = seen | {
        "modes": [one["training"] for one in kept],
        "calls": [(*one["inputs"], one["logits"].grad) for one in kept],
        "ahead": any(map(sees_ahead, kept)),
    }
    return code.cache["trained"]


def steps_of(optimizer: Optimizer, alone: Optimizer, calls: list) -> dict:
    """The number of steps for two batches, and the gradient of the second: after the first batch, and alone."""
    seen = {"steps": len(optimizer.steps), "expected": 2}
    batches = [sorted(one["inputs"][0].tolist()) for one in calls]
    if len(optimizer.steps) == 2 and len(alone.steps) == 1 and len(batches) == 3 and batches[1] == batches[2]:
        seen["gradients"] = [optimizer.steps[1], alone.steps[0]]
    return seen


def answers_of(sources: torch.Tensor) -> torch.Tensor | None:
    """[N, S] -> [N, 4] the sums, read off the source tokens"""
    answers = []
    for row in sources.tolist():
        if PLUS not in row or row.index(PLUS) != 3 or len(row) < 7 or max(row[:3] + row[4:7]) > 9:
            return None
        a, b = (int("".join(map(str, digits))) for digits in (row[:3], row[4:7]))
        answers.append(answer_of(a, b))
    return torch.tensor(answers)


def alignment(tokens: torch.Tensor, answers: torch.Tensor) -> int:
    """Which digit the decoder should write at its first position: 0 after a start token, 1 after the first digit."""
    return 1 if torch.equal(tokens[:, 0], answers[:, 0]) else 0


def loss_sees(calls: list) -> dict:
    """From the gradients at the logits: which digits of the answers the loss sees, and what the decoder is told."""
    seen = set()
    zeros = set()
    given = set()
    starts = set()
    for sources, tokens, gradient in calls:
        answers = answers_of(sources)
        if answers is None or gradient is None or gradient.ndim != 3:
            continue
        offset = alignment(tokens, answers)
        if offset == 0:
            starts |= {*tokens[:, 0].tolist()}
        for position in range(gradient.shape[1]):
            reached = gradient[:, position].abs().amax(-1) > 0
            wanted = gradient[:, position].argmin(-1)  # the loss pulls up the logit of what it wants to see
            if not reached.any():
                continue
            for digit in range(4):
                if torch.equal(wanted[reached], answers[reached, digit]) and digit - position in (offset, 0, 1, -1):
                    seen.add(digit)
                    zeros |= {*reached[answers[:, digit] == 0].tolist()}
                    for earlier in range(position + 1):
                        if torch.equal(tokens[reached, earlier], wanted[reached]) and reached.sum() > 4:
                            given.add(digit)
    return {"digits": sorted(seen), "zeros": zeros != {False}, "given away": sorted(given), "starts": sorted(starts)}


@check("training.accuracy", "accuracy counts whole answers, and zeros count", "")
def _(code):
    targets = rows(PAIRS)[1]
    if not has_functions(code):
        return {"script": {kind: evaluate_as(code, kind) for kind in ("right", "half", "zeros")}}
    train = code.train.module
    function = getattr(train, "calculate_accuracy", None) or code.train.compute_accuracy
    pad = [p for name, p in inspect.signature(function).parameters.items() if "pad" in name]
    more = [PAD] if pad and pad[0].default is inspect.Parameter.empty else []

    def accuracy(guesses, targets):
        result = function(F.one_hot(guesses, VOCABULARY).float() * 9, targets, *more)
        return [float(number) for number in (result if isinstance(result, (tuple, list)) else [result])]

    half = targets.clone()
    padded = F.pad(targets, (0, 2), value=PAD)
    half[:4] = spoiled(half[:4])
    seen = {"right": accuracy(targets, targets), "half": accuracy(half, targets)}
    seen["zeros"] = accuracy(torch.where(targets == 0, 5, targets), targets)
    if pad:
        more = [PAD]
        seen["padding"] = attempt(accuracy, torch.where(padded == PAD, 5, padded), padded)
    return seen


@judge
def _(seen):
    if "script" in seen:
        return judge_accuracies(seen["script"], "val_acc of training_log.json")
    columns = {name: values for name, values in seen.items() if name != "padding"}
    right = [
        i for i in range(len(seen["right"])) if columns_at(columns, i) == {"right": 1.0, "half": 0.5, "zeros": 0.0}
    ]
    if not right:
        judge_accuracies(columns_at(columns, -1), "compute_accuracy")
    padding = seen.get("padding")
    if padding is not None and (isinstance(padding, str) or abs(padding[right[0]] - 1) > 1e-3):
        return ["padding in the targets is counted as wrong. The homework's answers have one length, so there is none."]


def spoiled(answers: torch.Tensor) -> torch.Tensor:
    """The answers with one digit wrong, their last that is not 0."""
    answers = answers.clone()
    for row in answers:
        place = int(row.nonzero().max())
        row[place] = row[place] % 9 + 1
    return answers


def columns_at(columns: dict, index: int) -> dict:
    return {name: round(values[index], 3) for name, values in columns.items()}


def judge_accuracies(seen: dict, what: str) -> None:
    if abs(seen["right"] - 1) > 1e-3:
        raise Wrong(f"All 8 answers are right, and {what} says {seen['right']:.3g}. It should be 1.")
    if abs(seen["half"] - 0.875) < 1e-3:
        raise Wrong(
            f"4 of 8 answers have one wrong digit of four, and {what} says 0.875: that is the share of digits. An "
            "answer is right if all its digits are: 0.5 here."
        )
    if abs(seen["half"] - 0.5) > 1e-3:
        raise Wrong(f"4 of 8 answers have a wrong digit, and {what} says {seen['half']:.3g} where 0.5 are right.")
    if 1e-3 < seen["zeros"] < 1 - 1e-3:
        raise Wrong(
            f"Every 0 of the 8 answers is answered 5, and {what} says {seen['zeros']:.3g}; none is right. Does it look "
            "at every digit, the first one, too?"
        )
    if seen["zeros"] > 1e-3:
        raise Wrong(
            f"Every 0 of the 8 answers is answered 5, and {what} says {seen['zeros']:.3g}; none is right. Zeros are "
            "left out like padding (pad_token=0?), but 0 is a digit. Give padding a token of its own."
        )


@check("training.loss", "the loss sees every digit of the answer, and none is given away", "model.logits")
def _(code):
    return loss_sees(train_once(code)["calls"]) | {"ahead": train_once(code)["ahead"]}


@judge
def _(seen):
    digits = seen["digits"]
    names = ["first", "second", "third", "fourth"]
    missing = [names[i] for i in range(4) if i not in digits]
    if len(missing) == 4:
        raise Wrong(
            "No digit of the answers could be told from the gradients at the logits. Is there a backward pass of the "
            "loss?"
        )
    if missing == ["first"]:
        raise Wrong(
            "Of the 4 digits of each answer the loss sees 3: the first one is the decoder's first input, and never "
            "learned. Half of all sums begin with 1, and the model will have to guess. Put a start token before the "
            "target: read [START, t1, t2, t3], predict [t1, t2, t3, t4]."
        )
    if missing:
        raise Wrong(f"Of the 4 digits of each answer the loss sees {len(digits)}; missing: {', '.join(missing)}.")
    if not seen["zeros"]:
        raise Wrong(
            "The loss skips every digit 0, as if it were padding: zeros are never learned. Give padding a token of "
            "its own."
        )
    if seen["given away"]:
        raise Wrong(
            f"The decoder reads the {names[seen['given away'][0]]} digit before or while it has to predict it: it can "
            "copy. Its input at a position is what comes before: [START, t1, t2, t3] for [t1, t2, t3, t4]."
        )
    if seen["ahead"]:
        raise Wrong(
            "While it predicts a digit the decoder sees the digits after it, among them the one it should predict: it "
            "can copy. Give the model a causal tgt_mask (create_causal_mask) in train_epoch."
        )


@check("training.step", "each batch makes one step, with this batch's gradient alone, in training mode", "model.logits")
def _(code):
    return {name: value for name, value in train_once(code).items() if name not in ("calls", "ahead")}


@judge
def _(seen):
    judge_steps(seen)


def judge_steps(seen: dict) -> None:
    if seen["steps"] < seen["expected"]:
        raise Wrong(
            f"{seen['expected']} batches made {seen['steps']} steps of the optimizer. Each should make one: "
            "loss.backward(), then optimizer.step()."
        )
    if not all(seen["modes"]):
        raise Wrong("The model is in eval mode while it is trained: dropout does nothing. Call model.train() first.")
    if seen.get("gradients"):
        second, alone = seen["gradients"]
        if not alone.any():
            raise Wrong(
                "The gradients are zero when the optimizer steps: zero_grad() belongs before backward(), not after it."
            )
        cosine = F.cosine_similarity(second, alone, dim=0)
        if cosine < 0.99:
            raise Wrong(
                f"The second step's gradient is not that of the second batch alone (cosine {cosine:.2f}): gradients of "
                "earlier batches are added to it. Call optimizer.zero_grad() for each batch."
            )


def counterfeit(kind: str):
    """What takes the place of a model's logits: right answers, but for a planted error."""

    def instead(inputs, logits):
        answers = answers_of(inputs[0])
        if answers is None:
            return logits
        tokens = inputs[1]
        offset = alignment(tokens, answers)
        wrong = answers.clone()
        if kind == "first":
            wrong[:, 0] = 1 - wrong[:, 0]
        if kind == "last":
            wrong = spoiled(wrong)
        if kind == "half":
            wrong[::2] = spoiled(wrong[::2])
        if kind == "zeros":
            wrong = torch.where(wrong == 0, 5, wrong)
        width = logits.shape[1]
        ending = torch.full((len(wrong), max(0, width + offset - 4)), logits.shape[-1] - 1)
        told = torch.cat([wrong, ending], 1)[:, offset : offset + width]
        return F.one_hot(told, logits.shape[-1]).to(logits) * 9

    return instead


def evaluate_as(code, kind: str) -> float:
    """The accuracy that the student's evaluation finds for such a model."""
    with watch("Seq2SeqTransformer", counterfeit(kind)) as calls:
        if has_functions(code):
            with torch.no_grad():
                result = call(code.train.evaluate, build_model(code, dropout=0.5).train(), sums_loader(code, PAIRS))
            accuracy = float(result[-1] if isinstance(result, (tuple, list)) else result)
        else:
            log = run_script(code, write_data(code, json_of_sums(PAIRS), json_of_sums(PAIRS)))["log"]
            accuracy = float(log["val_acc"][-1])
    code.cache["evaluation modes"] = [c["training"] for c in calls if not c["logits"].requires_grad]
    code.cache["evaluation ahead"] = any(map(sees_ahead, calls))
    return accuracy


@check("training.evaluate", "evaluate notices a wrong first digit, and switches dropout off", "model.logits")
def _(code):
    accuracies = {kind: evaluate_as(code, kind) for kind in ("right", "half", "first", "last")}
    return accuracies | {"modes": code.cache["evaluation modes"], "ahead": code.cache["evaluation ahead"]}


@judge
def _(seen):
    if not seen["modes"]:
        return ["evaluate does not call the model itself, so this check could not put another model in its place."]
    if abs(seen["right"] - 1) > 1e-3:
        raise Wrong(f"For a model that answers everything right evaluate finds an accuracy of {seen['right']:.3g}.")
    if seen["first"] > 1e-3 and seen["last"] > 1e-3:
        raise Wrong(
            f"For a model with a wrong digit late in each answer evaluate finds an accuracy of {seen['last']:.3g}; no "
            "answer is right. An answer counts if all its digits are right."
        )
    if abs(seen["first"] - 0.5) < 1e-3:
        raise Wrong(
            "For a model whose first digits are all wrong evaluate counts the answers that begin with 0 as right: "
            "zeros are left out like padding, but 0 is a digit."
        )
    if seen["first"] > 1e-3:
        raise Wrong(
            f"For a model whose first digits are all wrong and the others right evaluate finds an accuracy of "
            f"{seen['first']:.3g}; no answer is right. It never looks at the first digit: it has to be predicted, "
            "after a start token."
        )
    if seen["last"] > 1e-3:
        raise Wrong(
            f"For a model with a wrong digit late in each answer evaluate finds an accuracy of {seen['last']:.3g}; no "
            "answer is right. An answer counts if all its digits are right."
        )
    if seen["ahead"]:
        raise Wrong(
            "While it predicts a digit the decoder sees the digits after it: what evaluate finds is not what greedy "
            "decoding gives. Give the model a causal tgt_mask (create_causal_mask)."
        )
    if abs(seen["half"] - 0.5) > 1e-3:
        raise Wrong(f"4 of 8 answers are right, and evaluate finds {seen['half']:.3g}.")
    if any(seen["modes"]):
        raise Wrong(
            "evaluate leaves the model in training mode, so dropout disturbs what is measured. Call model.eval() first."
        )


@check("training.tokens", "start token and padding are no digits", "model.logits")
def _(code):
    ignored = []
    train = code.train
    tree = ast.parse((code.folder / "train.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else []:
            if keyword.arg == "ignore_index":
                value = keyword.value
                value = (
                    vars(train.module).get(value.id) if isinstance(value, ast.Name) else getattr(value, "value", None)
                )
                ignored.append((node.lineno, value if isinstance(value, int) else -1))
    return {"ignored": ignored, "starts": loss_sees(train_once(code)["calls"])["starts"]}


@judge
def _(seen):
    for line, token in seen["ignored"]:
        if 0 <= token <= 9:
            raise Wrong(
                f"train.py, line {line}: ignore_index={token} makes the loss skip every digit {token} of the answers, "
                "as if it were padding. Give padding a token of its own."
            )
    digits = [token for token in seen["starts"] if token <= 9]
    if digits:
        raise Wrong(
            f"The decoder begins each answer with token {digits[0]}, which is also the digit {digits[0]}: generate's "
            "output and the answer are then easily compared one place off. Take a token that is no digit."
        )


# --- encodings -------------------------------------------------------------------------------------------------------


def encoding(code, name: str, max_len: int = 20) -> nn.Module:
    return with_names(getattr(code.positional_encoding, name), {"d_model": 16, "max_len": max_len}).eval()


@check("encodings.one_code", "a position has the same sinusoidal code in sequences of every length")
def _(code):
    module = encoding(code, "SinusoidalPositionalEncoding")
    return [added(module, length, 16) for length in (20, 16, 9)]


@judge
def _(seen):
    longest, *shorter = seen
    for found in shorter:
        length = found.shape[1]
        if same(found, longest[:, :length]):
            continue
        differing = [p for p in range(length) if not same(found[:, p], longest[:, p])]
        explained = ""
        for text, positions in {
            f"position x {20 / length:.3g} (max_len / length)": torch.arange(length) * 20 / length,
            "position / length": torch.arange(length) / length,
            "position / (length - 1)": torch.arange(length) / (length - 1),
        }.items():
            if same(found[0], formula(positions, 16).float(), 1e-3):
                explained = (
                    f"Yours equals the formula at {text}. That is position interpolation, another scheme: what you "
                    "find of it is no finding about sinusoidal codes."
                )
        raise Wrong(
            f"Position {differing[0]} has another code in a sequence of {length} than in one of 20. It should have one "
            f"code whatever the length. {explained}"
        )


@check("encodings.sinusoidal", "the sinusoidal codes are the formula's, and fixed", "encodings.one_code")
def _(code):
    module = encoding(code, "SinusoidalPositionalEncoding")
    return added(module, 20, 16), sum(p.numel() for p in module.parameters() if p.requires_grad)


@judge
def _(seen):
    found, parameters = seen
    expect_formula(found, formula(torch.arange(20), 16), "What is added to x, for 20 positions of 16 dimensions,")
    if parameters:
        raise Wrong(f"It has {parameters} trainable numbers. The formula is fixed: register_buffer, not nn.Parameter.")


@check("encodings.beyond", "the sinusoidal codes go on beyond max_len", "encodings.sinusoidal")
def _(code):
    module = encoding(code, "SinusoidalPositionalEncoding")
    return attempt(added, module, 50, 16)


@judge
def _(seen):
    what = "With max_len 20 and a sequence of 50"
    if isinstance(seen, str):
        raise Wrong(f"{what}: {seen[:200]}. Compute the codes that the table does not hold from the formula.")
    right = formula(torch.arange(50), 16)
    for text, positions in {
        "the last row": torch.arange(50).clamp(max=19),
        "the table from its start": torch.arange(50) % 20,
    }.items():
        if same(seen[0], formula(positions, 16).float(), 1e-3):
            raise Wrong(f"{what} positions from 20 on take {text}: compute them from the formula.")
    expect_formula(seen, right, f"{what}, what is added to x")


@check("encodings.learned", "the learned codes are rows of one trained table, max_len x d_model")
def _(code):
    module = encoding(code, "LearnedPositionalEncoding")
    x = random(2, 9, 16, seed=7)
    output = first(module(x))
    if output.requires_grad:
        (output * random(2, 9, 16, seed=8)).sum().backward()
    table = [parameter for parameter in module.parameters() if parameter.numel() == 320]
    return {
        "added": output.detach() - x,
        "sizes": [shape(parameter) for parameter in module.parameters()],
        "table": table[0].reshape(20, 16) if table else None,
        "gradient": table[0].grad.reshape(20, 16) if table and table[0].grad is not None else None,
        "beyond": attempt(added, module, 25, 16),
    }


@judge
def _(seen):
    table = seen["table"]
    found = seen["added"]
    if table is None:
        sizes = ", ".join(seen["sizes"]) or "none"
        raise Wrong(
            f"No parameter holds max_len x d_model = 20 x 16 numbers (its parameters: {sizes}). Use "
            "nn.Embedding(max_len, d_model)."
        )
    if seen["gradient"] is None:
        raise Wrong(
            "No gradient reaches the table, so it is never trained. Look for a buffer, .detach(), .data or "
            "requires_grad=False."
        )
    mistakes = {
        "Every position gets row 0 of the table.": table[:1].expand(9, -1),
        "Position p gets row p + 1: count from 0.": table[1:10],
        "Rows are taken in reverse order.": table[:9].flip(0),
    }
    mistakes = {message: rows[None].expand(2, -1, -1) for message, rows in mistakes.items()}
    expect(found, table[None, :9].expand(2, -1, -1), "What is added to x", mistakes, "Position p gets row p.")
    if same(table[0], table[1]) or same(table[0], table[19]):
        raise Wrong("All rows of the new table are alike, so positions cannot be told apart: initialise it at random.")
    if not seen["gradient"][:9].any(1).all():
        raise Wrong("After a backward pass some of the nine rows that were used have no gradient.")
    beyond = seen["beyond"]
    if torch.is_tensor(beyond) and not same(beyond[:, 20:], table[None, 19:].expand(2, 5, -1)):
        return ["beyond max_len it neither takes the last row nor says that there is none."]


@check("encodings.none", "NoPositionalEncoding returns x")
def _(code):
    module = encoding(code, "NoPositionalEncoding")
    return first(module(random(2, 9, 16, seed=7))), sum(p.numel() for p in module.parameters() if p.requires_grad)


@judge
def _(seen):
    expect(seen[0], random(2, 9, 16, seed=7), "The output", {}, "It should be x itself.")
    if seen[1]:
        raise Wrong(f"It has {seen[1]} trainable numbers. There should be none.")


@check("encodings.factory", "get_positional_encoding gives each of the three by its name", "encodings.none")
def _(code):
    make = code.positional_encoding.get_positional_encoding
    seen = {}
    for name in ("sinusoidal", "learned", "none"):
        module = make(name, 16, 20).eval()
        seen[name] = [added(module, 9, 16), sum(p.numel() for p in module.parameters() if p.requires_grad)]
    seen["unknown"] = attempt(lambda: type(make("no such name", 16, 20)).__name__)
    return seen


@judge
def _(seen):
    nothing = torch.zeros(2, 9, 16)
    if not same(seen["none"][0], nothing, 1e-5) or seen["none"][1]:
        raise Wrong('"none" should add nothing and have no parameters.')
    if seen["sinusoidal"][1] or same(seen["sinusoidal"][0], nothing):
        raise Wrong('"sinusoidal" should add the fixed codes; it adds nothing or has parameters.')
    if seen["learned"][1] != 320:
        raise Wrong(
            f'"learned" with d_model 16 and max_len 20 should have 320 parameters, but has {seen["learned"][1]}.'
        )
    if seen["unknown"] in ("NoneType", "NoPositionalEncoding"):
        return ["an unknown name is not refused: a misspelt --encoding would train another model without a word."]


# --- sorting ---------------------------------------------------------------------------------------------------------


def build_sorter(code, name: str, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    values = {
        "vocab_size": 101,
        "d_model": 32,
        "num_heads": 4,
        "num_layers": 2,
        "d_ff": 64,
        "dropout": dropout,
        "max_len": 64,
    }
    takes = inspect.signature(code.model.SortingClassifier).parameters
    return code.model.create_model(name, **{key: value for key, value in values.items() if key in takes})


def sorter_logits(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Logits of rows in which 100 is padding, told as a mask or as lengths."""
    real = tokens != 100
    names = [*inspect.signature(model.forward).parameters]
    if len(names) > 1 and "len" in names[1]:
        return first(model(tokens, real.sum(1)))
    return first(model(tokens, mask=real.float()) if "mask" in names else model(tokens))


def sequences() -> torch.Tensor:
    """[4, 10] values from 0 to 99"""
    return torch.randint(100, (4, 10), generator=torch.Generator().manual_seed(1))


@check(
    "sorting.logits",
    "the classifier gives logits [B, 2], with every encoding, the same twice in eval mode",
    "encodings.factory attention.multihead",
)
def _(code):
    seen = {}
    for name in ("sinusoidal", "learned", "none"):
        model = build_sorter(code, name, dropout=0.5).eval()
        seen[name] = [sorter_logits(model, sequences()) for _ in range(2)]
    return seen


@judge
def _(seen):
    for name, (found, again) in seen.items():
        expect_steady(found, again, "[4, 2]", f" with encoding {name!r}")


@check("sorting.padding", "padding changes nothing", "sorting.logits")
def _(code):
    padded = F.pad(sequences(), (0, 4), value=100)
    models = {name: build_sorter(code, name).eval() for name in ("learned", "none")}
    return {name: [sorter_logits(m, sequences()), sorter_logits(m, padded)] for name, m in models.items()}


@judge
def _(seen):
    for name, (plain, padded) in seen.items():
        if not same(plain, padded, 1e-3):
            raise Wrong(
                f"With encoding {name!r}, four padding tokens behind a sequence of 10 change its logits by up to "
                f"{distance(plain, padded):.2g}, though the mask hides them. The attention needs the mask, and so "
                "does the mean over positions: sum over real tokens / number of real tokens."
            )


@check("sorting.positions", "order matters with positions, and does not without", "sorting.logits")
def _(code):
    turned = sequences().flip(1)
    models = {name: build_sorter(code, name).eval() for name in ("sinusoidal", "learned", "none")}
    return {name: [sorter_logits(m, sequences()), sorter_logits(m, turned)] for name, m in models.items()}


@judge
def _(seen):
    for name in ("sinusoidal", "learned"):
        if same(*seen[name], 1e-6):
            raise Wrong(
                f"With encoding {name!r} a sequence and its reverse give the same logits: the codes are not used."
            )
    if not same(*seen["none"], 1e-3):
        raise Wrong(
            "With encoding 'none' a sequence and its reverse give different logits: positions enter in some other way."
        )


@check("sorting.size", "learned codes are not dwarfed by the embeddings that they are added to", "sorting.logits")
def _(code):
    torch.manual_seed(0)
    # with your own width and max_len
    model = code.model.create_model("learned").eval()
    sizes = []
    for module in model.modules():
        if type(module).__name__ == "LearnedPositionalEncoding":
            module.register_forward_hook(lambda m, x, y: sizes.append((rms(x[0]), rms(first(y) - x[0]))))
    sorter_logits(model, sequences())
    return sizes


def rms(tensor: torch.Tensor) -> float:
    return tensor.square().mean().sqrt().item()


@judge
def _(seen):
    for embeddings, codes in seen:
        if codes < 0.15 * embeddings:
            raise Wrong(
                f"In the new model the learned codes have size {codes:.2g}, the embeddings that they are added to "
                f"{embeddings:.2g}: they drown, and such models often never leave the constant answer. Does "
                "_init_weights draw the table anew, like a matrix? Leave it out, and start it at a size of about 0.7, "
                "as sinusoidal codes have."
            )


@check("sorting.step", "an epoch of problem 2's train.py makes one step a batch, in training mode", "sorting.logits")
def _(code):
    torch.manual_seed(0)
    data = json_of_sequences()
    if not has_functions(code):
        import_leniently("train")  # so that the model's class is there to be watched
        with watch("SortingClassifier") as calls:
            ran = run_script(code, write_data(code, data, data), "--encoding", "none")
        calls = [one for one in calls if one["logits"].requires_grad]
        return {
            "steps": ran["steps"],
            "expected": 2,
            "modes": [one["training"] for one in calls],
            "shows padding": any(map(shows_padding, calls)),
        }
    batch = batch_of_sequences(data)
    model = calm(build_sorter(code, "none")).eval()
    optimizer = Optimizer(model)
    alone = Optimizer(model)
    late = Batch({name: tensor[8:] for name, tensor in batch.items()})
    with watch("SortingClassifier") as calls:
        call(code.train.train_epoch, model, loader_of(code, data, batch), optimizer)
        optimizer.zero_grad()
        call(code.train.train_epoch, model, loader_of(code, data[8:], late), alone)
    seen = steps_of(optimizer, alone, calls) | {"modes": [one["training"] for one in calls]}
    return seen | {"shows padding": any(map(shows_padding, calls))}


NOT_HIDDEN = (
    "{} hands the model a mask that is not 1 at real tokens and 0 at padding, or none at all: padding counts then, or "
    "real tokens do not."
)


@judge
def _(seen):
    judge_steps(seen)
    if seen["shows padding"]:
        raise Wrong(NOT_HIDDEN.format("train_epoch"))


def batch_of_sequences(data: list[dict]) -> Batch:
    tokens = torch.tensor([row["sequence"] + [100] * (12 - row["length"]) for row in data])
    labels, lengths = (torch.tensor([row[key] for row in data]) for key in ("is_sorted", "length"))
    return Batch(sequence=tokens, label=labels, length=lengths, mask=(tokens != 100).float())


@check("sorting.evaluate", "evaluate of problem 2 counts the rows that are right, in eval mode", "sorting.padding")
def _(code):
    data = json_of_sequences()
    number = {tuple(row["sequence"]): i for i, row in enumerate(data)}

    def answers(wrong_before: int):
        """Logits of a model that is right but for the first rows of the data."""

        def instead(inputs, logits):
            told = []
            for tokens in inputs[0].tolist():
                row = number.get(tuple(token for token in tokens if token != 100))
                if row is None:  # tokens of one's own
                    return logits
                told.append(data[row]["is_sorted"] ^ (row < wrong_before))
            seen["recognised"] = True
            return F.one_hot(torch.tensor(told), 2).to(logits) * 9

        return instead

    seen = {"recognised": False}
    for name, wrong in (("right", 0), ("half", len(data) // 2)):
        import_leniently("train")  # so that the model's class is there to be watched
        with watch("SortingClassifier", answers(wrong)) as calls:
            if has_functions(code):
                model = build_sorter(code, "none", dropout=0.5).train()
                with torch.no_grad():
                    result = call(code.train.evaluate, model, loader_of(code, data, batch_of_sequences(data)))
                seen[name] = float(result[-1] if isinstance(result, (tuple, list)) else result)
            else:
                log = run_script(code, write_data(code, data, data), "--encoding", "none")["log"]
                seen[name] = float(log["val_acc"][-1])
        calls = [one for one in calls if not one["logits"].requires_grad]
    return seen | {"modes": [one["training"] for one in calls], "shows padding": any(map(shows_padding, calls))}


@judge
def _(seen):
    if not seen["recognised"]:
        return ["evaluate gives the model no rows that this check knows, so it could not put another in its place."]
    if abs(seen["right"] - 1) > 1e-3:
        raise Wrong(
            f"For a model that is right on every row evaluate finds an accuracy of {seen['right']:.3g}, not 1. Logit 1 "
            "is that of label 1, sorted; the accuracy comes last of what is returned."
        )
    if abs(seen["half"] - 0.5) > 1e-3:
        raise Wrong(
            f"A model is wrong on the first 8 of 16 rows, and evaluate finds an accuracy of {seen['half']:.3g}: count "
            "the rows of every batch."
        )
    if any(seen["modes"]):
        raise Wrong("evaluate leaves the model in training mode, so dropout disturbs it. Call model.eval() first.")
    if seen["shows padding"]:
        raise Wrong(NOT_HIDDEN.format("evaluate"))


# --- the process that runs the student's code ------------------------------------------------------------------------


class Names:
    """A student's module; what it lacks is to do."""

    def __init__(self, module: types.ModuleType):
        self.module = module

    def __getattr__(self, name: str):
        if not hasattr(self.module, name):
            raise Missing(f"{self.module.__name__}.py has no {name}")
        return getattr(self.module, name)


class Code:
    """The student's files: code.attention is attention.py, imported when it is first asked for."""

    def __init__(self, folder: Path, scratch: Path, say):
        self.folder = folder
        self.scratch = scratch
        self.say = say
        self.cache = {}
        self.importing = None

    def __getattr__(self, name: str) -> Names:
        if not (self.folder / f"{name}.py").exists():
            raise Missing(f"there is no {name}.py")
        self.importing = name
        self.say("import", name)
        names = Names(import_leniently(name))
        torch.set_default_dtype(torch.float32)  # of what the probes make
        self.say("imported", name)
        self.importing = None
        setattr(self, name, names)
        return names


DRAWING = ("matplotlib", "seaborn", "plotly", "pandas", "scipy", "sklearn", "wandb", "tensorboard", "IPython", "google")


def import_leniently(name: str) -> types.ModuleType:
    """Import a module; packages that draw or log, where they are not installed, are replaced by empty ones."""
    while True:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not error.name or error.name.partition(".")[0] not in DRAWING:
                raise
            sys.modules[error.name] = MagicMock()


def plain(value):
    """The value as tensors, numbers, texts, lists and dictionaries."""
    if torch.is_tensor(value):
        return value.detach().cpu().contiguous().clone()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)[:200]


# Events that Python announces before they happen (sys.addaudithook), by how their names begin.
PROCESSES = ("os.fork", "os.posix_spawn", "os.exec", "os.system", "os.kill", "os.startfile", "subprocess.", "pty.")
NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "urllib.")
FILES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
FILES += ("shutil.rmtree", "shutil.move")


def limit(folder: Path) -> None:
    """Bounds for what comes: memory, file sizes, no writing outside the folder, no other processes, no network.

    They stop accidents and simple tricks. They are no sandbox.
    """
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
        with contextlib.suppress(ValueError, OSError):  # macOS knows the name and takes no number
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    inside = os.path.realpath(folder)

    def outside(path) -> bool:
        if path is None or isinstance(path, int):
            return False
        path = os.path.realpath(os.fsdecode(path))
        return path != os.devnull and path != inside and not path.startswith(inside + os.sep)

    def watchman(event: str, arguments) -> None:
        if event == "open":
            path, _, flags = arguments
            writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writing and outside(path):
                path = os.fsdecode(path)
                raise PermissionError(f"the checks let your code write only in its own folder, not to {path}")
        elif event.startswith(FILES):
            if any(outside(path) for path in arguments[:2] if isinstance(path, (str, bytes, os.PathLike))):
                raise PermissionError("the checks let your code change only files in its own folder")
        elif event.startswith(PROCESSES + NETWORK) or event == "ctypes.dlopen":
            raise PermissionError(f"the checks let your code touch no other process and no network ({event})")

    sys.addaudithook(watchman)


def describe(error: BaseException, folder: Path) -> dict:
    """What an exception says, and where it was raised: the last line of the student's own."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder.parent)]
    seen = {"type": type(error).__name__, "text": " ".join(str(error).split())[:300], "where": None, "file": ""}
    if own:
        seen["where"] = f"{Path(own[-1].filename).name}, line {own[-1].lineno}: {(own[-1].line or '')[:100]}"
        seen["file"] = Path(own[-1].filename).name
    if isinstance(error, SyntaxError) and error.filename:
        seen["where"] = f"{Path(error.filename).name}, line {error.lineno}: {(error.text or '').strip()[:100]}"
        seen["text"] = error.msg or ""
    unwritten = isinstance(error, NameError) and own and never_calls_model(own[-1].filename, own[-1].name)
    absent = isinstance(error, AttributeError) and not own and isinstance(error.obj, nn.Module)
    seen["to do"] = isinstance(error, (NotImplementedError, Missing)) or bool(unwritten) or absent
    return seen


def never_calls_model(file: str, function: str) -> bool:
    """Whether a function with a parameter `model` never calls it: such a stub fails at the first name it lacks."""
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == function and "model" in [a.arg for a in node.args.args]:
            called = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
            return not any(isinstance(f, ast.Name) and f.id == "model" for f in called)
    return False


def make_importable(here: Path, top: Path) -> None:
    """Let the code in `here` find its neighbours, also as `from src.attention …` where there is no folder src."""
    sys.path[:0] = [str(here), str(here.parent), str(top)]
    if not (here / "src").exists() and not (here.parent / "src").exists():
        sys.modules["src"] = types.ModuleType("src")
        sys.modules["src"].__path__ = [str(here)]


def probe_main(root: str, folder: str, names: list[str]) -> None:
    """In the process of its own: run the probes and write what they have seen to what was the standard output."""
    channel = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)

    def say(*message) -> None:
        buffer = io.BytesIO()
        torch.save(message, buffer)
        channel.write(len(buffer.getvalue()).to_bytes(8, "big") + buffer.getvalue())
        channel.flush()

    torch.set_num_threads(1)
    here = Path(folder)
    top = Path(root)
    scratch = top.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    tempfile.tempdir = str(scratch)
    os.chdir(here)
    make_importable(here, top)
    limit(top.parent)
    run_probes(Code(here, scratch, say), names)


def run_probes(code: Code, names: list[str]) -> None:
    for name in names:
        code.say("start", name)
        torch.manual_seed(0)
        try:
            seen = plain(CHECKS[name].probe(code))
        except BaseException as error:
            code.say("raised", name, describe(error, code.folder), code.importing)
            code.importing = None
        else:
            code.say("seen", name, seen)


# --- the process that judges -----------------------------------------------------------------------------------------

SKIPPED = {"__pycache__", "__MACOSX", "node_modules", "site-packages", "venv", "env"}
MOST = 2**26  # bytes that a process may report


def find(folder: Path) -> dict[int, Path]:
    """The folder of each problem: problem1 (problem2), or the shallowest that holds its file. Problem 2 may have an
    attention.py, too."""
    found = {}
    for here, folders, files in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith(".")) if depth < 6 else []
        if "positional_encoding.py" in files:
            found.setdefault(2, []).append((depth, here))
        elif "attention.py" in files:
            found.setdefault(1, []).append((depth, here))
    if 1 not in found and 2 in found:  # everything in one folder
        found |= {1: [(d, here) for d, here in found[2] if os.path.exists(os.path.join(here, "attention.py"))]}
    chosen = {}
    for problem, places in sorted(found.items()):
        if places:  # a folder of the homework's name before a copy beside it
            ours = [place for place in places if Path(place[1]).name == f"problem{problem}"]
            chosen[problem] = Path(min(ours or places)[1])
    return chosen


def copy_code(folder: Path, target: Path) -> None:
    """All Python files below the folder, to run from: what they write and change is thrown away with the copy."""
    count = 0
    for here, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in SKIPPED and not f.startswith(".")]
        place = target / Path(here).relative_to(folder)
        for name in files:
            path = Path(here) / name
            ordinary = name.endswith(".py") and not path.is_symlink() and path.is_file()
            if ordinary and path.stat().st_size < 2**20 and count < 2_000:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place / name)
                count += 1


def other_user() -> dict:
    """The user, as Popen takes it, that runs the student's code: the one named in CHECK_USER, if there is any."""
    name = os.environ.get("CHECK_USER")
    if not name:
        return {}
    import pwd  # not on Windows

    try:
        account = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"CHECK_USER is {name!r}, and there is no such user.") from None
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def hand_over(folder: Path, user: dict) -> None:
    """Let that user reach the folder and change what is in it."""
    folder.parent.chmod(0o711)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user["user"], user["group"])


def unpack(data: bytes):
    """What torch.save wrote: tensors and plain values only, and nothing compressed, which could be large unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            return None
    return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")


def well_formed(message) -> bool:
    """Whether this is a message as `run_probes` sends it."""
    if not isinstance(message, tuple) or not small_enough(message) or len(message) < 2:
        return False
    if message[0] == "raised":
        texts = message[2] if len(message) == 4 and isinstance(message[2], dict) else {}
        return {"type", "text", "where", "file", "to do"} <= {*texts} and not isinstance(message[3], (dict, list))
    return message[0] in ("start", "import", "imported") or (message[0] == "seen" and len(message) == 3)


def small_enough(value) -> bool:
    """Whether a report holds plain values only, and not too many numbers."""
    if torch.is_tensor(value):
        return value.layout is torch.strided and value.numel() < MOST // 8
    if isinstance(value, dict):
        return len(value) < 10_000 and all(small_enough(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return len(value) < 10_000 and all(small_enough(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))


def readable(text) -> str:
    """In one line, and without characters that would do something to a terminal."""
    line = " ".join(str(text).split())[:1000]
    return "".join(character if character.isprintable() else "?" for character in line)


class Child:
    """The process with the student's code, and the messages that come from it."""

    def __init__(self, root: Path, folder: Path, names: list[str]):
        kept = ("PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "LD_LIBRARY_PATH", "APPDATA", "VIRTUAL_ENV")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "Agg"}
        environment |= {
            "PYTHONUTF8": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "TMPDIR": str(root.parent),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(root.parent.parent / "check.py"), "--probe", str(root), str(folder), *names],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=root.parent,
            env=environment,
            start_new_session=True,
            **other_user(),
        )
        self.messages: queue.Queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stream = self.process.stdout
        total = 0
        with contextlib.suppress(Exception):  # whatever comes that is no report ends the reading
            while len(head := stream.read(8)) == 8:
                size = int.from_bytes(head, "big")
                total += size
                if total > MOST:
                    break
                message = unpack(stream.read(size))
                if not well_formed(message):
                    break
                self.messages.put(message)
        self.messages.put(None)

    def end(self) -> str:
        """Kill what is left of it; how it ended, in words."""
        code = self.process.poll()
        if code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.process.wait(0.2)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait()
        if code is None:
            return "was ended: what it sent could not be read"
        return f"was ended by signal {-code}" if code < 0 else f"ended itself with exit code {code}"


def run(folder: Path, names: list[str], report=lambda result: None) -> list[Result]:
    """Run these checks on the code below a folder; `report` is called with each result as it comes."""
    folder = Path(folder).resolve()
    places = find(folder)
    results = {}

    def say(name: str, verdict: str, message: str = "", remarks=()) -> None:
        absent = re.search(r"No module named '(\w+)", message)
        if absent and any((folder.parent / f"{absent[1]}{ending}").exists() for ending in ("", ".py")):
            verdict = "not tried"
            message = f"it imports {absent[1]}, which stands in {folder.parent}: check that folder"
        results[name] = Result(CHECKS[name], verdict, readable(message), [readable(remark) for remark in remarks])
        report(results[name])

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary, contextlib.ExitStack() as at_the_end:
        work = {}
        user = other_user()
        script = Path(temporary) / "check.py"  # another user need not be able to read this one
        shutil.copyfile(__file__, script)
        script.chmod(0o644)
        for problem, place in places.items():
            wanted = [name for name in names if CHECKS[name].problem == problem]
            if wanted:
                root = Path(temporary).resolve() / f"problem {problem}" / "code"
                copy_code(folder, root)
                here = root / place.relative_to(folder)
                if user:
                    hand_over(root.parent, user)
                child = Child(root, here, wanted)  # both problems' processes run from now on
                at_the_end.callback(child.end)
                work[problem] = (root, here, wanted, child)
        for problem, file in ((1, "attention.py"), (2, "positional_encoding.py")):
            if problem in work:
                run_problem(*work[problem], results, say)
            for name in names:
                if CHECKS[name].problem == problem and name not in results:
                    say(name, "to do", f"no {file} below {folder}")
    return [results[name] for name in names]


def run_problem(root: Path, folder: Path, names: list[str], child: "Child | None", results: dict, say) -> None:
    """Read what the child sends, check by check; after a crash or a timeout a new child goes on with the next."""
    waiting = [*names]
    broken = set()
    deadline = time.monotonic() + PROBLEM_SECONDS
    while waiting:
        child = child or Child(root, folder, waiting)
        try:
            while waiting:
                name = waiting[0]
                importing = None
                allowed = CHECK_SECONDS + (STARTING_SECONDS if child.messages.empty() else 0)
                until = min(time.monotonic() + allowed, deadline)
                outcome = None
                while outcome is None:
                    try:
                        message = child.messages.get(timeout=max(0, until - time.monotonic()))
                    except queue.Empty:
                        outcome = ("timeout",)
                        break
                    if message is None:
                        outcome = ("ended", child.end())
                    elif message[0] == "start":
                        until = min(time.monotonic() + CHECK_SECONDS, deadline)
                    elif message[0] in ("import", "imported"):
                        importing = message[1] if message[0] == "import" else None
                    elif message[0] in ("seen", "raised") and message[1] == name:
                        outcome = message
                waiting.pop(0)
                decide(CHECKS[name], outcome, importing, broken, results, say)
                if outcome[0] in ("timeout", "ended"):
                    break
        finally:
            child.end()
            child = None
        # What stands on a failed check, or on a file that cannot be imported, is not worth a new process.
        for name in [*waiting]:
            if failed(CHECKS[name], results) or broken & needs(name) or time.monotonic() > deadline:
                waiting.remove(name)
                decide(CHECKS[name], ("skipped",), None, broken, results, say)


def needs(name: str) -> set[str]:
    """The files that a check's part imports."""
    files = {"attention": {"attention"}, "model": {"attention", "model"}, "encodings": {"positional_encoding"}}
    files |= {"training": {"attention", "model", "train"}, "sorting": {"positional_encoding", "model"}}
    return files[name.partition(".")[0]]


def failed(one: Check, results: dict) -> list[str]:
    """The checks that this one stands on and that are wrong or not tried. (What is to do says so itself.)"""
    return [name for name in one.after if name in results and results[name].verdict in ("WRONG", "not tried")]


def decide(one: Check, outcome: tuple, importing: str | None, broken: set, results: dict, say) -> None:
    """The verdict on a check, from what came back of its probe."""
    kind = outcome[0]
    if missing := failed(one, results):
        return say(one.name, "not tried", f"it stands on {', '.join(missing)}")
    if kind == "skipped":
        reason = f"{', '.join(sorted(broken))}.py cannot be imported" if broken else "the time is up"
        return say(one.name, "not tried", reason)
    if kind == "seen":
        try:
            return say(one.name, "ok", "", one.judge(outcome[2]) or ())
        except Wrong as wrong:
            return say(one.name, "WRONG", str(wrong))
        except Exception:  # the report has not the form that the probe gives it
            message = "What came back from your code could not be read. Does it change PyTorch's functions?"
            return say(one.name, "WRONG", message)
    if kind == "raised":
        error = outcome[2]
        importing = outcome[3]
        where = f" ({error['where']})" if error["where"] else ""
        if error["to do"]:
            elsewhere = error["file"] not in PARTS[one.part] and f"{error['file']} is not written yet"
            return say(one.name, "to do", error["text"] if error["type"] == "Missing" else elsewhere or "")
        if importing in broken:
            return say(one.name, "not tried", f"{importing}.py cannot be imported")
        message = f"{error['type']}: {error['text']}{where}"
        for name, result in results.items():
            if where and result.message == readable(message):
                return say(one.name, "not tried", f"the same error as in {name}")
    elif kind == "timeout":
        message = f"It did not end within {CHECK_SECONDS} s. Is there an endless loop?"
    else:
        message = f"The process with your code {outcome[1]}."
    if importing:
        broken.add(importing)
        message = f"While {importing}.py was imported: {message}"
    say(one.name, "WRONG", message)


# --- the command -----------------------------------------------------------------------------------------------------


def wrap(text: str, indent: int, width: int = 110) -> str:
    import textwrap

    return textwrap.fill(text, width, initial_indent=" " * indent, subsequent_indent=" " * indent)


def show(result: Result) -> None:
    said = result.check.title
    if result.verdict in ("to do", "not tried") and result.message:
        said = f"({result.message})"
    print(f"{result.verdict:9}  {result.check.name:22} {said}", flush=True)
    if result.verdict == "WRONG":
        print(wrap(result.message, 11), flush=True)
    for remark in result.remarks:
        print(wrap(f"Remark: {remark}", 11), flush=True)


def summary(results: list[Result]) -> str:
    counts = {
        verdict: sum(result.verdict == verdict for result in results)
        for verdict in ("ok", "WRONG", "to do", "not tried")
    }
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{said}. Not looked at: {NOT_LOOKED_AT}."


def list_checks() -> None:
    for part, file in PARTS.items():
        print(f"\n{part}: {file}")
        for one in CHECKS.values():
            if one.part == part:
                print(f"  {one.name:22} {one.title}")
    print(f"\nNot looked at: {NOT_LOOKED_AT}.")


def chosen(arguments: list[str]) -> tuple[Path, list[str]]:
    """The folder and the checks that the arguments name."""
    folders = []
    names = set()
    for argument in arguments:
        fitting = [name for name, one in CHECKS.items() if argument in (name, one.part)]
        if fitting:
            names |= {*fitting}
        elif Path(argument).is_dir():
            folders.append(Path(argument))
        else:
            raise ValueError(
                f"{argument!r} is neither a folder nor one of {', '.join(PARTS)}; --list shows all checks."
            )
    if len(folders) > 1:
        raise ValueError(f"one folder at a time, not {' and '.join(map(str, folders))}.")
    folder = folders[0] if folders else Path.cwd()
    if not find(folder.resolve()):
        raise ValueError(f"neither attention.py nor positional_encoding.py is in {folder} or below it.")
    return folder, [name for name in CHECKS if not names or name in names]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="FOLDER or PART", help="default: everything below this folder")
    parser.add_argument("--list", action="store_true", help="what is checked, and what is not")
    given = parser.parse_args(arguments)
    if given.list:
        list_checks()
        return 0
    try:
        folder, names = chosen(given.what)
        other_user()
    except ValueError as error:
        parser.error(str(error))
    if sys.platform in ("win32", "darwin"):
        more = " and the size of files" if sys.platform == "win32" else ""
        print(f"On this system memory{more} cannot be limited: run only code that you trust.")
    results = run(folder, names, show)
    print(f"\n{summary(results)}")
    return 0 if all(result.verdict == "ok" for result in results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--probe"]:
        probe_main(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding="utf-8", errors="replace")
        try:
            sys.exit(main(sys.argv[1:]))
        except KeyboardInterrupt:
            sys.exit(130)
