"""What only makes a model faster, applied from outside: `accelerate(model)`. Numbers move by rounding only.

Three things in PyTorch are slow on CPUs at the size of these models. Matrix products go to MKL, which on AMD
processors leaves half of each vector unused; oneDNN, which PyTorch also contains, does not. Softmax over fewer
numbers than a vector holds takes five times as long as the formula written out. And filling with a mask takes six
times as long as adding one.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
WORTH_IT = 2**22  # multiplications of a product; below, calling oneDNN takes longer than it saves
SHORT = 16  # float32 numbers in a vector of AVX-512


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weightᵀ + bias, by oneDNN"""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class Product(torch.autograd.Function):
    """`product` with gradients: oneDNN's own operator has none."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        for_x = product(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        return for_x, product(rows.t(), x.flatten(0, -2).t()), rows.sum(0)


class Softmax(torch.autograd.Function):
    """Softmax over the last dimension, by its formula."""

    @staticmethod
    def forward(ctx, scores: Tensor) -> Tensor:
        weights = (scores - scores.amax(-1, keepdim=True)).exp_()
        weights /= weights.sum(-1, keepdim=True)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        product = weights * gradient
        return product - weights * product.sum(-1, keepdim=True)


def ours(x: Tensor) -> bool:
    """Whether x is on a CPU, in float32, and not seen by torch.compile, which knows nothing of all this."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling()


class FastLinear(nn.Linear):
    """nn.Linear by oneDNN where that is faster."""

    def forward(self, x: Tensor) -> Tensor:
        large = x.numel() * self.out_features >= WORTH_IT
        if not (ONEDNN and large and ours(x) and ours(self.weight)) or torch.is_autocast_enabled("cpu"):
            return F.linear(x, self.weight, self.bias)
        return Product.apply(x, self.weight, self.bias)


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """That of attention.py, where faster by the formula; and masked by a sum and a product, as filling is slow."""
    if mask is not None:
        allowed = (mask != 0).to(scores.dtype)
        scores = scores + (1 - allowed) * torch.finfo(scores.dtype).min
    short = 0 < scores.shape[-1] < SHORT and ours(scores)
    weights = Softmax.apply(scores) if short else torch.softmax(scores, dim=-1)
    return weights if mask is None else weights * allowed


def accelerate(model: nn.Module) -> nn.Module:
    """The same model, changed in place: its nn.Linear layers and the softmax of its attention are the fast ones."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = FastLinear
        elif hasattr(module, "softmax"):
            module.softmax = masked_softmax
    return model


def slow_down(model: nn.Module) -> nn.Module:
    """What `accelerate` changed is as it was."""
    for module in model.modules():
        if type(module) is FastLinear:
            module.__class__ = nn.Linear
        module.__dict__.pop("softmax", None)
    return model
