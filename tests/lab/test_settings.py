"""Flags come from a dataclass; what is impossible is refused in one line."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.files import UserError
from lab.settings import as_plain, parse, setting


@dataclass(frozen=True)
class Settings:
    epochs: int = setting(64, "passes", minimum=1)
    lr: float = setting(2e-3, "rate", minimum=0)
    name: str = setting("rope", "which", choices=("rope", "none"))
    lengths: tuple[int, ...] = setting((32, 64), "lengths", minimum=1)
    output_dir: Path = setting(Path("results"), "where")
    limit: int | None = setting(None, "at most", minimum=1)
    resume: bool = setting(False, "go on")


def test_defaults_and_flags():
    assert parse(Settings, "", []) == Settings()
    given = ["--epochs", "3", "--lr", "1e-4", "--name", "none", "--lengths", "8", "9", "--limit", "5", "--resume"]
    assert parse(Settings, "", given) == Settings(3, 1e-4, "none", (8, 9), Path("results"), 5, True)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--epochs", "0"], "at least 1"),
        (["--epochs", "1.5"], "not a whole number"),
        (["--lr", "nan"], "finite"),
        (["--lr", "inf"], "finite"),
        (["--name", "rop"], "one of rope, none"),
        (["--lengths", "8", "-1"], "at least 1"),
        (["--epoch", "3"], "unrecognized"),
    ],
)
def test_impossible_flags(flags, words):
    with pytest.raises(UserError, match=words):
        parse(Settings, "", flags)


def test_help_names_every_flag_with_its_default(capsys):
    with pytest.raises(SystemExit):
        parse(Settings, "What it does.", ["--help"])
    text = capsys.readouterr().out
    assert "What it does." in text and "--epochs" in text and "(default: 64)" in text and "(default: 32 64)" in text


def test_plain_values_are_those_that_decide_the_result():
    plain = as_plain(Settings(3, 1e-4, "none", (8,), Path("elsewhere"), 5, True))
    assert plain == {"epochs": 3, "lr": 1e-4, "name": "none", "lengths": [8], "limit": 5}
