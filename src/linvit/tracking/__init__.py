"""The MLflow view of a study: one experiment in results/<study>/mlflow.db, a run per finished cell.

The result files are the truth. This view is written after the fact by one process, since parallel
writers break SQLite stores; deleted, it is built again from the files. MLflow is imported inside
`import_study`, after its settings have been taken out of the environment.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from linvit.store import disk_errors
from linvit.study.config import Study

SETTINGS = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_LOGGING_LEVEL": "WARNING"}


def import_study(study: Study) -> int:
    """Bring the study's MLflow store up to date; returns the number of cells newly imported.

    A cell whose files changed replaces its run, a half-imported run is imported again, and the run
    of a cell that is no longer finished is deleted.

    Raises:
        LinvitError: a damaged result or store, or a store that belongs to another folder.
    """
    with disk_errors(study.root), one_importer(study.root), own_environment():
        from linvit.tracking.runs import update_runs

        return update_runs(study)


@contextlib.contextmanager
def one_importer(root: Path) -> Iterator[None]:
    """Wait until no other process imports into the same store."""
    root.mkdir(parents=True, exist_ok=True)
    with open(root / "mlflow.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{root}: another process imports into MLflow; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def own_environment() -> Iterator[None]:
    """Hide the user's MLFLOW_* settings: a server, a run or an experiment of theirs is not ours."""
    names = [name for name in os.environ if name.removeprefix("_").startswith("MLFLOW_")]
    hidden = {name: os.environ.pop(name) for name in names}
    os.environ.update(SETTINGS)
    try:
        yield
    finally:
        for name in SETTINGS:
            os.environ.pop(name, None)
        os.environ.update(hidden)
