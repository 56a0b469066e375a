"""One problem's results in a submission: where they stand, and its files, each read once."""

import re
from dataclasses import dataclass, field

from grading.ablations import Ablation, read_ablation
from grading.folder import Folder, Unreadable, join
from grading.layouts import Log, Table, leaves, read_log, read_table
from grading.weights import MAX_CHECKPOINT, Weights, read_weights
from lab.files import UserError, shown

MAX_FIGURES = 200  # of one folder: more would only take time
COLLAPSED = re.compile("collaps|constant|(one|same|single) (class|answer)")


@dataclass
class Submission:
    expected: dict
    files: Folder
    place: str  # where this problem's results stand in the folder
    moved: dict[str, str] = field(default_factory=dict)  # files that stand elsewhere: name -> where
    _read: dict = field(default_factory=dict)

    def find(self, name: str) -> str:
        """The file's path. A file may stand elsewhere if no other file of its name is expected."""
        last = name.rsplit("/", 1)[-1]
        expected = {file for item in self.expected["items"] for file in (item.get("files") or [item["file"]])}
        path = self.files.find(self.place, name, sum(file.rsplit("/", 1)[-1] == last for file in expected) == 1)
        if path != join(self.place, name):
            self.moved[name] = path
        return path

    def figures(self, pattern: str) -> list[str]:
        """The path of "a.png", or of all figures in "folder/*"."""
        if not pattern.endswith("/*"):
            return [self.find(pattern)]
        return self.files.under(join(self.place, pattern[:-2]), ".png")[:MAX_FIGURES]

    def _once(self, kind: str, name: str, read):
        if (kind, name) not in self._read:
            try:
                self._read[kind, name] = read()
            except Unreadable as reason:
                self._read[kind, name] = reason
        if isinstance(self._read[kind, name], Unreadable):
            raise self._read[kind, name]
        return self._read[kind, name]

    def json(self, name: str):
        return self._once("json", name, lambda: self.files.json(self.find(name)))

    def text(self, name: str) -> str:
        return self._once("text", name, lambda: self.files.text(self.find(name)))

    def log(self, name: str) -> Log:
        return self._once("log", name, lambda: read_log(self.json(name), self.expected.get("parts", [])))

    def log_or_empty(self, name: str) -> Log:
        try:
            return self.log(name)
        except Unreadable:
            return Log()

    def table(self, item: dict) -> Table:
        name = item["file"]
        return self._once("table", name, lambda: read_table(self.json(name), item["names"], item["lengths"]))

    def ablation(self, item: dict) -> Ablation:
        ablation = self._once("ablation", item["file"], lambda: read_ablation(self.json(item["file"])))
        ablation.start_from(self.log_or_empty(item["log"]).test_acc)
        return ablation

    def weights(self, name: str) -> Weights:
        return self._once("weights", name, lambda: read_weights(self.files.read(self.find(name), MAX_CHECKPOINT)))

    def reports_collapse(self, name: str, table: str) -> bool:
        """Whether a file beside the table says of this model that it gives one answer for all rows."""
        for path in self.files.under(self.find(table).rpartition("/")[0], ".json")[:20]:
            try:
                content = self._once("json", path, lambda path=path: self.files.json(path))
            except Unreadable:
                continue
            for keys, leaf in leaves(content):
                said = " ".join([*keys, str(leaf)]).lower()
                if leaf and name in said and COLLAPSED.search(said):
                    return True
        return False


def locate(files: Folder, expected: dict, others: list[str]) -> str | None:
    """The folder of this problem's results: under the agreed name, or where its typical files stand, or None.

    `others` are the names of the other problems, whose folders are left alone.
    """
    problem, present = expected["problem"], {*files.folders, *files.files}
    rules = [
        lambda folder: folder.lower() == f"{problem}/results",
        lambda folder: folder.lower().endswith(f"/{problem}/results"),
        lambda folder: any(join(folder, mark) in present for mark in expected["marks"]),
        lambda folder: folder.lower().rsplit("/", 1)[-1] == problem,
    ]
    own = [folder for folder in files.folders if not {*others} & {*folder.lower().split("/")}]
    for rule in rules:
        found = [folder for folder in own if rule(folder)]
        if found:
            depths = [join(folder, "").count("/") for folder in found]
            found = [folder for folder, depth in zip(found, depths, strict=True) if depth == min(depths)]
            if len(found) > 1:
                places = ", ".join(shown(folder, 60) for folder in found[:3])
                raise UserError(
                    f"{shown(files.root)} holds {problem} results in {len(found)} places ({places}): name one of them."
                )
            return found[0]
    if problem in [part.lower() for part in files.root.parts[-2:]]:  # the folder is the problem's own, or its results
        return "results" if "results" in files.folders else ""
    return None
