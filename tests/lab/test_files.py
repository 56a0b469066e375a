"""Nothing on disk is ever torn, and what cannot be read or written is named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.files import UserError, only_one, read_json, write_block, write_bytes, write_json

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_json_comes_back_as_it_went(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("json") / "value.json"
    write_json(path, value)
    assert read_json(path, "") == json.loads(json.dumps(value))


def test_lists_of_numbers_stay_on_one_line(tmp_path):
    write_json(tmp_path / "log.json", {"loss": [0.1] * 200, "nested": {"rows": [[1, 2], [3, 4]]}})
    text = (tmp_path / "log.json").read_text()
    assert text.count("\n") < 12 and json.loads(text)["nested"]["rows"] == [[1, 2], [3, 4]]


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError):
        write_json(tmp_path / "log.json", {"loss": float("nan")})
    assert not (tmp_path / "log.json").exists()


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"file cannot be written \(No space left on device\).*--output-dir"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("path", [".", "", "/"])
def test_a_file_without_a_name_is_refused(path):
    with pytest.raises(UserError, match="cannot be written"):
        write_bytes(Path(path), b"new")


def test_a_block_without_its_marks_is_refused(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("<!-- here -->\nold\n<!-- end of here -->\n")
    write_block(path, "here", "new")
    assert path.read_text() == "<!-- here -->\nnew\n<!-- end of here -->\n"
    with pytest.raises(UserError, match="no lines <!-- there -->"):
        write_block(path, "there", "new")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist: make it"),
        (b'{"a": [1,\n2,,3]}', "line 2 column 3"),
        (b'"\xff"', "position 1"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_json_that_is_missing_or_broken(tmp_path, content, words):
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"bad\.json .*{words}"):
        read_json(path, "make it")


def test_two_writers_of_one_file_never_mix(tmp_path):
    program = "import sys\nfrom lab.files import write_bytes\nfor _ in range(60):\n"
    program += "    write_bytes(sys.argv[1], sys.argv[2].encode() * 200_000)"
    writers = [subprocess.Popen([sys.executable, "-c", program, tmp_path / "file", letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if (tmp_path / "file").exists():
            content = (tmp_path / "file").read_bytes()
            assert len(content) == 200_000
            seen.add(content)
    assert seen <= {b"a" * 200_000, b"b" * 200_000} and seen and not list(tmp_path.glob(".*.tmp"))
    assert all(writer.returncode == 0 for writer in writers)


def test_a_folder_in_use_is_refused_and_a_killed_process_lets_go(tmp_path):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\nfrom pathlib import Path\nfrom lab.files import only_one\n"
            "with only_one(Path(sys.argv[1]), 'a training'):\n    print('held', flush=True)\n    time.sleep(60)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="in use"), only_one(tmp_path, "a training"):
            pass
    finally:
        holder.kill()
        holder.wait()
    with only_one(tmp_path, "a training"):
        pass


def test_a_lock_follows_no_link_and_files_of_others_stay(tmp_path):
    folder, victim, notes = tmp_path / "out", tmp_path / "victim", tmp_path / "out/.notes.tmp"
    folder.mkdir()
    notes.write_text("mine")
    left = folder / ".best_model.pth.0123abcd.tmp"
    left.write_text("half")
    with only_one(folder, "a training"):
        assert notes.read_text() == "mine" and not left.exists()
    (folder / ".lock").unlink(missing_ok=True)
    victim.write_text("precious")
    (folder / ".lock").symlink_to(victim)
    with pytest.raises(UserError, match=r"out cannot be used as output folder .*--output-dir"), only_one(folder, "it"):
        pass
    assert victim.read_text() == "precious"
    (folder / ".lock").unlink()
    os.link(victim, folder / ".lock")
    with only_one(folder, "a training"):
        assert victim.read_text() == "precious"
