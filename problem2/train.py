"""Train position schemes on sorted-or-not: results/NAME/best_model.pth, training_log.json, training_curves.png.

    python problem2/train.py --encoding rope                # one scheme: 20 to 30 seconds; data is generated if missing
    python problem2/train.py --encoding sinusoidal learned none      # the three that the course asks for
    python problem2/train.py                                # all schemes, one on each core
    python problem2/train.py --encoding window --protocol strict --output-dir problem2/results/strict
    python problem2/train.py --encoding rope --resume       # continue a run that was stopped

Protocols: "course" takes the 10,000 rows of train.json, unsorted ones the more often the fewer of their pairs are out
of order, and pools by the mean. "strict" samples fresh rows, half of the unsorted ones with a single swap of two
neighbours, pools by the maximum and has a single layer, twice as wide.
"""

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import device, jobs
from lab.files import UserError, only_one
from lab.settings import command, parse, run
from problem2.dataset import load_or_generate
from problem2.positional_encoding import SCHEMES
from problem2.trained import MORE
from problem2.training import Settings, train_alone, train_scheme

HERE = Path(__file__).resolve().parent


def check(settings: Settings) -> None:
    """Refuse what no model can have."""
    width, heads = settings.d_model or MORE[settings.protocol]["d_model"], settings.num_heads
    if width % heads:
        raise UserError(f"--d-model {width} cannot be split among --num-heads {heads}: choose a multiple.")
    rotary = [name for name in settings.encoding if "rope" in name]
    if rotary and width // heads % 2:
        raise UserError(
            f"--encoding {rotary[0]} turns pairs of dimensions, but with --d-model {width} each of --num-heads {heads} "
            f"has {width // heads}: choose a --d-model that is a multiple of {2 * heads}."
        )


def side_by_side(settings: Settings) -> dict[str, dict]:
    """Each scheme in a process of its own, one on each core."""
    folder = Path(tempfile.mkdtemp())  # for what the processes print
    work = [
        jobs.Job(name, train_alone, {"name": name}, folder / f"{name}.json", {"settings": settings})
        for name in settings.encoding
    ]
    with only_one(settings.output_dir, "a training"):  # a folder that cannot be used is refused once
        try:
            logs = dict(zip(settings.encoding, jobs.run(work), strict=True))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "stopped by you; every finished epoch is kept in last.pth of each scheme. "
                "Run the same command with --resume to go on."
            ) from None
    shutil.rmtree(folder)
    return logs


def main(settings: Settings) -> None:
    chosen = device.start(settings.device)
    settings = replace(settings, encoding=settings.encoding or tuple(SCHEMES))
    check(settings)
    rows = load_or_generate(settings.data_dir)
    if len(settings.encoding) > 1 and chosen.type == "cpu":
        logs = side_by_side(settings)
    else:
        logs = {name: train_scheme(replace(settings, encoding=(name,)), rows, chosen) for name in settings.encoding}
    for name, log in logs.items():
        print(f"{name:18} {log['test_acc']:7.2%} of the test rows correct")
    flags = {}
    if settings.output_dir != Settings.output_dir:
        flags["results_dir"] = settings.output_dir
    if settings.data_dir != Settings.data_dir:
        flags["data_dir"] = settings.data_dir
    print(f"everything is in {settings.output_dir}; next: {command(HERE / 'analyze.py', **flags)}")


if __name__ == "__main__":
    run(lambda: main(parse(Settings, __doc__)))
