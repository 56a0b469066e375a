"""Submissions to check: the sample solution with changes, run in this process, where isolation is not the subject."""

import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STARTER = ROOT / "starter"
SOLUTION = Path(__file__).resolve().parent / "solution"

spec = importlib.util.spec_from_file_location("starter_check", STARTER / "check.py")
check = importlib.util.module_from_spec(spec)
sys.modules["starter_check"] = check
spec.loader.exec_module(check)


def make(folder: Path, *changes: tuple[str, str, str]) -> Path:
    """The starter with the sample solution in it, and in some files a text replaced by another."""
    ignored = shutil.ignore_patterns("__pycache__", "check.py")
    shutil.copytree(STARTER, folder, ignore=ignored)
    shutil.copytree(SOLUTION, folder, ignore=ignored, dirs_exist_ok=True)
    for file, old, new in changes:
        path = folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{file} has no {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")
    return folder


@contextlib.contextmanager
def inside(place: Path):
    """The student's modules in this process: found while the context lasts, and forgotten after it."""
    before = os.getcwd(), [*sys.path], {*sys.modules}
    os.chdir(place)
    check.make_importable(place, place.parent)
    try:
        yield
    finally:
        os.chdir(before[0])
        sys.path[:] = before[1]
        for name in {*sys.modules} - before[2]:
            if name == "src" or str(getattr(sys.modules[name], "__file__", "")).startswith(str(place.parent)):
                del sys.modules[name]


def verdicts(folder: Path, names: list[str]) -> dict:
    """Name -> result of these checks, the probes run in this process."""
    results, broken = {}, set()

    def say(name: str, verdict: str, message: str = "", remarks=()) -> None:
        results[name] = check.Result(check.CHECKS[name], verdict, message, [*remarks])

    for problem, place in check.find(folder).items():
        messages = []
        with inside(place), tempfile.TemporaryDirectory() as scratch:
            code = check.Code(place, Path(scratch), lambda *message, to=messages: to.append(message))
            for name in [name for name in names if check.CHECKS[name].problem == problem]:
                messages[:] = [("skipped",)]
                if not check.failed(check.CHECKS[name], results):
                    check.run_probes(code, [name])
                check.decide(check.CHECKS[name], messages[-1], None, broken, results, say)
    return results
