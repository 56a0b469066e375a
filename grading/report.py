"""The result of grading one folder, as a table for people, as JSON, and as Gradescope reads it."""

import json
import shutil
import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

HINTS = json.loads(Path(__file__).with_name("hints.json").read_text(encoding="utf-8"))
BEYOND = "is more than this grader understands: please look at it yourself"


@dataclass
class Issue:
    """A known issue. It is named only if the numbers prove it; its hint claims no more than they do."""

    name: str
    evidence: str
    cost: float = 0.0  # the share of the item's points that it takes
    hint: str = ""  # as in hints.json where nothing else is said
    file: str = ""  # the item's own where nothing else is said
    item: str = ""

    @property
    def title(self) -> str:
        return titled(self.name)


@dataclass
class Score:
    id: str  # "problem1/checkpoint"
    score: float
    maximum: float
    message: str
    advice: str = ""  # what all points need, if some are missing
    value: float | None = None  # the accuracy that was measured, if the item is one of the leaderboard
    figure: str | None = None  # a sound figure, as a path in the folder
    learned: bool = True  # False: an accuracy that earns no points


@dataclass
class Check:
    """A check of the code."""

    name: str  # "training.loss"
    title: str
    verdict: str  # "ok", "to do", "WRONG" or "not tried"
    message: str
    remarks: list[str]


@dataclass
class Part:
    """A part of the code; it has its points if all of its checks are ok."""

    id: str  # "problem1/training"
    maximum: float
    checks: list[Check]

    @property
    def ok(self) -> int:
        return sum(check.verdict == "ok" for check in self.checks)

    @property
    def passed(self) -> bool:
        return self.ok == len(self.checks)

    @property
    def score(self) -> float:
        return self.maximum if self.passed else 0.0

    def counted(self) -> str:
        return f"{self.ok} of {len(self.checks)} checks ok"

    def notes(self) -> list[str]:
        """What to say of each check that is not ok; those that are to do or not tried for one reason stand together."""
        notes = []
        together: dict[str, list[str]] = {}
        for check in self.checks:
            if check.verdict == "WRONG":
                notes.append(f"{check.name} is WRONG: {check.message} (Checked: {check.title}.)")
            elif check.verdict != "ok":
                reason = f"{check.verdict} ({check.message})" if check.message else check.verdict
                together.setdefault(reason, []).append(check.name)
            notes += [f"Remark on {check.name}: {remark}" for remark in check.remarks]
        notes += [f"{reason}: {', '.join(names)}" for reason, names in together.items()]
        return notes


