"""analyze.py as its users run it: the files it promises, the findings it prints, the warnings it owes, the refusals."""

import copy
import json
import subprocess

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from lab.fast import Fast
from lab.files import UserError
from lab.hooks import head_names, short_name
from problem1 import analyze
from problem1.analysis import ablation, examples, exhaustive, patching, pruning
from problem1.analysis import context as analysis_context
from problem1.analysis.context import Context
from problem1.analysis.examples import parse_sum
from problem1.analysis.rows import sums_of
from problem1.checkpoint import load_model
from problem1.dataset import every_pair, random_pairs
from problem1.generate_data import write_rows
from tests.conftest import ROOT, works
from tests.fake_device import FakeDevice
from tests.problem1 import analysis_models

SCRIPT = "problem1/analyze.py"
OF_ANY_MODEL = [
    "verification.json",
    "examples/examples.json",
    "attention_patterns/overview.png",
    "head_analysis/ablation_results.json",
    "head_analysis/head_importance.png",
    "head_analysis/head_importance_ranking.txt",
    "head_analysis/head_specialization.json",
    "head_analysis/head_specialization.png",
]
OF_ONE_THAT_CAN_ADD = [
    "attention_patterns/in_detail.pdf",
    "head_analysis/pruning_curve.json",
    "head_analysis/pruning_curve.png",
    "head_analysis/pruned.json",
    "carry/patching.json",
    "carry/patching_heads.pdf",
    "carry/summary.json",
    "carry/summary.txt",
    "carry/followed.json",
    "carry/followed.pdf",
]


def write_data(folder, rows) -> None:
    for name, sums in rows.items():
        pairs = zip(sums.sources.tolist(), sums.targets.tolist(), strict=True)
        write_rows(folder / f"{name}.json", [{"input": source, "target": target} for source, target in pairs])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_data(folder, analysis_models.rows())
    return folder


def run_whole(model, data, folder):
    analysis_models.save(model, folder / "model.pth")
    flags = ["--model-path", folder / "model.pth", "--data-dir", data, "--output-dir", folder / "out"]
    return works(SCRIPT, *flags, "--device", "cpu", "--batch-size", 500, "--num-samples", 2), folder / "out"


def read(folder, name) -> dict:
    return json.loads((folder / name).read_text())


def check_written(folder, names) -> None:
    """The files are there, and each says what it was made from."""
    for name in names:
        assert (folder / name).is_file(), name
        if name.endswith(".json"):
            results = read(folder, name)
            assert {"meaningful", "warning", "test_accuracy", "config", "versions"} <= set(results), name


def pngs_are_whole(folder) -> int:
    found = sorted(folder.rglob("*.png"))
    for path in found:
        height, width, _ = plt.imread(path).shape
        assert min(height, width) > 200, path
    return len(found)


def test_everything_that_is_promised_is_written_and_hangs_together(data, tmp_path):
    stdout, out = run_whole(analysis_models.adder(), data, tmp_path)
    check_written(out, OF_ANY_MODEL + OF_ONE_THAT_CAN_ADD)
    heads = head_names(analysis_models.adder())
    for head in heads:
        assert (out / f"attention_patterns/{head}.png").is_file()
    assert pngs_are_whole(out) >= len(heads) + 2 * 2 + 6

    results = read(out, "head_analysis/ablation_results.json")
    assert results["meaningful"] is True and results["warning"] is None
    assert results["config"]["seed"] == 0 and results["config"]["data"]
    assert set(results["heads"]) == set(heads) == set(read(out, "head_analysis/head_specialization.json")["heads"])
    test = analysis_models.rows()["test"]
    with torch.no_grad():
        written = analysis_models.adder().generate(test.sources, 3, 11)
    accuracy = (written == test.targets).all(1).double().mean().item()
    assert results["baseline"]["accuracy"] == pytest.approx(accuracy)
    curves = read(out, "head_analysis/pruning_curve.json")["curves"]
    greedy = curves["greedy"]
    assert greedy["exact_match"][0]["share"] == pytest.approx(accuracy) and len(greedy["exact_match"]) == len(heads) + 1
    assert greedy["exact_match"][1]["share"] == pytest.approx(results["heads"][greedy["order"][0]]["zero"]["accuracy"])
    pruned = read(out, "head_analysis/pruned.json")
    assert set(pruned["removed"]) | set(pruned["remaining"]) == set(heads)
    shown = read(out, "examples/examples.json")["examples"]
    verified = read(out, "verification.json")
    assert len(shown) == 2 and verified["pairs"] == 8_100

    # What is printed is what was found.
    assert "WARNING: This model" not in stdout
    assert f"exact on {8_100 - verified['errors']:,} of 8,100 sums" in stdout
    lines = stdout.splitlines()
    for head in results["ranking"][:3]:
        drop = f"{100 * results['heads'][head]['zero']['drop']:.2f}"
        assert any(short_name(head) in line and drop in line for line in lines)
    harmless = sum(entry["zero"]["drop"] < 0.01 for entry in results["heads"].values())
    assert f"Alone, {harmless} of {len(heads)} heads" in stdout
    for name in ("verification.json", "carry/patching.json", "carry/summary.txt"):
        assert any(line.endswith(name) for line in lines), name

    # Each analysis names the files that it writes, and none writes another.
    files = {path for path in out.rglob("*") if path.is_file()}
    assert files - analyze.written(out).keys() == {out / "analysis_timing.json", out / ".lock"}

    # A second run makes the same files.
    assert read(out, "analysis_timing.json")["by_result"].keys() >= {"verification.json", "carry/summary.txt"}
    again = tmp_path / "again"
    model, _ = load_model(tmp_path / "model.pth")
    with Fast():
        analyze.analyse(Context(model, analysis_models.rows(), again, 500, analysis_models.SETTINGS, 2))
    for path in again.rglob("*.*"):
        if path.name != "analysis_timing.json":
            assert path.read_bytes() == (out / path.relative_to(again)).read_bytes(), path


