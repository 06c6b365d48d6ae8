"""Read the test split, once per result: last epoch, raw weights."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from linvit.data.store import DATA_FOLDER, open_dataset
from linvit.data.views import View
from linvit.errors import LinvitError
from linvit.files import read_json
from linvit.store import disk_errors
from linvit.train.device import memory_errors, torch_device
from linvit.train.run import SCHEMA, Job
from linvit.train.student import build_model, evaluate
from linvit.train.train import make_jobs


def evaluate_cells(spec_paths: Sequence[Path]) -> None:
    """Write test.json of every cell; a cell evaluated before is re-emitted."""
    for job in make_jobs(spec_paths):
        if not job.entry.finished():
            raise LinvitError(f"{job.name} has no finished result; train it first")
        with memory_errors(), disk_errors(job.entry.folder):
            if not already(job):
                evaluate_one(job)
            job.entry.emit(job.folder, ("test.json",))


def already(job: Job) -> bool:
    try:
        stored = read_json(job.entry.folder / "test.json")
    except LinvitError:
        return False
    return stored.get("fingerprint") == job.entry.fingerprint


def evaluate_one(job: Job) -> None:
    """Top-1 (%) and mean cross-entropy on the test split; nulls where the cell diverged."""
    status = read_json(job.entry.folder / "metrics.json")["status"]
    loss = top1 = None
    dataset = open_dataset(job.spec["dataset"]["from"], DATA_FOLDER)
    ids = dataset.split("test")
    if status == "ok":
        device = torch_device(job.spec["device"])
        model = build_model(job.spec)
        model.load_state_dict(safetensors.torch.load_file(job.entry.model))
        view = View(img_size=job.spec["model"]["img_size"], **job.spec["recipe"]["view"])
        images = torch.from_numpy(np.ascontiguousarray(dataset.images[ids])).to(device)
        labels = torch.from_numpy(dataset.labels[ids]).to(device)
        loss, top1 = evaluate(model.to(device), view, images, labels, job.spec["device"])
    job.entry.lock()
    result = {
        "schema": SCHEMA,
        "cell": job.spec["cell"],
        "fingerprint": job.entry.fingerprint,
        "status": status,
        "n": len(ids),
        "top1": top1,
        "loss": loss,
    }
    job.entry.note("test.json", result)
    job.entry.unlock()
