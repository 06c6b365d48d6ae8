"""Packs: cells that share data stream and teacher train in one process, step by step in turn.

Every draw is a function of (seed, purpose, step), so a packed cell is bit-identical to the same
cell alone; the pack only saves imports, decoding, augmentation and teacher forwards.
"""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterable

from linvit.distill import Teacher
from linvit.errors import Interrupted
from linvit.say import say
from linvit.store import Lost, disk_errors
from linvit.train.device import memory_errors
from linvit.train.interrupt import StopRequest
from linvit.train.progress import Progress
from linvit.train.run import Run
from linvit.train.stream import Stream
from linvit.train.student import Diverged

CHECKPOINT_SECONDS = 60.0


class Pack:
    """Trains `runs` to their ends.

    teacher: for the runs that distil. failed: names of the runs that could not go on.
    """

    def __init__(self, runs: Iterable[Run], stream: Stream, teacher: Teacher | None):
        self.runs, self.stream, self.teacher = list(runs), stream, teacher
        self.progress = {id(run): Progress(run) for run in self.runs}
        self.failed: list[str] = []
        self.checkpointed = time.monotonic()

    def train(self, stop: StopRequest, checkpoint_seconds: float = CHECKPOINT_SECONDS) -> None:
        """Raises Interrupted, after a checkpoint of every run, when a signal asked to stop."""
        stop.patient = True
        while self.runs:
            self.advance(min(run.student.step for run in self.runs))
            if stop.name and self.runs:
                self.checkpoint()
                raise Interrupted(stop.name)
            if time.monotonic() - self.checkpointed >= checkpoint_seconds:
                self.checkpoint()

    def advance(self, step: int) -> None:
        """One batch for every run that stands at `step`; a run resumed further on waits."""
        due = [run for run in self.runs if run.student.step == step]
        images, labels = self.stream.batch(step)
        target = None
        if any(run.student.tap for run in due):
            target = self.teacher.outputs(images)
        for run in due:
            self.guarded(run, lambda run=run: self.one(run, images, labels, target))

    def one(self, run: Run, images, labels, target) -> None:
        student = run.student
        student.train_step(images, labels, target)
        if not student.at_validation_point():
            return
        try:
            run.validate()
        except Diverged as diverged:
            say(f"{run.job.name}: diverged at step {diverged.step}")
            self.end(run, diverged)
            return
        self.progress[id(run)].report()
        if student.step == student.total_steps:
            self.end(run)

    def end(self, run: Run, diverged: Diverged | None = None) -> None:
        with disk_errors(run.job.entry.folder):
            run.finish(diverged)
        run.job.entry.unlock()
        self.runs.remove(run)

    def checkpoint(self) -> None:
        for run in list(self.runs):
            self.guarded(run, run.checkpoint)
        self.checkpointed = time.monotonic()

    def guarded(self, run: Run, action: Callable[[], None]) -> None:
        """A run that fails leaves the pack; its mates go on untouched."""
        try:
            with memory_errors(), disk_errors(run.job.entry.folder):
                action()
        except MemoryError:
            raise
        except Exception as error:
            self.fail(run, error)

    def fail(self, run: Run, error: Exception) -> None:
        self.runs.remove(run)
        self.failed.append(run.job.name)
        record_failure(run.job.entry, run.job.name, error)
        run.job.entry.unlock()


def record_failure(entry, name: str, error: Exception) -> None:
    """Say it in the log, and leave the last lines for `linvit status`."""
    lines = traceback.format_exception(error)
    say(f"{name}: failed: {error}\n{''.join(lines)}")
    with contextlib.suppress(OSError, Lost):  # what failed may well be the disk
        entry.note("failed.json", {"error": str(error), "lines": "".join(lines).splitlines()[-8:]})
