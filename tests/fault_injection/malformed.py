"""Malformed files by rule, from single bytes to checkpoints with code inside, for every script that reads files."""

import contextlib
import copy
import io
import json
import os
import pickle
import random
import resource
import runpy
import shutil
import signal
import sys
import traceback
import warnings
import zipfile
from pathlib import Path

import torch

from tests.fault_injection.disturb import ROOT, Tally
from tests.fault_injection.scripts import READERS, Inputs

LIMIT = 60  # seconds that a script may take, on a busy machine
MEMORY = 4 * 2**30  # bytes of address space that it may take; Linux alone has this bound
DEEP = 100_000  # nested brackets
TEXTS = [b"", bytes(1000), b"\xef\xbb\xbf", b'["\xff\xfe"]', b'["\\ud800"]', b"[" * DEEP, b"[" * DEEP + b"]" * DEEP]
TEXTS += [b'{"a":' * DEEP, b"NaN", b"[NaN, Infinity, -Infinity]", b"1" * 10_000, b"[1e999]", b"null", b'"text"', b"[]"]
TEXTS += [b"{}", b"[{}]", b"[] []", b"[1,]", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"#!/bin/sh\ntouch trap\n"]
TEXTS += [b'[{"input": 1, "input": [1], "target": 2, "target": "3", "sequence": [], "sequence": [2, 1]}]']
NO_FILES = [os.mkdir, os.mkfifo, lambda path: path.symlink_to(path), lambda path: path.symlink_to(path.parent)]
NO_FILES += [lambda path, to=to: path.symlink_to(to) for to in ("/dev/zero", "/dev/null", "nothing")]
ODD = [None, True, False, "", "x", "\n", "\x00\x1b[31m", "9" * 5000, "../..", "é" * 300, "1 + 2 = \n", 0, -1, 1, 3, 10]
ODD += [11, 100, 101, 10**5, 10**30, 10**400, 0.5, 1e308, 5e-324, float("nan"), float("inf"), -float("inf"), [], [0]]
ODD += [["x"], [None], [[]], ["learned", "learned"], ["window"], {}, {"x": 1}, [1] * 3000, [[]] * 50, "\udc80", 7, "12"]


def odd_objects() -> list:
    """What may stand in a file of plain values and tensors without being what belongs there."""
    warnings.simplefilter("ignore")  # some of these kinds are on their way out of PyTorch
    one, loop, deep, laughs = torch.ones(2, 2), {"d_model": 16}, [], ["ha"]
    loop["self"] = loop
    for level in range(150):
        deep, laughs = [deep], [laughs, laughs] if level < 16 else laughs  # a few bytes that print as 65,536 words
    kinds = [torch.zeros(0), torch.tensor(1.0), one.to_sparse(), one.to_sparse_csr(), one.half(), one.double()]
    kinds += [one.long(), one.bool(), one * 1j, one * torch.nan, one.to(torch.float8_e4m3fn), torch.nn.Parameter(one)]
    kinds += [torch.quantize_per_tensor(one, 0.1, 0, torch.qint8), torch.empty(2**40, device="meta"), (1, 2), {1: 2}]
    kinds += [torch.ones(1).expand(2**40), torch.ones(1).expand(2**20, 2**20), {None: one}, {(1, "a"): "b"}, {1, 2}]
    return [*kinds, 10**5000, loop, deep, laughs, "x" * 10**6, [one] * 3, {"weight": one}, b"bytes"]


class MaliciousPickle:
    """Whoever unpickles it runs code: it makes the folder `path`."""

    def __init__(self, path: Path, source: random.Random):
        code = f"__import__('os').mkdir({str(path)!r})"
        self.call = source.choice([(os.mkdir, (str(path),)), (os.system, (f"mkdir '{path}'",)), (eval, (code,))])

    def __reduce__(self):
        return self.call


