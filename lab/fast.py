"""What only makes a model faster, applied from outside: `accelerate(model)`. Numbers move by rounding only.

PyTorch gives float32 matrix products to MKL, which on AMD processors leaves half of each vector unused. oneDNN,
which PyTorch also contains, takes about half the time there. It is used where no gradient is wanted, which is where
an exhaustive check spends its time; training stays with nn.Linear. So do small products: a call of oneDNN costs some
10 microseconds before it begins.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
WORTH_IT = 2**20  # multiplications of a product


class FastLinear(nn.Linear):
    """nn.Linear by oneDNN on CPUs in float32, by PyTorch's own product everywhere else."""

    def forward(self, x: Tensor) -> Tensor:
        wanted = ONEDNN and not torch.is_grad_enabled() and x.device.type == "cpu"
        wanted = wanted and x.numel() * self.out_features >= WORTH_IT
        wanted = wanted and not torch.compiler.is_compiling()  # torch.compile does not know this product
        if not wanted or not x.dtype == self.weight.dtype == torch.float32 or torch.is_autocast_enabled("cpu"):
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


def accelerate(model: nn.Module) -> nn.Module:
    """The same model with its nn.Linear layers turned, in place, into FastLinear ones."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = FastLinear
    return model
