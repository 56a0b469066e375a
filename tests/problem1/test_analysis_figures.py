"""What the figures of analyze.py show is what was measured, with the symbols of their sums."""

import matplotlib.pyplot as plt
import pytest
import torch

from lab.hooks import Head, short_name
from problem1.analysis import (
    ablation,
    attention_maps,
    examples,
    exhaustive,
)
from problem1.analysis.examples import select
from problem1.analysis.rows import sums_of
from problem1.dataset import Sums
from tests.problem1 import analysis_models
from tests.problem1.test_analysis_heads import by_forward_hook


@pytest.fixture
def figures(monkeypatch):
    """Figures as they are when they would be written, open for inspection."""
    caught = {}
    for module in (attention_maps, examples, ablation):
        monkeypatch.setattr(module, "save", lambda figure, path, *_, **__: caught.update({path.name: figure}))
    yield caught
    plt.close("all")


def labels(axis) -> list[str]:
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_figures_carry_the_symbols_of_their_sum(figures, tmp_path):
    context = analysis_models.context(analysis_models.adder(), tmp_path)
    example = examples.examine(context.model, sums_of([(45, 55)], 2), ["given"])[0]
    for side, name in (("decoder", "self.png"), ("encoder", "encoder.png")):
        head = Head(side, 0, "self", 0)
        mean = context.test.recorded.patterns[head.name].mean(0).tolist()
        attention_maps.draw_head(head, mean, [example], 2, tmp_path / name, "")
    panels = figures["self.png"].axes[:2]
    assert labels(panels[0].xaxis) == ["<s>", "100s", "10s"]
    assert labels(panels[0].yaxis) == ["writes 100s", "writes 10s", "writes 1s"]
    assert labels(panels[1].xaxis) == ["<s>", *example["prediction"][:2]]
    assert labels(panels[1].yaxis) == [*example["prediction"]]
    for axes in panels:
        assert axes.collections[0].get_clim() == (0, 1)
        shown = axes.collections[0].get_array()
        assert shown.mask.tolist() == [[False, True, True], [False, False, True], [False, False, False]]
    panels = figures["encoder.png"].axes[:2]
    assert labels(panels[0].yaxis) == ["a 10", "a 1", "+", "b 10", "b 1"]
    assert labels(panels[1].xaxis) == labels(panels[1].yaxis) == ["4", "5", "+", "5", "5"]
    examples.draw_example(example, tmp_path / "example.png", "")
    drawn = figures["example.png"]
    titles = " ".join(axes.get_title() for axes in drawn.axes)
    assert all(f"writes {digit}" in titles for digit in example["prediction"])
    # Below, the heads without which a digit changes, and what is written then, as an ablated model writes it.
    removed = drawn.subfigs[1].axes[0]
    needed = [head for head in context.heads if example["without_head"][head] != example["prediction"]]
    assert labels(removed.yaxis) == [f"without {short_name(head)}" for head in needed] and needed
    texts = "".join(text.get_text() for text in removed.texts)
    assert texts == "".join(example["without_head"][head] for head in needed)
    written = torch.tensor([[int(digit) for digit in example["prediction"]]])
    sums = Sums(sums_of([(45, 55)], 2).sources, written)
    ablated = by_forward_hook(context.model, sums, {"decoder.0.cross.head0": 0.0}).argmax(-1)[0]
    assert example["without_head"]["decoder.0.cross.head0"] == "".join(map(str, ablated.tolist()))


def test_importance_figure_shows_heads_by_rank_with_both_kinds(figures, tmp_path):
    context = analysis_models.context(analysis_models.adder(), tmp_path)
    results = ablation.run(context)
    axes = figures["head_importance.png"].axes[0]
    shown = [
        head for head in results["ranking"] if max(abs(results["heads"][head][k]["drop"]) for k in ("zero", "mean"))
    ]
    others = f"{len(context.heads) - len(shown)} others"
    assert labels(axes.yaxis) == [*map(short_name, shown), others] and "points" in axes.get_xlabel()
    for line, kind in zip(axes.lines, ("zero", "mean"), strict=True):
        expected = [100 * results["heads"][head][kind]["drop"] for head in shown]
        assert line.get_xdata() == pytest.approx(expected) and line.get_label() == f"set to {kind}"


def test_examples_are_of_different_kinds_and_wrong_ones_come_first(tmp_path):
    context = analysis_models.context(analysis_models.adder(), tmp_path)
    context.num_samples = 20
    sums, reasons = select(context)
    assert len(sums) == len(reasons) == 20 and len({tuple(row) for row in sums.sources.tolist()}) == 20
    predicted = exhaustive.predict(context.model, sums)[0]
    for reason, right in zip(reasons, (predicted == sums.targets).all(1).tolist(), strict=True):
        assert reason != "a wrong answer" or not right
    written = {reason: sums.sources[row].tolist() for row, reason in reversed(list(enumerate(reasons)))}
    assert written["a carry chain through 9s"] == [4, 5, 10, 5, 5]
    if not context.correct.all():
        assert reasons[0] == "a wrong answer"
