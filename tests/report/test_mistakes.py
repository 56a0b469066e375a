"""Each mistake does what its description says, and no more; verdicts follow from the numbers."""

import copy
import json
from dataclasses import replace

import pytest
import torch

import problem1.dataset
from lab.training import Recipe
from problem1 import trained
from problem1.analysis.interventions import InterventionRunner
from problem1.dataset import encode, every_pair
from problem1.generate_data import make_rows
from problem2 import training
from problem2.dataset import sample_rows
from problem2.model import create_model
from report import contradictions, mistakes

SMALL = {"d_model": 16, "d_ff": 16, "num_heads": 2, "num_layers": 1, "dropout": 0.0, "num_digits": 1}


def course_test_rows():
    sources = torch.tensor([row["input"] for row in make_rows(3, 2000, 643)])
    return encode(sources[:, :3], sources[:, 4:])


@pytest.fixture(scope="module")
def predicted(tmp_path_factory):
    return mistakes.predicted(course_test_rows(), tmp_path_factory.mktemp("data"))


def test_the_shares_that_follow_from_the_test_rows_alone(predicted):
    assert predicted["addition"]["start_token_0"] == pytest.approx(0.412)
    assert predicted["addition"]["start_token_1"] == pytest.approx(0.588)
    assert predicted["addition"]["start_token_0_and_zeros_never_learned"] == pytest.approx(0.349)
    assert contradictions.lengths(predicted["sorting"]["always_sorted"]) == "0.454/0.514/0.518/0.512"


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
    sums = encode(torch.tensor([[1, 0, 0]]), torch.tensor([[1, 0, 5]]))  # 0205

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
    model, sums = trained.build(SMALL).eval(), every_pair(1)
    before = copy.deepcopy(model.state_dict())
    found = mistakes.ablation_by_axis(model, sums)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert [*found["drops"]["columns"]] == model.head_names() and found["heads"] == 6
    for head in model.head_names():
        zeroed = InterventionRunner(model, sums).evaluate({head: mistakes.zero})[0].all(1).double().mean().item()
        assert found["drops"]["columns"][head] == pytest.approx(found["baseline"] - zeroed)


def test_mistakes_in_sorting_change_only_what_they_say():
    torch.manual_seed(0)
    model, recipe = create_model("sinusoidal", d_model=16, num_heads=2, num_layers=2, d_ff=16), Recipe(1, 8, 1e-3)
    tokens, x = torch.randint(0, 100, (2, 9)), torch.randn(2, 9, 16)
    sound, kept = model(tokens), copy.deepcopy(model.state_dict())
    for mistake, size in ((mistakes.loud_values, 1), (mistakes.unordered_values, 0.25)):
        model.load_state_dict(kept)
        assert mistake(model, recipe) == recipe
        changed = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, kept[name])]
        assert changed == ["embedding.weight"]
        assert model.embedding.weight.std().item() == pytest.approx(size, rel=0.05)
    model.load_state_dict(kept)
    assert mistakes.post_norm(model, recipe) == replace(recipe, warmup_steps=0)
    assert not torch.allclose(model(tokens), sound)
    normed = model.layers[0](x)
    torch.testing.assert_close(normed.mean(-1), torch.zeros(2, 9), atol=1e-5, rtol=0)  # the norm comes last


def test_a_faulty_run_from_end_to_end(tmp_path):
    rows = {name: sample_rows(40, 8, 16, torch.Generator().manual_seed(0)) for name in ("train", "val", "test")}
    config = training.config_of(training.Settings(encoding=("learned",), epochs=1, d_model=16, d_ff=16))
    for mistake in mistakes.MISTAKES_IN_SORTING:
        found = mistakes.train_sorting(config, mistake, rows, tmp_path / mistake)
        assert 0 <= found["test_acc"] <= 1 and found["lowest_train_loss"] > 0
        assert (tmp_path / mistake / "training_log.json").exists()
    config = {
        "batch_size": 20,
        "epochs": 1,
        "lr": 1e-3,
        "weight_decay": 0.5,
        "hard_weight": 2.0,
        "seed": 1,
    } | SMALL
    found = mistakes.train_given_first(config, 0, dict.fromkeys(rows, every_pair(1)), tmp_path / "digits")
    assert found["greedy_from_0"] <= 0.5 and len(found["greedy_from_1_without_worst_encoder_heads"]) == 2


