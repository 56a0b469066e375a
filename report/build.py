"""Typeset report.pdf from report.typ, which reads every number and every figure from the results.

    python report/build.py

Stops if a result that the report reads is missing, or was made by code that has changed since, and names it.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lab.files import UserError, read_json, write_bytes
from lab.provenance import changed_code
from lab.settings import parse, run, setting

HERE = Path(__file__).resolve().parent
# Which target of the Makefile makes what; the first that fits.
TARGETS = {
    "problem1/results/robustness.json": "make seeds",
    "problem1/results/text/": "make text",
    "problem1/": "make problem1",
    "problem2/results/study/": "make study",
    "problem2/": "make problem2",
    "report/": "make contradictions",
}


@dataclass(frozen=True)
class Settings:
    source: Path = setting(HERE / "report.typ", "the report's text", metavar="FILE")
    output: Path = setting(HERE / "report.pdf", "the report", metavar="FILE")


def results_read(source: Path) -> list[str]:
    """The files that a Typst source reads: every json("/…") and image("/…") in it, from the root."""
    return sorted(set(re.findall(r'(?:json|image|figured)\("/([^"]+)"', source.read_text())))


def check(name: str) -> None:
    """A result must be there and, where it says which code made it, be made by the code that is here now."""
    path = ROOT / name
    remedy = f"run `{next(command for part, command in TARGETS.items() if name.startswith(part))}`."
    if not path.is_file():
        raise UserError(f"{name}, which the report reads, does not exist: {remedy}")
    if path.suffix == ".json":
        content = read_json(path, remedy)
        recorded = content.get("code", {}) if isinstance(content, dict) else {}
        if not isinstance(recorded, dict):
            raise UserError(f"{name} does not say which code made it as these scripts do: {remedy}")
        changed = changed_code(recorded)
        if changed:
            raise UserError(f"{name} is out of date, {changed[0]} has changed since: {remedy}")


def main(settings: Settings) -> None:
    try:
        import typst
    except ImportError:
        raise UserError("typst is not installed: pip install -r requirements-dev.txt, or run `make report`.") from None
    names = results_read(settings.source)
    for name in names:
        check(name)
    try:
        pdf = typst.compile(str(settings.source), root=str(ROOT))
    except (RuntimeError, typst.TypstError) as error:
        raise UserError(f"{settings.source} cannot be typeset ({' '.join(str(error).split())}).") from None
    write_bytes(settings.output, pdf)
    print(f"{settings.output}: built from {len(names)} results")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
