"""PyTorch checkpoints whose archive two readers could read in two ways, or of which a byte has changed."""

import zipfile
from pathlib import Path


def _write(good: Path, bad: Path, change) -> None:
    """Write the entries (name, content) of `good` that `change` makes of them."""
    with zipfile.ZipFile(good) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(bad, "w") as archive:
        for name, content in change(entries):
            archive.writestr(name, content)


def _other_weights(content: bytes) -> bytes:
    return bytes(reversed(content))


def _twice(good: Path, bad: Path) -> None:
    """torch takes the first of two entries with one name, Python the last."""
    _write(good, bad, lambda entries: [(n, _other_weights(c)) for n, c in entries if "/data/" in n] + entries)


def _twice_but_for_case(good: Path, bad: Path) -> None:
    """torch does not tell capitals from small letters."""
    _write(
        good, bad, lambda entries: [(n.replace("/data/", "/DATA/"), c) for n, c in entries if "/data/" in n] + entries
    )


def _two_folders(good: Path, bad: Path) -> None:
    _write(good, bad, lambda entries: entries + [("other/" + n.split("/", 1)[1], c) for n, c in entries])


def _foreign_entry(good: Path, bad: Path) -> None:
    _write(good, bad, lambda entries: [*entries, (entries[0][0].split("/")[0] + "/code/run.py", b"print()")])


def _big_endian(good: Path, bad: Path) -> None:
    _write(good, bad, lambda entries: [(n, b"big" if n.endswith("/byteorder") else c) for n, c in entries])


def _a_flipped_bit(good: Path, bad: Path) -> None:
    content = bytearray(good.read_bytes())
    with zipfile.ZipFile(good) as archive:
        weights = max(archive.infolist(), key=lambda entry: entry.file_size)
        content[weights.header_offset + 200 + weights.file_size // 2] ^= 1
    bad.write_bytes(content)


DISTURBED = {
    "two entries of one name": _twice,
    "two entries of one name but for capitals": _twice_but_for_case,
    "two folders": _two_folders,
    "a foreign entry": _foreign_entry,
    "big-endian": _big_endian,
    "a flipped bit": _a_flipped_bit,
}
