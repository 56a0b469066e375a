"""Whatever stands in the folder: a verdict, no traceback, no hang; nothing is run, nothing is read outside of it."""

import contextlib
import io
import json
import os
import pickle
import re
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grading import folder as files
from grading.grade import grade
from grading.pages import feedback
from tests.grading.submissions import ABLATION, HEADS, LOG, PROBLEM1, PROBLEM2, TABLE, valid
from tests.grading.verdicts import problem_with, survives

JSON_FILES = [LOG, ABLATION, f"{PROBLEM1}/head_analysis/head_specialization.json", TABLE]
JSON_FILES += [f"{PROBLEM2}/learned/training_log.json", f"{PROBLEM1}/verification.json"]


# --- malformed files ------------------------------------------------------------------------------------------------

WORDS = (
    "baseline train_loss val_acc test_acc sinusoidal learned none 32 64 length heads accuracy drop encoder 0 head "
    "layer config d_model best_epoch lengths epoch"
)
names = st.sampled_from(HEADS[:3] + WORDS.split())
numbers = st.integers(-(10**6), 10**6) | st.floats() | st.floats(0, 1) | st.sampled_from([10**400, 810_000, 1e308])
leaf = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from(["nan", "50%", "inf", "1e999", "٣"])
trees = st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names | st.text(max_size=6), inner, max_size=6),
    max_leaves=25,
)


@pytest.fixture(scope="module")
def numbers_only(tmp_path_factory):
    """A submission without figures and checkpoints, which only take time here."""
    submission = valid(tmp_path_factory.mktemp("numbers"))
    for path in [*submission.rglob("*.png"), *submission.rglob("*.pth")]:
        path.unlink()
    return submission


@settings(max_examples=150)
@given(st.lists(trees, min_size=len(JSON_FILES), max_size=len(JSON_FILES)))
def test_any_json_in_place_of_the_results(numbers_only, values):
    for name, value in zip(JSON_FILES, values, strict=True):
        (numbers_only / name).write_text(json.dumps(value))
    survives(numbers_only, grade)


@settings(max_examples=40)
@given(st.data())
def test_any_bytes_in_place_of_any_file(sound, data):
    path = data.draw(st.sampled_from(sorted(path for path in sound.rglob("*") if path.is_file())))
    whole = path.read_bytes()
    at, new = data.draw(st.integers(0, len(whole))), data.draw(st.binary(max_size=8))
    try:
        path.write_bytes(data.draw(st.sampled_from([new, whole[:at] + new, whole[:at] + new + whole[at + len(new) :]])))
        survives(sound, grade)
    finally:
        path.write_bytes(whole)


# The last four: read in linear time.
ODD_JSON = ["", "[" * 100_000, '{"a":' * 50_000, "1" * 10_000, "null", '"text"', "NaN", "\x00", "[1,", "{}{}", "[[]]"]
ODD_JSON += ['{"train_loss": [1e999, -Infinity], "test_acc": 1' + "0" * 400 + "}", "\ufeff{}", "// only", "/*"]
ODD_JSON += ['"' + "\\a" * 10**6, '"\\"' * 50_000, "/*/" * 50_000, ", " * 50_000]
ODD_JSON += ['{"learned": [{}, 0.5, 0.5, 0.5, 0.5]}']


@pytest.mark.parametrize("text", ODD_JSON, ids=lambda text: ascii(text[:9]))
def test_odd_json(folder, text):
    for name in JSON_FILES:
        (folder / name).write_text(text)
    survives(folder)


# --- things that are no files ---------------------------------------------------------------------------------------


def test_folders_links_pipes_and_odd_names(folder, tmp_path):
    results = folder / PROBLEM1
    for name in ("training_log.json", "best_model.pth", "training_curves.png", "head_analysis/head_importance.png"):
        (results / name).unlink()
    (results / "training_log.json").mkdir()
    os.mkfifo(results / "best_model.pth")
    (results / "training_curves.png").symlink_to(results / "training_curves.png")
    (results / "head_analysis/head_importance.png").symlink_to(tmp_path / "nowhere")
    (results / "loop").symlink_to(results)
    (results / "up").symlink_to("/")
    for name in ("a'b\"c\n\x1b[31m.png", "x" * 200 + ".png", "<script>.png", "-rf.png", "\u202e.png"):
        (results / "attention_patterns" / name).write_bytes(b"malformed")
    odd = os.path.join(os.fsencode(results), b"attention_patterns", b"\x01<b>\xff.png")
    with contextlib.suppress(OSError):  # some file systems refuse such a name
        shutil.copy(folder / PROBLEM2 / "none/training_curves.png", os.fsdecode(odd))
    report = survives(folder)
    assert not any({"loop", "up"} & set(place.split("/")) for place in files.Folder(folder).folders)
    for item in ("training-log", "checkpoint", "training-curves", "head-importance"):
        assert "not an ordinary file" in problem_with(report, item)
    page = feedback(report, report)
    assert "&lt;script&gt;" in page and "<script>" not in page and "<b>\\" not in page and page.encode()


