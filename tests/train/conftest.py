"""What tests of training share."""

import pytest


@pytest.fixture
def steps(monkeypatch):
    """The steps that are trained from here on."""
    from linvit.train.student import Student

    taken, real = [], Student.train_step

    def count(self, *args):
        taken.append(self.step)
        real(self, *args)

    monkeypatch.setattr(Student, "train_step", count)
    return taken
