"""analyze.py as its users run it: the files it promises, the warnings it owes, the refusals."""

import json

import matplotlib.pyplot as plt
import pytest
import torch

from problem1.analysis import ablation
from problem1.analysis import attention_maps as patterns
from problem1.analysis.attention_maps import as_sums, parse_sum, telling_examples
from problem1.generate_data import write_rows
from tests.problem1 import analysis_models

SCRIPT = "problem1/analyze.py"
PROMISED = [
    "verification.json",
    "examples/examples.json",
    "attention_patterns/patterns.json",
    "attention_patterns/overview.png",
    "head_analysis/ablation_results.json",
    "head_analysis/head_importance.png",
    "head_analysis/ablation_by_class.png",
    "head_analysis/head_importance_ranking.txt",
    "head_analysis/head_specialization.json",
    "head_analysis/head_specialization.png",
    "head_analysis/pruning_curve.json",
    "head_analysis/pruning_curve.png",
    "carry/patching.json",
    "carry/probes.json",
    "carry/probes.png",
    "carry/nines.json",
    "carry/nines.png",
    "carry/attention_shift.json",
    "carry/attention_shift.png",
    "carry/summary.json",
    "carry/summary.txt",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, sums in analysis_models.rows().items():
        rows = [
            {"input": source, "target": target}
            for source, target in zip(sums.sources.tolist(), sums.targets.tolist(), strict=True)
        ]
        write_rows(folder / f"{name}.json", rows)
    return folder


def run_whole(script, model, data, folder):
    analysis_models.save(model, folder / "model.pth")
    flags = [
        "--model-path",
        folder / "model.pth",
        "--data-dir",
        data,
        "--output-dir",
        folder / "out",
        "--device",
        "cpu",
    ]
    result = script(SCRIPT, *flags, "--batch-size", 64, "--num-samples", 4)
    assert result.returncode == 0, result.stderr
    return result.stdout, folder / "out"


def read(folder, name) -> dict:
    return json.loads((folder / name).read_text())


def pngs_are_whole(folder) -> int:
    found = sorted(folder.rglob("*.png"))
    for path in found:
        height, width, _ = plt.imread(path).shape
        assert min(height, width) > 200, path
    return len(found)


def test_everything_that_is_promised_is_written_and_hangs_together(script, data, tmp_path):
    stdout, out = run_whole(script, analysis_models.adder(), data, tmp_path)
    also = ["head_analysis/pruned.json", "head_analysis/pruned_model.pth"]
    also += ["carry/patching_heads.png", "carry/patching_positions.png"]
    for name in PROMISED + also:
        assert (out / name).is_file(), name
    heads = analysis_models.adder().head_names()
    for head in heads:
        assert (out / f"attention_patterns/{head}.png").is_file()
    assert pngs_are_whole(out) >= len(heads) + 2 * 4 + 7

    results = read(out, "head_analysis/ablation_results.json")
    assert results["meaningful"] is True and results["warning"] is None
    assert set(results["heads"]) == set(heads) == set(read(out, "head_analysis/head_specialization.json")["heads"])
    test = analysis_models.rows()["test"]
    with torch.no_grad():
        said = analysis_models.adder().generate(test.sources, 3, 11)
    accuracy = (said == test.targets).all(1).double().mean().item()
    assert results["baseline"]["accuracy"] == pytest.approx(accuracy)
    curve = read(out, "head_analysis/pruning_curve.json")["curves"]
    for kind in ("zero", "mean"):
        first = curve[kind]["one_by_one"]["exact_match"]
        assert first[0]["share"] == pytest.approx(accuracy) and len(first) == len(heads) + 1
        order = curve[kind]["one_by_one"]["order"]
        assert first[1]["share"] == pytest.approx(results["heads"][order[0]][kind]["accuracy"])
    for name in PROMISED:
        if name.endswith(".json"):
            assert {"code", "versions", "model", "meaningful"} <= set(read(out, name)), name

    summary = (out / "carry/summary.txt").read_text()
    assert " ".join(summary.split()) == read(out, "carry/summary.json")["paragraph"]
    assert summary.split()[0] in stdout and "WARNING" not in stdout
    examples = read(out, "examples/examples.json")["examples"]
    assert len(examples) == 4
    verification = read(out, "verification.json")
    assert verification["pairs"] == 8_100
    if verification["errors"]:  # then one of the examples shows an error
        assert any(not example["correct"] for example in examples)
    pruned = read(out, "head_analysis/pruned.json")
    assert set(pruned["cut_out"]) | set(pruned["left"]) == set(heads)
    assert pruned["in_words"] in stdout
    # The pruned model is a checkpoint like any other.
    again = ["--model-path", out / "head_analysis/pruned_model.pth", "--data-dir", data, "--output-dir", tmp_path / "p"]
    assert script(SCRIPT, *again, "--examples", "12+34").returncode == 0


def test_a_model_that_cannot_add_is_told_so_everywhere(script, data, tmp_path):
    (tmp_path / "out/head_analysis").mkdir(parents=True)
    (tmp_path / "out/carry").mkdir()
    for name in ("head_analysis/pruned.json", "carry/patching_heads.png"):
        (tmp_path / "out" / name).write_text("of an earlier model that could")
    stdout, out = run_whole(script, analysis_models.untrained(), data, tmp_path)
    assert stdout.count("WARNING") == 2 and "has not learned to add" in stdout
    for name in PROMISED:
        assert (out / name).is_file(), name
        if name.endswith(".json"):
            results = read(out, name)
            assert results["meaningful"] is False and "No conclusions are drawn" in results["warning"]
    ranking = (out / "head_analysis/head_importance_ranking.txt").read_text()
    assert "WARNING" in ranking.splitlines()[2]
    for conclusion in ("computes", "not needed", "constant", "cost less than"):
        assert conclusion not in ranking
    assert read(out, "head_analysis/ablation_results.json")["harmless_alone"] == {"zero": None, "mean": None}
    assert read(out, "head_analysis/pruning_curve.json")["dispensable"] is None
    habits = read(out, "head_analysis/head_specialization.json")["heads"]
    assert all(entry["description"] is None for entry in habits.values())
    assert not (out / "head_analysis/pruned.json").exists() and not (out / "carry/patching_heads.png").exists()
    assert (out / "carry/summary.txt").read_text().startswith("This model answers only")
    assert pngs_are_whole(out) > 10


def test_asked_examples_stand_beside_what_is_there(script, data, tmp_path):
    analysis_models.save(analysis_models.adder(), tmp_path / "model.pth")
    flags = ["--model-path", tmp_path / "model.pth", "--data-dir", data, "--output-dir", tmp_path]
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/examples.json").write_text('{"examples": [{"sum": "11+11"}]}')
    (tmp_path / "examples/11+11.png").write_bytes(b"kept")
    result = script(SCRIPT, *flags, "--examples", "45+55", "7+5")
    assert result.returncode == 0, result.stderr
    assert "45+55 = " in result.stdout and "07+05 = " in result.stdout
    assert (tmp_path / "examples/11+11.png").read_bytes() == b"kept"
    for folder in ("examples", "attention_patterns"):
        assert (tmp_path / folder / "45+55.png").is_file() and (tmp_path / folder / "07+05.png").is_file()
    record = read(tmp_path, "examples/asked.json")["examples"][0]
    assert record["source"] == ["4", "5", "+", "5", "5"] and record["right_answer"] == "100"
    assert record["carries_out_of_column"] == [True, True]
    for pattern in record["patterns"].values():
        assert all(sum(line) == pytest.approx(1, abs=1e-3) for line in pattern)
    patterns.remove_outdated(tmp_path)
    assert not list(tmp_path.rglob("*.png")) and not (tmp_path / "examples/asked.json").exists()


@pytest.mark.parametrize("text", ["12", "1+2+3", "a+b", "12-5", "+5", "5+", "", "²+1", "1.5+2", "-1+2", "123+4"])
def test_what_is_no_sum_for_this_model_is_refused(refused, data, tmp_path, text):
    analysis_models.save(analysis_models.untrained(), tmp_path / "model.pth")
    flags = ["--model-path", tmp_path / "model.pth", "--data-dir", data, "--output-dir", tmp_path / "out"]
    if text in ("12", "123+4"):  # one process each is enough of the command line itself
        refused(SCRIPT, *flags, "--examples", "1+1", text, words=["--examples", text])
        assert not (tmp_path / "out").exists()
    with pytest.raises(Exception, match="--examples"):
        parse_sum(text, 2)


def test_other_data_or_no_model_is_refused(refused, tmp_path):
    analysis_models.save(analysis_models.untrained(), tmp_path / "model.pth")
    numbers = as_sums([(123, 456), (777, 888)], 3)
    rows = [
        {"input": source, "target": target}
        for source, target in zip(numbers.sources.tolist(), numbers.targets.tolist(), strict=True)
    ]
    for name in ("train", "val", "test"):
        write_rows(tmp_path / f"{name}.json", rows)
    flags = ["--data-dir", tmp_path, "--output-dir", tmp_path / "out"]
    refused(
        SCRIPT, *flags, "--model-path", tmp_path / "model.pth", words=["model.pth", "2 digits", "of 3", "--data-dir"]
    )
    refused(SCRIPT, *flags, "--model-path", tmp_path / "none.pth", words=["none.pth", "train.py"])
    (tmp_path / "broken.pth").write_bytes(b"PK rubbish")
    refused(SCRIPT, *flags, "--model-path", tmp_path / "broken.pth", words=["broken.pth"])


@pytest.fixture
def figures(monkeypatch):
    """Figures as they are when they would be written, open for inspection."""
    caught = {}
    for module in (patterns, ablation):
        monkeypatch.setattr(module, "save", lambda figure, path, caption=None: caught.update({path.name: figure}))
    yield caught
    plt.close("all")


def labels(axis) -> list[str]:
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_figures_carry_the_symbols_of_their_sum(figures, tmp_path):
    context = analysis_models.context(analysis_models.adder(), tmp_path)
    record = patterns.examine(context.model, as_sums([(45, 55)], 2), ["asked for"])[0]
    head = "decoder.0.self.head0"
    mean = context.recorded[0][head].mean(0).tolist()
    patterns.draw_head(head, mean, [record], 2, tmp_path / "self.png", "")
    panels = figures["self.png"].axes[:2]
    assert labels(panels[0].xaxis) == ["<s>", "hundreds", "tens"]
    assert labels(panels[1].xaxis) == ["<s>", *record["answer"][:2]]
    for axes in panels:
        assert axes.get_xlabel() and axes.images[0].get_clim() == (0, 1)
        shown = axes.images[0].get_array()
        assert shown.mask.tolist() == [[False, True, True], [False, False, True], [False, False, False]]
    head = "encoder.0.self.head0"
    patterns.draw_head(head, context.recorded[0][head].mean(0).tolist(), [record], 2, tmp_path / "encoder.png", "")
    panels = figures["encoder.png"].axes[:2]
    assert labels(panels[0].yaxis) == ["a 10", "a 1", "+", "b 10", "b 1"]
    assert labels(panels[1].xaxis) == labels(panels[1].yaxis) == ["4", "5", "+", "5", "5"]
    patterns.draw_example(record, tmp_path / "example.png", "")
    titles = " ".join(axes.get_title() for axes in figures["example.png"].axes)
    assert all(f"writes {digit}" in titles for digit in record["answer"])


def test_importance_figure_shows_every_head_with_both_kinds_and_their_intervals(figures, tmp_path):
    context = analysis_models.context(analysis_models.adder(), tmp_path)
    results = context.write("a.json", ablation.ablate_each(context))
    ablation.draw_importance(results, tmp_path / "importance.png", "")
    axes = figures["importance.png"].axes[0]
    assert labels(axes.yaxis) == context.heads[::-1] and "points" in axes.get_xlabel()
    bars = [patch.get_width() for patch in axes.patches]
    expected = [100 * results["heads"][head][kind]["drop"] for kind in ("zero", "mean") for head in context.heads[::-1]]
    assert bars == pytest.approx(expected)
    assert len(axes.collections) >= 2  # the intervals
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {
        "output set to zero",
        "output set to its mean",
    }


def test_examples_tell_their_stories(tmp_path):
    context = analysis_models.context(analysis_models.adder(), tmp_path)
    sums, why = telling_examples(context, 20)
    assert len(sums) == len(why) == 20 and len({tuple(row) for row in sums.sources.tolist()}) == 20
    written = {story: sums.sources[row].tolist() for row, story in reversed(list(enumerate(why)))}
    assert written["a carry chain through 9s"] == [4, 5, 10, 5, 5]
    wrong = "11 + 12 = 23, the model says 024"
    sums, why = telling_examples(context, 2, [wrong])
    assert why[0] == "a wrong answer" and len(why) == 2
    if context.right.all():
        assert sums.sources[0].tolist() == [1, 1, 10, 1, 2]
