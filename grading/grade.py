"""Grade one folder: each item of each problem's expected.json, with its points and known issues."""

import base64
import io
from pathlib import Path
from posixpath import join

from grading import checks
from grading.ablations import check_ablation
from grading.folder import Folder, Unreadable
from grading.report import BEYOND, HINTS, LEADERBOARD, Issue, Report, Score
from grading.submission import Outcome, Submission, locate
from grading.training import check_accuracy, check_checkpoint, check_log
from lab.files import shown

CHECKS = {
    "log": check_log,
    "accuracy": check_accuracy,
    "checkpoint": check_checkpoint,
    "ablation": check_ablation,
    "figures": checks.check_figures,
    "any files": checks.check_any_file,
    "content": checks.check_content,
    "table": checks.check_table,
    "row": checks.check_row,
}
WIDTH = 640  # pixels of a figure on a page


def grade(root: Path, problems: list[dict], required: bool = False, pictures: bool = False) -> Report:
    """Compare what stands in the folder `root` with each problem's expected.json.

    A problem without any results is left out, and said to be, unless all are `required`. With `pictures`, the report
    holds a small copy of each item's figure, for a page.
    """
    files = Folder(root)
    if not required:  # the folder of one problem is not asked for the other
        named = {part.lower() for part in files.root.parts[-2:]}
        problems = [one for one in problems if one["problem"] in named] or problems
    report = Report(shown(files.root), titles={expected["problem"]: expected["title"] for expected in problems})
    if not files.complete:
        report.remarks.append("The folder holds more files than this grader lists: name the folder of the results.")
    for expected in problems:
        problem = expected["problem"]
        place = locate(files, expected)
        report.results[problem] = None if place is None else shown(place or ".")
        if place is None and not required:
            report.not_graded.append(problem)
        else:
            _grade_problem(Submission(expected, files, f"{problem}/results" if place is None else place), report)
    not_strict = "is not strict JSON (comments or trailing commas); it was read all the same"
    report.remarks += [f"{shown(path)} {not_strict}" for path in dict.fromkeys(files.not_strict)]
    if pictures:
        report.pictures = {item.figure: _small(files, item.figure) for item in report.items if item.figure}
    return report


def _grade_problem(submission: Submission, report: Report) -> None:
    problem = submission.expected["problem"]
    missing = []
    for item in submission.expected["items"]:
        name = f"{problem}/{item['id']}"
        file = item["file"]
        try:
            outcome = CHECKS[item["check"]](item, submission)
        except Unreadable as reason:
            outcome = Outcome(0.0, f"{file} {reason}")
            missing += [file] * (str(reason) == "is missing")
        except MemoryError:
            outcome = Outcome(0.0, f"{file} needs more memory than one submission may take")
        except Exception as error:  # a mistake of the grader itself must not cost the other items
            outcome = Outcome(0.0, f"{file} {BEYOND} ({type(error).__name__})")
        share = max(0.0, outcome.share - sum(issue.cost for issue in outcome.issues))
        costly = ", ".join(dict.fromkeys(f"“{issue.title}”" for issue in outcome.issues if issue.cost))
        message = outcome.message + (f"; see {costly}" if costly else "")
        value = outcome.value if name in LEADERBOARD else None
        points = round(share * item["points"], 2)
        advice = outcome.advice if points < item["points"] else ""
        score = Score(name, points, item["points"], message, advice, value, outcome.figure, outcome.learned)
        report.items.append(score)
        report.remarks += [f"{problem}: {remark}" for remark in outcome.remarks]
        for issue in outcome.issues:
            file = issue.file or item["file"]
            issue.item = name
            issue.hint = issue.hint or HINTS[issue.name]
            issue.file = shown(file if file in submission.files.files else join(submission.place, file))
        report.issues += outcome.issues
    report.remarks += [f"{problem}: {name} was found as {shown(path)}" for name, path in submission.moved.items()]
    if missing:
        missing = [*dict.fromkeys(missing)]
        file = shown(submission.place or ".")
        evidence = f"{len(missing)} missing: {', '.join(missing)}"
        name = "missing-deliverables"
        report.issues.append(Issue(name, evidence, hint=HINTS[name], file=file, item=problem))


def _small(files: Folder, figure: str) -> str:
    """A figure, small enough for a page, as the address of an image; "" where there is no room for one more."""
    try:
        image = files.picture(figure)
    except Unreadable:
        return ""
    image.thumbnail((WIDTH, 4 * WIDTH))
    buffer = io.BytesIO()
    image.quantize(128).save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
