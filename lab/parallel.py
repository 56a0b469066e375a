"""One process or several: under `torchrun` every process trains on its share of each batch."""

import contextlib
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lab.files import UserError


def start(device: str) -> torch.device:
    """Choose the device ("auto": CUDA, MPS, else CPU) and join the other processes, if there are any."""
    chosen = _device(device)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        if chosen.type == "cuda":
            chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(chosen)
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return chosen


def _device(name: str) -> torch.device:
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"--device {name} cannot be used here ({reason}): give cpu, cuda, mps, or leave it out."
        ) from None
    return device


def stop() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


@contextlib.contextmanager
def lead_first():
    """The leading process goes through the block alone (and makes what is missing), then all the others."""
    if rank() > 0:
        dist.barrier()
    yield
    if dist.is_initialized() and rank() == 0:
        dist.barrier()


def share(rows: Tensor) -> Tensor:
    """This process's part of `rows`: all of them when it is alone."""
    return rows[rank() :: world()]


def total(numbers: Tensor) -> Tensor:
    """The sum of `numbers` over all processes, in place."""
    if dist.is_initialized():
        dist.all_reduce(numbers)
    return numbers


def sum_gradients(model: nn.Module) -> None:
    """Add up the gradients of all processes, in one message."""
    if not dist.is_initialized():
        return
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in parameters:
        if parameter.grad is None:  # this process's share of the batch may have been empty
            parameter.grad = torch.zeros_like(parameter)
    flat = total(torch.cat([parameter.grad.flatten() for parameter in parameters]))
    start = 0
    for parameter in parameters:
        parameter.grad.copy_(flat[start : start + parameter.numel()].view_as(parameter))
        start += parameter.numel()
