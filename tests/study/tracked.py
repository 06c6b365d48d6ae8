"""A small study with made-up results, and what its MLflow store says of it."""

import json
from pathlib import Path

import synthetic

from linvit.study.config import Study

GRID = {
    "few": {
        "purpose": "a handful of cells",
        "operator": ["relu"],
        "size": ["micro"],
        "dataset": ["digits"],
        "init": ["random", "mlpcopy"],
        "distill": ["none", "output"],
        "source": ["fashion"],
    }
}
START = 1_700_000_000.0


def finished_study() -> Study:
    """Eight finished cells (two seeds), the last of them diverged."""
    made = synthetic.make_study(seeds=[0, 1], grids=GRID)
    synthetic.write_results(made, made.root, diverged=(made.cells()[-1].path,))
    for number, cell in enumerate(made.cells()):
        write_run(made, cell, START + 100 * number)
    return made


def folder(study, cell) -> Path:
    return study.root / "cells" / cell.path


def write_run(study, cell, started: float) -> None:
    points = len(json.loads((folder(study, cell) / "metrics.json").read_text())["history"])
    run = {"host": "here", "commit": "abc+", "versions": {}, "device": "a CPU", "pack": 4}
    run |= {"started": started, "ended": started + 90, "wall_s": 90.0, "cpu_s": 60.0}
    run |= {"images_per_s": 1234.5, "interruptions": 0}
    run["history_times"] = [started + 10 * (point + 1) for point in range(points)]
    (folder(study, cell) / "run.json").write_text(json.dumps(run))


def client(study):
    from linvit.tracking.database import open_store

    return open_store(study.root)


def runs(study, filter_string="", view=1):
    opened = client(study)
    experiment = opened.get_experiment_by_name(study.name).experiment_id
    return list(opened.search_runs([experiment], filter_string, view, 1000))


def cell_runs(study):
    return {r.data.tags["path"]: r for r in runs(study, "tags.kind = 'cell'")}


def ids(study) -> dict[str, str]:
    return {path: run.info.run_id for path, run in cell_runs(study).items()}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
