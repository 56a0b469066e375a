"""A linear layer that asks for answers faster: the same numbers as nn.Linear's, up to rounding.

PyTorch gives float32 products to MKL, which on AMD processors leaves half of each vector unused. oneDNN, which PyTorch
brings along as well, does not: it takes half the time on the AMD EPYC it was measured on. It is asked wherever no
gradient is wanted, which is where most of the time of an exhaustive check goes; training stays with nn.Linear.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear(nn.Linear):
    """x [..., in_features] -> x Wᵀ + b [..., out_features], or only those `rows` of it."""

    def forward(self, x: Tensor, rows: slice | None = None) -> Tensor:
        weight, bias = self.weight, self.bias
        if rows is not None:
            weight, bias = weight[rows], None if bias is None else bias[rows]
        if torch.is_grad_enabled() or not ONEDNN or not x.numel() or torch.is_autocast_enabled("cpu"):
            return F.linear(x, weight, bias)
        if x.device.type != "cpu" or not x.dtype == weight.dtype == torch.float32:
            return F.linear(x, weight, bias)
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