@pytest.mark.parametrize("target", ["/dev/zero", "secret.json"])
def test_links_out_of_the_folder_are_not_followed(folder, tmp_path, target):
    shutil.move(folder / LOG, tmp_path / "secret.json")
    (folder / LOG).symlink_to(tmp_path / target)
    assert "not an ordinary file" in problem_with(survives(folder), "training-log")


def test_unreadable_and_huge_files(folder, monkeypatch):
    for name in ("best_model.pth", "training_curves.png", "training_log.json"):
        with open(folder / PROBLEM1 / name, "wb") as file:
            file.truncate(2**40)  # takes no space on disk
    read_bytes = Path.read_bytes

    def refuse(path):  # as root no permission stops a read, so the operating system's refusal is acted
        if path.name == "ablation_results.json":
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    report = survives(folder)
    assert "Permission denied" in problem_with(report, "ablation")
    for item in ("training-log", "checkpoint", "training-curves"):
        assert "too large" in problem_with(report, item)


@pytest.mark.parametrize("limit", ["MAX_ENTRIES", "MAX_DEPTH"])
def test_more_files_than_can_be_listed(folder, monkeypatch, limit):
    monkeypatch.setattr(files, limit, 2)
    assert any("more files than this grader lists" in remark for remark in survives(folder).remarks)


# --- checkpoints ----------------------------------------------------------------------------------------------------


class Calls:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


TRAP = Calls(open, "trap-sprung", "w")


def saved(value) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def repacked(content: bytes, change) -> bytes:
    source, buffer = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, change(source.read(name)) if name.endswith("data.pkl") else source.read(name))
    return buffer.getvalue()


def endless() -> dict:
    content = {"w": torch.ones(2, 2)}
    content["self"] = content
    return content


LITTLE = saved({"model": {"w": torch.ones(10)}})
TERABYTES = b"\x8a\x06" + (2 * 10**12).to_bytes(6, "little")
CHECKPOINTS = {
    "code inside": (lambda: saved({"model": {"w": torch.ones(3)}, "x": TRAP}), "could run code"),
    "code alone": (lambda: pickle.dumps(TRAP), "run code|damaged"),
    "zip bomb": (lambda: repacked(LITTLE, lambda data: b"\0" * 2**27), "far more than its size"),
    "claims 8 TB": (lambda: repacked(LITTLE, lambda data: data.replace(b"K\x0a", TERABYTES)), "damaged|memory|larger"),
    "asks for memory": (lambda: saved({"w": torch.ones(3), "x": Calls(bytearray, 10**10)}), "memory"),
    "no tensor": (lambda: saved({"model": {}}), "no tensor"),
    "a stride of 0": (lambda: saved({"w": torch.ones(1).expand(10**12)}), "larger than the file"),
    "sparse": (lambda: saved({"w": torch.ones(2, 2).to_sparse()}), "unusual kind"),
    "text": (lambda: b"hello", "damaged"),
    "empty": (lambda: b"", "empty"),
    "half of one": (lambda: saved({"w": torch.ones(1000)})[:2000], "damaged"),
    "many tensors": (lambda: saved([torch.ones(1)] * 5), None),
    "a model within itself": (lambda: saved(endless()), None),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints(folder, name, monkeypatch, tmp_path):
    if name == "asks for memory" and not Path("/proc/self/statm").exists():
        pytest.skip("only Linux bounds the memory of a process")
    monkeypatch.chdir(tmp_path)
    make, words = CHECKPOINTS[name]
    (folder / PROBLEM1 / "best_model.pth").write_bytes(make())
    report = survives(folder)
    assert words is None or re.search(words, problem_with(report, "checkpoint"))
    assert not (tmp_path / "trap-sprung").exists()


# --- figures --------------------------------------------------------------------------------------------------------


def png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


PICTURES = {
    "many pixels": (png(9_000, 9_000, b""), "too many"),
    "far too many": (png(4_000_000_000, 4_000_000_000, b""), "too many"),
    "few pixels": (png(16, 16, zlib.compress(b"\0" * 16 * 49)), "too few"),
    "none": (png(0, 0, b""), "damaged"),
    "malformed data": (png(500, 500, b"malformed"), "damaged"),
    "too little data": (png(200, 200, zlib.compress(b"\0" * 100)), "damaged"),
    "more data than pixels": (png(200, 200, zlib.compress(b"\0" * 2**28)), "blank"),
    "a photograph": (b"\xff\xd8\xff\xe0 a photograph", "not a PNG"),
    "a signature": (b"\x89PNG\r\n\x1a\n", "damaged"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(folder, name):
    content, words = PICTURES[name]
    (folder / PROBLEM1 / "training_curves.png").write_bytes(content)
    report = survives(folder)
    assert words in problem_with(report, "training-curves")
    assert len(report.issues) == 1
