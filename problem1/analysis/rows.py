"""Rows of an analysis: sums of one's own choice, and rows, digits and classes of carry in words."""

import torch
from torch import Tensor

from problem1.dataset import Sums, carries, encode, longest_chain
from problem1.generate_data import to_digits

DIGIT_NAMES = ["ones", "tens", "hundreds", "thousands"]
CARRY_CLASSES = ["no carry", "one carry", "separate carries", "carry chain"]


def sums_of(pairs: list[tuple[int, int]], num_digits: int) -> Sums:
    """Pairs of numbers as rows; shorter numbers get zeros in front: 7+5 becomes 007+005."""
    a = torch.tensor([to_digits(first, num_digits) for first, _ in pairs])
    b = torch.tensor([to_digits(second, num_digits) for _, second in pairs])
    return encode(a, b)


def join(parts: list[Sums]) -> Sums:
    return Sums(torch.cat([part.sources for part in parts]), torch.cat([part.targets for part in parts]))


def carry_classes(sums: Sums) -> Tensor:
    """[N] index into CARRY_CLASSES; a chain is two or more neighbouring columns that carry."""
    carry = carries(sums)
    number = carry.sum(1)
    chain = len(CARRY_CLASSES) - 1  # the last class
    return torch.where(longest_chain(carry) > 1, chain, number.clamp(max=2))


def operand_texts(sums: Sums, row: int) -> tuple[str, str]:
    """('347', '159')"""
    a, b = sums.operands()
    return digits_text(a[row]), digits_text(b[row])


def digits_text(tokens: Tensor) -> str:
    """Tokens as text, '0506'; one that is no digit becomes a question mark."""
    return "".join(str(token) if token < 10 else "?" for token in tokens.tolist())


def digit_names(count: int) -> list[str]:
    """Names of `count` digits, most significant first: 3 -> hundreds, tens, ones"""
    names = [DIGIT_NAMES[power] if power < len(DIGIT_NAMES) else f"10^{power}" for power in range(count)]
    return names[::-1]


def powers_of_ten(count: int) -> list[str]:
    """The same for axes: 3 -> 100, 10, 1"""
    return [str(10**power) if power < 5 else f"10^{power}" for power in range(count)][::-1]


def source_labels(num_digits: int) -> list[str]:
    """Axis labels of the source: a 100, a 10, a 1, +, b 100, b 10, b 1"""
    powers = powers_of_ten(num_digits)
    return [f"a {power}" for power in powers] + ["+"] + [f"b {power}" for power in powers]
