"""A device without hardware: tensors that say they are on "meta", have values, and refuse to meet tensors of the CPU.

    with FakeDevice():
        model = to_fake_device(model)
        model(tokens.to("meta"))       # RuntimeError if anything inside mixes devices

The numbers are computed on the CPU, so that results can be compared. Only for code that needs no gradient.
"""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class OnDevice(torch.Tensor):
    @staticmethod
    def __new__(cls, inner: torch.Tensor):
        layout = {"dtype": inner.dtype, "strides": inner.stride(), "storage_offset": inner.storage_offset()}
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, device="meta", **layout)

    def __init__(self, inner: torch.Tensor):
        self.inner = inner

    def tolist(self):
        return self.inner.tolist()

    def __repr__(self, **_) -> str:
        return f"OnDevice({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("a tensor of the fake device is used outside of `with FakeDevice()`")


class FakeDevice(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        wrappers = {id(tensor.inner): tensor for tensor in tensors if isinstance(tensor, OnDevice)}
        moves = function in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        if wrappers and not moves:
            strangers = [tensor for tensor in tensors if not isinstance(tensor, OnDevice) and tensor.ndim > 0]
            if strangers:
                raise RuntimeError(f"{function} mixes devices: a tensor {tuple(strangers[0].shape)} is on the CPU")
        wanted = kwargs.get("device")
        if wanted is not None:
            kwargs["device"] = "cpu"
        on_device = torch.device(wanted).type == "meta" if wanted is not None else bool(wrappers)
        if function is torch.ops.aten.copy_.default:
            on_device = isinstance(args[0], OnDevice)
        args, kwargs = tree_map(lambda leaf: leaf.inner if isinstance(leaf, OnDevice) else leaf, (args, kwargs))
        result = function(*args, **kwargs)
        if not on_device:
            return result

        def wrap(leaf):
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return wrappers.get(id(leaf)) if id(leaf) in wrappers else OnDevice(leaf)  # the same one, if in place

        return tree_map(wrap, result)


def to_fake_device(model: nn.Module) -> nn.Module:
    """The same model, its parameters and buffers moved in place."""
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = OnDevice(tensor.detach())
    return model
