"""A linear layer that asks for answers faster: the same numbers as nn.Linear's, up to rounding.

PyTorch gives float32 products to MKL, which on AMD processors leaves half of each vector unused. oneDNN, which PyTorch
brings along as well, does not: it takes half the time on the AMD EPYC it was measured on. It is asked wherever no
gradient is wanted, which is where most of the time of an exhaustive check goes; training stays with nn.Linear.
"""

import torch
from torch import Tensor, nn

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear(nn.Linear):
    """x [..., in_features] -> x Wᵀ + b [..., out_features]"""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() or not ONEDNN or not x.numel() or torch.is_autocast_enabled("cpu"):
            return super().forward(x)
        if x.device.type != "cpu" or not x.dtype == self.weight.dtype == torch.float32:
            return super().forward(x)
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
