"""A valid submission, and a copy of it to spoil."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.grading.submissions import valid


@pytest.fixture(scope="session")
def sound(tmp_path_factory):
    return valid(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def folder(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "submission"))


@pytest.fixture
def command(script):
    return partial(script, "-m", "grading")
