"""One problem's results in a stranger's folder: where they stand, and its files read once each."""

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from lab.files import UserError
from lab.grading import ablations, logs, tables, weights
from lab.grading.reading import Image, Tree, Unreadable, shown

MOST_FIGURES = 200  # of a folder: more would only take time


@dataclass(frozen=True)
class Finding:
    """A known disease, with the evidence that names it."""

    name: str
    item: str  # id of the item it touches
    where: str
    evidence: str
    meaning: str
    cost: float = 0.0  # the share of the item's points that it takes


class Pictures:
    """The figures of all problems, each unpacked once, and which of them are the same picture."""

    NEARLY_BLANK = 0.001  # share of pixels that differ from the background: less is not even a pair of axes

    def __init__(self, tree: Tree):
        self.tree = tree
        self.seen: dict[str, Image | Unreadable] = {}
        self.first: dict[str, str] = {}

    def complaint(self, path: str) -> tuple[str, str] | None:
        """None for a sound figure; else the disease's name and what is wrong as the end of a sentence."""
        if path not in self.seen:
            try:
                self.seen[path] = self.tree.image(path)
                self.first.setdefault(self.seen[path].digest, path)
            except Unreadable as reason:
                self.seen[path] = reason
        image = self.seen[path]
        if isinstance(image, Unreadable):
            return "broken-figure", str(image)
        if image.ink < self.NEARLY_BLANK:
            return "blank-figure", f"is blank: {1 - image.ink:.2%} of its pixels have one colour"
        first = self.first[image.digest]
        if first != path:
            return "copied-figure", f"is the same picture as {shown(first)}"
        return None


@dataclass
class Submission:
    expected: dict
    tree: Tree
    folder: str  # where this problem's results stand, relative to the tree
    pictures: Pictures
    read: dict = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)  # what was found elsewhere: name -> where

    @property
    def parts(self) -> list[str]:
        """Words for accuracies of parts of an answer."""
        return self.expected.get("parts", [])

    def find(self, name: str) -> str:
        """The file, or one of its name elsewhere in the folder if no other file is expected under that name."""
        last = name.rsplit("/", 1)[-1]
        alone = sum(file.rsplit("/", 1)[-1] == last for file in self.expected_files()) == 1
        path = self.tree.find(self.folder, name, anywhere=alone)
        if path != (f"{self.folder}/{name}" if self.folder else name):
            self.moved[name] = path
        return path

    def expected_files(self) -> set[str]:
        return {file for item in self.expected["items"] for file in (item.get("files") or [item["file"]])}

    def figures(self, pattern: str) -> list[str]:
        """ "a.png", or all images of "folder/*"."""
        if not pattern.endswith("/*"):
            return [self.find(pattern)]
        folder = pattern[:-2]
        return self.tree.under(f"{self.folder}/{folder}" if self.folder else folder, ".png")[:MOST_FIGURES]

    def _once(self, key: tuple, make):
        if key not in self.read:
            try:
                self.read[key] = make()
            except Unreadable as reason:
                self.read[key] = reason
        if isinstance(self.read[key], Unreadable):
            raise self.read[key]
        return self.read[key]

    def json(self, name: str):
        return self._once(("json", name), lambda: self.tree.json(self.find(name)))

    def text(self, name: str) -> str:
        return self._once(("text", name), lambda: self.tree.text(self.find(name)))

    def log(self, name: str) -> logs.Log:
        return self._once(("log", name), lambda: logs.read_log(self.json(name), self.parts))

    def ablation(self, item: dict) -> ablations.Ablation:
        return self._once(("ablation", item["file"]), lambda: self._read_ablation(item))

    def _read_ablation(self, item: dict) -> ablations.Ablation:
        ablation, log = ablations.read_ablation(self.json(item["file"])), self.log_or_none(item["log"])
        if log and log.test_acc is not None:
            ablations.from_baseline(ablation, log.test_acc)
        return ablation

    def table(self, item: dict) -> tables.Table:
        name = item["file"]
        return self._once(("table", name), lambda: tables.read_table(self.json(name), item["names"], item["lengths"]))

    def weights(self, name: str) -> weights.Weights:
        return self._once(("weights", name), lambda: weights.read(self.tree, self.find(name)))

    def log_or_none(self, name: str | None) -> logs.Log | None:
        try:
            return self.log(name) if name else None
        except Unreadable:
            return None


def locate(tree: Tree, expected: dict, others: list[str]) -> str | None:
    """The folder of this problem's results: in the agreed place, or where its marks stand, or None.

    `others` are the names of the other problems: what stands in their folders is theirs.
    """
    problem = expected["problem"]
    own = [folder for folder in tree.folders if not set(others) & set(folder.lower().split("/"))]
    agreed = [folder for folder in own if folder.lower() == f"{problem}/results"]
    agreed = agreed or [folder for folder in own if folder.lower().endswith(f"/{problem}/results")]
    if agreed:
        return _shallowest(agreed, tree, problem)
    present = set(tree.folders) | set(tree.files)
    marked = [
        folder
        for folder in own
        if any((f"{folder}/{mark}" if folder else mark) in present for mark in expected["marks"])
    ]
    if marked:
        return _shallowest(marked, tree, problem)
    named = [folder for folder in own if folder.lower().rsplit("/", 1)[-1] == problem]
    if named:
        return _shallowest(named, tree, problem)
    if problem in [part.lower() for part in tree.root.parts[-2:]]:  # FOLDER is the problem's own, or its results
        return "results" if "results" in tree.folders else ""
    return None


def _shallowest(folders: list[str], tree: Tree, problem: str) -> str:
    depth = min(len(PurePosixPath(folder).parts) for folder in folders)
    found = [folder for folder in folders if len(PurePosixPath(folder).parts) == depth]
    if len(found) > 1:
        raise UserError(
            f"{shown(tree.root)} holds results of {problem} in {len(found)} places "
            f"({', '.join(shown(folder, 60) for folder in found[:3])}): name one of them."
        )
    return found[0]
