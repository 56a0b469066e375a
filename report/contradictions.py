"""Why published solutions of this homework contradict each other: each suspected mistake, made on purpose.

    python report/contradictions.py          # about five minutes; needs both problems trained, and `make seeds`

Starting from the sound recipe one thing at a time is made wrong (mistakes.py), and the result is set beside what was
published and beside the sound one. Several numbers follow from the course's test rows alone, with no training: those
are predicted exactly first. Writes contradictions.json.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import problem1.dataset
import problem2.dataset
from lab.files import read_json, write_json
from lab.provenance import provenance
from lab.settings import as_plain, parse, run, setting
from problem1 import train as addition
from problem2 import train as sorting
from report import mistakes

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Settings:
    output_dir: Path = setting(HERE, "folder of contradictions.json", metavar="DIR")
    work_dir: Path = setting(HERE / "runs", "folder of the faulty trainings", metavar="DIR")
    epochs: int = setting(0, "passes of each faulty training; 0: as many as the sound recipe", minimum=0)
    seed: int = setting(641, "seed of the faulty trainings", minimum=0)
    table_only: bool = setting(False, "train nothing: the table anew from the last numbers")


# --- the table ---------------------------------------------------------------------------------------------------


def table(found: dict) -> list[dict]:
    """Published number -> cause -> our number with that cause -> our number without it."""
    given, ignored = found["first_digit_given"], found["first_digit_given_and_0_ignored"]
    predicted, shares = found["predicted"]["addition"], found["predicted"]["sorting"]
    axes, seeds, sound = found["ablation_by_axis"], found["heads_by_seed"], found["sound"]
    stuck, rows = found["never_learns"], []

    def row(problem: int, published: str, verdict: str, cause: str, with_cause: str, without: str) -> None:
        keys = ("problem", "published", "verdict", "cause", "with_cause", "without_cause")
        rows.append(dict(zip(keys, (problem, published, verdict, cause, with_cause, without), strict=True)))

    exact = f"{_percent(sound['addition_test_acc'])} greedy and teacher-forced"
    alone = sorted(entry["prunable_alone"] for entry in seeds.values())
    worst = {entry["most_important"] for entry in seeds.values()}
    row(
        1,
        "99.85% teacher-forced but 34.9% greedy, called exposure bias",
        _verdict(abs(ignored["greedy_from_0"] - 0.349) < 0.01 and ignored["decoder_inputs"] > 0.99),
        "The first digit is an input and never predicted, decoding starts from token 0, and 0 is also the padding "
        "that the loss ignores. Only sums below 1000 without a zero after the first digit remain: "
        f"exactly {_percent(predicted['start_token_0_and_zeros_never_learned'])} of the test rows.",
        f"{_percent(ignored['decoder_inputs'])} teacher-forced, {_percent(ignored['greedy_from_0'])} greedy",
        exact,
    )
    row(
        1,
        "41.2% and 41% greedy",
        _verdict(abs(given["greedy_from_0"] - 0.412) < 0.01),
        "The first digit is given and decoding starts from token 0: no sum from 1000 on can come out; "
        f"{_percent(predicted['start_token_0'])} of the test rows are below.",
        f"{_percent(given['decoder_inputs'])} teacher-forced, {_percent(given['greedy_from_0'])} greedy",
        exact,
    )
    scores = ", ".join(_percent(score) for score in given["greedy_from_1_without_worst_encoder_heads"])
    row(
        1,
        "54.95% as the ablation's baseline; three encoder heads vital (3.5%, 0.85%, 0.6% without them)",
        "compatible",
        "Decoding starts from the commonest first digit, 1: at most "
        f"{_percent(predicted['start_token_1'])} can be right. 54.95% is "
        f"{0.5495 / predicted['start_token_1']:.1%} of this ceiling, which fits, but other causes would fit as well.",
        f"{_percent(given['greedy_from_1'])} greedy; without its three most needed encoder heads {scores}",
        exact,
    )
    row(
        1,
        "every head redundant, each costs 0.0005 to 0.001: '87.5% prunable'",
        "compatible"
        if axes["largest_drop"]["one_number"] < 0.05 < axes["largest_drop"]["columns"]
        else "not reproduced",
        "The head's index is applied to the wrong axis: one number of the output is zeroed, not the head's columns.",
        f"largest drop {100 * axes['largest_drop']['one_number']:.2f} points, "
        f"{axes['prunable']['one_number']} of {axes['heads']} heads 'prunable'; rows of the projection instead: "
        f"{100 * axes['largest_drop']['rows']:.2f} points, {axes['prunable']['rows']} of {axes['heads']}",
        f"largest drop {100 * axes['largest_drop']['columns']:.2f} points, "
        f"{axes['prunable']['columns']} of {axes['heads']} alone below one point",
    )
    row(
        1,
        "head 2 vital, heads 0 and 1 prunable; elsewhere other heads, and 41.67% or 70.8% prunable",
        "explained",
        "A head's number means nothing across trainings: which head takes which part is settled by the seed. The "
        "share that can go alone also differs, and says nothing on how many can go together.",
        f"over {len(seeds)} seeds the most important head has {len(worst)} different names",
        f"alone below one point: {_percent(alone[0])} to {_percent(alone[-1])} of the heads",
    )
    far = sound["sorting_by_length"]
    beyond = ("32", "64", "128", "256")
    row(
        2,
        "learned 0.546/0.486/0.482/0.488, sinusoidal 0.454/0.514/0.518/0.512",
        "predicted exactly",
        "A constant answer: in the course's test files the two classes have exactly these shares. "
        + (
            "It need not come of a model that never trained: ours, sound in range, give one answer for all beyond it."
            if _lengths(far["learned"]) in map(_lengths, shares.values())
            else ""
        ),
        f"always 'sorted': {_lengths(shares['always_sorted'])}; "
        f"always 'unsorted': {_lengths(shares['always_unsorted'])}",
        f"learned {_lengths(far['learned'])}, sinusoidal {_lengths(far['sinusoidal'])}",
    )
    drowned, post = stuck["values_drown_positions"], stuck["post_norm_without_warm_up"]
    row(
        2,
        "learned and none never train (50.25%, 50.55%)",
        _verdict(drowned["learned"]["test_acc"] < 0.6),
        "Embeddings left as nn.Embedding makes them and multiplied by the root of d_model: values drown the positions, "
        "and the model is blind to order. Post-norm without warm-up, suspected before, "
        + ("is not enough. " if post["learned"]["test_acc"] > 0.6 else "does it as well. ")
        + "For none no recipe helps: without positions and a mask the mean over places is the same for every order.",
        _stuck(drowned) + f" (ln 2 = {drowned['learned']['ln_2']:.3f}); post-norm without warm-up: " + _stuck(post),
        f"learned {_percent(sound['sorting_test_acc']['learned'])}, none {_percent(sound['sorting_test_acc']['none'])}",
    )
    row(
        2,
        "sinusoidal 1.0/1.0/1.0/1.0 where learned has 0.492/0.5/0.5/0.5; 'sinusoidal robust beyond'",
        _verdict(all(far["randomized"][length] > 0.99 for length in beyond)),
        "Positions drawn at random from a long range while training, for the sinusoidal scheme only: then no position "
        "of a long sequence is new. This is another scheme (Ruoss et al. 2023), not a property of the sinusoids.",
        f"with random positions {_lengths(far['randomized'])}",
        f"plain sinusoidal {_lengths(far['sinusoidal'])}",
    )
    row(
        2,
        "sinusoidal 99.65% in range, 50.4/50/50/50 beyond; sinusoidal and learned near-perfect in range, 50% beyond",
        "agrees",
        "No mistake: this is what the two schemes do.",
        "-",
        f"sinusoidal {_percent(sound['sorting_test_acc']['sinusoidal'])} in range, {_lengths(far['sinusoidal'])}; "
        f"learned {_percent(sound['sorting_test_acc']['learned'])}, {_lengths(far['learned'])}",
    )
    return rows


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%".replace(".00%", "%")


def _stuck(runs: dict) -> str:
    """'learned 50.2%, lowest loss 0.690; …'"""
    return "; ".join(
        f"{name} {_percent(run['test_acc'])}, lowest loss {run['lowest_train_loss']:.3f}" for name, run in runs.items()
    )


def _lengths(by_length: dict) -> str:
    return "/".join(f"{by_length[length]:.3f}" for length in ("32", "64", "128", "256"))


def _verdict(reproduced: bool) -> str:
    return "reproduced" if reproduced else "not reproduced"


def sound_results() -> dict:
    """What the sound recipes gave, from the results beside them."""
    first, second = ROOT / "problem1/results", ROOT / "problem2/results"
    remedy = "run `make` first."
    logs = {
        name: read_json(second / name / "training_log.json", remedy)
        for name in ("sinusoidal", "learned", "none", "randomized")
    }
    by_length = read_json(second / "extrapolation/extrapolation_results.json", remedy)
    return {
        "addition_test_acc": read_json(first / "training_log.json", remedy)["test_acc"],
        "sorting_test_acc": {name: log["test_acc"] for name, log in logs.items()},
        "sorting_by_length": {name: by_length[name] for name in logs},
    }


def experiments(settings: Settings) -> dict:
    """Every mistake made and measured."""
    sums = problem1.dataset.load_or_generate(addition.Settings().data_dir)
    problem2.dataset.load_or_generate(sorting.Settings().data_dir)
    model = addition.load_model(ROOT / "problem1/results/best_model.pth")[0]
    common = {"seed": settings.seed, "output_dir": settings.work_dir} | (
        {"epochs": settings.epochs} if settings.epochs else {}
    )
    digits, order = addition.Settings(**common), sorting.Settings(**common, lr=1e-3)
    return {
        "predicted": {
            "addition": mistakes.predicted_for_addition(sums["test"]),
            "sorting": mistakes.predicted_for_sorting(order.data_dir),
        },
        "ablation_by_axis": mistakes.ablation_by_axis(model, sums["test"]),
        "heads_by_seed": mistakes.heads_by_seed(ROOT / "problem1/results/seeds", sums["test"]),
        "first_digit_given": mistakes.given_first_digit(digits, sums, None),
        "first_digit_given_and_0_ignored": mistakes.given_first_digit(digits, sums, 0),
        "never_learns": {
            mistake: {
                name: mistakes.faulty_sorting(replace(order, encoding=(name,)), mistake)
                for name in ("sinusoidal", "learned")
            }
            for mistake in mistakes.MISTAKES_IN_SORTING
        },
    }


def main(settings: Settings) -> None:
    path = settings.output_dir / "contradictions.json"
    remedy = "run report/contradictions.py without --table-only."
    found = read_json(path, remedy) if settings.table_only else experiments(settings)
    found |= {"sound": sound_results()}
    rows = table(found)
    write_json(path, found | {"table": rows, "config": as_plain(settings), **provenance()})
    for row in rows:
        print(f"\nproblem {row['problem']}, published: {row['published']}\n  {row['verdict']}: {row['cause']}")
        print(f"  with the cause: {row['with_cause']}\n  without it: {row['without_cause']}")
    print(f"\nwritten: {path}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
