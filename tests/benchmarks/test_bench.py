"""The benchmarks compare like with like, and what they measure fills their tables. Speed itself is never tested."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from benchmarks import bench, jax_step, measure
from benchmarks.baselines import ReferenceClassifier, ReferenceTransformer, RowDataset, usual_epoch
from lab.files import read_json, write_block
from lab.training import evaluate
from problem1.dataset import Sums, every_pair, score
from problem1.model import Seq2SeqTransformer
from problem2.model import SortingClassifier


@pytest.mark.parametrize("width, heads, layers, d_ff", [(64, 4, 2, 256), (24, 3, 1, 40)])
def test_the_reference_model_of_problem_1_gives_our_outputs_and_gradients(width, heads, layers, d_ff):
    torch.manual_seed(0)
    ours = Seq2SeqTransformer(13, width, heads, layers, layers, d_ff)
    reference, (inputs, _) = ReferenceTransformer(ours), measure.addition_rows(16)
    for model in (ours, reference):
        model(*inputs).square().mean().backward()
    torch.testing.assert_close(ours(*inputs), reference(*inputs), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ours.embedding.weight.grad, reference.embedding.weight.grad, atol=1e-5, rtol=1e-3)


def test_the_reference_model_of_problem_2_gives_our_outputs_with_padding():
    torch.manual_seed(0)
    ours = SortingClassifier(d_ff=128).eval()
    (sequences,), _ = measure.sorting_rows(32)
    torch.testing.assert_close(ours(sequences), ReferenceClassifier(ours).eval()(sequences), atol=1e-5, rtol=1e-4)


def test_the_usual_recipe_learns_its_rows():
    torch.manual_seed(0)
    rows = [{"input": [a, 10, b], "target": [(a + b) // 10, (a + b) % 10]} for a in range(4) for b in range(4)]
    model = ReferenceTransformer(Seq2SeqTransformer(13, 32, 2, 1, 1, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        usual_epoch(model, DataLoader(RowDataset(rows), 8, shuffle=True), optimizer)
    tensors = (torch.tensor([row[name] for row in rows]) for name in ("input", "target"))
    assert evaluate(model, tuple(tensors), score)[1] == 1.0


def test_a_round_measures_every_candidate_once_and_the_first_round_does_not_count():
    turns = []
    seconds = measure.interleaved({name: lambda name=name: turns.append(name) for name in "ab"}, 20)
    rounds = {"".join(turns[number : number + 2]) for number in range(0, len(turns), 2)}
    assert rounds == {"ab", "ba"} and len(turns) == 42 and len(seconds["a"]) == len(seconds["b"]) == 20


def test_what_is_measured_fills_the_tables(monkeypatch):
    sums = every_pair(3)
    some = torch.arange(0, len(sums), 20_000)
    monkeypatch.setattr(measure, "every_pair", lambda digits: Sums(sums.sources[some], sums.targets[some]))
    monkeypatch.setattr(jax_step, "INSTALLED", False)
    small = {"d-model": 16, "d-ff": 16, "num-heads": 2, "num-layers": 1, "epochs": 1}
    steps, training = measure.steps(2, compiled=False, rows_evaluated=4), measure.training(1, 1, small)
    assert len(steps) == 6 and all({*timed} == {"ours", "torch.nn"} for timed in steps.values())
    assert [(run["recipe"], run["epochs"]) for run in training] == [("ours", 1), ("the usual one", 1)]
    timed = {"median_ms": 2.0, "ratio": 1.0}
    steps["a step"] = {"ours": timed, "torch.nn": timed, "ours, compiled": {"failed": "no compiler"}}
    found = {"steps": steps, "training": training, "processor": "a processor", "versions": {"torch": "2"}}
    text = bench.tables(found)
    for words in ("addition, training step of 64 rows", "the usual one, seed 1", "never"):
        assert words in text
    assert "| milliseconds, and times as long as ours | ours | torch.nn | ours, compiled |" in text
    assert "| a step | 2.0, 1.00x | 2.0, 1.00x | failed |" in text


@pytest.mark.skipif(not jax_step.INSTALLED, reason="jax, which is optional, is not installed")
def test_a_step_in_jax_gives_the_weights_of_a_step_in_torch():
    torch.manual_seed(0)
    model = Seq2SeqTransformer(13, 24, 3, 1, 2, 40)
    rows = measure.addition_rows(16)
    in_jax, in_torch = jax_step.make(model, *rows), measure.training_step(model, *rows)
    for _ in range(3):
        found = in_jax()
        in_torch()
    for name, value in model.state_dict().items():
        if name.endswith("key.bias"):
            continue  # softmax cancels it: its gradient is rounding alone, which Adam makes as large as any other
        torch.testing.assert_close(torch.tensor(np.asarray(found[name])), value, atol=1e-5, rtol=1e-4)


def test_the_committed_tables_are_those_of_the_committed_results(tmp_path):
    text = (bench.HERE / "README.md").read_text()
    (tmp_path / "README.md").write_text(text.replace("| the usual one", ""))
    write_block(tmp_path / "README.md", bench.BLOCK, bench.tables(read_json(bench.HERE / "results.json", "")))
    assert (tmp_path / "README.md").read_text() == text
