"""The command line: a frozen dataclass for each script, whose fields are its flags.

@dataclass(frozen=True)
class Settings:
    epochs: int = setting(32, "passes over the training rows", minimum=1)

settings = parse(Settings, __doc__)      # --epochs 10
"""

import argparse
import difflib
import math
import os
import shlex
import subprocess
import sys
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import get_args

from lab.files import UserError, shown

LARGEST_SEED = 2**43 - 1  # seeds of epochs are a million times as large, and must fit 64 bits
KINDS = {int: "a whole number", float: "a number", str: "a text", Path: "a path"}


def setting(
    default, help, minimum=-math.inf, maximum=math.inf, choices=None, metavar=None, positional=False, repeats=False
):
    """A field that is a flag: int, float, str or Path (or None), a switch (bool), or several values (tuple).

    A `positional` tuple takes the words that belong to no flag. A value stands twice only there, or with `repeats`.
    """
    about = {"minimum": minimum, "maximum": maximum, "choices": choices, "help": help, "metavar": metavar}
    return field(default=default, metadata=about | {"positional": positional, "repeats": repeats or positional})


class Parser(argparse.ArgumentParser):
    """Refuses in one sentence, as everything else does."""

    def error(self, message: str):
        raise UserError(f"{message} (--help explains all flags).")

    def parse_args(self, *arguments):
        given, unknown = self.parse_known_args(*arguments)
        if unknown:
            given_name = unknown[0].partition("=")[0].strip("-")
            names = {flag.strip("-"): flag for flag in self._option_string_actions}
            near = difflib.get_close_matches(given_name, names, 1)
            hint = f": did you mean {names[near[0]]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return given


def parse(cls, description: str, argv: list[str] | None = None):
    """The command line as an instance of `cls`, or a UserError."""
    parser = _parser(description)
    for item in fields(cls):
        _add_flag(parser, item)
    given = vars(parser.parse_args(argv))
    for item in fields(cls):
        values = given[item.name]
        if isinstance(values, list) and not item.metadata["repeats"]:
            twice = [value for number, value in enumerate(values) if value in values[:number]]
            if twice:
                parser.error(f"argument {_flag(item)}: {twice[0]} stands there twice")
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _parser(description: str) -> Parser:
    return Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)


def _flag(item) -> str:
    return "--" + item.name.replace("_", "-")


def _add_flag(parser: argparse.ArgumentParser, item) -> None:
    options = item.metadata
    flag = _flag(item)
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
        if not isinstance(value, Path) and name not in ("device", "resume", "output_dir")
    }


def command(script: Path, **flags: Path) -> str:
    """A command line as the user can type it where they stand: command(…/analyze.py, output_dir=…)"""
    words = ["python", _from_here(script)]
    for name, path in flags.items():
        words += ["--" + name.replace("_", "-"), _from_here(path)]
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _from_here(path: Path) -> str:
    whole = os.path.abspath(path)
    try:
        return min(os.path.relpath(path), whole, key=len)
    except ValueError:  # Windows: on another drive
        return whole


def run(main, description: str | None = None) -> None:
    """Call a script's `main`: what the user can put right becomes one line and exit code 2, never a traceback.

    A script without flags gives its description here, for --help.
    """
    try:
        if description:
            _parser(description).parse_args()
        main()
    except UserError as error:
        print(f"error: {shown(error, 2000)}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # "| head": nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):  # torch's ways to say so
            raise
        print("error: there is not enough memory for a model or batch of this size.", file=sys.stderr)
        sys.exit(2)
    except OSError as error:  # a name too long, a device gone: what no reader of files foresaw
        what = f"{error.filename}: " if error.filename else ""
        print(f"error: {shown(f'{what}{error.strerror or error}.', 2000)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        print(f"\n{stop}" if str(stop) else "\nstopped.", file=sys.stderr)
        sys.exit(130)