@dataclass
class Report:
    folder: str
    error: str = ""  # why there is no grade
    items: list[Score] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    results: dict[str, str | None] = field(default_factory=dict)  # problem -> where its results stand
    titles: dict[str, str] = field(default_factory=dict)
    not_graded: list[str] = field(default_factory=list)  # problems without any results
    code: list[Part] | None = None  # None: nobody asked for it
    pictures: dict[str, str] = field(default_factory=dict)  # figure of an item -> what a page shows of it

    @property
    def score(self) -> float:
        return round(sum(one.score for one in [*self.items, *(self.code or [])]), 2)

    @property
    def maximum(self) -> float:
        return round(sum(one.maximum for one in [*self.items, *(self.code or [])]), 2)

    @property
    def complete(self) -> bool:
        """Whether all that is here is sound. Code that was asked for and is not here is not."""
        code = self.code is None or (self.code and all(part.passed for part in self.code))
        return self.score >= self.maximum and not self.issues and bool(code)

    @property
    def passed(self) -> bool:
        return bool(self.items) and self.complete and not self.not_graded

    @property
    def checks(self) -> list[Check]:
        return [check for part in self.code or [] for check in part.checks]

    def of(self, problem: str) -> list[Score]:
        return [item for item in self.items if item.id.startswith(f"{problem}/")]

    def code_of(self, problem: str) -> list[Part]:
        return [part for part in self.code or [] if part.id.startswith(f"{problem}/")]

    def plain(self) -> dict:
        if self.error:
            return {"error": self.error}
        plain = {"passed": self.passed, "score": self.score, "maximum": self.maximum, "folder": self.folder}
        plain |= {"items": [asdict(item) for item in self.items], "issues": [asdict(issue) for issue in self.issues]}
        plain |= {"remarks": self.remarks, "results": self.results, "titles": self.titles}
        plain |= {"not_graded": self.not_graded}
        if self.code is not None:
            plain["code"] = [asdict(part) | {"score": part.score} for part in self.code]
        return plain

    def gradescope(self) -> dict:
        """Gradescope's results.json: a test for each item with its known issues and for each part of the code, and two
        rows of a leaderboard."""
        tests = []
        for item in self.items:
            notes = [*filter(None, [item.advice]), *(_note(issue) for issue in self.issues if issue.item == item.id)]
            test = {"name": item.id, "score": item.score, "max_score": item.maximum}
            test |= {"status": "passed" if item.score >= item.maximum else "failed", "visibility": "visible"}
            test |= {"output": "\n\n".join([item.message, *notes]), "output_format": "text"}
            tests.append(test | {"tags": [item.id.split("/")[0], *(i.name for i in self.issues if i.item == item.id)]})
        for part in self.code or []:
            problem, name = part.id.split("/")
            test = {"name": f"{problem}/code: {name}", "score": part.score, "max_score": part.maximum}
            test |= {"status": "passed" if part.passed else "failed", "visibility": "visible"}
            wrong = [check.name for check in part.checks if check.verdict == "WRONG"]
            tests.append(
                test
                | {
                    "output": "\n\n".join([part.counted(), *part.notes()]),
                    "output_format": "text",
                    "tags": [problem, *wrong],
                }
            )
        whole = [_note(issue) for issue in self.issues if "/" not in issue.item]
        rows = [{"name": LEADERBOARD[i.id], "value": round(i.value, 4)} for i in self.items if i.value is not None]
        output = "\n\n".join([self.verdict(), *whole, *self.remarks])
        result = {"score": self.score, "visibility": "visible", "stdout_visibility": "hidden", "output_format": "text"}
        return result | {"output": output, "tests": tests, "leaderboard": rows}

    def verdict(self) -> str:
        if self.error:
            return f"No points: this submission {self.error}."
        if not self.items:
            nothing = (
                "Nothing to grade: neither problem1/results nor problem2/results is here, nor a folder with what they "
                "hold, such as head_analysis or extrapolation (for one with only a log and a checkpoint, put "
                "it into problem1/results)."
            )
            return f"{nothing} {self.counted()}." if self.code else nothing
        total = f"Total {self.score:g} of {self.maximum:g}: {'all sound' if self.complete else 'something falls short'}"
        if self.not_graded:
            total += f"; {', '.join(self.not_graded)} not graded, because no results of it are here"
        return f"{total}. {self.counted()}." if self.code else f"{total}."

    def counted(self) -> str:
        """How many checks of the code have which verdict."""
        verdicts = Counter(check.verdict for check in self.checks)
        others = "".join(f", {count} {verdict}" for verdict, count in verdicts.items() if verdict != "ok")
        return f"Code: {verdicts['ok']} of {len(self.checks)} checks ok{others}"

    def table(self) -> str:
        """Every item with its points, then the known issues, then remarks that cost no points."""
        width = max(80, min(140, shutil.get_terminal_size((110, 24)).columns))
        lines = [self.folder]
        for problem, place in self.results.items():
            items = self.of(problem)
            if not items:
                continue
            lines += ["", f"{problem}: {self.titles[problem]} ({place or 'no results found'})"]
            for item in items:
                mark = "ok   " if item.score >= item.maximum else "SHORT"
                start = f"  {mark} {item.score:4.1f} / {item.maximum:<2g}  {item.id.split('/', 1)[1]:<22}"
                lines += _wrapped(start, item.message, width)
                if item.advice:
                    lines += _wrapped(" " * len(start), item.advice, width)
            lines.append(f"        {sum(i.score for i in items):4.1f} / {sum(i.maximum for i in items):g}")
        lines += ["", "Code"] if self.code else []
        for part in self.code or []:
            start = f"  {'ok   ' if part.passed else 'SHORT'} {part.score:4.1f} / {part.maximum:<2g}  "
            lines.append(f"{start}{part.id:<22}{part.counted()}")
            for note in part.notes():
                lines += _wrapped(" " * len(start), note, width)
        lines += ["", "Known issues"] if self.issues else []
        for issue in self.issues:
            lines += ["", f"  {issue.name} ({issue.file})"]
            lines += _wrapped("    Evidence: ", f"{issue.evidence}.", width) + _wrapped("    Hint: ", issue.hint, width)
        lines += ["", "Remarks (they cost no points)"] if self.remarks else []
        for remark in self.remarks:
            lines += _wrapped("  - ", remark, width)
        return "\n".join([*lines, "", self.verdict()])


LEADERBOARD = {  # item -> what its accuracy is called
    "problem1/test-accuracy": "exact match",
    "problem2/extrapolation": "extrapolation",  # the best encoding's mean accuracy over the longer lengths
}


def titled(name: str) -> str:
    """ "problem1/training-log" -> "Training log" """
    return name.rsplit("/", 1)[-1].replace("-", " ").capitalize()


def _note(issue: Issue) -> str:
    return f"{issue.title} ({issue.file}): {issue.evidence}.\nHint: {issue.hint}"


def _wrapped(start: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(start + text, width, subsequent_indent=" " * len(start), break_on_hyphens=False)
