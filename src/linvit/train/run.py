"""A cell as the pack loop sees it: its store entry, its student, its files."""

import os
import platform
import socket
import subprocess
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy
import safetensors.torch
import timm
import torch
from torch import Tensor

from linvit import __version__
from linvit.files import atomic_write_bytes
from linvit.fingerprint import science
from linvit.say import say
from linvit.store import RESULT_FILES, Entry
from linvit.train.checkpoint import load_checkpoint, save_checkpoint
from linvit.train.student import Diverged, Student

SCHEMA = 1


@dataclass
class Job:
    """What is asked for: a spec, its digests, its store entry and the folder for its result."""

    spec: dict
    digests: dict
    entry: Entry
    folder: Path

    @property
    def name(self) -> str:
        return str(self.folder)

    @property
    def files(self) -> tuple[str, ...]:
        """Result files to emit; the weights only where the study keeps them."""
        kept = (self.entry.model.name,) if self.spec.get("keep_model") else ()
        return (*(name for name in kept if self.entry.model.exists()), *RESULT_FILES)


class Run:
    """A job in training."""

    def __init__(self, job: Job, student: Student, pack: int):
        self.job, self.student, self.pack = job, student, pack
        self.checkpoints = job.entry.folder / "checkpoints"
        self.times: list[float] = []
        self.final: dict[str, float] | None = None
        self.started, self.interruptions = time.time(), 0
        loaded = load_checkpoint(self.checkpoints)
        if loaded is not None:
            self._resume(*loaded)

    def _resume(self, step: int, tensors: dict[str, Tensor], state: dict) -> None:
        self.student.restore(step, tensors, state)
        self.started, self.times = state["started"], state["times"]
        self.student.train_seconds = state["train_seconds"]
        self.interruptions = state["interruptions"] + 1
        say(f"{self.job.name}: resumed at step {step}")

    def checkpoint(self) -> None:
        self.job.entry.check_owned()
        state = {
            "history": self.student.history,
            "started": self.started,
            "times": self.times,
            "train_seconds": self.student.train_seconds,
            "interruptions": self.interruptions,
        }
        save_checkpoint(self.checkpoints, self.student.step, self.student.tensors(), state)

    def validate(self) -> None:
        """A validation point, at the end with the training images too; may raise Diverged."""
        self.student.validate()
        self.times.append(time.time())
        if self.student.step == self.student.total_steps:
            self.final = self._final()

    def finish(self, diverged: Diverged | None = None) -> None:
        """Write the result into the store and copy it to its declared place."""
        entry, student = self.job.entry, self.student
        entry.note("metrics.json", self._metrics(diverged))
        entry.note("run.json", self._record())
        if diverged is None:
            weights = {k: v.cpu().contiguous() for k, v in student.model.state_dict().items()}
            atomic_write_bytes(entry.model, safetensors.torch.save(weights))
        entry.finish()
        entry.emit(self.job.folder, self.job.files)

    def _metrics(self, diverged: Diverged | None) -> dict:
        student, spec = self.student, self.job.spec
        return {
            "schema": SCHEMA,
            "cell": spec["cell"],
            "fingerprint": self.job.entry.fingerprint,
            "status": "ok" if diverged is None else "diverged",
            "diverged_step": None if diverged is None else diverged.step,
            "spec": science(spec),
            "digests": self.job.digests,
            "parameters": sum(parameter.numel() for parameter in student.parameters),
            "history": student.history,
            "final": self.final,
            "ledger": student.ledger.summary(),
        }

    def _final(self) -> dict:
        stream, last = self.student.stream, self.student.history[-1]
        loss, top1 = self.student.evaluate(stream.images, stream.labels)
        return {
            "train_loss": loss,
            "train_top1": top1,
            "val_loss": last["val_loss"],
            "val_top1": last["val_top1"],
        }

    def _record(self) -> dict:
        student, ended = self.student, time.time()
        images = student.step * student.recipe["batch_size"]
        return {
            "host": socket.gethostname(),
            "commit": commit(),
            "versions": versions(),
            "device": device_name(student.stream.device),
            "started": self.started,
            "ended": ended,
            "wall_s": ended - self.started,
            "cpu_s": student.train_seconds,
            "images_per_s": images / max(student.train_seconds, 1e-9),
            "pack": self.pack,
            "interruptions": self.interruptions,
            "history_times": self.times,
        }


@lru_cache
def commit() -> str | None:
    """The git commit of this package's source, with a + when the tree differs from it."""
    here = Path(__file__).parent
    try:
        text = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty=+"],
            cwd=here, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return text.stdout.strip()


@lru_cache
def versions() -> dict[str, str]:
    return {
        "linvit": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "timm": timm.__version__,
        "numpy": numpy.__version__,
    }


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {os.cpu_count()} cores, 1 thread"