def test_every_faulty_run_is_a_job_whose_settings_decide_it(monkeypatch):
    made = []
    monkeypatch.setattr(contradictions.jobs, "run", lambda work: made.append(work) or [{}] * len(work))
    sums = problem1.dataset.load_or_generate()
    for seed in (1, 2):
        contradictions.faulty_trainings(contradictions.Settings(seed=seed, epochs=3), sums)
    settings = [json.dumps(job.settings) for work in made for job in work]
    assert len({*settings}) == len(settings) == 2 * (2 + 2 * len(mistakes.MISTAKES_IN_SORTING))
    assert len({job.result for work in made for job in work}) == len(settings) / 2
    for job in made[0]:
        assert (
            job.settings["config"] | {"seed": 1, "epochs": 3} == job.settings["config"]
            and job.settings["config"]["data"]
        )


def test_without_the_models_of_other_seeds_one_sentence_says_so(refused, tmp_path):
    flags = ("--seeds-dir", tmp_path, "--output-dir", tmp_path, "--work-dir", tmp_path)
    refused("report/contradictions.py", *flags, words=["no models of other seeds", "make seeds"])


def made_up(predicted) -> dict:
    """Numbers as they are if every cause suffices."""
    unsorted, perfect = predicted["sorting"]["always_unsorted"], dict.fromkeys(mistakes.LENGTHS, 1.0)
    given = {"teacher_forced": 0.998, "greedy_from_0": 0.41, "greedy_from_1": 0.55}
    learns, fails = ({"test_acc": accuracy, "lowest_train_loss": 0.5} for accuracy in (0.997, 0.5))
    learned_fails = {"sinusoidal": learns, "learned": fails}
    both = dict.fromkeys(learned_fails, learns)
    return {
        "predicted": predicted,
        "sound": {
            "addition_test_acc": 1.0,
            "sorting_test_acc": {"sinusoidal": 0.997, "learned": 0.99, "none": 0.506, "randomized": 0.99},
            "sorting_by_length": {"sinusoidal": unsorted, "learned": unsorted, "randomized": perfect},
        },
        "ablation_by_axis": {
            "largest_drop": {"columns": 0.9, "rows": 0.5, "one_number": 0.001},
            "prunable": {"columns": 14, "rows": 4, "one_number": 21},
            "heads": 24,
        },
        "heads_by_seed": {
            "seed0": {"most_important": "a", "prunable_alone": 0.41},
            "seed1": {"most_important": "b", "prunable_alone": 0.71},
        },
        "first_digit_given": given | {"greedy_from_1_without_worst_encoder_heads": [0.01, 0.02, 0.03]},
        "first_digit_given_and_0_ignored": given | {"greedy_from_0": 0.35},
        "never_learns": {"post_norm_without_warm_up": both, "values_drown_positions": learned_fails},
    }


def test_verdicts_follow_from_the_numbers(predicted):
    def verdicts(found) -> list[str]:
        rows = contradictions.table(found)
        assert all({*row} == {*rows[0]} for row in rows)
        return [row["verdict"] for row in rows]

    found, sufficient = made_up(predicted), ["sufficient cause"] * 8 + ["agrees"]
    assert verdicts(found) == sufficient
    open_shares = dict.fromkeys(mistakes.LENGTHS, 0.5)
    both_fail = dict.fromkeys(contradictions.SCHEMES, found["never_learns"]["values_drown_positions"]["learned"])
    changes = [
        (0, "open", "first_digit_given_and_0_ignored", {"greedy_from_0": 0.5}),
        (1, "open", "first_digit_given", {"greedy_from_0": 0.43}),
        (2, "fits", "first_digit_given", {"greedy_from_1": 0.588}),
        (2, "open", "first_digit_given", {"greedy_from_1": 0.3}),
        (3, "fits", "ablation_by_axis", {"prunable": {"columns": 14, "rows": 4, "one_number": 24}}),
        (3, "open", "ablation_by_axis", {"largest_drop": {"columns": 0.9, "rows": 0.5, "one_number": 0.4}}),
        (4, "fits", "heads_by_seed", {"seed0": {"most_important": "a", "prunable_alone": 0.6}}),
        (4, "open", "heads_by_seed", {"seed0": {"most_important": "b", "prunable_alone": 0.41}}),
        (5, "open", "predicted", {"sorting": {"always_sorted": open_shares, "always_unsorted": open_shares}}),
        (6, "open", "never_learns", {"values_drown_positions": both_fail, "post_norm_without_warm_up": both_fail}),
    ]
    for number, verdict, group, other in changes:
        changed = found | {group: found[group] | other}
        assert verdicts(changed) == [*sufficient[:number], verdict, *sufficient[number + 1 :]], other
    assert "Post-norm without warm-up is not the cause" in contradictions.table(found)[6]["cause"]
    assert "is not the cause" not in contradictions.table(changed)[6]["cause"]
    found["sound"]["sorting_by_length"]["learned"] = dict.fromkeys(mistakes.LENGTHS, 0.9)
    assert verdicts(found)[7:] == ["open", "open"]
