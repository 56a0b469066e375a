"""Settings: a frozen dataclass for each script, whose fields are the flags of its command line.

@dataclass(frozen=True)
class Settings:
    epochs: int = setting(64, "passes over the training rows", minimum=1)

settings = parse(Settings, __doc__)      # --epochs 10
"""

import argparse
import math
import os
import reprlib
import sys
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import get_args

from lab.files import UserError, shown

LONGEST = 2000  # characters of an error


@dataclass(frozen=True)
class Limits:
    """What a setting may be: checked on the command line and again when a checkpoint brings its settings."""

    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple | None = None
    metavar: str | None = None
    positional: bool = False

    def complaint(self, value) -> str | None:
        """None, or what is wrong with `value` as the end of a sentence: 'must be at least 1'."""
        if self.choices is not None and value not in self.choices:
            return f"must be one of {', '.join(map(str, self.choices))}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if isinstance(value, float) and not math.isfinite(value):
            return "must be a finite number"
        if self.minimum is not None and value < self.minimum:
            return f"must be at least {self.minimum}"
        if self.maximum is not None and value > self.maximum:
            return f"must be at most {self.maximum}"
        return None


def setting(default, help, minimum=None, maximum=None, choices=None, metavar=None, positional=False):
    """A dataclass field that is a flag as well; a `positional` tuple takes the words that belong to no flag."""
    return field(default=default, metadata={"limits": Limits(help, minimum, maximum, choices, metavar, positional)})


def parse(cls, description: str, argv: list[str] | None = None):
    """The command line as an instance of `cls`; anything impossible ends in one line and exit code 2."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    for item in fields(cls):
        _add_flag(parser, item)
    given = vars(parser.parse_args(argv))
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def peek(name: str, argv: list[str] | None = None) -> str | None:
    """The value of one flag, before the rest is looked at: for a script that hands over to one of several."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(f"--{name}")
    return getattr(parser.parse_known_args(argv)[0], name)


def _add_flag(parser: argparse.ArgumentParser, item) -> None:
    limits: Limits = item.metadata["limits"]
    flag = "--" + item.name.replace("_", "-")
    if item.type is bool:
        parser.add_argument(flag, action="store_true", help=limits.help)
        return
    many = isinstance(item.default, tuple)
    # int, int | None and tuple[int, ...] are all read by int
    kind = item.type if isinstance(item.type, type) and not many else get_args(item.type)[0]

    def convert(text: str):
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {_NAMES[kind]}") from None
        complaint = limits.complaint(value)
        if complaint:
            raise argparse.ArgumentTypeError(f"{text} {complaint}")
        return value

    if limits.positional:
        parser.add_argument(item.name, type=convert, nargs="*", default=[], metavar=limits.metavar, help=limits.help)
        return
    shown = "" if item.default in (None, ()) else f" (default: {_shown(item.default)})"
    parser.add_argument(
        flag,
        type=convert,
        default=item.default,
        nargs="+" if many else None,
        metavar=limits.metavar or (None if limits.choices is None else "{" + ",".join(limits.choices) + "}"),
        help=(limits.help + shown).replace("%", "%%"),
    )


_NAMES = {int: "a whole number", float: "a number", str: "a text", Path: "a path"}


def _shown(value) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def as_plain(settings) -> dict:
    """A settings object as plain values, for JSON and checkpoints: what decides the result, and so neither
    where files are nor on which device or in how many sittings it was made."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
        if not isinstance(value, Path) and name not in ("device", "resume")
    }


def from_plain(cls, plain: dict, where: str):
    """The settings object that `as_plain` wrote; `where` names the file for the refusal."""
    values = {}
    for item in fields(cls):
        if item.name not in plain:
            continue
        value, default = plain[item.name], item.default
        if isinstance(default, tuple):
            value = tuple(value) if isinstance(value, list | tuple) else value
        if not _is_kind(value, item):
            raise UserError(f"{where} has {_brief(value)} for the setting {item.name!r}: train the model again.")
        for entry in value if isinstance(value, tuple) else (value,):
            complaint = item.metadata["limits"].complaint(entry) if entry is not None else None
            if complaint:
                raise UserError(
                    f"{where}: the setting {item.name} = {_brief(entry)} {complaint}; train the model again."
                )
        values[item.name] = value
    return cls(**values)


def _is_kind(value, item) -> bool:
    """Whether a value is of the type that a field says: int, int | None, tuple[int, ...]; an int will do as float."""
    if isinstance(item.default, tuple):
        return isinstance(value, tuple) and all(type(entry) is get_args(item.type)[0] for entry in value)
    kinds = get_args(item.type) or (item.type,)
    return type(value) in (*kinds, int) if float in kinds else type(value) in kinds


def _brief(value) -> str:
    """repr, within bounds: a stranger's value can be long or deep, and need not be one of Python's own."""
    if not isinstance(value, bool | int | float | str | list | tuple | dict | None):
        return f"a {type(value).__name__}"
    try:
        return shown(reprlib.repr(value))
    except ValueError:  # Python does not write out numbers of more than 4300 digits
        return "a number of thousands of digits"


def run(main) -> None:
    """Call a script's `main`: what the user can mend becomes one line and exit code 2, never a traceback."""
    try:
        main()
    except UserError as error:
        print(f"error: {shown(error, LONGEST)}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # "| head": nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # a name too long, a device gone: named by the system where no reader foresaw it
        what = f"{error.filename}: " if error.filename else ""
        print(f"error: {shown(f'{what}{error.strerror or error}.', LONGEST)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped.", file=sys.stderr)
        sys.exit(130)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        # Under torchrun all is written by now. Threads of PyTorch's process group outlive it, and now and then abort
        # the process while the interpreter is taken down, which torchrun reports as a failed training.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
