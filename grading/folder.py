"""Read a submission's files safely: only ordinary files inside its folder, within size limits, nothing is run.

A file that cannot be used raises `Unreadable`. Its text ends a sentence about the file: "is missing".
"""

import hashlib
import io
import json
import os
import re
import warnings
from pathlib import Path
from posixpath import join

import numpy
import PIL.Image

from lab.files import shown

MEGABYTE = 2**20
MAX_TEXT = 16 * MEGABYTE
MAX_IMAGE = 32 * MEGABYTE
MAX_PIXELS = 50_000_000
MAX_ALL_PIXELS = 300_000_000  # of all figures of a submission together
MAX_VALUES = 100_000  # of one JSON file: whoever reads them looks at the words on the way to each
MAX_COMMENTED = MEGABYTE  # a larger JSON file is read only if it is strict
MIN_SIDE = 100  # pixels: a smaller picture cannot be read as a figure
# files and folders; files in one folder; folders in folders
MAX_ENTRIES = 50_000
MAX_IN_ONE = 2000
MAX_DEPTH = 9
SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv", "env", "__MACOSX"}


class Unreadable(Exception):
    """Why a file cannot be used, as the end of a sentence about it: "is missing"."""


def attempt(read, *arguments, default):
    """What `read` gives for the arguments, or the default for a file that cannot be used."""
    try:
        return read(*arguments)
    except Unreadable:
        return default


