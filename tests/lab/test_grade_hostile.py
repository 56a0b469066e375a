"""Whatever stands in the folder: a verdict, no traceback, no hang, nothing run, nothing read outside of it."""

import contextlib
import io
import json
import os
import pickle
import random
import shutil
import struct
import sys
import time
import zipfile
import zlib
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.grading import ablations, logs, reading, tables, weights
from lab.grading.reading import Tree, Unreadable
from lab.grading.report import BEYOND, as_table, grade, load_expected
from tests.lab.submissions import ABLATION, HEADS, PROBLEM1, PROBLEM2, TABLE, healthy

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = [load_expected(ROOT / problem / "expected.json") for problem in ("problem1", "problem2")]
JSON_FILES = [
    f"{PROBLEM1}/training_log.json",
    ABLATION,
    f"{PROBLEM1}/head_analysis/head_specialization.json",
    f"{PROBLEM2}/learned/training_log.json",
    TABLE,
    f"{PROBLEM1}/verification.json",
]


def survives(folder: Path):
    """A verdict without a mistake of the grader's own, that can be printed and is strict JSON."""
    report = grade(folder, EXPECTED, {"problem1", "problem2"})
    text = as_table(report)
    text.encode()
    assert BEYOND not in text.replace("\n", " "), text
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    json.dumps(report.plain(), allow_nan=False).encode("ascii")
    for item in report.items:
        assert 0 <= item.score <= item.maximum
    return report


def problem_with(report, item: str) -> str:
    (found,) = [one for one in report.items if one.id == item]
    assert found.score == 0, found
    return found.message


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return healthy(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def folder(sound, tmp_path):
    """A healthy submission of one's own to spoil."""
    return Path(shutil.copytree(sound, tmp_path / "submission"))


# ------------------------------------------------------------------------------------------------ rubbish files

junk = st.binary(max_size=300)
names = st.sampled_from(
    [*HEADS[:3], "baseline", "train_loss", "val_acc", "test_acc", "sinusoidal", "learned", "none", "32", "64", "length"]
    + [
        "heads",
        "accuracy",
        "drop",
        "encoder",
        "0",
        "head",
        "layer",
        "config",
        "d_model",
        "best_epoch",
        "lengths",
        "epoch",
    ]
)
numbers = (
    st.integers(-(10**6), 10**6) | st.floats() | st.sampled_from([10**400, 810_000]) | st.just(1e308) | st.floats(0, 1)
)
leaf = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from(["nan", "50%", "inf", "1e999", "٣"])
trees = st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names | st.text(max_size=6), inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=300)
@given(trees)
def test_readers_of_layouts_take_any_json(value):
    log = logs.read_log(value)
    assert all(isinstance(number, float) for series in log.series.values() for number in series)
    table = tables.read_table(value, {"sinusoidal": [], "learned": [], "none": []}, [32, 64, 128, 256])
    assert all(isinstance(number, float) for row in table.rows.values() for number in row.values())
    ablation = ablations.read_ablation(value)
    assert all(isinstance(number, float) for number in ablation.without.values())


@pytest.fixture(scope="module")
def numbers_only(tmp_path_factory):
    """A submission without figures and checkpoints, which only take time here."""
    folder = healthy(tmp_path_factory.mktemp("numbers"))
    for path in [*folder.rglob("*.png"), *folder.rglob("*.pth")]:
        path.unlink()
    return folder


@settings(max_examples=100)
@given(st.lists(trees, min_size=len(JSON_FILES), max_size=len(JSON_FILES)))
def test_any_json_in_place_of_the_results(numbers_only, values):
    for name, value in zip(JSON_FILES, values, strict=True):
        (numbers_only / name).write_text(json.dumps(value))
    survives(numbers_only)


