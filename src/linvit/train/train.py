"""Train the cells of spec files: re-emit what is finished, train the rest in one pack."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from linvit.data.store import DATA_FOLDER, open_dataset
from linvit.errors import LinvitError
from linvit.files import atomic_write_bytes, atomic_write_json, read_json, sha256_file
from linvit.fingerprint import fingerprint
from linvit.store import STORE, Entry, disk_errors
from linvit.train.device import torch_device
from linvit.train.pack import CHECKPOINT_SECONDS, Pack, record_failure
from linvit.train.run import Job, Run
from linvit.train.source import SHAPE_KEYS, Source, check_shape, load_source, make_teacher
from linvit.train.stream import Stream, same_stream
from linvit.train.student import Student

SPECS, CELLS = "specs", "cells"


def result_folder(spec_path: Path) -> Path:
    """results/S/specs/CELL.json -> results/S/cells/CELL."""
    parts = list(Path(spec_path).with_suffix("").parts)
    parts[len(parts) - 1 - parts[::-1].index(SPECS)] = CELLS
    return Path(*parts)


def make_jobs(spec_paths: Sequence[Path]) -> list[Job]:
    """Read the specs and name what each of them must produce."""
    jobs, sources = [], {}
    for path in spec_paths:
        spec = read_json(path)
        source = spec["source"] and sources.setdefault(
            spec["source"]["weights"], load_source_digest(spec["source"]["weights"])
        )
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
    groups = defaultdict(list)
    for job in make_jobs(spec_paths):
        groups[same_stream(job.spec), job.digests["source"] or ""].append(job)
    failed = []
    for jobs in groups.values():
        failed += train_group(jobs, checkpoint_seconds)
    return failed


def train_group(jobs: list[Job], checkpoint_seconds: float) -> list[str]:
    todo = [job for job in jobs if not emit_finished(job)]
    # One order for all processes: two that want the same cells cannot wait for each other.
    for job in sorted(todo, key=lambda job: job.entry.fingerprint):
        with disk_errors(job.entry.folder):
            acquire(job)
    try:
        todo = [job for job in todo if not emit_finished(job)]
        return train_jobs(todo, checkpoint_seconds) if todo else []
    finally:
        for job in jobs:
            job.entry.unlock()


def emit_finished(job: Job) -> bool:
    """Copy a finished result to its declared place; False when there is none."""
    with disk_errors(job.folder):
        if not job.entry.finished():
            return False
        job.entry.emit(job.folder, job.files)
        return True


def acquire(job: Job) -> None:
    if not job.entry.lock(wait=False):
        print(f"{job.name}: another process is training it; waiting for it to end", flush=True)
        job.entry.lock()


def train_jobs(jobs: list[Job], checkpoint_seconds: float) -> list[str]:
    """Train locked jobs that share one stream."""
    device = torch_device(jobs[0].spec["device"])
    dataset = open_dataset(jobs[0].spec["dataset"]["from"], DATA_FOLDER)
    stream = Stream(jobs[0].spec, dataset, device)
    weights = {job.spec["source"]["weights"] for job in jobs if job.spec["source"]}
    sources = {path: load_source(Path(path)) for path in weights}
    runs, failed = make_runs(jobs, stream, sources)
    teacher = teacher_of(runs, sources, device)
    pack = Pack(runs, stream, teacher)
    pack.train(checkpoint_seconds)
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
    failed = train([spec_path])
    job = make_jobs([spec_path])[0]
    metrics = read_json(job.entry.folder / "metrics.json")
    if failed or metrics["status"] != "ok":
        raise LinvitError(f"pre-training {spec_path} did not succeed; change its recipe")
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
    for name in (*job.files, "test.json"):
        (job.folder / name).unlink(missing_ok=True)
    return job.folder
