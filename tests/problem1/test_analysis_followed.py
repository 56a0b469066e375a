"""One sum followed: the decoder's state after each part, read as if nothing came after it."""

import pytest
import torch

from problem1.analysis import followed
from problem1.analysis.rows import sums_of
from problem1.dataset import decoder_inputs
from tests.problem1 import analysis_models
from tests.problem1.test_analysis_heads import by_forward_hook

PARTS = ["embedding", "decoder.0.self", "decoder.0.cross", "decoder.0.feed_forward"]


@pytest.fixture(scope="module")
def model():
    return analysis_models.adder()


def test_reading_after_a_part_is_the_model_without_what_comes_after_it(model):
    """In a model of one layer: what follows is set to zero, biases of the output layers included."""
    sums = analysis_models.rows(30)["test"]
    found = followed.read_logits(model, sums, batch_size=20)
    assert list(found) == PARTS
    with torch.no_grad():
        torch.testing.assert_close(found[PARTS[-1]], model(sums.sources, decoder_inputs(sums.targets)))
        embedded = model.output(model.decoder_norm(model.embed(decoder_inputs(sums.targets))))
        torch.testing.assert_close(found["embedding"], embedded)
    without = by_forward_hook(model, sums, {"decoder.0.feed_forward": 0.0})
    torch.testing.assert_close(found["decoder.0.cross"], without)
    layer = model.decoder[0]
    handle = layer.cross_attention.register_forward_hook(lambda _, inputs, outputs: (outputs[0] * 0, outputs[1]))
    without = by_forward_hook(model, sums, {"decoder.0.feed_forward": 0.0})
    handle.remove()
    torch.testing.assert_close(found["decoder.0.self"], without)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_the_other_carry():
    """445+555: without the carries 0990; 123+456: with one into each column but the ones 1689."""
    sums = sums_of([(445, 555), (123, 456)], 3)
    assert followed.other_carry_digits(sums).tolist() == [[0, 9, 9, 0], [1, 6, 8, 9]]


def test_measures_of_planted_logits():
    sums = sums_of([(5, 5), (1, 2)], 1)  # 10, 03
    early = torch.zeros(2, 2, 12)
    early[0, 0, 0] = 4.0  # the digit without the carry
    early[:, 1, 7] = 1.0
    late = torch.zeros(2, 2, 12)
    late[0, 0, 1] = late[1, 0, 0] = 6.0
    late[0, 1, 0] = late[1, 1, 3] = 8.0
    tens, ones = followed.measure({"early": early, "late": late}, sums)
    assert tens["digit"] == "tens" and tens["logit"] == [0, 6] and tens["other_carry_logit"] == [2, 0]
    assert tens["margin"] == [-2, 6] and tens["right_is_first"] == [0.5, 1]
    assert tens["rank"] == [1.5, 1]  # one digit lies above the right one in one of two sums
    assert ones["other_carry_logit"] is None and ones["rank"] == [2, 1] and ones["margin"] == [-1, 8]


def test_attention_by_column():
    pattern = torch.tensor([[0.1, 0.2, 0.3, 0.25, 0.15]])  # a 10, a 1, +, b 10, b 1
    assert followed.by_column(pattern) == [pytest.approx([0.35, 0.35, 0.3])]


def test_the_sum_and_the_mean_stand_side_by_side(model, tmp_path):
    context = analysis_models.context(model, tmp_path)
    needed = {"reading": "needed", "most_flips": {"share": 0.0}, "does": "pairs"}
    heads = [needed | {"head": name} for name in ("decoder.0.cross.head1", "encoder.0.self.head1")]
    context.results["summary"] = {"heads": [*heads, {**needed, "reading": "no", "head": "decoder.0.cross.head0"}]}
    results = followed.run(context)
    assert results["sum"] == "45+55" and results["parts"] == PARTS
    last = [entry["right_is_first"][-1] for entry in results["mean_of_test_sums"]["digits"]]
    assert last == pytest.approx(context.correct.double().mean(0).tolist(), abs=1e-4)
    assert results["encoder_head"]["head"] == "encoder.0.self.head1" and len(results["encoder_head"]["pattern"]) == 5
    assert list(results["cross_heads"]) == ["decoder.0.cross.head1"]
    for line in results["cross_heads"]["decoder.0.cross.head1"]:
        assert len(line) == 3 and sum(line) == pytest.approx(1, abs=1e-3)
    assert "".join(entry["right"] for entry in results["digits"]) == "100"
    assert "".join(entry["first"][-1] for entry in results["digits"]) == results["prediction"]
    assert (tmp_path / "carry/followed.pdf").is_file() and "45+55 reads" in followed.findings(results)
