"""The SQLite store of a study and its one experiment. Imports MLflow."""

import contextlib
import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy
from mlflow import MlflowClient
from mlflow.entities import Experiment
from mlflow.exceptions import MlflowException

from linvit.errors import LinvitError

DATABASE, ARTIFACTS = "mlflow.db", "mlartifacts"
CURE = "delete it and run again: it is rebuilt from the results"


def database_uri(path: Path) -> str:
    return f"sqlite:///{path.resolve()}"


@contextlib.contextmanager
def store_errors(database: Path) -> Iterator[None]:
    """Turn what MLflow and SQLite say into one line with its cure."""
    try:
        yield
    except (MlflowException, sqlite3.Error) as error:
        text = str(error).strip().splitlines()[0]
        raise LinvitError(f"{database} cannot be used ({text}); {CURE}") from None


@contextlib.contextmanager
def quick_connections() -> Iterator[None]:
    """Write without waiting for the disk, five times faster: what only a power cut can damage is
    noticed (`_check`) and rebuilt. Closes every connection, for a deleted store must stay so."""
    engines: set[sqlalchemy.Engine] = set()

    def no_sync(connection, _record) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")

    def remember(connection: sqlalchemy.Connection) -> None:
        engines.add(connection.engine)

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", no_sync)
    sqlalchemy.event.listen(sqlalchemy.Engine, "engine_connect", remember)
    try:
        yield
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "connect", no_sync)
        sqlalchemy.event.remove(sqlalchemy.Engine, "engine_connect", remember)
        for engine in engines:
            engine.dispose()


def open_store(root: Path) -> MlflowClient:
    """The client of root/mlflow.db, which is created when it is missing."""
    database = root / DATABASE
    if not database.exists():
        create(database)
    _check(database)
    uri = database_uri(database)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def create(database: Path) -> None:
    """Make an empty store under a name of its own: the tables take seconds and a kill in between
    would leave a store that MLflow refuses for ever. What an older store left is removed."""
    for leftover in database.parent.glob(f"{database.name}?*"):
        leftover.unlink()
    shutil.rmtree(database.parent / ARTIFACTS, ignore_errors=True)
    temporary = database.with_name(f"{database.name}.{uuid.uuid4().hex}")
    MlflowClient(tracking_uri=database_uri(temporary)).search_experiments(max_results=1)
    os.replace(temporary, database)


def _check(database: Path) -> None:
    """Raises sqlite3.Error at once where MLflow would try a damaged file for minutes."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("SELECT version_num FROM alembic_version").fetchone()
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def open_experiment(client: MlflowClient, name: str, root: Path) -> str:
    """Id of the study's experiment, whose artifacts lie below root/mlartifacts.

    Raises LinvitError where the store was made in another folder: MLflow keeps absolute paths.
    """
    location = (root / ARTIFACTS).resolve().as_uri()
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return client.create_experiment(name, artifact_location=location)
    if experiment.artifact_location != location:
        raise LinvitError(
            f"{root / DATABASE} was made in another folder (its artifacts are at "
            f"{experiment.artifact_location}); {CURE}"
        )
    return _active(client, experiment)


def _active(client: MlflowClient, experiment: Experiment) -> str:
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id