class Folder:
    """The ordinary files under `root`, as paths relative to it with "/" between names.

    Links to folders are not followed, and links to files only if they stay inside `root`.
    """

    def __init__(self, root: Path):
        self.root = Path(os.path.realpath(root))
        self.files: list[str] = []
        self.folders: list[str] = []
        self.complete = True  # False: the folder holds more than is listed here
        self.not_strict: list[str] = []  # JSON files that only a tolerant reader can read
        self.first_figure: dict[str, str] = {}  # digest of a picture -> where it was seen first
        self.pixels = 0  # of all pictures that were unpacked
        self._parsed: dict[str, object] = {}  # a JSON file's content, or the Unreadable that tells why there is none
        entries = 0
        for place, subfolders, names in os.walk(self.root):
            folder = "" if place == str(self.root) else os.path.relpath(place, self.root).replace(os.sep, "/")
            if len(names) > MAX_IN_ONE:
                self.complete = False
                names = sorted(names)[:MAX_IN_ONE]
            entries += len(subfolders) + len(names)
            if entries > MAX_ENTRIES:
                self.complete = False
                break
            self.folders.append(folder)
            self.files += [join(folder, name) for name in names if self._is_inside(os.path.join(place, name))]
            subfolders[:] = sorted(n for n in subfolders if not n.startswith(".") and n not in SKIPPED)
            if subfolders and folder.count("/") + 1 >= MAX_DEPTH:
                self.complete = False
                subfolders.clear()
        for paths in (self.files, self.folders):  # the shallowest first
            paths.sort(key=lambda path: (len(Path(path).parts), path))

    def _is_inside(self, path: str) -> bool:
        """Whether `path` is an ordinary file (no pipe, no device) and not a link that leads out of the folder."""
        real = os.path.realpath(path) if os.path.islink(path) else path
        return os.path.isfile(real) and Path(real).is_relative_to(self.root)

    def under(self, folder: str, ending: str = "") -> list[str]:
        """All files in `folder`, however deep, whose names end in `ending` (in upper or lower case)."""
        return [path for path in self.files if path.startswith(join(folder, "")) and path.lower().endswith(ending)]

    def read(self, path: str, limit: int) -> bytes:
        try:
            size = os.stat(self.root / path).st_size
            if size > limit:
                raise Unreadable(f"is too large ({size / MEGABYTE:,.0f} MB), so it was not read")
            content = (self.root / path).read_bytes()
        except (OSError, ValueError) as error:
            raise Unreadable(f"cannot be read ({shown(getattr(error, 'strerror', None) or error)})") from None
        if not content:
            raise Unreadable("is empty")
        return content

    def text(self, path: str) -> str:
        try:
            return self.read(path, MAX_TEXT).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Unreadable("is not text (UTF-8)") from None

    def json(self, path: str):
        """The parsed file; each is parsed only once."""
        if path not in self._parsed:
            try:
                self._parsed[path] = self._parse(path)
            except Unreadable as reason:
                self._parsed[path] = reason
        if isinstance(self._parsed[path], Unreadable):
            raise self._parsed[path]
        return self._parsed[path]

    def _parse(self, path: str):
        """Comments and trailing commas are read too, but noted in `not_strict`; NaN and Infinity are let through,
        because the checks name them."""
        text = self.text(path)
        if sum(text.count(mark) for mark in ",[{") > MAX_VALUES:  # each value stands behind one of them
            raise Unreadable(f"holds more than {MAX_VALUES:,} values, so it was not read")
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            syntax = f"{error.msg} at line {error.lineno}, column {error.colno}"
        except (RecursionError, ValueError, MemoryError):
            raise Unreadable("is not JSON that can be read (nested too deeply, or a number is too long)") from None
        if len(text) > MAX_COMMENTED:
            raise Unreadable(f"is not JSON ({syntax})")
        try:
            value = json.loads(strict_json(text))
        except (RecursionError, ValueError, MemoryError):
            raise Unreadable(f"is not JSON ({syntax})") from None
        self.not_strict.append(path)
        return value

    def picture(self, path: str) -> PIL.Image.Image:
        """A PNG as it looks on white paper, unpacked completely after a look at its size: a few bytes can claim to be
        a picture of gigabytes."""
        content = self.read(path, MAX_IMAGE)
        if not content.startswith(b"\x89PNG\r\n\x1a\n"):
            raise Unreadable("is not a PNG image")
        try:
            with warnings.catch_warnings(), PIL.Image.open(io.BytesIO(content), formats=["PNG"]) as image:
                warnings.simplefilter("ignore")
                if image.width * image.height > MAX_PIXELS:
                    raise PIL.Image.DecompressionBombError
                if min(image.size) < MIN_SIDE:
                    raise Unreadable(f"has {image.width} x {image.height} pixels, too few for a figure")
                if self.pixels + image.width * image.height > MAX_ALL_PIXELS:
                    raise Unreadable("was not unpacked: this submission's figures have too many pixels together")
                self.pixels += image.width * image.height
                if "transparency" not in image.info and "A" not in image.getbands():
                    return image.convert("RGB")
                drawn = image if image.mode == "RGBA" else image.convert("RGBA")
                paper = PIL.Image.new("RGB", image.size, "white")
                paper.paste(drawn, mask=drawn)
                return paper
        except Unreadable:
            raise
        except (PIL.Image.DecompressionBombError, MemoryError):
            raise Unreadable("claims to have too many pixels, so it was not unpacked") from None
        except Exception as error:  # a damaged picture can fail in any way
            raise Unreadable(f"is a damaged PNG image ({type(error).__name__})") from None


def ink(picture: PIL.Image.Image) -> tuple[float, str]:
    """The share of pixels that do not have the commonest colour, and the digest of all pixels."""
    # The means of small squares are enough: a thin line colours them a little, and empty ones stay as they are.
    small = numpy.asarray(picture.reduce(max(1, min(picture.size) // 400)))
    _, counts = numpy.unique(small.reshape(-1, 3) @ [65536, 256, 1], return_counts=True)
    digest = hashlib.sha256(b"%d" % picture.width)
    digest.update(numpy.asarray(picture))
    return 1 - float(counts.max() / counts.sum()), digest.hexdigest()


STRING = r'("(?:\\.|[^"\\]+)*"?)'  # matched first, and kept: nothing inside a string is a comment


def strict_json(text: str) -> str:
    """JSON without // and /* */ comments and without commas before a closing bracket."""
    text = re.sub(STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", lambda found: found[1] or " ", text, flags=re.DOTALL)
    return re.sub(STRING + r"|,(?=\s*[\]}])", lambda found: found[1] or "", text, flags=re.DOTALL)