def damaged(good: bytes, source: random.Random) -> bytes:
    """Cut off, flipped, left out, put in."""
    at, some = source.randrange(len(good)), source.randbytes(source.randint(1, 8))
    ways = [good[:at], good[:at] + bytes([good[at] ^ (1 << some[0] % 8)]) + good[at + 1 :], good + some, good + good]
    ways += [good[:at] + some + good[at + len(some) :], good[:at] + some + good[at:], good[:at] + good[at + some[0] :]]
    return source.choice([*ways, good[: at // 2] + bytes(len(good) - at // 2)])


def damaged_archive(good: bytes, source: random.Random) -> bytes:
    """Changed inside, with every checksum right again."""
    archive, buffer = zipfile.ZipFile(io.BytesIO(good)), io.BytesIO()
    names = archive.namelist()
    chosen = source.choice([*names, *3 * [name for name in names if name.endswith("data.pkl")]])
    old = archive.read(chosen)
    larger = old.replace(b"K\x10", b"J\xff\xff\xff\x7f")  # 16 as a width becomes 2**31 - 1
    new = source.choice([None, bytes(2**26), larger, *3 * [damaged(old or b"0", source)]])
    with zipfile.ZipFile(buffer, "w", source.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as out:
        for name in names:
            data = new if name == chosen else archive.read(name)
            if data is not None:
                out.writestr(name, data)
    return buffer.getvalue()


def changed(value, source: random.Random, odd) -> object:
    """`value` with one to three of the values inside replaced, removed or added."""
    for _ in range(source.randint(1, 3)):
        if not isinstance(value, dict | list) or not value or source.random() < 0.05:
            return odd()
        inner = value
        while True:
            key = source.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
            if not isinstance(inner[key], dict | list) or not inner[key] or source.random() < 0.25:
                break
            inner = inner[key]
        way = source.randrange(4)
        if way == 0:
            del inner[key]
        elif way == 1 and isinstance(inner, list):
            inner.insert(key, odd())
        else:
            inner[f"{key} " if way == 1 else key] = odd()
    return value


def malform(path: Path, source: random.Random, trap: Path) -> str:
    """Put a malformed file in the place of a sound one; returns of which kind."""
    good, of_torch = path.read_bytes(), path.suffix == ".pth"
    path.unlink()
    value = torch.load(io.BytesIO(good), weights_only=True) if of_torch else json.loads(good)
    odd_values = ODD + odd_objects() if of_torch else ODD

    def odd() -> object:
        new = source.choice([*odd_values, source.randint(-3, 120)])
        return copy.deepcopy(new) if isinstance(new, list | dict) else new

    kinds = ["no file", "text", "bytes", "values", "values", "values"]
    kind = source.choice(kinds + ["archive", "settings", "settings", "settings", "code", "code alone"] * of_torch)
    match kind:
        case "no file":
            source.choice(NO_FILES)(path)
        case "text":
            path.write_bytes(source.choice(TEXTS))
        case "bytes":
            path.write_bytes(damaged(good, source))
        case "archive":
            path.write_bytes(damaged_archive(good, source))
        case "code alone":
            path.write_bytes(pickle.dumps(MaliciousPickle(trap, source), source.randrange(6)))
        case "code":
            torch.save(changed(value, source, lambda: MaliciousPickle(trap, source)), path)
        case "settings":
            torch.save(value | {"settings": changed(value["settings"], source, odd)}, path)
        case _ if of_torch:
            torch.save(changed(value, source, odd), path)
        case _:
            path.write_text(json.dumps(changed(value, source, odd)))
    return kind


def call(command: list[str]) -> tuple[int, str]:
    """The same as `run` of disturb.py within this process, as thousands of runs must be: in at most LIMIT seconds and
    MEMORY bytes."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    before, code, bound = (sys.argv, [*sys.path]), 0, resource.getrlimit(resource.RLIMIT_AS)
    if (statm := Path("/proc/self/statm")).exists():
        taken = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, bound[1]))
    signal.signal(signal.SIGALRM, signal.default_int_handler)  # as Ctrl-C
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            sys.argv = command[command[0] == "-m" :]
            if command[0] == "-m":
                runpy.run_module(command[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(str(ROOT / command[0]), run_name="__main__")
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        code = errors.write(traceback.format_exc()) and 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, bound)
        sys.argv, sys.path[:] = before
    errors.flush()
    return code, errors.buffer.getvalue().decode()


def read(name: str, count: int, inputs: Inputs, work: Path, tally: Tally) -> None:
    """`count` malformed files for a reader: it makes sense of each, or refuses it in one sentence."""
    sound, files, _, template = READERS[name]
    trap, live, out = (work / part for part in ("trap", "live", "out"))
    command = inputs.command(template, live=live, out=out)
    for number in range(count):
        source = random.Random(f"{name} {number}")
        shutil.copytree(inputs[sound], live)
        candidates = [path for path in sorted(live.glob(files)) if path.suffix in (".json", ".pth")]
        chosen = source.sample(candidates, source.randint(1, min(3, len(candidates))))
        what = f"{name} {number}, {', '.join(f'{path.name}: {malform(path, source, trap)}' for path in chosen)}"
        code, errors = call(command)
        tally.counts.update(["malformed inputs", f"malformed inputs: {name}"] * len(chosen))
        if code in (0, 1) and "Traceback" not in errors:
            tally.counts.update(["malformed inputs made sense of"])
        else:
            tally.check_refusal(what, code, errors)
        tally.check(not trap.exists(), f"{what}: code inside was run")
        for path in (trap, live, out):
            shutil.rmtree(path, ignore_errors=True)
