"""Runs of the study's experiment: which are right, which go, which are missing. Imports MLflow."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from linvit.study.config import Study
from linvit.tracking.cells import FinishedCell, finished_cells, milliseconds
from linvit.tracking.database import (
    DATABASE,
    open_experiment,
    open_store,
    quick_connections,
    store_errors,
)

PAGE = 1000  # runs per search
BATCH = 1000  # metrics that MLflow takes in one call
RUNS_BETWEEN_LINES = 100
ENDED = ("FINISHED", "FAILED")


def update_runs(study: Study) -> int:
    """Make the runs those of the finished cells; returns how many were written."""
    cells = finished_cells(study)
    with store_errors(study.root / DATABASE), quick_connections():
        client = open_store(study.root)
        experiment = open_experiment(client, study.name, study.root)
        runs = list(search(client, experiment))
        parent = find_parent(runs) or create_parent(client, experiment, study, cells)
        missing = drop_wrong_runs(client, runs, cells, parent.info.run_id)
        for number, cell in enumerate(missing, start=1):
            import_cell(client, experiment, cell, parent.info.run_id)
            if number % RUNS_BETWEEN_LINES == 0:
                print(f"{number} of {len(missing)} runs imported", flush=True)
        update_parent(client, parent, study, cells)
    return len(missing)


def search(client: MlflowClient, experiment: str) -> Iterator[Run]:
    token = None
    while True:
        page = client.search_runs([experiment], max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def find_parent(runs: list[Run]) -> Run | None:
    return next((run for run in runs if run.data.tags.get("kind") == "study"), None)


def create_parent(
    client: MlflowClient, experiment: str, study: Study, cells: list[FinishedCell]
) -> Run:
    started = min((milliseconds(cell.run.started) for cell in cells), default=None)
    tags = {"kind": "study", "study": study.name}
    run = client.create_run(experiment, start_time=started, tags=tags, run_name=study.name)
    client.log_param(run.info.run_id, "device", study.device)
    return run


def drop_wrong_runs(
    client: MlflowClient, runs: list[Run], cells: list[FinishedCell], parent: str
) -> list[FinishedCell]:
    """Delete the runs of cells that are not exactly one of `cells`; returns those without a run.

    Half-imported runs, doubles and runs of changed or vanished results go. Runs that somebody else
    logged into the experiment have no `cell_id` and stay.
    """
    missing = {(cell.cell.path, cell.content, parent): cell for cell in cells}
    for run in runs:
        tags = run.data.tags
        key = (tags.get("path"), tags.get("content"), tags.get(MLFLOW_PARENT_RUN_ID))
        if run.info.status in ENDED and key in missing:
            del missing[key]
        elif "cell_id" in tags:
            client.delete_run(run.info.run_id)
    return list(missing.values())


def import_cell(client: MlflowClient, experiment: str, cell: FinishedCell, parent: str) -> None:
    """Write the run of a cell; its status comes last, so a run that was cut off is seen."""
    run = client.create_run(
        experiment,
        start_time=milliseconds(cell.run.started),
        tags=cell.tags() | {MLFLOW_PARENT_RUN_ID: parent},
        run_name=cell.cell.path,
    )
    run_id = run.info.run_id
    metrics = [Metric(*point) for point in cell.points()]
    params = [Param(*item) for item in cell.params().items()]
    client.log_batch(run_id, metrics[:BATCH], params)
    for start in range(BATCH, len(metrics), BATCH):
        client.log_batch(run_id, metrics[start : start + BATCH])
    client.log_inputs(run_id, datasets=[dataset_input(cell)])
    copy_artifacts(cell, run.info.artifact_uri)
    status = "FINISHED" if cell.metrics.status == "ok" else "FAILED"
    client.set_terminated(run_id, status, end_time=milliseconds(cell.run.ended))


def dataset_input(cell: FinishedCell) -> DatasetInput:
    """MLflow keeps 36 characters of a dataset's digest; the tag `data_digest` has all."""
    dataset = Dataset(
        name=cell.cell.dataset,
        digest=cell.metrics.digests.data[:36],
        source_type="local",
        source=json.dumps(cell.metrics.spec["dataset"], sort_keys=True),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


def copy_artifacts(cell: FinishedCell, uri: str) -> None:
    """Three small files, written here: log_artifact asks the database for the run at each."""
    folder = Path(url2pathname(urlsplit(uri).path))
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in cell.files.items():
        (folder / name).write_bytes(data)


def update_parent(
    client: MlflowClient, parent: Run, study: Study, cells: list[FinishedCell]
) -> None:
    """Counts are tags, since MLflow's params cannot change and studies grow."""
    counts = {"cells": str(len(study.cells())), "finished_cells": str(len(cells))}
    complete = len(cells) == len(study.cells())
    status = "FINISHED" if complete else "RUNNING"
    if parent.info.status == status and counts.items() <= parent.data.tags.items():
        return
    for name, value in counts.items():
        client.set_tag(parent.info.run_id, name, value)
    if complete:
        ended = max(milliseconds(cell.run.ended) for cell in cells)
        client.set_terminated(parent.info.run_id, status, end_time=ended)
    else:
        client.update_run(parent.info.run_id, status=status)
