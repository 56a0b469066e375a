"""Each mistake does what its description says, and no more."""

import pytest
import torch

from problem1.dataset import encode, every_pair
from problem1.generate_data import make_rows
from problem1.model import Seq2SeqTransformer
from problem1.train import Settings, build
from problem2 import generate_data
from problem2 import train as sorting
from problem2.model import create_model
from report import contradictions, mistakes


def course_test_rows():
    rows = make_rows(3, 2000, 643)
    a = torch.tensor([int("".join(map(str, row["input"][:3]))) for row in rows])
    b = torch.tensor([int("".join(map(str, row["input"][4:]))) for row in rows])
    return encode(a, b, 3)


def test_the_shares_that_follow_from_the_test_rows_alone():
    predicted = mistakes.predicted_for_addition(course_test_rows())
    assert predicted["start_token_0"] == pytest.approx(0.412)
    assert predicted["start_token_1"] == pytest.approx(0.588)
    assert predicted["start_token_0_and_zeros_never_learned"] == pytest.approx(0.349)


class Knows(torch.nn.Module):
    """Writes the right digits after the first, whatever it started from."""

    def __init__(self, sums):
        super().__init__()
        self.answers = {tuple(s): t for s, t in zip(sums.sources.tolist(), sums.targets, strict=True)}

    def forward(self, sources, targets):
        wanted = torch.stack([self.answers[tuple(row)] for row in sources.tolist()])[:, 1:]
        return torch.nn.functional.one_hot(wanted, 13).float() * 100

    def generate(self, sources, max_len, start):
        return torch.stack([self.answers[tuple(row)] for row in sources.tolist()])[:, 1:]


def test_a_model_that_knows_all_but_the_first_digit_scores_exactly_the_predicted_shares():
    test = course_test_rows()
    model = Knows(test)
    assert mistakes.greedy(model, test, 0) == pytest.approx(0.412)
    assert mistakes.greedy(model, test, 1) == pytest.approx(0.588)
    _, right = mistakes.score_given_first(None)(model, (test.sources, test.targets))
    assert right.all()


def test_ignored_zeros_are_neither_taught_nor_counted():
    sums = encode(torch.tensor([100]), torch.tensor([105]), 3)  # 0205

    class SaysNine(torch.nn.Module):
        def forward(self, sources, targets):
            said = targets.new_tensor([[2, 9, 5]])  # a 9 where the 0 belongs
            return torch.nn.functional.one_hot(said, 13).float() * 100

    batch = (sums.sources, sums.targets)
    assert not mistakes.score_given_first(None)(SaysNine(), batch)[1].any()
    losses, right = mistakes.score_given_first(0)(SaysNine(), batch)
    assert right.all() and losses.item() < 1e-3


def test_ablation_by_axis_leaves_the_model_as_it_was_and_columns_equal_zeroed_heads():
    torch.manual_seed(0)
    model = build(Settings(d_model=16, d_ff=16, num_heads=2, num_layers=1), 1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sums = every_pair(1)
    found = mistakes.ablation_by_axis(model, sums)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert set(found["drops"]["columns"]) == set(model.head_names()) and found["heads"] == 6
    for head in model.head_names():
        zeroed = mistakes._mean(mistakes.Trial(model, sums).right({head: mistakes.zero})[0].all(1))
        assert found["drops"]["columns"][head] == pytest.approx(found["baseline"] - zeroed)


def test_attention_modules_are_all_found():
    model = Seq2SeqTransformer(13, 16, 2, 2, 1, 16)
    names = {"encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.0.cross"}
    assert set(mistakes.attention_modules(model)) == names


def test_loud_values_and_post_norm_change_only_what_they_say():
    torch.manual_seed(0)
    model = create_model("sinusoidal", d_model=16, num_heads=2, num_layers=2, d_ff=16)
    tokens = torch.randint(0, 100, (2, 9))
    sound = model(tokens)
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert mistakes.loud_values(model) is None
    changed = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, kept[name])]
    assert changed == ["embedding.weight"] and model.embedding.weight.std().item() == pytest.approx(1, abs=0.05)
    model.load_state_dict(kept)
    assert mistakes.post_norm(model) == 0
    assert not torch.allclose(model(tokens), sound)
    x = torch.randn(2, 9, 16)
    normed = model.layers[0](x)
    torch.testing.assert_close(normed.mean(-1), torch.zeros(2, 9), atol=1e-5, rtol=0)  # the norm comes last


@pytest.mark.parametrize("mistake", list(mistakes.MISTAKES_IN_SORTING))
def test_a_faulty_sorting_run_from_end_to_end(tmp_path, mistake):
    sizes = {"train_size": 40, "val_size": 10, "test_size": 10}
    generate_data.generate(generate_data.Settings(**sizes, output_dir=tmp_path / "data"))
    settings = sorting.Settings(
        encoding=("learned",), data_dir=tmp_path / "data", output_dir=tmp_path / "runs", epochs=1, d_model=16, d_ff=16
    )
    found = mistakes.faulty_sorting(settings, mistake)
    assert 0 <= found["test_acc"] <= 1 and found["lowest_train_loss"] > 0
    assert (tmp_path / f"runs/{mistake}_learned/training_log.json").exists()


def test_the_table_speaks_of_every_published_number():
    by_length = dict.fromkeys(("32", "64", "128", "256"), 0.5)
    stuck = {"test_acc": 0.5, "lowest_train_loss": 0.69, "ln_2": 0.693}
    learns = {**stuck, "test_acc": 0.99}
    given = {"decoder_inputs": 0.99, "greedy_from_0": 0.41, "greedy_from_1": 0.58}
    found = {
        "sound": {
            "addition_test_acc": 1.0,
            "sorting_test_acc": dict.fromkeys(("sinusoidal", "learned", "none", "randomized"), 0.99),
            "sorting_by_length": dict.fromkeys(("sinusoidal", "learned", "none", "randomized"), by_length),
        },
        "predicted": {
            "addition": mistakes.predicted_for_addition(course_test_rows()),
            "sorting": {"always_sorted": by_length, "always_unsorted": by_length},
        },
        "ablation_by_axis": {
            "largest_drop": {"columns": 0.9, "rows": 0.5, "one_number": 0.01},
            "prunable": {"columns": 14, "rows": 4, "one_number": 24},
            "heads": 24,
        },
        "heads_by_seed": {"seed0": {"most_important": "a", "prunable_alone": 0.5}},
        "first_digit_given": given | {"greedy_from_1_without_worst_encoder_heads": [0.01, 0.02, 0.3]},
        "first_digit_given_and_0_ignored": {"decoder_inputs": 0.998, "greedy_from_0": 0.5},
        "never_learns": {
            "post_norm_without_warm_up": {"sinusoidal": learns, "learned": learns},
            "values_drown_positions": {"sinusoidal": stuck, "learned": stuck},
        },
    }
    rows = contradictions.table(found)
    verdicts = {row["published"][:6]: row["verdict"] for row in rows}
    assert verdicts["99.85%"] == "not reproduced"  # greedy is not near 0.349 here, and the table must say so
    assert verdicts["41.2% "] == "reproduced" and verdicts["learne"] in ("predicted exactly", "reproduced")
    assert all(set(row) == set(rows[0]) for row in rows) and {row["problem"] for row in rows} == {1, 2}
