"""The device and the number of threads."""

import torch

from lab.files import UserError, shown


def start(name: str = "auto") -> torch.device:
    """Choose the device ("auto": CUDA, MPS, else CPU) and prepare PyTorch for it.

    One thread a process: the order of summation, and so the last bits, then do not depend on how many cores there
    are. These small models gain nothing from a second thread; two runs side by side use two cores better.
    """
    torch.set_num_threads(1)
    # glibc hands freed memory back to the system, and every new tensor then costs page faults: half the time of some
    # analyses. How much it keeps instead grows with the largest block freed so far, up to 32 MB: see mallopt(3).
    torch.empty(2**25 - 2**16, dtype=torch.uint8)
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
