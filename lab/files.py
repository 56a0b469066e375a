"""Files on disk: read with a clear refusal, written whole or not at all."""

import contextlib
import errno
import json
import os
import stat
from pathlib import Path


class UserError(Exception):
    """Something the user can mend: one sentence that names the file, the place and the remedy (exit code 2)."""


def shown(text: object, longest: int = 120) -> str:
    """Any text for a terminal and for JSON: one line, no control characters, not too long."""
    plain = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in str(text)
    )
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def write_bytes(path: Path, content: bytes) -> None:
    """Write beside, flush to disk, rename: whoever looks sees the old file or the new one, never a part.

    Each process writes beside under a name of its own, so that two which write the same file at once cannot mix.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(beside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
            with contextlib.suppress(OSError):
                _forget_the_dead(path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror or error}): free some space, mend the permissions "
            "or choose another folder with --output-dir."
        ) from None


def _forget_the_dead(path: Path) -> None:
    """Remove what processes that were killed while they wrote `path` left beside it."""
    if os.name != "posix":  # elsewhere there is no harmless way to ask whether a process lives
        return
    start, end = f".{path.name}.", ".tmp"
    for name in os.listdir(path.parent):
        number = name[len(start) : -len(end)]
        if name.startswith(start) and name.endswith(end) and number.isascii() and number.isdigit():
            try:
                os.kill(int(number), 0)  # sends nothing, only asks
            except ProcessLookupError:
                path.with_name(name).unlink(missing_ok=True)
            except (PermissionError, OverflowError):  # it lives and is somebody else's, or is no process at all
                pass


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value) -> None:
    """Indented JSON, but a list of numbers stays on its line; NaN is refused, no reader of JSON knows it."""
    write_text(path, _pretty(value) + "\n")


def _pretty(value, indent: str = "") -> str:
    flat = json.dumps(value, allow_nan=False)
    nested = isinstance(value, dict | list | tuple) and any(
        isinstance(item, dict | list | tuple) for item in (value.values() if isinstance(value, dict) else value)
    )
    if not isinstance(value, dict | list | tuple) or (not nested and len(flat) + len(indent) <= 100):
        return flat
    if not nested and not isinstance(value, dict):
        return flat
    deeper = indent + "  "
    if isinstance(value, dict):
        lines = [f"{json.dumps(str(key))}: {_pretty(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(deeper + line for line in lines) + "\n" + indent + "}"
    return "[\n" + ",\n".join(deeper + _pretty(item, deeper) for item in value) + "\n" + indent + "]"


def read_bytes(path: Path, remedy: str) -> bytes:
    """The content of an ordinary file: a pipe would be waited for and a device read without end."""
    try:
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise OSError(errno.EINVAL, "not an ordinary file")
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: {remedy}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}): {remedy}") from None


def read_json(path: Path, remedy: str):
    """The parsed file, or a UserError that says where the text stops being JSON."""
    content = read_bytes(path, remedy)
    try:
        return json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text in UTF-8 (byte {error.start}): {remedy}") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path} is not valid JSON ({error.msg} at line {error.lineno}, column {error.colno}): {remedy}"
        ) from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"{path} is not JSON that can be read ({error}): {remedy}") from None


@contextlib.contextmanager
def only_one(folder: Path, what: str):
    """Hold `folder` for this process. The operating system lets go when the process ends, however it ends."""
    folder = Path(folder)
    try:
        import fcntl
    except ImportError:  # Windows: no advisory locks of this kind, so no protection either
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "w")  # noqa: SIM115  (held open as long as the lock is)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be used as output folder ({error.strerror or error}): mend its permissions "
            "or choose another with --output-dir."
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{folder} is in use: {what} there has not ended yet. Wait for it, "
                "or choose another folder with --output-dir."
            ) from None
        yield
