"""Kills: scripts are stopped with SIGKILL at random moments, again and again, until they end undisturbed.

After every kill each file must be whole or absent, and what is there in the end must be what a run that nobody
disturbed leaves. Half of the kills come at any moment of the work; the others are aimed at the few milliseconds
in which a file is being written, and come as soon as one is seen.
"""

import contextlib
import io
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
from benchmarks.campaign_common import LIMIT, Tally, differences, is_leftover, must_run, run, start, torn
from lab.files import write_json, write_text
from lab.provenance import code_digest
from problem1.text import dataset as text_dataset

IN_A_ROW = 4  # kills of one run, before it may end
PAUSE = 0.0005  # seconds between two looks at a folder
SMALL = ("--d-model", 16, "--d-ff", 16, "--num-heads", 2, "--num-layers", 1, "--dropout", 0.1, "--device", "cpu")


@dataclass(frozen=True)
class Job:
    """A script to be killed. The last flag of `command` is that of its output, which each run gets anew."""

    command: tuple
    again: tuple = ()  # added when it is started again: ("--resume",)
    file: str = ""  # where the output is a file: its name

    def started(self, folder: Path, *more) -> list:
        return [*self.command, folder / self.file if self.file else folder, *more]


# --- what is killed ----------------------------------------------------------------------------------------------


def made(work: Path, name: str, *command) -> Path:
    """The folder that the command writes, made once."""
    if not (work / name).exists():
        must_run([*command, "--output-dir", work / name])
    return work / name


def digit_rows(work: Path) -> Path:
    sizes = ("--num-digits", 2, "--train-size", 2000, "--val-size", 200, "--test-size", 200)
    return made(work, "rows1", "problem1/generate_data.py", *sizes)


def sorting_rows(work: Path) -> Path:
    sizes = ("--train-size", 2000, "--val-size", 200, "--test-size", 200, "--generate-extrapolation")
    return made(work, "rows2", "problem2/generate_data.py", *sizes)


def train_digits(work: Path) -> Job:
    flags = ("--data-dir", digit_rows(work), *SMALL, "--epochs", 16, "--batch-size", 64)
    return Job(("problem1/train.py", *flags, "--output-dir"), ("--resume",))


def train_text(work: Path) -> Job:
    rows = work / "rows_text"
    with contextlib.redirect_stdout(io.StringIO()):
        text_dataset.load_or_generate(rows, {"train": 4000, "val": 200, "test": 200}, max_digits=4)
    text = ("problem1/train.py", "--task", "text", "--data-dir", rows, *SMALL)
    return Job((*text, "--epochs", 16, "--epoch-rows", 1280, "--batch-size", 64, "--output-dir"), ("--resume",))


def train_sorting(work: Path) -> Job:
    flags = ("--encoding", "learned", "--data-dir", sorting_rows(work), *SMALL, "--epochs", 16, "--max-len", 600)
    return Job(("problem2/train.py", *flags, "--output-dir"), ("--resume",))


def make_digit_rows(work: Path) -> Job:
    return Job(("problem1/generate_data.py", "--num-digits", 40, "--train-size", 30_000, "--output-dir"))


def make_sorting_rows(work: Path) -> Job:
    return Job(("problem2/generate_data.py", "--train-size", 30_000, "--generate-extrapolation", "--output-dir"))


def analyse_digits(work: Path) -> Job:
    model = made(work, "model1", *train_digits(work).command[:-1]) / "best_model.pth"
    flags = ("--model-path", model, "--data-dir", digit_rows(work), "--num-samples", 2, "--device", "cpu")
    return Job(("problem1/analyze.py", *flags, "--output-dir"))


def analyse_sorting(work: Path) -> Job:
    models = made(work, "model2", *train_sorting(work).command[:-1])
    flags = ("--data-dir", sorting_rows(work), "--results-dir", models, "--test-lengths", 20, 24, "--rows", 20)
    return Job(("problem2/analyze.py", *flags, "--device", "cpu", "--output-dir"))


def build_report(work: Path) -> Job:
    """A report of its own, with figures of this repository, in a small copy of it."""
    copy = report_tree(work / "tree")
    return Job((copy / "report/build.py", "--output"), file="report.pdf")


def report_tree(folder: Path) -> Path:
    """A small copy of this repository: what report/build.py needs, a result made by the code in it, a report."""
    if folder.exists():
        return folder
    shutil.copytree(ROOT / "lab", folder / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "report").mkdir()
    shutil.copy(ROOT / "report/build.py", folder / "report")
    figures = sorted((ROOT / "problem1/results/attention_patterns").glob("*.png"))[:8]
    results = folder / "problem1/results"
    results.mkdir(parents=True)
    for figure in figures:
        shutil.copy(figure, results)
    write_json(results / "numbers.json", {"errors": 0, "code": {"lab/heads.py": code_digest(ROOT / "lab/heads.py")}})
    lines = ["#set document(date: none)", '#let it = json("/problem1/results/numbers.json")', "Errors: #it.errors", ""]
    lines += [f'#image("/problem1/results/{figure.name}")' for figure in figures]
    write_text(folder / "report/report.typ", "\n".join(lines))
    return folder


