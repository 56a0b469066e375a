"""The starter kit: stubs with the reference's signatures, the course's rows, a zip that works in an empty folder."""

import ast
import hashlib
import json
import runpy
import subprocess
import sys
import zipfile

import pytest

from tests.starter.submissions import ROOT, STARTER, check, inside, make, verdicts

STUBS = ["problem1/attention.py", "problem1/model.py", "problem2/positional_encoding.py"]


def signatures(path) -> dict[str, list[tuple[str, str | None]]]:
    """ "Class.method" or "function" -> its parameters and their defaults, as written."""
    found = {}

    def add(node, prefix: str) -> None:
        names = [argument.arg for argument in node.args.args]
        defaults = [None] * (len(names) - len(node.args.defaults)) + [ast.unparse(d) for d in node.args.defaults]
        found[prefix + node.name] = [pair for pair in zip(names, defaults, strict=True) if pair[0] != "self"]

    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            add(node, "")
        for method in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(method, ast.FunctionDef):
                add(method, f"{node.name}.")
    return found


def inherited(signatures_of: dict, name: str) -> list:
    """A method of the reference; its position schemes inherit what they share."""
    inherits = "PositionScheme." + name.partition(".")[2]
    assert name in signatures_of or inherits in signatures_of, f"the reference has no {name}"
    return signatures_of.get(name) or signatures_of[inherits]


@pytest.mark.parametrize("file", STUBS)
def test_the_reference_takes_what_the_stubs_take(file):
    stubs, reference = signatures(STARTER / file), signatures(ROOT / file)
    for name, parameters in stubs.items():
        own = inherited(reference, name)
        assert own[: len(parameters)] == parameters, name
        assert all(default is not None for _, default in own[len(parameters) :]), name


@pytest.mark.parametrize("file", STUBS)
def test_nothing_of_the_solution_is_in_the_stubs(file):
    text = (STARTER / file).read_text(encoding="utf-8")
    without = text.count("        super().__init__()\n\n")  # NoPositionalEncoding has nothing to be made
    assert text.count("raise NotImplementedError") == len(signatures(STARTER / file)) - without


DIGESTS = {  # of the course's rows; see any of them with hashlib as below
    "problem1": {"train": "25d38dcf7bba9b2a", "val": "c3bfe9078e880005", "test": "b80bf64532333431"},
    "problem2": {
        "train": "9b052998bdcf62e8",
        "val": "42fc946c9889770e",
        "test": "6abd4e7426eb488f",
        "extrapolation/test_len_32": "c728f00f5afef7d1",
        "extrapolation/test_len_64": "4211e3b819312334",
        "extrapolation/test_len_128": "5da6f74de845e43d",
        "extrapolation/test_len_256": "1a0c19b1916afdf0",
    },
}


