"""What published solutions of this homework say, what their public code does, and what we find.

    python beyond/published/contradictions.py   # half an hour of processor time, after `make`

claims.json holds what is published: numbers, and statements in words. For numbers, what the public code does is done
here on purpose (mistakes.py, handout.py), and the result is set beside what was published. The verdict is one of

    found in the code        public code does this, and with it our runs, or arithmetic, give what was published
    sufficient in our runs   with it our runs give what was published; no public code shows that it was the cause
    agrees                   no mistake is needed: the sound runs give it
    open                     none of these

Statements in words are judged in statements.py. Writes results/contradictions.json. Trainings that are finished are
kept in runs/, and used again with the same settings.
"""

import math
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import lab.installed

import problem1.dataset
import problem2.dataset
from beyond import jobs
from beyond.published import handout, mistakes, statements
from lab import device
from lab.files import read_json, versions, write_json
from lab.hooks import Head
from lab.settings import parse, run
from problem1.checkpoint import load_model

HERE = Path(__file__).resolve().parent
POINT = 0.01  # near: within one point, half the width of the 95% interval of 50% of 2,000 rows
HALF = 0.06  # 50%: a constant answer to 500 rows of two equally likely classes is within 6 points (99% interval)
CLAIMS = HERE / "claims.json"
IN_CODE = "found in the code"
LOGGED = 0.9307  # teacher-forced accuracy in the log of the solution whose baseline is 54.95%
SCHEMES = ("sinusoidal", "learned")
SEEDS = (641, 642, 643)
LEARNS, FAILS = 0.95, 0.6  # test accuracy at least, at most
TRAINS = 0.75  # test accuracy at least: far from one constant answer


# --- the table ---------------------------------------------------------------------------------------------------


def near(value: float, *published: float, tolerance: float = POINT) -> bool:
    return all(abs(value - number) <= tolerance for number in published)


def half(*values: float) -> bool:
    return near(0.5, *values, tolerance=HALF)


def lengths(by_length: dict) -> str:
    return "/".join(f"{by_length[length]:.3f}" for length in mistakes.LENGTHS)


def accuracies(runs: dict) -> list[float]:
    """The test accuracies of runs that differ in the seed."""
    return [run["test_acc"] for run in runs.values()]


def spread(values: list[float]) -> str:
    """From the lowest to the highest, exact: one of 2,000 test rows is 0.05%."""
    low, high = f"{100 * min(values):.2f}", f"{100 * max(values):.2f}"
    return f"{low}%" if low == high else f"{low} to {high}%"


def verdict(name: str, borne_out: bool) -> str:
    return name if borne_out else "open"


def judge_addition(found: dict) -> dict[str, tuple[str, str]]:
    """The verdict on each claim in numbers on problem 1, and what we find."""
    given, ignored = found["first_digit_given"], found["first_digit_given_and_0_ignored"]
    shares, ablation = found["predicted"]["addition"], found["ablation_by_axis"]
    first_for_all = found["first_answer_for_all"]
    products = [shares[start] * LOGGED for start in ("start_token_1", "commonest_of_batch")]
    first_heads = {seed: max(drops, key=drops.get) for seed, drops in found["drops_by_seed"].items()}
    sound = found["sound"]["addition_test_acc"]
    return {
        "teacher-forced-99.85": (
            verdict(IN_CODE, near(ignored["teacher_forced"], 0.9985) and near(ignored["greedy_from_0"], 0.349)),
            f"{ignored['teacher_forced']:.1%} teacher-forced, {ignored['greedy_from_0']:.1%} greedy.",
        ),
        "greedy-41.2": (
            verdict(IN_CODE, near(given["greedy_from_0"], 0.412)),
            f"{given['teacher_forced']:.1%} teacher-forced, {given['greedy_from_0']:.1%} greedy: "
            f"{shares['start_token_0']:.1%} of the test sums are below 1000.",
        ),
        "baseline-54.95": (
            verdict(IN_CODE, min(products) <= 0.5495 <= max(products)),
            f"{shares['start_token_1']:.1%} of all sums, {shares['commonest_of_batch']:.1%} in batches of "
            f"{mistakes.BATCH}; times 93.1%: {min(products):.1%} to {max(products):.1%}.",
        ),
        "prunable-87.5": (
            verdict(IN_CODE, first_for_all < 0.05 and sound >= LEARNS),
            f"Scored so, our model, which is right on {sound:.0%}, gets {first_for_all:.1%}. By rows "
            f"{ablation['prunable']['rows']} of {ablation['heads']} heads seem prunable alone, by columns "
            f"{ablation['prunable']['columns']}.",
        ),
        "another-head": (
            verdict("sufficient in our runs", len({*first_heads.values()}) > 1),
            ", ".join(f"seed {seed}: {Head.parse(head).short}" for seed, head in first_heads.items()) + ".",
        ),
    }