@settings(max_examples=25)
@given(st.data())
def test_any_bytes_in_place_of_any_file(sound, data):
    files = sorted(path for path in sound.rglob("*") if path.is_file())
    chosen = data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=4, unique=True))
    kept = {path: path.read_bytes() for path in chosen}
    try:
        for path in chosen:
            whole = kept[path]
            spoilt = data.draw(
                junk
                | st.builds(lambda cut, whole=whole: whole[:cut], st.integers(0, len(whole)))
                | st.builds(
                    lambda at, new, whole=whole: whole[:at] + new + whole[at + len(new) :],
                    st.integers(0, len(whole)),
                    st.binary(min_size=1, max_size=8),
                )
            )
            path.write_bytes(spoilt)
        survives(sound)
    finally:
        for path, content in kept.items():
            path.write_bytes(content)


@pytest.mark.parametrize(
    "text",
    ["", "[" * 100_000, '{"a":' * 50_000, "1" * 10_000, "null", "[]", "{}", '"text"', "NaN", "\x00", "[1,", "{}{}"]
    + ['{"train_loss": [1e999, -Infinity], "test_acc": 1' + "0" * 400 + "}", "\ufeff{}", "[[[[]]]]" * 3],
)
def test_odd_json(folder, text):
    for name in JSON_FILES:
        (folder / name).write_text(text)
    survives(folder)


# ------------------------------------------------------------------------------------- things that are no files


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
    for name in ("a'b\"c\n\x1b[31m.png", "x" * 200 + ".png", " .png", "-rf.png", "\u202e.png"):
        (results / "attention_patterns" / name).write_bytes(b"rubbish")
    odd = os.path.join(os.fsencode(results), b"attention_patterns", b"\xff\xfe.png")
    with contextlib.suppress(OSError):  # some file systems refuse such a name
        Path(os.fsdecode(odd)).write_bytes(b"rubbish")
    started = time.perf_counter()
    report = survives(folder)
    assert time.perf_counter() - started < 20
    assert not any({"loop", "up"} & set(place.split("/")) for place in Tree(folder).folders)
    for item in ("training-log", "checkpoint", "training-curves", "head-importance"):
        assert "not an ordinary file" in problem_with(report, f"problem1/{item}")


def test_device_files_are_not_read(folder):
    path = folder / PROBLEM1 / "training_log.json"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "not an ordinary file" in problem_with(survives(folder), "problem1/training-log")


def test_a_link_out_of_the_folder_is_not_followed(folder, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text((folder / PROBLEM1 / "training_log.json").read_text())
    path = folder / PROBLEM1 / "training_log.json"
    path.unlink()
    path.symlink_to(secret)
    assert "not an ordinary file" in problem_with(survives(folder), "problem1/training-log")


def test_a_pipe_put_there_after_listing_does_not_block(folder):
    tree = Tree(folder)
    path = folder / PROBLEM1 / "training_log.json"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Unreadable, match="not an ordinary file"):
        tree.read(f"{PROBLEM1}/training_log.json", 1000)


def test_unreadable_file(folder, monkeypatch):
    """As root no permission stops a read, so the operating system's refusal is acted."""
    opened = os.open

    def refuse(path, *arguments, **keywords):
        if str(path).endswith("ablation_results.json"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **keywords)

    monkeypatch.setattr(os, "open", refuse)
    assert "Permission denied" in problem_with(survives(folder), "problem1/ablation")


def test_huge_files_are_not_read(folder):
    for name in ("training_log.json", "best_model.pth", "training_curves.png"):
        with open(folder / PROBLEM1 / name, "wb") as file:
            file.truncate(2**40)  # takes no space on disk
    report = survives(folder)
    for item in ("training-log", "checkpoint", "training-curves"):
        assert "larger" in problem_with(report, f"problem1/{item}")


def test_more_files_than_can_be_listed(folder, monkeypatch):
    monkeypatch.setattr(reading, "MOST_ENTRIES", 10)
    assert any("more than this grader lists" in remark for remark in survives(folder).remarks)


# --------------------------------------------------------------------------------------------------- checkpoints


apart = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the reading process does not share the patch")


class Trap:
    def __reduce__(self):
        return (open, ("trap-sprung", "w"))


def saved(value) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def zip_bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 2**27)
    return buffer.getvalue()


