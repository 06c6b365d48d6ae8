"""Stores of MLflow for tests: tables take seconds to make, so they are made once and copied."""

import shutil

import pytest
from tracked import finished_study


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    from linvit.tracking import own_environment

    with own_environment():  # MLflow reads its settings when it is imported
        from linvit.tracking.database import create, quick_connections

    database = tmp_path_factory.mktemp("store") / "mlflow.db"
    with quick_connections():
        create(database)
    return database


@pytest.fixture
def tracked_study(tmp_path, monkeypatch, empty_store):
    """A finished study in a folder with an awkward name."""
    home = tmp_path / "a folder #1 é"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setattr(
        "linvit.tracking.database.create", lambda database: shutil.copy(empty_store, database)
    )
    return finished_study()
