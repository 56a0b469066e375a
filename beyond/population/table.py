"""The population as tables of plain numbers, a row a model: written, read again, and changed a row at a time."""

import csv
import io
from pathlib import Path

from beyond.population.sources import CASES, every_case
from lab.files import UserError, read_bytes, write_text

HEADS = ("E0", "E1", "D0.self", "D0.cross", "D1.self", "D1.cross")
BEGINNING = ("embedding", "encoder", "decoder", "order", "hard_weight", "nudge")


def row(name: str, measured: dict) -> dict[str, str]:
    """A model of three digits."""
    lost = measured["heads"]
    most = max(lost, key=lost.get, default="")
    return {
        "model": name,
        **{key: plain(measured["settings"][key]) for key in BEGINNING},
        **outcome(measured),
        **effects(measured, CASES),
        **{f"wrong without {part}": plain(share, 4) for part, share in measured["replaced"].items()},
        **{f"critical {group}": plain(sum(head.startswith(group) for head in lost)) for group in HEADS},
        "most critical": most,
        "lost without it": plain(lost.get(most, 0.0), 4),
    }


def longer_row(name: str, measured: dict) -> dict[str, str]:
    """A model of five digits: of all sources only what is looked up."""
    digits = measured["settings"]["num_digits"]
    found = {"model": name, "wrong of hard pairs": plain(measured["hard_wrong"])} | outcome(measured)
    for case in every_case(digits):
        found[case.name] = plain(measured["sources"][case.name]["effects"]["looked up"][0], 3)
    return found


def epoch_rows(name: str, measured: dict) -> list[dict[str, str]]:
    """A model after each of its epochs."""
    rows = []
    for entry in measured["epochs"]:
        found = {"model": name, "epoch": plain(entry["epoch"]), "validation": plain(entry["val_acc"], 4)}
        found["wrong with opposite carries"] = plain(entry["opposite_carries_wrong"])
        rows.append(found | effects(entry, CASES))
    return rows


def outcome(measured: dict) -> dict[str, str]:
    return {
        "tried on": plain(measured["pairs"]),
        "wrong": plain(measured["wrong"]),
        "smallest margin": plain(measured["smallest_margin"], 3),
        "first perfect epoch": plain(measured["first_perfect_epoch"]),
        "test loss": f"{measured['test_loss']:.2e}",
        "wrong with opposite carries": plain(measured["opposite_carries_wrong"]),
        "not as the program": plain(measured["outside"]["wrong"]),
        "with a fitting prefix": plain(measured["outside"]["wrong with a fitting prefix"]),
    }


def effects(measured: dict, cases) -> dict[str, str]:
    """A column for each source of each case; and for each case the share of digits that fit neither carry."""
    found = {}
    for case in cases:
        entry = measured["sources"][case.name]
        for source, (effect, _) in entry["effects"].items():
            found[f"{case.name}: {source}"] = plain(effect, 3)
        found[f"{case.name}: no carry"] = plain(entry["no_carry"], 3)
    return found


def plain(value, places: int = 0) -> str:
    """The shortest text of a number with so many decimals: 1, 0.25; nothing for None."""
    if value is None:
        return ""
    if places:
        value = round(value, places) + 0.0  # no -0
    return f"{value:.10g}"


def write(path: Path, rows: list[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def read(path: Path) -> list[dict[str, str]]:
    """The rows; none if there is no such file."""
    if not path.exists():
        return []
    try:
        return [*csv.DictReader(io.StringIO(read_bytes(path, "delete it.").decode()))]
    except (UnicodeDecodeError, csv.Error):
        raise UserError(f"{path} is no table: delete it, or restore it.") from None


def update(path: Path, new: list[dict[str, str]], order: list[str]) -> list[dict[str, str]]:
    """Replace the rows of the models in `new`, keep all others, and write the table in the order of these names."""
    made = {entry["model"] for entry in new}
    old = read(path)
    if new and any(entry.keys() != new[0].keys() for entry in old):
        raise UserError(f"{path} has other columns than these rows: delete it, or restore it.")
    rows = [entry for entry in old if entry["model"] not in made and entry["model"] in order] + new
    rows.sort(key=lambda entry: order.index(entry["model"]))
    if rows:
        write(path, rows)
    return rows