def judge_sorting(found: dict) -> dict[str, tuple[str, str]]:
    """The verdict on each claim in numbers on problem 2, and what we find."""
    far, in_range = found["sound"]["sorting_by_length"], found["sound"]["sorting_test_acc"]
    trains = near(in_range["sinusoidal"], 0.9965) and in_range["learned"] >= LEARNS and half(in_range["none"])
    first, second = found["handout"]["first"], found["handout"]["second"]
    handed_out = {scheme: accuracies(first["as handed out"][scheme]) for scheme in SCHEMES}
    mended = {mend: accuracies(runs["learned"]) for mend, runs in first.items() if mend != "as handed out"}
    stuck = {scheme: accuracies(second["as handed out"][scheme]) for scheme in SCHEMES}
    slower = accuracies(second["rate of 2e-4"]["sinusoidal"])
    stretched = [share for run in found["stretched"].values() for share in run["by_length"].values()]
    return {
        "learned-54.6": (
            verdict("agrees", lengths(far["learned"]) == "0.546/0.486/0.482/0.488" and in_range["learned"] >= LEARNS),
            f"{in_range['learned']:.2%} in range, then {lengths(far['learned'])}.",
        ),
        "learned-never-trains": (
            verdict(
                IN_CODE,
                min(handed_out["sinusoidal"]) >= LEARNS
                and max(handed_out["learned"]) <= FAILS
                and min(mended["large table"]) >= TRAINS,
            ),
            f"As handed out: sinusoidal {spread(handed_out['sinusoidal'])}, learned {spread(handed_out['learned'])}. "
            f"One part mended, learned: {'; '.join(f'{mend} {spread(runs)}' for mend, runs in mended.items())}.",
        ),
        "neither-trains": (
            verdict(IN_CODE, max(*stuck["sinusoidal"], *stuck["learned"]) <= FAILS and min(slower) >= TRAINS),
            f"{handout.VERSIONS['second'].epochs} epochs as handed out: sinusoidal {spread(stuck['sinusoidal'])}, "
            f"learned {spread(stuck['learned'])}; sinusoidal at a rate of 2e-4: {spread(slower)}.",
        ),
        "sinusoidal-perfect": (
            verdict(IN_CODE, near(1, *stretched) and half(*far["learned"].values())),
            f"Stretched, {len(found['stretched'])} seeds: {at_least(min(stretched))} at each length. True positions: "
            f"{lengths(far['sinusoidal'])}.",
        ),
        "sinusoidal-50": (
            verdict("agrees", trains and all(half(*far[scheme].values()) for scheme in SCHEMES)),
            f"sinusoidal {in_range['sinusoidal']:.2%} in range, then {lengths(far['sinusoidal'])}; none "
            f"{in_range['none']:.1%} in range.",
        ),
    }


def at_least(share: float) -> str:
    """A lower bound, rounded down to tenths of a percent."""
    return "100%" if share == 1 else f"at least {math.floor(round(1000 * share, 6)) / 10:.1f}%"


def table(found: dict) -> list[dict]:
    """Each claim in numbers with its verdict and what we find."""
    answers = judge_addition(found) | judge_sorting(found)
    rows = []
    for claim in read_json(CLAIMS, "restore it.")["numbers"]:
        named, ours = answers[claim["id"]]
        rows.append(claim | {"ours": ours, "verdict": named})
    return rows