@pytest.mark.parametrize("problem", DIGESTS)
def test_the_generators_draw_the_course_s_rows(problem, tmp_path):
    more = ["--generate-extrapolation"] if problem == "problem2" else []
    command = [sys.executable, STARTER / problem / "generate_data.py", "--output-dir", tmp_path, *more]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    for name, digest in DIGESTS[problem].items():
        rows = json.loads((tmp_path / f"{name}.json").read_text())
        text = json.dumps(rows, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest, name


def in_a_shell(folder, *arguments) -> subprocess.CompletedProcess:
    """`python check.py …` in a folder, as a student types it."""
    command = [sys.executable, "check.py", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_make_starter_builds_a_zip_that_says_to_do(tmp_path):
    shown = ["make", "--no-print-directory", "-n", "starter"]
    result = subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=True)
    command = result.stdout.splitlines()[0].replace("starter.zip", str(tmp_path / "starter.zip"))
    subprocess.run(command, shell=True, cwd=ROOT, check=True)
    folder = tmp_path / "empty"
    with zipfile.ZipFile(tmp_path / "starter.zip") as archive:
        archive.extractall(folder)
    assert {"README.md", "check.py", "problem1", "problem2"} == {path.name for path in folder.iterdir()}
    result = in_a_shell(folder)
    assert result.returncode == 1 and result.stderr == ""
    assert f"\n{len(check.CHECKS)} to do. Not looked at:" in result.stdout, result.stdout
    assert "WRONG" not in result.stdout


def test_the_sample_solution_passes(tmp_path):
    folder = make(tmp_path / "code")
    (folder / "check.py").write_bytes((STARTER / "check.py").read_bytes())
    result = in_a_shell(folder)
    assert result.returncode == 0 and f"\n{len(check.CHECKS)} ok. Not looked at:" in result.stdout, result.stdout
    assert result.stderr == ""


def test_the_reference_passes():
    result = in_a_shell(STARTER, ROOT)
    assert result.returncode == 0 and f"\n{len(check.CHECKS)} ok. Not looked at:" in result.stdout, result.stdout


def test_the_sample_solution_can_be_trained(tmp_path, monkeypatch):
    """The given main of train.py with a student's functions: an epoch of few rows leaves what is handed in."""
    folder = make(tmp_path / "code")
    for problem, more in (("problem1", []), ("problem2", ["--encoding", "learned"])):
        stub, own = ((place / problem / "train.py").read_text() for place in (STARTER, folder))
        functions = own[own.index("def ") if problem == "problem2" else own.index("def compute_accuracy") :]
        head, main = stub[: stub.index("def ")], stub[stub.index("def main") :]
        imports = (
            "from attention import create_causal_mask\nfrom dataset import START\n" if problem == "problem1" else ""
        )
        (folder / problem / "train.py").write_text(head + imports + functions + "\n\n" + main)
        sizes = ["--train-size", "64", "--val-size", "16", "--test-size", "16"]
        subprocess.run([sys.executable, folder / problem / "generate_data.py", *sizes], check=True, capture_output=True)
        monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "2", *more])
        with inside(folder / problem):
            runpy.run_path("train.py", run_name="__main__")
        (log,) = (folder / problem / "results").rglob("training_log.json")
        assert len(json.loads(log.read_text())["val_acc"]) == 2 and log.with_name("best_model.pth").exists()


# --- the command -----------------------------------------------------------------------------------------------------


def test_only_the_parts_that_are_named(tmp_path):
    folder = make(tmp_path / "code", ("problem1/attention.py", "scores / math.sqrt(d_k)", "scores"))
    result = in_a_shell(
        STARTER, folder, "attention.scores", "attention.large", "attention.causal_mask", "encodings.none"
    )
    assert result.returncode == 1
    lines = [line.split()[:2] for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert lines[0] == ["WRONG", "attention.scores"] and "division by √d is missing" in result.stdout
    assert lines[1] == ["not", "tried"] and lines[2] == ["ok", "attention.causal_mask"]
    assert lines[3] == ["ok", "encodings.none"] and lines[4] == ["2", "ok,"]
    assert "Not looked at: analyze.py" in result.stdout.splitlines()[-1]


def test_an_exception_of_the_student_s_shows_where(tmp_path):
    folder = make(
        tmp_path / "code",
        ("problem1/attention.py", "    d_k = Q.size(-1)\n", "    d_k = Q.sise(-1)\n"),
        ("problem2/positional_encoding.py", "import math", "import math ("),
    )
    results = verdicts(folder, ["attention.scores", "encodings.learned", "encodings.none"])
    message = results["attention.scores"].message
    assert (
        message == "AttributeError: 'Tensor' object has no attribute 'sise' (attention.py, line 10: d_k = Q.sise(-1))"
    )
    assert "While positional_encoding.py was imported: SyntaxError" in results["encodings.learned"].message
    assert results["encodings.none"].verdict == "not tried"  # it would say the same again


def test_the_list_names_every_check(capsys):
    assert check.main(["--list"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in check.CHECKS) and "Not looked at" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-part"], "neither a folder nor one of attention, model"),
        (["."], "neither attention.py nor positional_encoding.py"),
        ([".", "."], "one folder at a time"),
        (["--lst"], "unrecognized"),
    ],
)
def test_wrong_use(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        check.main(arguments)
    assert end.value.code == 2 and words in capsys.readouterr().err


def test_without_torch_there_is_one_sentence(tmp_path):
    command = [sys.executable, "-I", "-S", STARTER / "check.py"]  # without installed packages
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.count("\n") == 1 and "pip install torch" in result.stderr


def test_half_a_folder_is_not_ok(tmp_path):
    folder = make(tmp_path / "code")
    result = in_a_shell(STARTER, folder / "problem1", "attention.scores", "encodings.none")
    assert result.returncode == 1 and "no positional_encoding.py below" in result.stdout
