"""The benchmarks compare like with like: twins give our outputs, both decodings write the same, the maths is right.

How fast anything is, is measured by `make bench` and never tested.
"""

import json

import pytest
import torch

from benchmarks import answering, loops, picture, rivals, scaling, steps, timing
from lab.files import UserError
from lab.readme import write_block
from problem1.dataset import START
from problem1.model import Seq2SeqTransformer
from problem2.dataset import draw
from problem2.model import SortingClassifier


@pytest.mark.parametrize("width, heads, layers, d_ff", [(64, 4, 2, 256), (24, 3, 1, 40)])
def test_the_twin_of_problem_1_gives_our_outputs_and_gradients(width, heads, layers, d_ff):
    ours = Seq2SeqTransformer(13, width, heads, layers, layers, d_ff)
    twin = rivals.seq2seq_twin(ours)
    *inputs, _ = steps.addition_rows(16)
    for model in (ours, twin):
        model(*inputs).square().mean().backward()
    torch.testing.assert_close(ours(*inputs), twin(*inputs), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ours.embedding.weight.grad, twin.embedding.weight.grad, atol=1e-5, rtol=1e-3)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in twin.parameters())


def test_the_twin_of_problem_2_gives_our_outputs_with_padding():
    ours = SortingClassifier(d_ff=128)
    rows = draw(32, 8, 16, torch.Generator().manual_seed(0))
    assert len(set(rows.lengths().tolist())) > 1
    steps.same_outputs(ours, rivals.classifier_twin(ours), (rows.sequences,))


def test_a_twin_that_differs_is_not_timed():
    ours, other = Seq2SeqTransformer(13), rivals.seq2seq_twin(Seq2SeqTransformer(13))
    *inputs, _ = steps.addition_rows(4)
    with pytest.raises(RuntimeError, match="differ"):
        steps.same_outputs(ours, other, tuple(inputs))


def test_the_asking_twin_returns_the_weights_of_every_head():
    ours = Seq2SeqTransformer(13)
    twin = rivals.seq2seq_twin(ours)
    kept = rivals.Kept(twin)
    *inputs, _ = steps.addition_rows(4)
    steps.evaluation(twin, inputs, fused=False)()
    assert [tuple(weights.shape) for weights in kept.weights] == [(4, 4, 7, 7)] * 2 + [(4, 4, 4, 4), (4, 4, 4, 7)] * 2


def test_products_done_again_alone_are_those_of_the_step():
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    with steps.Products() as products:
        loss = (layer(x) @ torch.ones(2, 1)).sum() + (x[None] @ x[None].mT).sum()
        loss.backward()
    kinds = [call[0] for call in products.calls]
    # Forward one of each; backward two more of mm, for the gradients of the layer's output and of its weight.
    assert [kinds.count(kind) for kind in steps.PRODUCTS.values()] == [3, 1, 1]
    products.again("float32")()
    torch.testing.assert_close(products.calls[0][2], layer(x))


def test_decoding_without_kept_keys_writes_the_same():
    model = Seq2SeqTransformer(13).eval()
    src = torch.randint(0, 10, (5, 9))
    again = answering.generate_again(model, src, 12, START)
    assert torch.equal(again, model.generate(src, 12, START))


def test_the_usual_recipe_learns_its_rows():
    torch.manual_seed(0)
    rows = [{"input": [a, 10, b], "target": [(a + b) // 10, (a + b) % 10]} for a in range(4) for b in range(4)]
    model = rivals.Seq2SeqTwin(13, 32, 2, 1, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    shown, asked = rivals.loader(rows, shuffle=True, batch_size=8), rivals.loader(rows, shuffle=False)
    for _ in range(60):
        rivals.usual_epoch(model, shown, optimizer)
    assert rivals.usual_validation(model, asked) == 1.0


def test_turns_alternate_in_either_order_and_ratios_pair_them():
    turns = []
    seconds = timing.interleaved({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, 20)
    rounds = ["".join(turns[number : number + 2]) for number in range(0, len(turns), 2)]
    assert set(rounds[3:]) == {"ab", "ba"} and len(rounds) == 23 and len(seconds["a"]) == len(seconds["b"]) == 20
    assert timing.ratio([2.0, 9.0, 6.0], [1.0, 3.0, 3.0]) == 2.0
    assert loops.reached([0.5, 0.996, 1.0], 0.995, 2.0) == 4.0 and loops.reached([0.5], 1.0, 2.0) is None


@pytest.mark.parametrize("kind, size", [("width", 32), ("digits", 4), ("length", 64)])
def test_everything_that_is_scaled_runs(kind, size):
    scaling.run_of(kind, size)()


def test_committed_benchmarks_have_all_parts_and_the_readme_their_table():
    root = scaling.PROBLEM.parent
    path = root / "benchmarks" / "results.json"
    parts = json.loads(path.read_text())["parts"]
    assert {"steps", "answering", "loops", "scaling", "make"} <= set(parts)
    assert picture.table(parts, brief=True) in (root / "README.md").read_text()


def test_a_block_of_the_readme_is_replaced_and_nothing_else(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- x: make y -->\nold\n<!-- end of x: make y -->\nafter\n")
    write_block(readme, "x: make y", "| new |")
    assert readme.read_text() == "before\n<!-- x: make y -->\n| new |\n<!-- end of x: make y -->\nafter\n"
    with pytest.raises(UserError, match="lacks the lines"):
        write_block(readme, "another", "text")
    with pytest.raises(UserError, match="lacks the lines"):
        write_block(tmp_path / "none.md", "x", "text")
