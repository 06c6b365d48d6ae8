"""Where each run of a study stands, read from the side store: it knows what runs right now, and
Snakemake, which deletes declared files before it makes them again, never touches it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from linvit.errors import LinvitError
from linvit.files import read_json
from linvit.fingerprint import fingerprint
from linvit.store import Entry
from linvit.study.cell import Cell
from linvit.study.config import RESULTS, Study

STATES = ("done", "running", "failed", "diverged", "interrupted", "to go")


@dataclass(frozen=True)
class State:
    """name: one of STATES. The rest is what its files hold; {} where there is no such file."""

    name: str
    progress: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)  # run.json, when done or diverged
    failure: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fraction_left(self) -> float:
        """How much of the training is ahead, 0..1."""
        if self.name in ("done", "diverged"):
            return 0.0
        return 1 - self.progress.get("epoch", 0) / self.progress.get("epochs", 1)


def cell_states(study: Study) -> dict[Cell, State]:
    return {cell: state_of(study.spec(cell), study) for cell in study.cells()}


def source_states(study: Study) -> dict[str, State]:
    """Of the sources that the study pre-trains."""
    names = [name for name, source in study.sources.items() if source.pretrain]
    return {name: state_of(study.source_spec(name), study) for name in names}


def state_of(spec: Mapping[str, Any], study: Study) -> State:
    data = peek(RESULTS / "data" / spec["dataset"]["from"] / "manifest.json").get("digest")
    source = None
    if spec["source"] is not None:
        weights = study.weights(spec["source"]["name"])
        source = peek(weights.with_suffix(".json")).get("sha256")
    if data is None or (spec["source"] is not None and source is None):
        return State("to go")  # its inputs are not there yet
    return entry_state(Entry(fingerprint(spec, data, source)))


def entry_state(entry: Entry) -> State:
    """Nothing is hashed: an entry that says it is complete is believed (training checks it)."""
    if (entry.folder / "complete.json").exists():
        status = peek(entry.folder / "metrics.json").get("status")
        if status is not None:
            name = "diverged" if status == "diverged" else "done"
            return State(name, record=peek(entry.folder / "run.json"))
    progress = peek(entry.progress)
    if entry.running():
        return State("running", progress)
    if entry.failure.exists():
        return State("failed", progress, failure=peek(entry.failure))
    if progress or any((entry.folder / "checkpoints").glob("*.json")):
        return State("interrupted", progress)
    return State("to go")


def peek(path: Path) -> dict[str, Any]:
    """The content of a JSON file; {} when it is missing, damaged or just being replaced."""
    try:
        content = read_json(path)
    except (LinvitError, OSError):
        return {}
    return content if isinstance(content, dict) else {}


class Costs:
    """Seconds of training a cell, learnt from cells that are done."""

    def __init__(self, seconds: Mapping[Cell, float]):
        groups = defaultdict(list)
        for cell, value in seconds.items():
            groups[self._group(cell)].append(value)
        self.groups = {group: mean(values) for group, values in groups.items()}
        self.count = len(seconds)
        self.mean = mean(seconds.values()) if seconds else None

    @staticmethod
    def _group(cell: Cell) -> tuple:
        return cell.dataset, cell.size, cell.operator, cell.distill != "none"

    def of(self, cell: Cell) -> float:
        """The mean of its like, or of all where none is done; ValueError when nothing is."""
        if self.mean is None:
            raise ValueError("no cell is done yet")
        return self.groups.get(self._group(cell), self.mean)
