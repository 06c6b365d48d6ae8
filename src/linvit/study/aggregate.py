"""All results of a study as two tables: cells.csv (one row a cell), curves.csv (one row a point).

Everything downstream (tables, figures, claims, MLflow) reads these and never the JSON files. What
cannot be compared is refused here: results of other cells than their path says, of two device
classes, of two versions of a component's numerics, of two data sets or sources of one name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from linvit.errors import LinvitError
from linvit.files import atomic_write_text, sha256_json
from linvit.fingerprint import science
from linvit.study.cell import Cell
from linvit.study.config import Study
from linvit.study.records import Evaluation, Metrics, read_record
from linvit.study.select import CELL_COLUMNS, CURVE_COLUMNS, to_csv


@dataclass(frozen=True)
class Result:
    """A finished cell: its declaration and what training and evaluation wrote."""

    cell: Cell
    grids: tuple[str, ...]
    chosen_lambda: float | None
    folder: Path
    metrics: Metrics
    test: Evaluation


def aggregate(study: Study, root: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read every cell of the study under root/cells and write root/{cells,curves}.csv.

    Returns both frames. Raises LinvitError on missing, damaged or incomparable results.
    """
    results = read_results(study, Path(root))
    refuse_mixtures(results)
    cells, curves = cells_frame(results), curves_frame(results)
    atomic_write_text(Path(root) / "cells.csv", to_csv(cells))
    atomic_write_text(Path(root) / "curves.csv", to_csv(curves))
    return cells, curves


def read_results(study: Study, root: Path) -> list[Result]:
    grids = {name: frozenset(study.grid_cells(name)) for name in study.grids}
    results = []
    for cell in study.cells():
        folder = root / "cells" / cell.path
        member_of = tuple(sorted(name for name, cells in grids.items() if cell in cells))
        metrics = read_record(folder / "metrics.json", Metrics)
        test = read_record(folder / "test.json", Evaluation)
        result = Result(cell, member_of, study.chosen_lambda(cell), folder, metrics, test)
        _check_identity(result)
        results.append(result)
    return results


def _check_identity(result: Result) -> None:
    """Both files must be of this cell, and the evaluation of these weights."""
    for name, record in (("metrics.json", result.metrics), ("test.json", result.test)):
        if record.cell != result.cell.axes:
            raise LinvitError(
                f"{result.folder / name} is of another cell, {record.cell}; "
                "delete it and run its rule again"
            )
    test, metrics = result.test, result.metrics
    if (test.fingerprint, test.status) != (metrics.fingerprint, metrics.status):
        raise LinvitError(
            f"{result.folder}/test.json was made from other weights than metrics.json "
            f"({test.fingerprint[:12]}, {test.status} and {metrics.fingerprint[:12]}, "
            f"{metrics.status}); "
            "delete test.json and run the rule `evaluate` again"
        )


def _keys(result: Result) -> Iterable[tuple[str, Any]]:
    """(what, value) pairs: within a study one `what` must have one value."""
    spec, cell, digests = result.metrics.spec, result.cell, result.metrics.digests
    numerics = spec["numerics"]
    yield "device class", spec["device"]
    for component in ("operator", "init", "distill"):
        yield f"numerics of {component} {getattr(cell, component)}", numerics[component]
    yield "numerics of the view", numerics["view"]
    yield "numerics of the loop", numerics["loop"]
    yield f"data digest of {cell.dataset}", digests.data
    if cell.source is not None:
        yield f"weights digest of source {cell.source} at size {cell.size}", digests.source


def refuse_mixtures(results: list[Result]) -> None:
    """Raises LinvitError at the first result that cannot be compared with an earlier one."""
    first: dict[str, tuple[Any, Path]] = {}
    for result in results:
        for what, value in _keys(result):
            expected, folder = first.setdefault(what, (value, result.folder))
            if value != expected:
                raise LinvitError(
                    f"results cannot be mixed: {what} is {expected!r} in {folder}/metrics.json "
                    f"and {value!r} in {result.folder}/metrics.json; run `linvit forget` on the "
                    "older cells and train them again"
                )


def _row(result: Result) -> dict[str, Any]:
    metrics = result.metrics
    last = metrics.history[-1].distill_relative if metrics.history else None
    final = metrics.final.model_dump() if metrics.final else {}
    return {
        **result.cell.axes,
        **{name: final.get(name) for name in ("train_loss", "train_top1", "val_loss", "val_top1")},
        "status": metrics.status,
        "test_top1": result.test.top1,
        "distill_relative": last,
        "parameters": metrics.parameters,
        "fingerprint": metrics.fingerprint,
        "device": metrics.spec["device"],
        "grids": ";".join(result.grids),
        "chosen_lambda": result.chosen_lambda,
        "path": result.cell.path,
        "spec": sha256_json(science(metrics.spec)),
    }


def _points(result: Result) -> Iterable[dict[str, Any]]:
    for entry in result.metrics.history:
        point = entry.model_dump()
        point["distill_loss"] = point.pop("distill")
        yield {**result.cell.axes, **point, "chosen_lambda": result.chosen_lambda}


def cells_frame(results: list[Result]) -> pd.DataFrame:
    """Columns CELL_COLUMNS, rows in the order of the cells (sorted by the study)."""
    return pd.DataFrame([_row(result) for result in results], columns=list(CELL_COLUMNS))


def curves_frame(results: list[Result]) -> pd.DataFrame:
    """Columns CURVE_COLUMNS, one row per validation point, in the order of the cells."""
    points = [point for result in results for point in _points(result)]
    return pd.DataFrame(points, columns=list(CURVE_COLUMNS))
