"""Rubbish by rule: strategies that spoil a sound file, from single bytes to files that are none.

`rubbish_json(good)`, and `rubbish_checkpoints(good)` in campaign_checkpoints.py, draw a `Spoilt`: a name for what
was done, and a function that leaves it at a path.
"""

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st


@dataclass(frozen=True)
class Spoilt:
    what: str
    put: Callable[[Path], None]  # leaves it at a path where nothing is

    def __repr__(self) -> str:
        return self.what


def content(what: str, value: bytes) -> Spoilt:
    return Spoilt(what, lambda path: path.write_bytes(value))


# --- bytes and things that are no files --------------------------------------------------------------------------

DEEP = 100_000
DEEPEST = 4  # places in a value that are changed
ODD_BYTES = {
    "empty": b"",
    "zeros": bytes(1000),
    "only a mark of UTF-8": b"\xef\xbb\xbf",
    "not UTF-8": b'["\xff\xfe"]',
    "half a surrogate": b'["\\ud800"]',
    "deep lists": b"[" * DEEP,
    "deep lists, closed": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP,
    "not a number": b"NaN",
    "not numbers": b"[NaN, Infinity, -Infinity]",
    "a number of 10,000 digits": b"1" * 10_000,
    "a number that is too large": b"[1e999]",
    "null": b"null",
    "text": b'"text"',
    "no rows": b"[]",
    "empty object": b"{}",
    "empty row": b"[{}]",
    "two values": b"[] []",
    "a comma too many": b"[1,]",
    "keys twice": b'[{"input": 1, "input": [1], "target": 2, "target": "3", "sequence": [], "sequence": [2, 1]}]',
    "the head of a zip": b"PK\x03\x04",
    "the end of a zip": b"PK\x05\x06" + bytes(18),
    "a program": b"#!/bin/sh\ntouch trap\n",
}


def loop(path: Path) -> None:
    path.symlink_to(path)


NO_FILES = {
    "a folder": os.mkdir,
    "a link to itself": loop,
    "a link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "a link to its folder": lambda path: path.symlink_to(path.parent),
    "a pipe": os.mkfifo,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "an empty device": lambda path: path.symlink_to("/dev/null"),
}

odd_files = st.sampled_from(
    [content(what, value) for what, value in ODD_BYTES.items()] + [Spoilt(*item) for item in NO_FILES.items()]
)


@st.composite
def spoilt_bytes(draw, good: bytes):
    """Cut off, flipped, left out, put in, in another encoding."""
    at = draw(st.integers(0, len(good) - 1))
    some = draw(st.binary(min_size=1, max_size=8))
    return draw(
        st.sampled_from(
            [
                content(f"cut off at byte {at}", good[:at]),
                content(f"byte {at} flipped", good[:at] + bytes([good[at] ^ (1 << some[0] % 8)]) + good[at + 1 :]),
                content(f"{some!r} over byte {at}", good[:at] + some + good[at + len(some) :]),
                content(f"{some!r} before byte {at}", good[:at] + some + good[at:]),
                content(f"bytes left out from {at}", good[:at] + good[at + 1 + some[0] :]),
                content("zeros from the middle", good[: at // 2] + bytes(len(good) - at // 2)),
                content("rubbish behind", good + some),
                content("a mark of UTF-8 before", b"\xef\xbb\xbf" + good),
                content("twice", good + good),
            ]
        )
    )


# --- values ------------------------------------------------------------------------------------------------------

words = st.sampled_from(["", "x", "\n", "\x1b[31m", "\x00", "٣ + 3 = ", "1 + 2 = \n", "9" * 5000, "../..", "é" * 300])
plain = st.one_of(
    st.sampled_from([None, True, False, 0, -1, 1, 10, 11, 100, 101, 10**30, 10**400, -(10**4000), 0.5, 1.0, 1e308]),
    st.sampled_from([float("nan"), float("inf"), -float("inf"), 5e-324]),
    st.integers(-3, 120),
    words,
    st.text(max_size=6),
)
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
) | st.sampled_from([[1] * 3000, list(range(10)) * 100, [[]] * 50, {"": {}}])


def places(value, path=()) -> list[tuple]:
    """The paths to what is inside a value, but not too deep in it: (), (0,), (0, "input"), …"""
    if len(path) == DEEPEST:
        return [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] + [place for key, item in items for place in places(item, (*path, key))]


def changed(value, path: tuple, how: str, new):
    """A copy of `value` with the place at `path` replaced, removed or with something put beside it."""
    if not path:
        return new
    value = copy.deepcopy(value)
    *way, last = path
    inner = value
    for key in way:
        inner = inner[key]
    if how == "replaced":
        inner[last] = new
    elif how == "removed":
        del inner[last]
    elif isinstance(inner, list):
        inner.insert(last, new)
    else:
        inner[f"{last} "] = new
    return value


@st.composite
def spoilt_value(draw, good, odd=values, most=3):
    """(what was done, the changed value) of one to `most` changes at any depth."""
    done = []
    for _ in range(draw(st.integers(1, most))):
        path = draw(st.sampled_from(places(good)))
        how = draw(st.sampled_from(["replaced", "replaced", "removed", "beside"]))
        new = draw(odd)
        good = changed(good, path, how, new)
        done.append(f"{'/'.join(map(str, path))} {how}")
    return "; ".join(done), good


def rubbish_json(good) -> st.SearchStrategy:
    """`good` as a JSON file, spoilt in its bytes, in its values or as a file."""
    text = json.dumps(good).encode()
    in_values = spoilt_value(good).map(lambda done: content(done[0], json.dumps(done[1]).encode()))
    return st.one_of(odd_files, spoilt_bytes(text), in_values, in_values)


# --- names -------------------------------------------------------------------------------------------------------

ODD_NAMES = ["two words", "quote'\"s", "line\nbreak", "tab\t", "-rf", "--data-dir", "*?[a]", "$(touch trap)", "a;b"]
ODD_NAMES += ["~", "été", "数据", "😀", "\u202egnp", "%s{0}", "\\", "...", " ", "x" * 200, "\udcff\udcfe", "\x1b[31m"]
odd_names = st.sampled_from(ODD_NAMES) | st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20
).filter(lambda name: name not in (".", ".."))
