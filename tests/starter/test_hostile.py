"""Code that does what it should not: there is a verdict, the next check goes on, and nothing is left behind."""

import os
import sys
import time
from pathlib import Path

import pytest

from tests.starter.submissions import check, make

ATTENTION, MODEL = "problem1/attention.py", "problem1/model.py"
START = '"""The starter\'s attention.py as a student might write it: the base of the planted mistakes."""\n'
SCORES = "    d_k = Q.size(-1)\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run some checks on the changed solution; afterwards no process and no temporary file may be left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(check, "CHECK_SECONDS", 3)

    def run_checks(names: list[str], *changes) -> dict:
        results = check.run(make(tmp_path / "code", *changes), names)
        assert [*temporary.iterdir()] == []
        assert processes_in(temporary) == []
        return {result.check.name: (result.verdict, result.message) for result in results}

    yield run_checks


def processes_in(folder: Path) -> list[str]:
    """Processes that work in this folder (where the system shows them)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in os.readlink(process / "cwd"):
                found.append(process.name)
        except OSError:
            continue
    return found


def test_each_trick_costs_only_its_own_check(run, tmp_path):
    outside = tmp_path / "outside.txt"
    os_and_memory = "import os, time, subprocess, torch\n"
    results = run(
        [
            "attention.scores",
            "attention.mask",
            "attention.causal_mask",
            "attention.heads",
            "model.position",
            "model.feed_forward",
            "training.accuracy",
            "encodings.learned",
            "encodings.none",
        ],
        (ATTENTION, "import math\n", f"import math\n{os_and_memory}"),
        (ATTENTION, SCORES, "    while True:\n        pass\n" + SCORES),
        (ATTENTION, "    mask = torch.tril(", "    os._exit(0)\n    mask = torch.tril("),
        (ATTENTION, "        batch, length, _ = x.shape\n", "        os.fork()\n        batch, length, _ = x.shape\n"),
        (
            MODEL,
            "        position = torch.arange(max_len)",
            "        self.big = torch.ones(5 * 2**30)\n        position = torch.arange(max_len)",
        ),
        (
            MODEL,
            "        self.linear1 =",
            f"        open({str(outside)!r}, 'w').write('was here')\n        self.linear1 =",
        ),
        (
            "problem1/train.py",
            "    predictions =",
            "    while True:\n        print('x' * 2**20, flush=True)\n    predictions =",
        ),
        ("problem2/positional_encoding.py", "import math\n", "import math, os, subprocess, threading\n"),
        (
            "problem2/positional_encoding.py",
            "        nn.init.normal_(",
            "        subprocess.run(['sleep', '100'])\n        nn.init.normal_(",
        ),
        ("problem2/positional_encoding.py", "        return x\n", "        raise SystemExit(0)\n"),
    )
    verdict = {name: result[0] for name, result in results.items()}
    assert verdict.pop("attention.mask") == "not tried"
    assert {*verdict.values()} == {"WRONG"}, verdict
    for name, word in {
        "attention.scores": "endless loop",
        "attention.causal_mask": "exit code 0",
        "attention.heads": "os.fork",
        "model.position": "memory",
        "model.feed_forward": "outside.txt",
        "training.accuracy": "endless loop",
        "encodings.learned": "no other process",
        "encodings.none": "SystemExit",
    }.items():
        assert word in results[name][1], (name, results[name])
    assert not outside.exists()


LIES = {
    "a verdict is printed, and the end": ("print('34 ok.')\nimport os\nos._exit(0)\n", "exit code 0"),
    "the process is killed": ("import os, signal\nsignal.raise_signal(signal.SIGKILL)\n", "signal 9"),
    "the judge is killed": ("import os\nos.kill(os.getppid(), 9)\n", "other process"),
    "nonsense in the channel": (
        "import contextlib, os\nfor descriptor in range(3, 30):\n    with contextlib.suppress(OSError):\n"
        "        os.write(descriptor, b'\\xff' * 100)\n",
        "",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_import_that_ends_or_lies_is_no_verdict(run, lie):
    source, word = LIES[lie]
    results = run(["attention.scores", "attention.causal_mask", "attention.heads"], (ATTENTION, START, source))
    verdicts = [verdict for verdict, _ in results.values()]
    assert "ok" not in verdicts and verdicts[0] == "WRONG", results
    assert word in results["attention.scores"][1], results


def test_patched_functions_win_nothing(run):
    patches = (
        "import torch\nsame = lambda *a, **k: True\ntorch.allclose = torch.equal = same\n"
        "torch.nn.functional.scaled_dot_product_attention = lambda *a, **k: None\n"
        "import sys\nsys.modules['__main__'].same = same\n"
        "for one in sys.modules['__main__'].CHECKS.values():\n    one.judge = lambda seen: None\n"
    )
    results = run(
        ["attention.scores", "attention.causal_mask"],
        (ATTENTION, START, patches),
        (ATTENTION, "scores / math.sqrt(d_k)", "scores"),
    )
    assert results["attention.scores"][0] == "WRONG" and "missing" in results["attention.scores"][1]
    assert results["attention.causal_mask"][0] == "ok"


def test_modules_named_like_ours_are_not_taken_for_them(tmp_path):
    folder = make(tmp_path / "code")
    for name in ("torch", "check", "queue", "tempfile", "inspect", "random", "types"):
        (folder / "problem1" / f"{name}.py").write_text("raise SystemExit(0)\n")
        (folder / f"{name}.py").write_text("raise SystemExit(0)\n")
    (folder / "check.py").write_bytes((Path(check.__file__)).read_bytes())
    import subprocess

    command = [sys.executable, "check.py", "attention.scores", "attention.heads"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and "2 ok." in result.stdout, result


def test_a_large_or_strange_report_is_refused():
    import torch

    assert not check.small_enough(torch.zeros(1).expand(2**30))
    assert not check.small_enough([{"a": torch.zeros(2, 2).to_sparse()}])
    assert not check.small_enough([object()])
    assert check.small_enough({"a": [torch.zeros(3), 1, "text", None]})


def test_a_compressed_report_is_not_unpacked():
    import io
    import zipfile

    import torch

    buffer, packed = io.BytesIO(), io.BytesIO()
    torch.save(("seen", "attention.scores", torch.zeros(10**6)), buffer)
    assert check.unpack(buffer.getvalue())[0] == "seen"
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    assert len(packed.getvalue()) < 10**5 and check.unpack(packed.getvalue()) is None


@pytest.mark.parametrize(
    "message",
    [
        None,
        ("seen",),
        ("seen", "attention.scores"),
        ("raised", "attention.scores", {"text": "x"}, None),
        ("raised", "attention.scores", ["x"], None),
        ("won", "attention.scores", 1),
        ["seen", "attention.scores", 1],
    ],
)
def test_a_forged_message_is_refused(message):
    assert not check.well_formed(message)


def test_what_is_said_cannot_move_the_cursor(run):
    source = "raise ValueError('\\x1b[2J34 ok.\\n\\n34 ok.')\n"
    results = run(["attention.scores"], (ATTENTION, START, source))
    verdict, message = results["attention.scores"]
    assert verdict == "WRONG" and "\x1b" not in message and "\n" not in message


def test_an_interrupt_ends_the_processes(tmp_path):
    import signal
    import subprocess

    folder = make(tmp_path / "code", (ATTENTION, SCORES, "    while True:\n        pass\n" + SCORES))
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, str(Path(check.__file__)), str(folder), "attention.scores"]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a suite in the background ignores it
    )
    until = time.monotonic() + 30
    while not processes_in(tmp_path) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1)  # until the student's code runs: the process is seen before Popen has returned it
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=30)
    assert (process.returncode, said, errors) == (130, "", "")
    assert processes_in(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["code"]
