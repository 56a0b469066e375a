"""One problem's results in a submission: where they stand, its files, and what a check can say of them."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import basename, join

from grading.folder import Folder, Unreadable, attempt
from grading.layouts import Log, read_log
from grading.report import Issue
from lab.files import UserError, shown

# Folders of these names say nothing about what is in them.
NEUTRAL = {
    *("checkpoint", "checkpoints", "model", "models", "weights", "log", "logs", "figures", "plots", "images"),
    *("analysis", "data", "json", "output", "outputs", "results"),
}
EXACT = 0.0003  # less than a row of 2,000
ROUNDED = 0.0006  # shares are often written with three decimals
SAME = 0.0015  # two accuracies from two files, perhaps rounded, that may be the same


@dataclass
class Outcome:
    """What a check says of one item of expected.json."""

    share: float  # of the item's points, before its known issues
    message: str
    advice: str = ""  # what all points need
    remarks: list[str] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    value: float | None = None  # the accuracy that was measured
    figure: str | None = None  # the path of a sound figure
    learned: bool = True  # False: an accuracy that earns no points


@dataclass
class Submission:
    expected: dict
    files: Folder
    place: str  # where this problem's results stand in the folder
    moved: dict[str, str] = field(default_factory=dict)  # files that stand elsewhere: name -> where

    def find(self, name: str) -> str:
        """The path of "a/b.json": exactly there, or the only file that can be meant by it."""
        path = join(self.place, name)
        if path in self.files.files:
            return path
        found = self._elsewhere(name)
        if len(found) != 1:
            there = os.path.lexists(self.files.root / path)
            raise Unreadable("is not an ordinary file inside the folder" if there else "is missing")
        self.moved[name] = found[0]
        return found[0]

    def _elsewhere(self, name: str) -> list[str]:
        """Files that can be meant by "a/b.json": written in other case; or else, if no other item has a file of this
        name, one of this name (or of one in "also") in another folder.

        A name without a folder ("best_model.pth") is that of many files: it counts in NEUTRAL folders only.
        """
        path = join(self.place, name)
        below = self.files.under(self.place)
        found = [other for other in below if other.lower() == path.lower()]
        namesakes = {item["file"]: item for item in self.expected["items"] if basename(item["file"]) == basename(name)}
        if found or [*namesakes] != [name]:
            return found
        for own in [basename(name), *namesakes[name].get("also", [])]:
            for other in below:
                *folders, last = other.removeprefix(join(self.place, "")).lower().split("/")
                if last == own.lower() and ("/" in name or {*folders} <= NEUTRAL):
                    found.append(other)
            if found:
                break
        return found

    def json(self, name: str):
        return self.files.json(self.find(name))

    def text(self, name: str) -> str:
        return self.files.text(self.find(name))

    def log(self, name: str, needed: bool = True) -> Log:
        """A training log; an empty one if it cannot be read and is not `needed`."""
        content = self.json(name) if needed else attempt(self.json, name, default=None)
        return read_log(content, self.expected.get("parts", []))

    def known_values(self, accuracy: float | None, what: str, cost: float) -> list[Issue]:
        """An accuracy that is, to the row, what a known mistake leaves at most."""
        return [
            Issue(known["name"], f"{what} is {accuracy:.4f}; {known['evidence']}", cost, known["hint"])
            for known in self.expected.get("known_values", [])
            if accuracy is not None and abs(accuracy - known["value"]) < EXACT
        ]


def locate(files: Folder, expected: dict) -> str | None:
    """The folder of this problem's results: under the agreed name, or where its typical files stand, or None.

    Folders of another problem ("problem2") are left alone.
    """
    problem = expected["problem"]
    present = {*files.folders, *files.files}
    rules = [
        lambda folder: folder.lower() == f"{problem}/results",
        lambda folder: folder.lower().endswith(f"/{problem}/results"),
        lambda folder: any(join(folder, mark) in present for mark in expected["marks"]),
        lambda folder: folder.lower().rsplit("/", 1)[-1] == problem,
    ]
    others = {f"problem{n}" for n in range(10)} - {problem}
    own = [folder for folder in files.folders if not others & {*folder.lower().split("/")}]
    for rule in rules:
        found = [folder for folder in own if rule(folder)]
        found = [folder for folder in found if len(Path(folder).parts) == len(Path(found[0]).parts)]
        if len(found) > 1:
            places = ", ".join(shown(folder, 60) for folder in found[:3])
            raise UserError(
                f"{shown(files.root)} holds {problem} results in {len(found)} places ({places}): name one of them."
            )
        if found:
            return found[0]
    if problem in [part.lower() for part in files.root.parts[-2:]]:  # the folder is the problem's own, or its results
        return "results" if "results" in files.folders else ""
    return None


def impossible(accuracies: list[tuple[str, float]]) -> list[Issue]:
    """The first accuracy, after what is said of it, that is no share; known to rounding."""
    for said, value in accuracies:
        if not -1e-6 <= value <= 1 + 1e-6:
            return [Issue("impossible-number", f"{shown(said, 60)} {value:g}", 1.0)]
    return []


def percent(value: float) -> str:
    return f"{value:.2%}" if 0 <= value <= 1 else f"{value:g}"


def judged(item: dict, accuracies: list[float]) -> tuple[float, str]:
    """The share of the points that they earn, inside `between` or by `steps`; and, if it is less, what all need."""
    if "between" in item:
        low, high = item["between"]
        shares = [float(low <= value <= high) for value in accuracies]
        wanted = f"{low:.0%} to {high:.0%} expected"
    else:
        shares = [max((share for least, share in item["steps"] if value >= least), default=0) for value in accuracies]
        wanted = f"All points from {max(item['steps'])[0]:.0%}"
    share = sum(shares) / len(shares)
    if share == 1:
        return share, ""
    hint = f" {item['hint']}" if share == 0 and "hint" in item else ""
    return share, f"{wanted}: {item['reason']}.{hint}"
