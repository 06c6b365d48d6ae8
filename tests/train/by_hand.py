"""The parts that training a cell is made of, for tests that drive them step by step."""

from pathlib import Path
from typing import NamedTuple

import torch

from linvit.data.store import DATA_FOLDER, open_dataset
from linvit.distill import Teacher
from linvit.train.source import load_source, make_teacher
from linvit.train.stream import Stream
from linvit.train.student import Student
from linvit.train.train import read_spec


class Parts(NamedTuple):
    student: Student
    stream: Stream
    teacher: Teacher | None

    def step(self) -> torch.Tensor:
        """One update; the step's losses: total, cross-entropy and, distilled, two distances."""
        images, labels = self.stream.batch(self.student.step)
        target = self.teacher.outputs(images) if self.teacher else None
        self.student.train_step(images, labels, target)
        return self.student.losses[-1]


def parts(spec_path: Path) -> Parts:
    spec = read_spec(spec_path)
    device = torch.device("cpu")
    stream = Stream(spec, open_dataset(spec["dataset"]["from"], DATA_FOLDER), device)
    source = load_source(Path(spec["source"]["weights"])) if spec["source"] else None
    student = Student(spec, stream, source and source.state)
    teacher = make_teacher(source, spec["distill"]["tap"], device) if spec["distill"] else None
    return Parts(student, stream, teacher)
