"""The code of a submission: the checks of starter/check.py, as a part of its report. Only this runs any of its code."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from grading.report import Check, Part, Report
from grading.submission import EXACT, percent
from lab.files import UserError, shown

CHECKER = Path(__file__).resolve().parents[1] / "starter/check.py"
# A known issue, or an item that lost points, and the checks of the code that can tell why.
CAUSES = {
    "first-digit-given": ("training.loss", "model.generate"),
    "zero-as-padding": ("training.loss", "training.tokens"),
    "two-modes": ("training.loss", "training.evaluate", "training.accuracy", "model.generate"),
    "two-baselines": ("training.loss", "training.evaluate", "training.accuracy", "model.generate"),
    "problem1/test-accuracy": ("training.loss", "training.step", "model.learns"),
    "problem2/sinusoidal-accuracy": ("encodings.one_code", "encodings.sinusoidal", "sorting.step"),
    "problem2/learned-accuracy": ("sorting.size", "encodings.learned", "sorting.step"),
}
NO_FIRST_DIGIT = "the loss sees 3: the first one"  # what training.loss says then


def add_code(report: Report, folder: Path, problems: list[dict]) -> Report:
    """The report, with what the checks say of the code below `folder`. A problem that is not graded, and of which
    there is no code, is left out."""
    if report.error:
        return report
    check = load()
    parts = {one["problem"]: one["code"] for one in problems}
    for problem, points in parts.items():
        for part in {*points} - {*check.PARTS}:
            raise UserError(
                f'{problem}/expected.json has points under "code" for {part!r}, which is no part of the checks: '
                f"name {', '.join(check.PARTS)}."
            )
    report.code = []
    try:
        here = {f"problem{number}" for number in check.find(folder.resolve())}
        asked = {problem: parts[problem] for problem in parts if problem in here or problem not in report.not_graded}
        chosen = {part for points in asked.values() for part in points}
        names = [name for name, one in check.CHECKS.items() if one.part in chosen]
        results = check.run(folder, names) if here & {*asked} else []
    except (OSError, ValueError) as reason:
        report.remarks.append(f"The code was not checked, because it could not be copied or started: {shown(reason)}")
        return report
    if not results:
        report.remarks.append("Neither attention.py nor positional_encoding.py is in the folder: no code was checked.")
        return report
    for problem, points in asked.items():
        for part, maximum in points.items():
            checks = [
                Check(result.check.name, result.check.title, result.verdict, result.message, result.remarks)
                for result in results
                if result.check.part == part
            ]
            report.code.append(Part(f"{problem}/{part}", maximum, checks))
    explain(report, problems)
    return report


def load() -> ModuleType:
    """starter/check.py: students get it as one file, so it is in no package."""
    spec = importlib.util.spec_from_file_location("check", CHECKER)
    check = importlib.util.module_from_spec(spec)
    sys.modules["check"] = check  # where its dataclasses look for it
    spec.loader.exec_module(check)
    return check


def explain(report: Report, problems: list[dict]) -> None:
    """Where the code can tell why a number is what it is, the hint beside the number says so."""
    wrong = {one.name: one.message for part in report.code for one in part.checks if one.verdict == "WRONG"}
    for issue in report.issues:
        issue.hint += seen_in_code(issue.name, wrong)
    for item in report.items:
        if item.score < item.maximum:
            item.advice = f"{item.advice}{seen_in_code(item.id, wrong)}".strip()
        if item.id == "problem1/test-accuracy" and NO_FIRST_DIGIT in wrong.get("training.loss", ""):
            item.advice = f"{item.advice} {without_first_digit(item.value, problems)}".strip()


def seen_in_code(name: str, wrong: dict[str, str]) -> str:
    """The first check that is wrong of those that can tell why, and the first sentence of what it says."""
    for check in CAUSES.get(name, ()):
        if check in wrong:
            return f" The code shows more: {check} is WRONG. {wrong[check].partition('. ')[0].rstrip('.')}."
    return ""


def without_first_digit(accuracy: float | None, problems: list[dict]) -> str:
    """What greedy decoding can reach at most, if the first digit is never learned; and whether the log claims more."""
    known = [value for one in problems for value in one.get("known_values", [])]
    most = max(value["value"] for value in known if value["name"] == "first-digit-given")
    said = (
        "By the code the first digit is never learned (training.loss). Greedy decoding that begins every answer with "
        f"the same digit cannot exceed {most:.1%} of the test sums."
    )
    if accuracy is not None and accuracy > most + EXACT:
        said += (
            f" So {percent(accuracy)} is not the share of whole answers that this code writes: it counts answers "
            "whose first digit was given, or other code has trained this model."
        )
    return said