def test_a_model_that_cannot_add_is_called_so_everywhere(data, tmp_path):
    stale = [*OF_ONE_THAT_CAN_ADD, "examples/11+11.png", "examples/given/given.json"]
    for name in [*stale, "head_analysis/notes of the user.txt"]:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("of an earlier model that could")
    stdout, out = run_whole(analysis_models.untrained(), data, tmp_path)
    assert stdout.count("WARNING") == 2 and "has not learned to add" in stdout
    assert "exact on" in stdout and "cost less" not in stdout and "carry" not in stdout
    check_written(out, OF_ANY_MODEL)
    assert not any((out / name).exists() for name in stale) and (out / "head_analysis/notes of the user.txt").exists()
    results = read(out, "head_analysis/ablation_results.json")
    assert results["meaningful"] is False and "No conclusions are drawn" in results["warning"]
    ranking = (out / "head_analysis/head_importance_ranking.txt").read_text()
    assert "WARNING" in ranking.splitlines()[2]
    for conclusion in (ablation.NEEDED, ablation.MEAN_SUFFICES, ablation.NOT_NEEDED, "cost less than"):
        assert conclusion not in ranking
    heads = read(out, "head_analysis/head_specialization.json")["heads"]
    assert all(entry["description"] is None for entry in heads.values())
    assert pngs_are_whole(out) > 10


def test_an_analysis_that_is_stopped_loses_nothing(tmp_path, monkeypatch):
    """Results of an earlier model go at the end, when their successors are written."""
    old = [*OF_ANY_MODEL, *OF_ONE_THAT_CAN_ADD, "examples/11+11.png"]
    for name in old:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("of an earlier model")

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(exhaustive, "run", stopped)
    model, rows = analysis_models.untrained(), analysis_models.rows(60)
    with pytest.raises(KeyboardInterrupt):
        analyze.analyse(Context(model, rows, tmp_path, 40, analysis_models.SETTINGS))
    assert all((tmp_path / name).read_text() == "of an earlier model" for name in old)


@pytest.fixture
def fewer(monkeypatch):
    """The whole analysis in a few seconds."""
    numbers = ((exhaustive, "SAMPLES", 200), (patching, "PAIRS", 120))
    numbers += ((pruning, "STEPS", 2), (pruning, "FRESH", 100), (pruning, "DRAWS", 2))
    for module, name, value in numbers:
        monkeypatch.setattr(module, name, value)


def no_pixels(figure, file, **_) -> None:
    Image.new("RGB", (1, 1)).save(file, "png")


