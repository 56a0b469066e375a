"""Rubbish: thousands of malformed data files, checkpoints and folders of results, none of which may surprise.

Whoever reads them must either make sense of them or refuse with a `UserError`, in seconds and within bounds of
memory, and run nothing that is inside; the grader must give a verdict. The same rubbish comes every time.
"""

import contextlib
import io
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import torch
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[1]
from benchmarks.campaign_checkpoints import odd_settings, rubbish_checkpoints
from benchmarks.campaign_common import Tally
from benchmarks.campaign_mutations import ODD_NAMES, content, odd_files, odd_names, rubbish_json, spoilt_bytes
from benchmarks.campaign_trials import bounded, draw, read, remove
from lab import checkpoint
from lab.settings import as_plain
from lab.training import Recipe, Task
from lab.training import train as train_task
from problem1 import dataset as digits
from problem1 import train as digits_train
from problem1.text import dataset as text
from problem1.text import train as text_train
from problem2 import dataset as sorting
from problem2 import train as sorting_train
from problem2.analysis import training_summary
from report import build

SMALL = {"d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16}
ROWS = {
    "digits": [
        {"input": [3, 4, 7, 10, 1, 5, 9], "target": [0, 5, 0, 6]},
        {"input": [1, 0, 0, 10, 9, 9, 9], "target": [1, 0, 9, 9]},
    ],
    "text": [{"input": "123 + 4567 = ", "target": "4690"}, {"input": "0 + 0 = ", "target": "0"}],
    "sorting": [
        {"sequence": [3, 15, 41, 41], "is_sorted": 1, "length": 4},
        {"sequence": [9, 0], "is_sorted": 0, "length": 2},
    ],
}


# --- what reads --------------------------------------------------------------------------------------------------


def spoil_data(work: Path, count: int, tally: Tally) -> None:
    readers = {
        "digits": lambda path: digits.load(path.parent, path.stem),
        "text": text.load,
        "sorting": sorting.load,
    }
    for kind, reader in readers.items():

        def attempt(drawn, kind=kind, reader=reader):
            spoilt, name = drawn
            folder = work / name
            folder.mkdir(exist_ok=True)
            path = folder / "train.json"
            spoilt.put(path)
            read(tally, f"rows of {kind}", f"{spoilt} in {name!r}", lambda: reader(path))
            shutil.rmtree(folder)

        draw(st.tuples(rubbish_json(ROWS[kind]), st.just("rows") | odd_names), count, attempt)
        sound = content("sound rows", json.dumps(ROWS[kind]).encode())
        before = tally.counts[f"rows of {kind}: made sense of"]
        for name in ODD_NAMES:  # whose rows are as good as any
            attempt((sound, name))
        understood = tally.counts[f"rows of {kind}: made sense of"] - before
        tally.check(understood == len(ODD_NAMES), f"sound rows of {kind} are refused in folders of odd names")


def models() -> dict[str, tuple[dict, Callable]]:
    """For each kind of model a small checkpoint, and the function that opens such files."""
    torch.manual_seed(0)
    digit = digits_train.Settings(**SMALL)
    words = text_train.Settings(**SMALL)
    sort = sorting_train.Settings(**SMALL, encoding=("learned",), epochs=1, max_len=40)
    made = {
        "digits": (digits_train.KIND, as_plain(digit) | {"num_digits": 3}, digits_train.build(digit, 3)),
        "text": (text_train.KIND, as_plain(words), text_train.build(words)),
        "sorting": (sorting_train.KIND, as_plain(sort), sorting_train.build(sort)),
    }
    openers = {"digits": digits_train.load_model, "text": text_train.load_model, "sorting": sorting_train.load_trained}
    return {
        name: ({"kind": kind, "settings": plain, "model": dict(model.state_dict())}, openers[name])
        for name, (kind, plain, model) in made.items()
    }


def spoil_checkpoints(work: Path, count: int, tally: Tally) -> None:
    trap, path = work / "trap", work / "best_model.pth"
    for kind, (good, opener) in models().items():

        def attempt(spoilt, kind=kind, opener=opener):
            spoilt.put(path)
            read(tally, f"checkpoint of {kind}", spoilt, lambda: opener(path))
            if not tally.check(not trap.exists(), f"checkpoint of {kind}, {spoilt}: code inside was run"):
                trap.rmdir()
            remove(path)

        draw(rubbish_checkpoints(good, trap), count, attempt)


def spoil_settings(work: Path, count: int, tally: Tally) -> None:
    """Settings in a checkpoint, by themselves: `count` of all that `odd_settings` makes, evenly spread."""
    path = work / "best_model.pth"
    for kind, (good, opener) in models().items():
        every = list(odd_settings(good))
        for spoilt in every[:: max(1, len(every) // count)]:
            spoilt.put(path)
            read(tally, f"settings of {kind}", spoilt, lambda opener=opener: opener(path))
    remove(path)


def spoil_resumable(work: Path, count: int, tally: Tally) -> None:
    """last.pth, which --resume reads."""
    folder, trap = work / "resumed", work / "trap"

    def score(model, batch):
        error = model(batch[0]).squeeze(-1) - batch[1]
        return error.square(), error.abs() < 0.5

    def go_on(epochs: int):
        torch.manual_seed(0)
        x = torch.randn(16, 3)
        rows = (x, x.sum(1))
        task = Task("toy", rows, rows, rows, score)
        train_task(torch.nn.Linear(3, 1), task, Recipe(epochs, 8, 1e-2, average=0.9), {"seed": 5}, folder, 5, True)

    with contextlib.redirect_stdout(io.StringIO()):
        go_on(1)
    good = checkpoint.load(folder / "last.pth", "toy")
    kept = (folder / "best_model.pth").read_bytes()

    def attempt(spoilt):
        remove(folder / "last.pth")
        (folder / "best_model.pth").write_bytes(kept)
        spoilt.put(folder / "last.pth")
        read(tally, "last.pth", spoilt, lambda: go_on(2))
        tally.check(not trap.exists(), f"last.pth, {spoilt}: code inside was run")

    draw(rubbish_checkpoints(good, trap), count, attempt)


def spoil_results(work: Path, count: int, tally: Tally) -> None:
    """JSON that the report and the summaries read."""
    house = work / "house"
    log = {"val_acc": [0.5, 0.75], "val_loss": [1.0, 0.5], "best_epoch": 2, "test_acc": 0.75, "test_loss": 0.5}
    log |= {"seconds": 1.0, "parameters": 10, "seed": 1, "code": {"lab/heads.py": "0" * 16}}
    path = house / "problem2/results/none/training_log.json"
    path.parent.mkdir(parents=True)
    kept, build.ROOT = build.ROOT, house

    def attempt(spoilt):
        spoilt.put(path)
        read(tally, "results for the report", spoilt, lambda: build.check(path.relative_to(house).as_posix()))
        read(tally, "log for the summary", spoilt, lambda: training_summary.collect(path.parents[1], ["none"]))
        remove(path)

    try:
        draw(rubbish_json(log), count, attempt)
    finally:
        build.ROOT = kept


def spoil_trees(work: Path, count: int, tally: Tally) -> None:
    """Whole submissions with one to four of their files spoilt, before the grader."""
    from tests.lab.submissions import healthy
    from tests.lab.test_grade_hostile import survives

    sound, trap = healthy(work / "submission"), work / "trap"
    files = sorted(path for path in sound.rglob("*") if path.is_file())

    @st.composite
    def trees(draw):
        chosen = draw(st.lists(st.sampled_from(files), min_size=1, max_size=4, unique=True))
        return [(path, draw(spoilers[path])) for path in chosen]

    spoilers = {path: spoiler(path, trap) for path in files}

    def attempt(spoilt_files):
        kept = {path: path.read_bytes() for path, _ in spoilt_files}
        what = "; ".join(f"{path.name} {spoilt}" for path, spoilt in spoilt_files)
        try:
            for path, spoilt in spoilt_files:
                path.unlink()
                spoilt.put(path)
            read(tally, "submission", what, lambda: survives(sound))
            tally.check(not trap.exists(), f"submission, {what}: code inside was run")
        finally:
            for path, before in kept.items():
                remove(path)
                path.write_bytes(before)

    draw(trees(), count, attempt)


def spoiler(path: Path, trap: Path) -> st.SearchStrategy:
    if path.suffix == ".pth":
        return rubbish_checkpoints(torch.load(path, weights_only=True), trap)
    if path.suffix == ".json":
        return rubbish_json(json.loads(path.read_text()))
    return odd_files | spoilt_bytes(path.read_bytes())


SHARES = {  # of all rubbish, for each of the readers that a part is about
    spoil_data: 0.1,
    spoil_checkpoints: 0.1,
    spoil_settings: 0.08,
    spoil_resumable: 0.03,
    spoil_results: 0.04,
    spoil_trees: 0.08,
}


def campaign(work: Path, count: int, tell=print) -> Tally:
    """About `count` pieces of rubbish: a tenth for each of three readers of rows, and so on."""
    tally = Tally()
    os.makedirs(work, exist_ok=True)
    with bounded(tally):
        for part, share in SHARES.items():
            began = time.perf_counter()
            part(work, max(1, round(count * share)), tally)
            tell(f"  {part.__name__.replace('_', ' ')}: {time.perf_counter() - began:.0f} s")
    return tally