# --- the numbers -------------------------------------------------------------------------------------------------


def log_of(folder: str) -> dict:
    return read_json(ROOT / folder / "training_log.json", "run `make` first.")


def trainings(engine: jobs.Engine) -> dict:
    """Side by side: each mistake in the sound run, the adder with other seeds, the handed-out recipes and mends."""
    work: dict[tuple[str, ...], jobs.Job] = {}

    def add(keys: tuple[str, ...], function: Callable, **settings) -> None:
        name = "/".join(keys).replace(" ", "_")
        work[keys] = jobs.Job(name, function, settings, HERE / "runs" / name)

    for seed in SEEDS:
        config = log_of("problem2/results/sinusoidal")["config"] | {"seed": seed}
        add(("stretched", str(seed)), mistakes.train_stretched, config=config)
    for name, ignored in (("first_digit_given", None), ("first_digit_given_and_0_ignored", 0)):
        config = log_of("problem1/results")["config"]
        add((name,), mistakes.train_given_first, config=config, ignored=ignored)
    for seed in SEEDS[1:]:  # the first is the default model
        config = log_of("problem1/results")["config"] | {"seed": seed}
        add(("adder", str(seed)), mistakes.train_adder, config=config)
    for version, tried in handout.TRIED.items():
        for mend, seed in product(tried, SEEDS):
            for scheme in tried[mend]:
                settings = {"version": version, "mend": mend, "encoding": scheme, "seed": seed}
                add(("handout", version, mend, scheme, str(seed)), handout.train_handout, **settings)
    found: dict = {}
    for (*groups, last), result in zip(work, jobs.run([*work.values()], engine), strict=True):
        group = found
        for key in groups:
            group = group.setdefault(key, {})
        group[last] = result
    return found


def plain_transformer() -> dict:
    """The benchmark's run of torch.nn.Transformer with Adam and no augmentation."""
    runs = read_json(ROOT / "benchmarks/results.json", "run `make bench` first.")["training"]
    (run,) = (run for run in runs if run["recipe"] == "the usual one")
    return {"seed": run["seed"], "epochs": run["epochs"], "errors": run["errors"], "runs": 1}


def measure(engine: jobs.Engine) -> dict:
    """Every mistake made and measured; first what may be missing."""
    sums = problem1.dataset.load_or_generate()
    model, _ = load_model(ROOT / "problem1/results/best_model.pth")
    far = read_json(ROOT / "problem2/results/extrapolation/extrapolation_results.json", "run `make` first.")
    found = {
        "sound": {
            "addition_test_acc": log_of("problem1/results")["test_acc"],
            "sorting_test_acc": {name: log_of(f"problem2/results/{name}")["test_acc"] for name in far},
            "sorting_by_length": far,
        },
        "plain_transformer": plain_transformer(),
        "predicted": mistakes.predicted(sums["test"], problem2.dataset.DEFAULT),
        "ablation_by_axis": mistakes.ablation_by_axis(model, sums["test"]),
        "first_answer_for_all": mistakes.first_answer_for_all(model, sums["test"]),
        **trainings(engine),
    }
    adders = found.pop("adder")
    default = str(log_of("problem1/results")["seed"])
    found["drops_by_seed"] = {default: statements.drops()} | {seed: run["drops"] for seed, run in adders.items()}
    return found


def main(engine: jobs.Engine) -> None:
    device.start("cpu")
    path = HERE / "results/contradictions.json"
    found = measure(engine)
    said = [statements.judged(statement) for statement in read_json(CLAIMS, "restore it.")["statements"]]
    found |= {"table": table(found), "statements": said, "versions": versions()}
    write_json(path, found)
    for row in found["table"]:
        print(f"{row['verdict']:22} problem {row['problem']}, {row['published']}")
    for row in found["statements"]:
        print(f"{row['verdict']:22} problem {row['problem']}, {row['said']}")
    print(f"everything is in {path}")


if __name__ == "__main__":
    run(lambda: main(parse(jobs.Engine, __doc__)))
