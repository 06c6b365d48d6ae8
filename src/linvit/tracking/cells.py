"""What the files of a cell say, in MLflow's terms: tags, params, metrics. No MLflow in here."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from linvit.errors import LinvitError
from linvit.study.cell import AXES, Cell
from linvit.study.config import Study
from linvit.study.filters import axis_text
from linvit.study.records import Evaluation, Metrics, read_record

FILES = ("metrics.json", "run.json", "test.json")  # the last is there once the cell is evaluated
CURVES = ("lr", "train_loss", "train_ce", "distill", "distill_relative", "val_loss", "val_top1")
NONE = "none"

Point = tuple[str, float, int, int]  # name, value, unix time in ms, step


class RunRecord(BaseModel):
    """run.json: where and how fast a cell was trained; times in unix seconds."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    host: str
    commit: str | None
    device: str
    started: float
    ended: float
    wall_s: float
    cpu_s: float
    images_per_s: float
    pack: int
    interruptions: int
    history_times: list[float]


@dataclass(frozen=True)
class FinishedCell:
    """A cell with metrics.json; content: digest of its files and of the grids it belongs to."""

    cell: Cell
    grids: str
    folder: Path
    files: dict[str, bytes]
    content: str

    @cached_property
    def metrics(self) -> Metrics:
        return read_record(self.folder / "metrics.json", Metrics)

    @cached_property
    def run(self) -> RunRecord:
        run = read_record(self.folder / "run.json", RunRecord)
        if len(run.history_times) != len(self.metrics.history):
            raise LinvitError(
                f"{self.folder}/run.json: history_times has {len(run.history_times)} entries, the "
                f"history {len(self.metrics.history)}; run `linvit forget` on the cell and train it"
            )
        return run

    @cached_property
    def test(self) -> Evaluation | None:
        """The evaluation of these weights; None before it, or when it is of older weights."""
        if "test.json" not in self.files:
            return None
        test = read_record(self.folder / "test.json", Evaluation)
        return test if test.fingerprint == self.metrics.fingerprint else None

    def tags(self) -> dict[str, str]:
        metrics = self.metrics
        return {
            "kind": "cell",
            "cell_id": metrics.fingerprint,
            "content": self.content,
            "path": self.cell.path,
            **self._axes(),
            "grids": self.grids,
            "status": metrics.status,
            "evaluated": str(self.test is not None).lower(),
            "data_digest": metrics.digests.data,
            "source_digest": metrics.digests.source or NONE,
            "device": metrics.spec["device"],
            "commit": self.run.commit or NONE,
            "host": self.run.host,
        }

    def params(self) -> dict[str, str]:
        recipe = flatten("recipe", self.metrics.spec["recipe"])
        return self._axes() | recipe | {"parameters": str(self.metrics.parameters)}

    def _axes(self) -> dict[str, str]:
        return {axis: axis_text(self.cell, axis) for axis in AXES}

    def points(self) -> list[Point]:
        """The curves at their real times, then the final numbers at the end of the run."""
        points = [
            (name, value, milliseconds(seconds), entry.step)
            for entry, seconds in zip(self.metrics.history, self.run.history_times, strict=True)
            for name in CURVES
            if (value := getattr(entry, name)) is not None
        ]
        step = self.metrics.history[-1].step if self.metrics.history else 0
        ended = milliseconds(self.run.ended)
        return points + [(name, value, ended, step) for name, value in self._final().items()]

    def _final(self) -> dict[str, float]:
        """val_top1 is the last point of its curve; the final train_loss is that of clean images."""
        final, test, run = self.metrics.final, self.test, self.run
        numbers: dict[str, float | None] = {
            "train_top1": final and final.train_top1,
            "clean_train_loss": final and final.train_loss,
            "test_top1": test and test.top1,
            "test_loss": test and test.loss,
            "images_per_s": run.images_per_s,
            "cpu_s": run.cpu_s,
            "wall_s": run.wall_s,
        }
        return {name: value for name, value in numbers.items() if value is not None}


def finished_cells(study: Study) -> list[FinishedCell]:
    """The cells of the study whose results lie in results/<study>/cells."""
    grids = {name: frozenset(study.grid_cells(name)) for name in study.grids}
    found = []
    for cell in study.cells():
        folder = study.root / "cells" / cell.path
        files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
        if "metrics.json" in files:
            member_of = ";".join(sorted(name for name, cells in grids.items() if cell in cells))
            content = digest(member_of, files)
            found.append(FinishedCell(cell, member_of, folder, files, content))
    return found


def digest(grids: str, files: dict[str, bytes]) -> str:
    parts = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return hashlib.sha256(json.dumps([grids, parts], sort_keys=True).encode()).hexdigest()


def flatten(name: str, value: Any) -> dict[str, str]:
    """{"view": {"shift": 2}} -> {"name.view.shift": "2"}; lists as JSON."""
    if isinstance(value, dict):
        return {k: v for key in value for k, v in flatten(f"{name}.{key}", value[key]).items()}
    return {name: value if isinstance(value, str) else json.dumps(value)}


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
