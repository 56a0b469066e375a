"""The device, the number of threads, and the processes of `torchrun`."""

import atexit
import os

import torch
import torch.distributed as dist

from lab.files import UserError


def start(name: str = "auto") -> torch.device:
    """Choose the device ("auto": CUDA, MPS, else CPU) and join the other processes of `torchrun`, if there are any.

    One thread a process: the order of summation, and so the last bits, then do not depend on how many cores there
    are. These small models gain nothing from a second thread; two runs side by side use two cores better.
    """
    torch.set_num_threads(1)
    # glibc hands freed memory back to the system, and every new tensor then costs page faults: half the time of some
    # analyses. How much it keeps instead grows with the largest block freed so far, up to 32 MB: see mallopt(3).
    torch.empty(2**25 - 2**16, dtype=torch.uint8)
    device = _device(name)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(device)
        elif device.type == "mps":  # gloo, which connects the processes, does not know it
            device = torch.device("cpu")
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)  # its threads must end before the interpreter does
    return device


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


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1
