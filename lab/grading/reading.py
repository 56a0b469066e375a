"""Reading a stranger's folder: listed within bounds, opened only where it holds ordinary files, never run.

Nothing in here trusts what it reads. A file that cannot be used raises `Unreadable` with the reason as the end
of a sentence ("is missing"), and the grader goes on with the next.
"""

import hashlib
import io
import json
import os
import re
import stat
import warnings
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy

from lab.files import shown

MEGABYTE = 2**20
LARGEST_TEXT = 16 * MEGABYTE
LARGEST_IMAGE = 32 * MEGABYTE
MOST_PIXELS = 50_000_000
SMALLEST_SIDE = 100  # pixels; nothing smaller can be read as a figure
MOST_ENTRIES, DEEPEST = 50_000, 9
OTHERS = {"__pycache__", "node_modules", "site-packages", "venv", "env", "__MACOSX"}
CONTAINERS = {"checkpoint", "checkpoints", "model", "models", "weights", "log", "logs", "figures", "plots", "images"}
CONTAINERS |= {"analysis", "data", "json", "output", "outputs", "results"}


class Unreadable(Exception):
    """Why a file cannot be used, as the end of a sentence about it: "is missing"."""


@dataclass
class Tree:
    """The folders and ordinary files under `root`, as paths relative to it with "/" between names.

    Links are followed only to places inside `root`, and each folder is entered once, so that no loop of links
    and no link to elsewhere leads out. The shallowest come first; the rest is left out where there are too many.
    """

    root: Path
    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    whole: bool = True  # False: there was more than this lists

    def __post_init__(self):
        top = os.path.realpath(self.root)
        self.root = Path(top)
        waiting, entered, seen = deque([("", 0)]), {top}, 0
        while waiting:
            folder, depth = waiting.popleft()
            self.folders.append(folder)
            try:
                with os.scandir(os.path.join(top, folder)) as entries:
                    listed = []
                    for entry in entries:
                        seen += 1
                        if seen > MOST_ENTRIES:
                            self.whole = False
                            break
                        listed.append(entry.name)
            except OSError:
                continue
            for name in sorted(listed):
                path = f"{folder}/{name}" if folder else name
                kind, real = self._kind(top, path)
                if kind == "file":
                    self.files.append(path)
                elif kind == "folder" and not name.startswith(".") and name not in OTHERS and real not in entered:
                    if depth == DEEPEST:
                        self.whole = False
                    else:
                        entered.add(real)
                        waiting.append((path, depth + 1))

    @staticmethod
    def _kind(top: str, path: str) -> tuple[str | None, str]:
        """What stands at `path`: a file, a folder, or nothing that can be read; and its path without links."""
        try:
            real = os.path.realpath(os.path.join(top, path))
            if os.path.commonpath([top, real]) != top:
                return None, real
            mode = os.stat(real).st_mode
        except (OSError, ValueError):
            return None, ""
        return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else None, real

    def under(self, folder: str, end: str = "") -> list[str]:
        """All files in `folder`, however deep, whose names end in `end` (in any case)."""
        start = f"{folder}/" if folder else ""
        return [path for path in self.files if path.startswith(start) and path.lower().endswith(end)]

    def find(self, folder: str, name: str, anywhere: bool = False) -> str:
        """The file `name` ("a/b.json") in `folder`: there, in other case, or (`anywhere`) alone of its name in it,
        unless folders of another meaning lead to it (those of another experiment)."""
        wanted = f"{folder}/{name}" if folder else name
        if wanted in self.files:
            return wanted
        inside = self.under(folder)
        found = [path for path in inside if path.lower() == wanted.lower()]
        if not found and anywhere:
            *known, last = name.lower().split("/")
            away = [(path, path.lower()[len(folder) + bool(folder) :].split("/")) for path in inside]
            found = [path for path, parts in away if parts[-1] == last and {*parts[:-1]} <= {*known, *CONTAINERS}]
        if len(found) == 1:
            return found[0]
        if os.path.lexists(self.root / wanted):
            raise Unreadable("is not an ordinary file that can be read")
        raise Unreadable("is missing")

    def read(self, path: str, largest: int) -> bytes:
        """The content; opened without waiting, so that a pipe put in the file's place holds nobody up."""
        try:
            handle = os.open(self.root / path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode):
                    raise Unreadable("is not an ordinary file")
                if status.st_size > largest:
                    size = f"{status.st_size / MEGABYTE:,.0f} MB"
                    raise Unreadable(f"is larger than anything asked for ({size}), so it was not read")
                content = file.read(largest + 1)
        except (OSError, ValueError) as error:
            raise Unreadable(f"cannot be read ({shown(getattr(error, 'strerror', None) or error)})") from None
        if not content:
            raise Unreadable("is empty")
        return content

    def modified(self, path: str) -> float:
        try:
            return os.stat(self.root / path).st_mtime
        except OSError as error:
            raise Unreadable("cannot be read") from error

    def text(self, path: str) -> str:
        try:
            return self.read(path, LARGEST_TEXT).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Unreadable("is not text (UTF-8)") from None

    def json(self, path: str):
        """The parsed file. NaN and Infinity are let through: they are to be found, and named, later."""
        text = self.text(path)
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise Unreadable(f"is not JSON ({error.msg} at line {error.lineno}, column {error.colno})") from None
        except (RecursionError, ValueError, MemoryError):
            raise Unreadable("is not JSON that can be read (too deep, or a number too long)") from None

    def image(self, path: str) -> "Image":
        return decode(self.read(path, LARGEST_IMAGE))


@dataclass(frozen=True)
class Image:
    width: int
    height: int
    ink: float  # share of pixels that are not of the commonest colour
    digest: str  # of the pixels: the same picture, however it was packed


def decode(content: bytes) -> Image:
    """Really unpack a PNG. Its header is looked at first: a few bytes can claim to be a picture of gigabytes."""
    if content[:8] != b"\x89PNG\r\n\x1a\n" or content[12:16] != b"IHDR":
        raise Unreadable("is not a PNG image")
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    if width * height > MOST_PIXELS:
        raise Unreadable(f"claims {width:,} x {height:,} pixels, so it was not unpacked")
    if min(width, height) < SMALLEST_SIDE:
        raise Unreadable(f"has {width} x {height} pixels, too few for a figure")
    import PIL.Image

    try:
        with warnings.catch_warnings(), PIL.Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            warnings.simplefilter("ignore")
            if "transparency" in image.info or "A" in image.getbands():  # seen as on paper
                drawn = image.convert("RGBA")
                image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", drawn.size, "white"), drawn)
            pixels = numpy.asarray(image.convert("RGB"))
    except Exception as error:  # a broken picture fails in any way it likes
        raise Unreadable(f"is a damaged PNG image ({type(error).__name__})") from None
    if pixels.shape != (height, width, 3):
        raise Unreadable("is a damaged PNG image (size)")
    every = max(1, min(width, height) // 200)  # a sample tells the background's colour
    sample = pixels[::every, ::every].reshape(-1, 3)
    _, where, counts = numpy.unique(
        sample @ numpy.array([65536, 256, 1], dtype=numpy.uint32), return_index=True, return_counts=True
    )
    ink = float((pixels != sample[where[counts.argmax()]]).any(axis=-1).mean())
    return Image(width, height, ink, hashlib.sha256(b"%d" % width + pixels.tobytes()).hexdigest())


def words(text: str) -> list[str]:
    """A name's words in small letters, and its numbers: "valAccuracy_2" -> ["val", "accuracy", "2"]"""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", str(text)[:200])]
