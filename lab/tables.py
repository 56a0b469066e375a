"""Numbers as text: percentages, and tables for the terminal and for Markdown."""

import textwrap
from collections.abc import Sequence

COLUMNS = 80  # of a narrow terminal


def percent(share: float, decimals: int = 2) -> str:
    """'99.95%'; never 100% for less than all, nor 0% for more than none."""
    least = 10 ** -(decimals + 2)
    if 0 < share < 1:
        share = min(max(share, least), 1 - least)
    return f"{round(100 * share, decimals):g}%"


def aligned(rows: Sequence[Sequence[str]], right: bool = False) -> list[str]:
    """The lines of a table, columns as wide as their longest cell. The first row is the header.

    right: all columns but the first are aligned to the right, as numbers are.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            cells.append(cell.rjust(width) if right and number > 0 else cell.ljust(width))
        lines.append("  ".join(cells).rstrip())
    return lines


def indented(text: str) -> str:
    """Two columns to the right; lines that a narrow terminal cannot hold go on below, further to the right."""
    margins = {"initial_indent": "  ", "subsequent_indent": " " * 6}
    lines = [textwrap.fill(line, COLUMNS, break_on_hyphens=False, **margins) for line in text.splitlines()]
    return "\n".join(lines)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown. The first row is the header."""
    header, *others = rows
    lines = [header, ["---"] * len(header), *others]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
