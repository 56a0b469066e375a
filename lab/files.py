"""Files on disk: read with one clear sentence when something is wrong, written whole or not at all."""

import contextlib
import datetime
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import stat
from pathlib import Path


class UserError(Exception):
    """Something the user can put right: one sentence with the file, the place and what to do (exit code 2)."""


def shown(text: object, longest: int = 120) -> str:
    """Any text for a terminal and for JSON: one line, no control characters, not too long."""
    plain = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in str(text)
    )
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def digest(*parts: bytes) -> str:
    """16 hex digits that tell this content from any other."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part)
    return sha.hexdigest()[:16]


# --- writing ---------------------------------------------------------------------------------------------------


BESIDE = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")  # names of files that are being written


def write_bytes(path: Path, content: bytes) -> None:
    """Write beside, flush to disk, rename: a reader sees the old file or the new one, never a part of either."""
    path = Path(path)
    try:
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")  # two writers must not share it
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(beside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except (OSError, ValueError) as error:  # ValueError: "." and "" have no name
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{path} cannot be written ({reason}): free some space, fix the permissions "
            "or choose another folder with --output-dir."
        ) from None


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value) -> None:
    """Indented JSON with lists of numbers on one line. NaN is refused, because JSON has none."""
    write_text(path, _pretty(value) + "\n")


def write_block(path: Path, name: str, text: str) -> None:
    """Put `text` between the lines <!-- name --> and <!-- end of name --> of a Markdown file."""
    marks = re.compile(rf"(<!-- {name} -->\n).*(<!-- end of {name} -->)", re.DOTALL)
    changed, count = marks.subn(lambda found: f"{found[1]}{text}\n{found[2]}", path.read_text(encoding="utf-8"))
    if not count:
        raise UserError(f"{path} has no lines <!-- {name} --> and <!-- end of {name} -->: put them back.")
    write_text(path, changed)


def _pretty(value, indent: str = "") -> str:
    flat = json.dumps(value, allow_nan=False)
    if not isinstance(value, dict | list | tuple):
        return flat
    items = value.values() if isinstance(value, dict) else value
    nested = any(isinstance(item, dict | list | tuple) for item in items)
    if not nested and (not isinstance(value, dict) or len(flat) + len(indent) <= 100):
        return flat
    deeper = indent + "  "
    if isinstance(value, dict):
        lines = [f"{json.dumps(str(key))}: {_pretty(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(deeper + line for line in lines) + "\n" + indent + "}"
    return "[\n" + ",\n".join(deeper + _pretty(item, deeper) for item in value) + "\n" + indent + "]"


def versions() -> dict[str, str]:
    """What decides the numbers besides code and settings; a build's name ("+cpu") does not."""
    import matplotlib
    import numpy
    import torch

    return {package.__name__: package.__version__.split("+")[0] for package in (torch, numpy, matplotlib)}


def write_timing(folder: Path, seconds: float, device: object = "cpu", name: str = "timing.json", **more) -> None:
    """timing.json: what differs from run to run. Git ignores it, so that results are the same for everybody."""
    import torch

    where = {
        "seconds": round(seconds, 1),
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}",
        "device": str(device),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
    }
    write_json(Path(folder) / name, where | more)


# --- reading ---------------------------------------------------------------------------------------------------


def read_bytes(path: Path, hint: str) -> bytes:
    """The content of an ordinary file: opening a pipe or a device could wait for ever."""
    try:
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise OSError(errno.EINVAL, "not an ordinary file")
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: {hint}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}): {hint}") from None


def read_json(path: Path, hint: str):
    """The parsed file, or a UserError that says where the text stops being JSON."""
    try:
        return json.loads(read_bytes(path, hint).decode())
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, too long a number, or nested too deeply
        raise UserError(f"{path} is not valid JSON ({error}): {hint}") from None


# --- one writer at a time --------------------------------------------------------------------------------------


@contextlib.contextmanager
def only_one(folder: Path, what: str):
    """Lock `folder` for this process. The operating system unlocks it when the process ends, however it ends."""
    import filelock  # comes with torch; locks on Windows, too, follows no link and empties no file

    folder = Path(folder)
    lock = filelock.FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        raise UserError(
            f"{folder} is in use by {what}: wait until it has ended, or choose another folder with --output-dir."
        ) from None
    except OSError as error:
        raise UserError(
            f"{folder} cannot be used as output folder ({error.strerror or error}): fix its permissions "
            "or choose another with --output-dir."
        ) from None
    try:
        for left in folder.iterdir():
            if BESIDE.fullmatch(left.name):  # by a process that was killed while it wrote
                left.unlink(missing_ok=True)
        yield
    finally:
        lock.release()
