"""A campaign against these scripts: kills, places that cannot be written, rubbish, and the numbers at their edges.

    python benchmarks/campaign.py                       # all of it: about twelve minutes on two cores
    python benchmarks/campaign.py --only rubbish        # one part (the others' numbers are kept in the file)
    python benchmarks/campaign.py --kills 200 --rubbish 20000

Writes benchmarks/campaign.json; exit code 1 if anything went wrong. The test suite runs the same in small.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import campaign_kills, campaign_places, campaign_rest, campaign_rubbish
from benchmarks.campaign_common import Tally
from lab.files import read_json, write_json
from lab.provenance import provenance
from lab.settings import as_plain, parse, run, setting

PARTS: dict[str, tuple[str, Callable[["Settings", Path], Tally]]] = {
    "kills": ("killed at any moment", lambda s, work: campaign_kills.campaign(work, s.kills, s.seed)),
    "places": ("places that cannot be used", lambda s, work: campaign_places.campaign(work)),
    "rubbish": ("malformed files", lambda s, work: campaign_rubbish.campaign(work, s.rubbish)),
    "determinism": ("the same again", lambda s, work: campaign_rest.determinism(work)),
    "numerics": ("numbers at the edges", lambda s, work: campaign_rest.numerics()),
    "memory": ("growth with the epochs", lambda s, work: campaign_rest.memory(work / "run")),
}


@dataclass(frozen=True)
class Settings:
    only: str | None = setting(None, "this part alone", choices=(*PARTS,))
    kills: int = setting(56, "kills, shared among all scripts", minimum=8)
    rubbish: int = setting(2500, "about so many malformed files", minimum=20)
    seed: int = setting(641, "seed of the moments of the kills", minimum=0)
    output: Path = setting(Path(__file__).with_name("campaign.json"), "the counts", metavar="FILE")


def main(settings: Settings) -> int:
    """0 if nothing went wrong, else 1."""
    torch.set_num_threads(1)
    results = {}
    if settings.only and settings.output.exists():
        results = read_json(settings.output, "delete it.").get("parts", {})
    for name, (what, part) in PARTS.items():
        if settings.only in (None, name):
            print(f"{name}: {what}", flush=True)
            started = time.perf_counter()
            with tempfile.TemporaryDirectory() as work:
                tally = part(settings, Path(work))
            results[name] = tally.plain() | {"seconds": round(time.perf_counter() - started, 1)}
    failures = sum(len(its["failures"]) for its in results.values())
    origin = {"config": as_plain(settings), **provenance()}
    write_json(settings.output, {"failed": failures, "parts": results, **origin})
    print(as_table(results))
    return 1 if failures else 0


def as_table(results: dict) -> str:
    lines = []
    for name, its in results.items():
        verdict = f"{len(its['failures'])} FAILED" if its["failures"] else "all well"
        lines.append(f"{name:12} {verdict:>10} {its['seconds']:6.0f} s")
        lines += [f"    {what:40} {count:>10,}" for what, count in its.items() if what not in ("failures", "seconds")]
        lines += [f"    FAILED: {failure}" for failure in its["failures"]]
    return "\n".join(lines)


if __name__ == "__main__":
    run(lambda: sys.exit(main(parse(Settings, __doc__))))
