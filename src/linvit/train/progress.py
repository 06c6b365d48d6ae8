"""What a person can follow: a line per cell now and then, and a small file for `linvit status`."""

import os
import socket
import time

from linvit.progress_line import line
from linvit.say import say
from linvit.train.run import Run

SECONDS_BETWEEN_LINES = 20.0


class Progress:
    """Reports one run; plain lines, so a log file stays readable."""

    def __init__(self, run: Run):
        self.run, self.began, self.first_step = run, time.monotonic(), run.student.step
        self.last_line = 0.0

    def seconds_left(self) -> float:
        student = self.run.student
        done = student.step - self.first_step
        return (time.monotonic() - self.began) / max(done, 1) * (student.total_steps - student.step)

    def report(self) -> None:
        """After a validation point: always the file; a line if the last is old or it is the end."""
        student, last = self.run.student, self.run.student.history[-1]
        rate = student.step * student.recipe["batch_size"] / max(student.train_seconds, 1e-9)
        left = self.seconds_left()
        state = {
            "epoch": last["epoch"],
            "epochs": student.recipe["epochs"],
            "train_loss": last["train_loss"],
            "val_top1": last["val_top1"],
            "images_per_s": rate,
            "seconds_left": left,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "time": time.time(),
        }
        self.run.job.entry.note("progress.json", state)
        now = time.monotonic()
        ended = student.step == student.total_steps
        if ended or now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            say(f"{self.run.job.name}: {line(state)}")
