"""Train the cells of spec files: re-emit what is finished, train the rest in one pack."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from linvit.catalog import numerics
from linvit.data.store import DATA_FOLDER, open_dataset
from linvit.errors import LinvitError
from linvit.files import atomic_write_bytes, atomic_write_json, read_json, sha256_file
from linvit.fingerprint import fingerprint
from linvit.say import say
from linvit.store import RESULT_FILES, STORE, Entry, disk_errors
from linvit.train.device import memory_errors, out_of_memory, torch_device
from linvit.train.interrupt import StopRequest
from linvit.train.pack import CHECKPOINT_SECONDS, Pack, record_failure
from linvit.train.run import Job, Run
from linvit.train.source import SHAPE_KEYS, Source, check_shape, load_source, make_teacher
from linvit.train.stream import Stream, same_stream
from linvit.train.student import Student

SPECS, CELLS = "specs", "cells"
SPEC_KEYS = {"cell", "device", "model", "dataset", "recipe", "distill", "source", "numerics"}


def result_folder(spec_path: Path) -> Path:
    """results/S/specs/CELL.json -> results/S/cells/CELL."""
    parts = list(Path(spec_path).with_suffix("").parts)
    if SPECS not in parts:
        raise LinvitError(f"{spec_path} is not below a folder {SPECS}/, beside which results go")
    parts[len(parts) - 1 - parts[::-1].index(SPECS)] = CELLS
    return Path(*parts)


def read_spec(path: Path) -> dict:
    """Raises LinvitError for other files, and for specs that another version of linvit wrote."""
    spec = read_json(path)
    if not isinstance(spec, dict) or not spec.keys() >= SPEC_KEYS:
        raise LinvitError(f"{path} is no spec of a cell; name a cell and its spec is written")
    axes = spec["cell"]
    now = numerics(axes["operator"], axes["init"], axes["distill"])
    if spec["numerics"] != now:
        raise LinvitError(
            f"{path} was written by another version of linvit: its numerics are "
            f"{spec['numerics']}, here {now}; run `snakemake`, or name the cell, to write it again"
        )
    return spec


def make_jobs(spec_paths: Sequence[Path]) -> list[Job]:
    """Read the specs and name what each of them must produce."""
    jobs, digest_of = [], cache(load_source_digest)
    for path in spec_paths:
        spec = read_spec(path)
        source = spec["source"] and digest_of(spec["source"]["weights"])
        data = open_dataset(spec["dataset"]["from"], DATA_FOLDER, verify=False).digest
        entry = Entry(fingerprint(spec, data, source), STORE)
        jobs.append(Job(spec, {"data": data, "source": source}, entry, result_folder(path)))
    return jobs


def load_source_digest(weights: str) -> str:
    if not Path(weights).exists():
        raise LinvitError(f"source weights {weights} are missing; run the rule that makes them")
    return sha256_file(Path(weights))


def train(spec_paths: Sequence[Path], checkpoint_seconds: float = CHECKPOINT_SECONDS) -> list[str]:
    """Bring the results of the specs into being; returns the names of the cells that failed.

    Cells finished before are re-emitted. Of the others, those that share stream and source train
    together, one writer each: where another process trains a cell, this one waits for it.

    Raises:
        LinvitError: bad input. Interrupted: a signal; all is checkpointed.
    """
    groups, twins, failed = defaultdict(dict), [], []
    for job in make_jobs(spec_paths):
        group = groups[same_stream(job.spec), job.digests["source"] or ""]
        if group.setdefault(job.entry.fingerprint, job) is not job:
            twins.append(job)  # the same run, declared at another place
    with StopRequest() as stop:
        for group in groups.values():
            stop.at_once()
            failed += train_group(list(group.values()), stop, checkpoint_seconds)
    for twin in twins:
        emit_finished(twin)
    return failed


def train_group(jobs: list[Job], stop: StopRequest, checkpoint_seconds: float) -> list[str]:
    todo = [job for job in jobs if not emit_finished(job)]
    try:
        # One order for all processes: two that want the same cells cannot wait for each other.
        for job in sorted(todo, key=lambda job: job.entry.fingerprint):
            acquire(job)
        todo = [job for job in todo if not emit_finished(job)]
        return train_jobs(todo, stop, checkpoint_seconds) if todo else []
    finally:
        for job in jobs:
            job.entry.unlock()


def emit_finished(job: Job) -> bool:
    """Copy a finished result to its declared place; False when there is none."""
    with disk_errors(job.folder):
        if not job.entry.finished():
            return False
        job.entry.emit(job.folder, job.files)
    job.entry.unlock()
    return True


def acquire(job: Job) -> None:
    with disk_errors(job.entry.folder):
        if not job.entry.lock(wait=False):
            say(f"{job.name}: another process is training it; waiting for it to end")
            job.entry.lock()


def train_jobs(jobs: list[Job], stop: StopRequest, checkpoint_seconds: float) -> list[str]:
    """Train locked jobs that share one stream."""
    with memory_errors():
        device = torch_device(jobs[0].spec["device"])
        dataset = open_dataset(jobs[0].spec["dataset"]["from"], DATA_FOLDER)
        stream = Stream(jobs[0].spec, dataset, device)
        weights = {job.spec["source"]["weights"] for job in jobs if job.spec["source"]}
        sources = {path: load_source(Path(path)) for path in weights}
        runs, failed = make_runs(jobs, stream, sources)
        pack = Pack(runs, stream, teacher_of(runs, sources, device))
        pack.train(stop, checkpoint_seconds)
    return failed + pack.failed


def make_runs(
    jobs: list[Job], stream: Stream, sources: dict[str, Source]
) -> tuple[list[Run], list[str]]:
    runs, failed = [], []
    for job in jobs:
        try:
            source = job.spec["source"] and sources[job.spec["source"]["weights"]]
            if source:
                check_shape(source, job.spec)
            student = Student(job.spec, stream, source and source.state)
            runs.append(Run(job, student, len(jobs)))
        except Exception as error:
            if out_of_memory(error):
                raise
            failed.append(job.name)
            record_failure(job.entry, job.name, error)
    return runs, failed


def teacher_of(runs: list[Run], sources: dict[str, Source], device):
    """The one frozen teacher of the runs that distil; None when none does."""
    for run in runs:
        if run.job.spec["distill"]:
            weights, tap = run.job.spec["source"]["weights"], run.job.spec["distill"]["tap"]
            return make_teacher(sources[weights], tap, device)
    return None


def pretrain(spec_path: Path, out: Path) -> None:
    """Train a source as a cell of its own; `out` (.safetensors) gets weights, .json their story."""
    if train([spec_path]):
        raise LinvitError(f"pre-training {spec_path} failed; the log above says why")
    job = make_jobs([spec_path])[0]
    metrics = read_json(job.entry.folder / "metrics.json")
    if metrics["status"] != "ok":
        raise LinvitError(f"pre-training {spec_path} diverged; lower the lr of its recipe")
    described = {
        "model": {name: job.spec["model"][name] for name in SHAPE_KEYS},
        "sha256": sha256_file(job.entry.model),
        "provenance": metrics,
    }
    with disk_errors(out.parent):
        atomic_write_json(out.with_suffix(".json"), described)
        atomic_write_bytes(out, job.entry.model.read_bytes())


def forget(spec_path: Path) -> Path:
    """Remove the stored and the declared result of one cell, so that it trains again."""
    job = make_jobs([spec_path])[0]
    job.entry.forget()
    for name in (*RESULT_FILES, job.entry.model.name, "test.json"):
        (job.folder / name).unlink(missing_ok=True)
    return job.folder
