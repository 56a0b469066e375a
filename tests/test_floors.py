"""The ground floor stands alone: nothing in it imports from the upper one."""

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT

GROUND = ("problem1", "problem2", "report", "starter", "grading", "lab")
UPPER = {"beyond", "explorer"}


def imported(code: str) -> set[str]:
    """The packages that Python code imports, wherever in it, also by importlib: {"torch", "lab", …}"""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [node.module or ""]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("import_module", "__import__", "run_path")
        ):
            names += [word.value for word in ast.walk(node) if isinstance(word, ast.Constant)]
    return {str(name).partition(".")[0] for name in names}


def modules(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.py")) if not {"results", "data"} & set(path.parts)]


@pytest.mark.parametrize("room", GROUND)
def test_the_ground_floor_imports_nothing_from_upstairs(room):
    upward = {}
    for path in modules(ROOT / room):
        found = imported(path.read_text(encoding="utf-8")) & UPPER
        if found:
            upward[str(path.relative_to(ROOT))] = sorted(found)
    assert not upward


def test_there_are_modules_on_both_floors():
    for room in ("problem1/analysis", "problem2/analysis", "report", "grading", "lab", "beyond", "explorer"):
        assert modules(ROOT / room), room


@pytest.mark.parametrize(
    "code",
    [
        "import beyond.schemes.strict",
        "from explorer import build",
        "def late():\n    from beyond.schemes import strict",
        "import importlib\nimportlib.import_module('beyond.jobs')",
    ],
)
def test_an_import_is_found_wherever_it_stands(code):
    assert imported(code) & UPPER
    assert not imported(f"beyond = {code!r}") & UPPER  # a word is no import
