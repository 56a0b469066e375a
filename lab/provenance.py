"""Where a result comes from: the code, the versions and the machine that made it."""

import ast
import hashlib
import platform
import sys
from functools import cache
from pathlib import Path

import matplotlib
import numpy
import torch

ROOT = Path(__file__).resolve().parents[1]
# They read, write and draw, but decide no number.
AROUND = {f"lab/{name}.py" for name in ("checkpoint", "figures", "files", "provenance", "readme", "settings")}


def code_digest(path: Path) -> str:
    """16 hex digits of what a module does: comments, layout and docstrings do not count."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                body[0] = ast.copy_location(ast.Pass(), body[0])
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


def code() -> dict[str, str]:
    """{"problem1/model.py": digest, …} for every loaded module of this repository that decides numbers."""
    files = {Path(module.__file__).resolve() for module in list(sys.modules.values()) if _is_ours(module)}
    names = {path.relative_to(ROOT).as_posix(): path for path in sorted(files)}
    return {name: _digest_at_first(path) for name, path in names.items() if name not in AROUND}


@cache
def _digest_at_first(path: Path) -> str:
    """The digest when this process first asked: a module edited while it runs still is what it was."""
    return code_digest(path)


def _is_ours(module) -> bool:
    file = getattr(module, "__file__", None)
    if not file or not Path(file).is_absolute():  # torch makes modules up that stand in no file
        return False
    path = Path(file).resolve()
    return path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ("lab", "problem1", "problem2", "report")


def provenance(device: torch.device | str = "cpu") -> dict:
    """What every results file carries beside its numbers."""
    return {
        "code": code(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "matplotlib": matplotlib.__version__,
        },
        "machine": f"{platform.system()} {platform.machine()}",
        "device": str(device),
        "threads": torch.get_num_threads(),
    }


def changed_code(recorded: dict[str, str]) -> list[str]:
    """The modules among `recorded` (a `code()` of earlier) that are gone or do something else by now."""
    return [name for name, digest in recorded.items() if not _still(name, digest)]


def _still(name: str, digest: str) -> bool:
    try:
        return (ROOT / name).is_file() and code_digest(ROOT / name) == digest
    except (OSError, ValueError, SyntaxError):  # not a name that a module can have, or no Python any more
        return False