# What is killed, and how often of every 56 times.
JOBS: dict[str, tuple[Callable[[Path], Job], int]] = {
    "training of digits": (train_digits, 10),
    "training of text": (train_text, 10),
    "training of sorting": (train_sorting, 10),
    "rows of digits": (make_digit_rows, 6),
    "rows of sorting": (make_sorting_rows, 6),
    "analysis of digits": (analyse_digits, 5),
    "analysis of sorting": (analyse_sorting, 5),
    "report": (build_report, 4),
}


# --- killing -----------------------------------------------------------------------------------------------------


def campaign(work: Path, kills: int, seed: int, names=tuple(JOBS), tell=print) -> Tally:
    """`kills` kills, shared among the jobs in `names`."""
    tally, whole = Tally(), sum(JOBS[name][1] for name in names)
    shares = {name: max(1, round(kills * JOBS[name][1] / whole)) for name in names}
    shares[names[0]] += kills - sum(shares.values())
    for number, (name, share) in enumerate(shares.items()):
        began = time.perf_counter()
        job = JOBS[name][0](work / "inputs")
        disturb(name, job, work / str(number), share, random.Random(seed * 1000 + number), tally)
        tell(f"  {name}: {share} kills, {time.perf_counter() - began:.0f} s")
    return tally


def disturb(name: str, job: Job, work: Path, kills: int, source: random.Random, tally: Tally) -> None:
    """Kill the job `kills` times, up to IN_A_ROW times in one folder, each time going on where it was."""
    undisturbed = work / "undisturbed"
    undisturbed.mkdir(parents=True)
    began, ended, writes = span(job, undisturbed)
    tally.check(not torn(undisturbed), f"{name}: {torn(undisturbed)} although nobody disturbed it")
    done = runs = 0
    while done < kills:
        runs += 1
        folder = work / f"run{runs}"
        folder.mkdir()
        in_a_row, alive = 0, True
        while alive and in_a_row < IN_A_ROW and done < kills:
            again = job.again if in_a_row else ()
            # A run that goes on has less to do: half of the time at most, so that most are still at work.
            moment = source.uniform(0.9 * began, ended if not in_a_row else (began + ended) / 2)
            aimed_at = source.randint(1, max(1, writes // (1 + in_a_row))) if done % 2 else None
            alive = kill(job.started(folder, *again), folder, moment, aimed_at)
            if alive:
                in_a_row, done = in_a_row + 1, done + 1
                count_kill(name, folder, tally)
        code, _, errors = run(job.started(folder, *job.again))
        tally.count("runs compared")
        if tally.check(code == 0, f"{name}: after {in_a_row} kills it ends with exit code {code}: {errors[-300:]}"):
            other = differences(undisturbed, folder)
            tally.check(not other, f"{name}: after {in_a_row} kills {other} are not those of an undisturbed run")
        shutil.rmtree(folder)


def count_kill(name: str, folder: Path, tally: Tally) -> None:
    tally.count("kills")
    tally.count(f"kills: {name}")
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    tally.count("files looked at", len(files))
    tally.count("kills within a write", any(map(is_leftover, files)))
    tally.check(not torn(folder), f"{name}: a kill left {torn(folder)}")


def span(job: Job, folder: Path) -> tuple[float, float, int]:
    """Of a run that nobody disturbs: seconds to its first sign of work and to its end, and the writes seen."""
    started, first, seen = time.perf_counter(), None, set()
    process = start(job.started(folder))
    while process.poll() is None and time.perf_counter() - started < LIMIT:
        if first is None and any(folder.iterdir()):
            first = time.perf_counter() - started
        seen |= being_written(folder)
        time.sleep(PAUSE)
    process.kill()
    process.wait()
    ended = time.perf_counter() - started
    return (first if first and first < 0.9 * ended else ended / 3), ended, max(1, len(seen))


def being_written(folder: Path) -> set:
    """Files that are only begun, told from those that earlier kills left by when they changed."""
    found = set()
    for path in folder.rglob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # it has got its name
            found.add((path, path.stat().st_ctime_ns))
    return found


def kill(command: list, folder: Path, moment: float, aimed_at: int | None) -> bool:
    """Start and kill, `moment` seconds later or within the write number `aimed_at`; False if it ended before."""
    seen = being_written(folder)
    aimed_at, started = aimed_at and aimed_at + len(seen), time.perf_counter()
    process = start(command)
    while process.poll() is None:
        seen |= being_written(folder) if aimed_at else set()
        if len(seen) >= aimed_at if aimed_at else time.perf_counter() - started >= moment:
            break
        time.sleep(PAUSE)
    process.kill()
    return process.wait() == -signal.SIGKILL
