"""A second device, on machines that have none: its tensors hold real numbers, but must not meet those of the CPU.

    with FakeDevice():
        model.to(FakeDevice.name)       # computes as before, on tensors that say they are elsewhere

An operation that mixes them with ordinary tensors raises RuntimeError, as CUDA does; float64 on the device raises
TypeError, as MPS does. (A tensor without dimensions may come from the CPU: both allow it.)
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only


class FakeDevice(TorchDispatchMode):
    name = "meta"  # a device that every build of PyTorch knows

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return compute(function, args, kwargs or {})


class Elsewhere(torch.Tensor):
    """Wraps an ordinary tensor, and reports the other device."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor):
        if inner.dtype == torch.float64:
            raise TypeError("the device has no float64")
        options = {"dtype": inner.dtype, "device": FakeDevice.name, "requires_grad": inner.requires_grad}
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), strides=inner.stride(), **options)

    def __init__(self, inner: torch.Tensor):
        self.inner = inner

    def tolist(self):
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return compute(function, args, kwargs or {})


def compute(function, args, kwargs):
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, Elsewhere)]
    here = [tensor for tensor in tensors if not isinstance(tensor, Elsewhere) and tensor.dim()]
    copies = function in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
    if there and here and not copies:
        raise RuntimeError(f"{function.__name__}: tensors on two devices")
    moved_to = kwargs.get("device")
    args, kwargs = tree_map_only(Elsewhere, lambda tensor: tensor.inner, (args, kwargs))
    if moved_to is not None:
        kwargs["device"] = torch.device("cpu")
    results = function(*args, **kwargs)
    if torch.device(moved_to).type != FakeDevice.name if moved_to is not None else not there:
        return results
    return tree_map_only(torch.Tensor, Elsewhere, results)