def claims_more_than_it_holds() -> bytes:
    """A file whose pickle says 8 TB where its record holds 40 bytes."""
    content = saved({"model": {"w": torch.ones(10)}})
    source, buffer = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("data.pkl"):
                data = data.replace(b"K\x0a", b"\x8a\x06" + (2 * 10**12).to_bytes(6, "little"))
            archive.writestr(name, data)
    return buffer.getvalue()


CHECKPOINTS = {
    "code inside": (lambda: saved({"model": {"w": torch.ones(3)}, "x": Trap()}), "could run code"),
    "code alone": (lambda: pickle.dumps(Trap()), "run code|damaged"),
    "zip bomb": (zip_bomb, "far more than its size"),
    "a zip of something else": (lambda: zip_bomb()[:100], "damaged"),
    "no tensor": (lambda: saved({"model": {}}), "no tensor"),
    "a stride of 0": (lambda: saved({"w": torch.ones(1).expand(10**12)}), "larger than it is"),
    "claims 8 TB": (claims_more_than_it_holds, "damaged|memory|larger"),
    "sparse": (lambda: saved({"w": torch.ones(2, 2).to_sparse()}), "ordinary"),
    "text": (lambda: b"hello", "damaged"),
    "empty": (lambda: b"", "empty"),
    "many tensors": (lambda: saved([torch.ones(1)] * 5), None),
    "half of one": (lambda: saved({"w": torch.ones(1000)})[:2000], "damaged"),
    "a model within itself": (lambda: saved(endless()), None),
}


def endless() -> dict:
    content = {"w": torch.ones(2, 2)}
    content["self"] = content
    return content


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints(folder, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    make, words = CHECKPOINTS[name]
    (folder / PROBLEM1 / "best_model.pth").write_bytes(make())
    report = survives(folder)
    if words:
        assert any(word in problem_with(report, "problem1/checkpoint") for word in words.split("|"))
    assert not (tmp_path / "trap-sprung").exists()


@apart
def test_a_checkpoint_that_takes_for_ever_is_given_up(folder, monkeypatch):
    monkeypatch.setattr(weights, "MOST_SECONDS", 0.5)
    monkeypatch.setattr(weights, "describe", lambda content: time.sleep(60))
    started = time.perf_counter()
    assert "too long" in problem_with(survives(folder), "problem1/checkpoint")
    assert time.perf_counter() - started < 20


@apart
def test_a_checkpoint_that_takes_all_memory_is_given_up(folder, monkeypatch):
    monkeypatch.setattr(weights, "describe", lambda content: bytearray(weights.MOST_MEMORY + 2**30))
    assert "memory" in problem_with(survives(folder), "problem1/checkpoint")


# ------------------------------------------------------------------------------------------------------- figures


def png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (png(50_000, 50_000, b""), "claims"),
        (png(4_000_000_000, 4_000_000_000, b""), "claims"),
        (png(16, 16, zlib.compress(b"\0" * 16 * 49)), "too few"),
        (png(0, 0, b""), "too few"),
        (png(500, 500, b"rubbish"), "damaged"),
        (png(200, 200, zlib.compress(b"\0" * 100)), "damaged"),
        (png(200, 200, zlib.compress(b"\0" * 2**28)), "blank"),  # unpacks to more than its header says
        (b"\xff\xd8\xff\xe0 a photograph", "not a PNG"),
        (b"\x89PNG\r\n\x1a\n", "not a PNG"),
    ],
)
def test_pictures(folder, content, words):
    (folder / PROBLEM1 / "training_curves.png").write_bytes(content)
    report = survives(folder)
    assert words in problem_with(report, "problem1/training-curves")
    assert len(report.findings) == 1


def test_a_folder_of_nothing_but_junk(tmp_path):
    random.seed(1)
    for folder in ("problem1/results/attention_patterns", "problem2/results/none", "problem2/results/extrapolation"):
        (tmp_path / folder).mkdir(parents=True)
        for name in (
            "training_log.json",
            "best_model.pth",
            "extrapolation_results.json",
            "a.png",
            "training_curves.png",
        ):
            (tmp_path / folder / name).write_bytes(random.randbytes(5000))
    report = survives(tmp_path)
    assert report.score == 0
