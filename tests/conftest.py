"""A prepared folder for tests that train: decoded digits and the weights of a source."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

import linvit

# Processes that tests start must find the package under test, whatever their folder.
os.environ["PYTHONPATH"] = str(Path(linvit.__file__).resolve().parents[1])


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    from tiny_study import prepare_here

    home = tmp_path_factory.mktemp("prepared")
    with contextlib.chdir(home):
        prepare_here()
    return home


@pytest.fixture
def tiny(prepared, tmp_path, monkeypatch):
    """A working folder of one's own in which `tiny_study` can train; returns it."""
    home = tmp_path / "work"
    shutil.copytree(prepared, home)
    monkeypatch.chdir(home)
    return home
