"""The device, the number of threads, and memory that is kept."""

import ctypes

import torch

from lab.files import UserError, shown


def start(name: str = "auto") -> torch.device:
    """Choose the device ("auto": CUDA, MPS, else CPU) and prepare PyTorch for it.

    One thread a process: the order of summation, and so the last bits, then do not depend on how many cores there
    are. These small models gain nothing from a second thread; two runs side by side use two cores better.
    """
    torch.set_num_threads(1)
    keep_freed_memory()
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # "meta" computes nothing
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = shown(str(error).strip().partition(". ")[0], 100)
        raise UserError(
            f"--device {name} cannot be used here ({reason}): give cpu, cuda, mps, or leave it out."
        ) from None
    return device


def keep_freed_memory(most: int = 2**30) -> None:
    """glibc hands freed memory back to the system, and each new tensor then costs page faults: up to a third of the
    time of an evaluation. Let it keep `most` bytes, and give smaller blocks no mapping of their own: mallopt(3).
    """
    process = ctypes.pythonapi  # finds every function that this process has loaded
    if hasattr(process, "mallopt"):  # only glibc has it
        m_trim_threshold, m_mmap_threshold = -1, -3
        process.mallopt(m_trim_threshold, most)
        process.mallopt(m_mmap_threshold, most)
