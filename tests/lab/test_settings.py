"""Flags come from a dataclass; what is impossible is refused in one line."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from lab.files import UserError
from lab.settings import as_plain, command, parse, run, setting


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
        (["--epoch", "3"], r"unrecognized arguments: --epoch 3: did you mean --epochs\?"),
        (["--lenghts=3"], "did you mean --lengths"),
        (["--colour", "3"], r"unrecognized arguments: --colour 3 \("),
        (["--lengths", "8", "9", "8"], "--lengths: 8 stands there twice"),
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


def test_a_command_can_be_typed_where_the_user_stands(tmp_path, monkeypatch):
    script = tmp_path / "here/analyze.py"
    monkeypatch.chdir(tmp_path)
    assert command(script, output_dir=Path("my try")) == "python here/analyze.py --output-dir 'my try'"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert command(script, model_path=tmp_path / "a/b.pth") == "python analyze.py --model-path ../a/b.pth"
    monkeypatch.chdir("/")
    assert command(script) == f"python {script}"[: -len(str(script))] + str(script).lstrip("/")


def test_too_little_memory_and_an_interrupt_are_one_line(capsys):
    def too_large():
        torch.empty(2**60)

    def interrupted():
        raise KeyboardInterrupt("stopped by you.")

    for function, code, words in ((too_large, 2, "error: there is not enough memory"), (interrupted, 130, "stopped")):
        with pytest.raises(SystemExit) as ended:
            run(function)
        said = capsys.readouterr().err.strip()
        assert ended.value.code == code and said.startswith(words) and "\n" not in said
    with pytest.raises(RuntimeError):
        run(lambda: torch.zeros(2) @ torch.zeros(3))


def test_plain_values_are_those_that_decide_the_result():
    plain = as_plain(Settings(3, 1e-4, "none", (8,), Path("elsewhere"), 5, True))
    assert plain == {"epochs": 3, "lr": 1e-4, "name": "none", "lengths": [8], "limit": 5}
