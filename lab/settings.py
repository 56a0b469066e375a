"""The command line: a frozen dataclass for each script, whose fields are its flags.

@dataclass(frozen=True)
class Settings:
    epochs: int = setting(32, "passes over the training rows", minimum=1)

settings = parse(Settings, __doc__)      # --epochs 10
"""

import argparse
import math
import os
import sys
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import get_args

from lab.files import UserError, shown

KINDS = {int: "a whole number", float: "a number", str: "a text", Path: "a path"}


def setting(default, help, minimum=-math.inf, maximum=math.inf, choices=None, metavar=None, positional=False):
    """A field that is a flag: int, float, str or Path (or None), a switch (bool), or several values (tuple).

    A `positional` tuple takes the words that belong to no flag.
    """
    limits = {"minimum": minimum, "maximum": maximum, "choices": choices}
    return field(default=default, metadata=limits | {"help": help, "metavar": metavar, "positional": positional})


class Parser(argparse.ArgumentParser):
    """Refuses in one sentence, as everything else does."""

    def error(self, message: str):
        raise UserError(f"{message} (--help explains all flags).")


def parse(cls, description: str, argv: list[str] | None = None):
    """The command line as an instance of `cls`, or a UserError."""
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    for item in fields(cls):
        _add_flag(parser, item)
    given = vars(parser.parse_args(argv))
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _add_flag(parser: argparse.ArgumentParser, item) -> None:
    options, flag = item.metadata, "--" + item.name.replace("_", "-")
    if item.type is bool:
        parser.add_argument(flag, action="store_true", help=options["help"])
        return
    many = isinstance(item.default, tuple)
    kind = item.type if isinstance(item.type, type) and not many else get_args(item.type)[0]

    def convert(text: str):
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {KINDS[kind]}") from None
        if options["choices"] is not None and value not in options["choices"]:
            raise argparse.ArgumentTypeError(f"{text} must be one of {', '.join(options['choices'])}")
        if kind is float and not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"{text} must be a finite number")
        if kind in (int, float) and value < options["minimum"]:
            raise argparse.ArgumentTypeError(f"{text} must be at least {options['minimum']}")
        if kind in (int, float) and value > options["maximum"]:
            raise argparse.ArgumentTypeError(f"{text} must be at most {options['maximum']}")
        return value

    metavar = options["metavar"] or ("{" + ",".join(options["choices"]) + "}" if options["choices"] else None)
    if options["positional"]:
        parser.add_argument(item.name, type=convert, nargs="*", default=[], metavar=metavar, help=options["help"])
        return
    default = " ".join(map(str, item.default)) if many else item.default
    shown_default = "" if item.default in (None, ()) else f" (default: {default})"
    text = (options["help"] + shown_default).replace("%", "%%")
    parser.add_argument(
        flag, type=convert, default=item.default, nargs="+" if many else None, metavar=metavar, help=text
    )


def as_plain(settings) -> dict:
    """What decides the result, as plain values for JSON and checkpoints: not where files are, nor the device."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
        if not isinstance(value, Path) and name not in ("device", "resume")
    }


@dataclass(frozen=True)
class NoSettings:
    """Of a script without flags."""


def run(main, description: str | None = None) -> None:
    """Call a script's `main`: what the user can put right becomes one line and exit code 2, never a traceback.

    A script without flags gives its description here, for --help.
    """
    try:
        if description:
            parse(NoSettings, description)
        main()
    except UserError as error:
        print(f"error: {shown(error, 2000)}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # "| head": nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # a name too long, a device gone: what no reader of files foresaw
        what = f"{error.filename}: " if error.filename else ""
        print(f"error: {shown(f'{what}{error.strerror or error}.', 2000)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        print(f"\n{stop}" if str(stop) else "\nstopped.", file=sys.stderr)
        sys.exit(130)
