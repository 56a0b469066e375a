"""Rubbish checkpoints by rule: damaged, of odd values and shapes, too large on paper, with code to be run."""

import io
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import torch
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[1]
from benchmarks.campaign_mutations import Spoilt, content, odd_files, spoilt_bytes, spoilt_value, values


class Trap:
    """What a hostile file would run when it is opened: it makes the folder `path`."""

    def __init__(self, path: str, how: int):
        self.path, self.how = path, how

    def __reduce__(self):
        commands = [(os.mkdir, (self.path,)), (os.system, (f"mkdir '{self.path}'",))]
        commands += [(eval, (f"__import__('os').mkdir({self.path!r})",))]
        commands += [(exec, (f"import os; os.mkdir({self.path!r})",))]
        return commands[self.how % len(commands)]


def saved(value) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def rezipped(archive: bytes, change: Callable[[str, bytes], bytes | None], compression=zipfile.ZIP_STORED) -> bytes:
    """The archive with its members changed, or left out, and all checksums right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(buffer, "w", compression) as out:
        for name in source.namelist():
            data = change(name, source.read(name))
            if data is not None:
                out.writestr(name, data)
    return buffer.getvalue()


def itself() -> dict:
    value = {"d_model": 16}
    value["self"] = value
    return value


def laughs() -> list:
    """A few hundred bytes that print as 2**60 words."""
    value = ["ha"]
    for _ in range(60):
        value = [value, value]
    return value


def deep() -> list:
    value = []
    for _ in range(150):
        value = [value]
    return value


@cache
def odd_objects() -> list:
    """What may stand in a file of plain values and tensors without being what belongs there."""
    warnings.simplefilter("ignore")  # some of these kinds are on their way out of PyTorch
    one = torch.ones(2, 2)
    return [torch.zeros(0), torch.tensor(1.0), one.to_sparse(), one.half(), one.double(), one.long(), one.bool()] + [
        *(one * 1j, torch.quantize_per_tensor(one, 0.1, 0, torch.qint8), one.to(torch.float8_e4m3fn), one * torch.nan),
        *(torch.ones(1).expand(2**40), torch.ones(1).expand(2**20, 2**20), torch.empty(2**40, device="meta")),
        *(one.to_sparse_csr(), torch.nn.Parameter(one), (1, 2), {1: 2}, {None: one}, {(1, "a"): "b"}, "\udc80"),
        *(10**5000, -(10**20), itself(), laughs(), deep(), "x" * 10**6, [one] * 3, {"weight": one}, {1, 2}, b"bytes"),
    ]


@st.composite
def spoilt_archive(draw, good: bytes):
    """Changed inside, with every checksum right again."""
    names = zipfile.ZipFile(io.BytesIO(good)).namelist()
    chosen = draw(st.sampled_from([*names, *3 * [name for name in names if name.endswith("data.pkl")]]))
    at, some = draw(st.floats(0, 1)), draw(st.binary(min_size=1, max_size=6))

    def spoil(data: bytes) -> bytes:
        place = int(at * len(data))
        return data[:place] + some + data[place + len(some) :]

    ways = {
        "bytes changed": lambda: rezipped(good, lambda name, data: spoil(data) if name == chosen else data),
        "member left out": lambda: rezipped(good, lambda name, data: None if name == chosen else data),
        "member cut": lambda: rezipped(good, lambda n, data: data[: int(at * len(data))] if n == chosen else data),
        "compressed": lambda: rezipped(good, lambda name, data: data, zipfile.ZIP_DEFLATED),
        "a bomb": lambda: rezipped(good, lambda n, d: bytes(2**26) if n == chosen else d, zipfile.ZIP_DEFLATED),
        "larger shapes": lambda: rezipped(good, lambda n, d: d.replace(b"K\x10", b"J\xff\xff\xff\x7f")),
    }
    way = draw(st.sampled_from([*ways, "bytes changed", "bytes changed"]))
    return content(f"{way} in {chosen.rsplit('/', 1)[-1]}", ways[way]())


ODD_SETTINGS = [None, True, "", "x", "\n", "9" * 5000, 0, -1, 3, 10**5, 10**30, 10**400, 0.5, 1e308, float("nan")]
ODD_SETTINGS += [-float("inf"), [], [0], ["x"], [None], [[]], ["learned", "learned"], ["window"], {}, {"x": 1}]


def odd_settings(good: dict) -> Iterator[Spoilt]:
    """The checkpoint `good` with every one of its settings replaced by everything odd, in turn, and left out."""

    def put(name: str, new) -> Callable[[Path], None]:
        return lambda path: torch.save(good | {"settings": good["settings"] | {name: new}}, path)

    for name in good["settings"]:
        for number, new in enumerate([*ODD_SETTINGS, *odd_objects()]):
            yield Spoilt(f"setting {name} is the odd value number {number}", put(name, new))


def rubbish_checkpoints(good: dict, trap: Path) -> st.SearchStrategy:
    """The checkpoint `good`, spoilt in its bytes, in its archive, in its values or with code to be run."""
    whole = saved(good)
    odd = values | st.integers(0, len(odd_objects()) - 1).map(lambda number: odd_objects()[number])
    in_values = spoilt_value(good, odd, most=2).map(
        lambda done: Spoilt(done[0], lambda path: torch.save(done[1], path))
    )
    settings = spoilt_value(good["settings"], odd, most=2).map(
        lambda done: Spoilt(f"settings {done[0]}", lambda path: torch.save(good | {"settings": done[1]}, path))
    )
    traps = st.builds(Trap, st.just(str(trap)), st.integers(0, 3))
    in_torch = spoilt_value(good, traps, most=1).map(
        lambda done: Spoilt(f"code to be run, {done[0]}", lambda path: torch.save(done[1], path))
    )
    in_pickle = st.builds(
        lambda bait, protocol: content("code to be run, alone", pickle.dumps(bait, protocol)), traps, st.integers(0, 5)
    )
    bytewise = (odd_files, spoilt_bytes(whole), spoilt_archive(whole))
    return st.one_of(*bytewise, in_values, in_values, settings, settings, in_torch, in_pickle)