def test_every_number_is_the_same_on_another_device(fewer, tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", no_pixels)
    # The fused optimizer knows the names of real devices only.
    monkeypatch.setattr(pruning, "make_optimizer", lambda model, _: torch.optim.SGD(model.parameters(), foreach=False))
    model, rows = analysis_models.adder(), analysis_models.rows(60)
    analyze.analyse(Context(model, rows, tmp_path / "here", 40, analysis_models.SETTINGS, 2))
    with FakeDevice():
        there = copy.deepcopy(model).to(FakeDevice.name)
        analyze.analyse(Context(there, rows, tmp_path / "there", 40, analysis_models.SETTINGS, 2))
        with pytest.raises(TypeError, match="float64"):
            next(there.parameters()).double()
    written = [*(tmp_path / "here").rglob("*.json")]
    assert {"patching.json", "pruning_curve.json", "summary.json"} <= {path.name for path in written}
    for path in written:
        close = json.loads(path.read_text(), parse_float=lambda text: pytest.approx(float(text), abs=1e-3))
        assert "timing" in path.name or read(tmp_path / "there", path.relative_to(tmp_path / "here")) == close, path


@pytest.mark.parametrize("num_digits", [1, 19])
def test_operands_of_one_digit_and_of_more_than_fit_an_integer(fewer, tmp_path, monkeypatch, capsys, num_digits):
    """81 pairs in all, each of which training has shown; and numbers beyond 2^63. Every question is asked."""
    monkeypatch.setattr(analysis_context, "CAN_ADD", 0.0)
    if num_digits == 19:  # figures of 39 × 39 cells take long
        monkeypatch.setattr(Figure, "savefig", no_pixels)
    rows = dict.fromkeys(("train", "val", "test"), every_pair(1) if num_digits == 1 else random_pairs(19, 60, seed=0))
    context = Context(analysis_models.untrained(num_digits=num_digits), rows, tmp_path, num_samples=1)
    analyze.analyse(context)
    assert "nan" not in capsys.readouterr().out
    drawn = {"carry/patching_heads.pdf", "attention_patterns/in_detail.pdf"}
    check_written(tmp_path, {*OF_ANY_MODEL, *OF_ONE_THAT_CAN_ADD} - drawn)
    verified = read(tmp_path, "verification.json")
    assert verified["exhaustive"] is (num_digits == 1)
    if num_digits == 19:
        assert verified["pairs"] == 200
    if num_digits == 1:
        assert verified["never_seen_in_training"] == {"pairs": 0, "errors": 0, "accuracy": None}
    a, b = verified["wrong_sums"][0].split(" = ")[0].split(" + ")
    assert verified["wrong_sums"][0].startswith(f"{a} + {b} = {int(a) + int(b)}, the model writes ")
    nines = "9" * num_digits
    given = examples.run_given(context, [parse_sum(f"{nines}+{nines}", num_digits)])["examples"][0]
    assert int(given["target"]) == 2 * int(nines) and given["sum"] == f"{nines}+{nines}"


def test_given_examples_stand_beside_what_is_there(data, tmp_path):
    analysis_models.save(analysis_models.adder(), tmp_path / "model.pth")
    flags = ["--model-path", tmp_path / "model.pth", "--data-dir", data, "--output-dir", tmp_path]
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/examples.json").write_text('{"examples": [{"sum": "11+11"}]}')
    (tmp_path / "examples/11+11.png").write_bytes(b"kept")
    before = {path for path in tmp_path.rglob("*") if path.name != ".lock"}
    said = works(SCRIPT, *flags, "--examples", "45+55", "07+05")
    assert "45+55 = " in said and "07+05 = " in said and f"drawn in {tmp_path / 'examples/given'}" in said
    assert "100.00%" not in said
    assert (tmp_path / "examples/11+11.png").read_bytes() == b"kept"
    for name in ("45+55.png", "45+55.heads.png", "07+05.png", "07+05.heads.png"):
        assert (tmp_path / "examples/given" / name).is_file()
    assert {path.name for path in {*tmp_path.iterdir()} - before} <= {".lock"}
    ignored = subprocess.run(["git", "check-ignore", "-q", "problem1/results/examples/given/45+55.png"], cwd=ROOT)
    assert ignored.returncode in (0, 128)  # 128: no repository
    example = read(tmp_path, "examples/given/given.json")["examples"][0]
    assert example["source"] == ["4", "5", "+", "5", "5"] and example["target"] == "100"
    assert example["carries_out_of_column"] == [True, True]
    for pattern in example["patterns"].values():
        assert all(sum(line) == pytest.approx(1, abs=1e-3) for line in pattern)


@pytest.mark.parametrize("text", ["12", "1+2+3", "a+b", "12-5", "+5", "5+", "", "²+1", "1.5+2", "-1+2", "123+4", "7+5"])
def test_what_is_no_sum_for_this_model_is_refused(text):
    with pytest.raises(UserError, match="--examples"):
        parse_sum(text, 2)


def test_other_data_no_model_or_no_sum_is_refused(refused, tmp_path):
    analysis_models.save(analysis_models.untrained(), tmp_path / "model.pth")
    write_data(tmp_path, dict.fromkeys(("train", "val", "test"), sums_of([(123, 456), (777, 888)], 3)))
    (tmp_path / "broken.pth").write_bytes(b"PK junk")
    for model, data, words in (
        ("model.pth", tmp_path, "model.pth adds numbers of 2 digits.* of 3: name the data .* --data-dir"),
        ("model.pth", tmp_path / "typo", "typo.* does not exist"),
        ("none.pth", tmp_path, "none.pth does not exist: run train.py"),
        ("broken.pth", tmp_path, "broken.pth"),
    ):
        settings = analyze.Settings(model_path=tmp_path / model, data_dir=data, output_dir=tmp_path / "out")
        with pytest.raises(UserError, match=words):
            analyze.main(settings)
    write_data(tmp_path, analysis_models.rows(5))
    flags = ["--model-path", tmp_path / "model.pth", "--data-dir", tmp_path, "--output-dir", tmp_path / "out"]
    refused(SCRIPT, *flags, "--examples", "11+11", "123+4", words=["--examples", "123+4"])
    assert not (tmp_path / "typo").exists() and not (tmp_path / "out").exists()
