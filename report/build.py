"""Typeset report.pdf from report.typ, and its companion beyond/beyond.pdf, which read every number from the results.

    python report/build.py             # a sentence that this run's results do not bear out is set apart in the text
    python report/build.py --strict    # such a sentence stops the build

A person wrote the sentences. Each one that states a result stands beside a condition on the results.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import lab.installed

from lab.files import UserError, write_bytes
from lab.settings import parse, run, setting

REPORT = ROOT / "report/report.typ"
COMPANION = ROOT / "beyond/beyond.typ"  # what the homework does not ask for

NOT_BORNE_OUT = "not borne out by the results"  # what style.typ says of a sentence, if it is to stop there


@dataclass(frozen=True)
class Settings:
    output: Path = setting(REPORT.with_suffix(".pdf"), "the report", metavar="FILE")
    companion: Path = setting(COMPANION.with_suffix(".pdf"), "its companion", metavar="FILE")
    strict: bool = setting(False, "stop at a sentence that the results do not bear out")


def results_read(source: Path) -> list[str]:
    """The files that a Typst source reads: every json("/…"), csv("/…") and image("/…") in it, from the root."""
    return sorted(set(re.findall(r'(?:json|csv|image)\("/([^"]+)"', source.read_text(encoding="utf-8"))))


def typeset(source: Path, output: Path, strict: bool) -> None:
    try:
        import typst
    except ImportError:
        raise UserError("typst is not installed: pip install -r requirements-dev.txt, or run `make report`.") from None
    names = results_read(source)
    for name in names:
        if not (ROOT / name).is_file():
            raise UserError(f"{name}, which {source.name} reads, does not exist: `make help` says what makes it.")
    said = ""
    try:
        try:
            pdf = typst.compile(str(source), root=str(ROOT), sys_inputs={"strict": "yes"})
        except (RuntimeError, typst.TypstError) as error:
            if strict or NOT_BORNE_OUT not in str(error):
                raise
            said = "; what the results do not bear out is marked in it: not reproduced in this run"
            pdf = typst.compile(str(source), root=str(ROOT))
    except (RuntimeError, typst.TypstError) as error:
        raise UserError(f"{source} cannot be typeset ({' '.join(str(error).split())}).") from None
    write_bytes(output, pdf)
    print(f"{output}: built from {len(names)} results{said}")


def main(settings: Settings) -> None:
    typeset(REPORT, settings.output, settings.strict)
    if COMPANION.is_file():
        typeset(COMPANION, settings.companion, settings.strict)


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
