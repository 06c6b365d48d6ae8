"""Stopped anywhere and started again, a cell ends with the very bits of an undisturbed run."""

import itertools
import signal
from pathlib import Path

import pytest
import torch

from linvit.catalog import OPERATORS
from linvit.errors import Interrupted
from linvit.files import read_json
from linvit.train import checkpoint
from linvit.train.checkpoint import KEPT, load_checkpoint, save_checkpoint
from linvit.train.pack import Pack
from linvit.train.student import Student
from linvit.train.train import train
from tiny_study import forget_all, metrics_of, one_cell, outcome, store_of, write_cells


def interrupt_every(monkeypatch, steps: int) -> None:
    """A real signal arrives in every `steps`-th step of the pack."""
    real, count = Pack.advance, itertools.count(1)

    def advance(self, step):
        if next(count) % steps == 0:
            signal.raise_signal(signal.SIGUSR1)
        real(self, step)

    monkeypatch.setattr(Pack, "advance", advance)


def train_on(specs: list[Path], seconds: float = 1000.0) -> int:
    """Start again until all is done; returns how often it was interrupted."""
    for interruptions in itertools.count():
        try:
            assert train(specs, seconds) == []
            return interruptions
        except Interrupted:
            continue


@pytest.mark.parametrize(("steps", "drop_path"), [(1, 0.3), (2, 0.0), (4, 0.3)])
def test_stopped_after_every_few_steps(tiny, monkeypatch, steps, drop_path):
    specs = write_cells("init=fullcopy", "distill=output", drop_path=drop_path, batch_size=8)
    assert len(specs) == len(OPERATORS)
    train(specs)
    expected = {spec: outcome(spec) for spec in specs}
    forget_all()
    interrupt_every(monkeypatch, steps)
    assert train_on(specs) == {1: 5, 2: 2, 4: 1}[steps]
    assert {spec: outcome(spec) for spec in specs} == expected
    for spec in specs:
        assert read_json(store_of(spec) / "run.json")["interruptions"] == {1: 5, 2: 2, 4: 1}[steps]


def test_a_stop_between_validation_points_keeps_their_means(tiny, monkeypatch):
    """The losses of the running interval are part of a checkpoint."""
    spec = one_cell("relu", "random", "output", eval_every=2)
    train([spec])
    expected = outcome(spec)
    forget_all()
    interrupt_every(monkeypatch, 5)
    assert train_on([spec]) == 1
    assert outcome(spec) == expected
    assert len(metrics_of(spec)["history"]) == 1


def test_runs_that_stand_at_different_steps_go_on_together(tiny, monkeypatch):
    ahead, behind = write_cells("operator=relu,elu", "init=mlpcopy", "distill=output")
    train([ahead, behind])
    expected = outcome(ahead), outcome(behind)
    forget_all()
    with monkeypatch.context() as patch:
        interrupt_every(patch, 4)
        with pytest.raises(Interrupted):
            train([ahead])
    assert train([behind, ahead]) == []
    assert (outcome(ahead), outcome(behind)) == expected


def test_a_signal_in_the_last_step_is_too_late(tiny, monkeypatch):
    spec = one_cell()
    interrupt_every(monkeypatch, 6)
    assert train([spec]) == []
    assert metrics_of(spec)["status"] == "ok"


def checkpoints() -> list[Path]:
    (folder,) = Path("results/.store").glob("*/checkpoints")
    return sorted(folder.iterdir())


@pytest.fixture
def stopped(tiny, monkeypatch):
    """(spec, expected outcome) of a cell that was stopped with checkpoints of steps 4 and 5."""
    spec = one_cell("relu", "mlpcopy", "output", drop_path=0.2)
    train([spec])
    expected = outcome(spec)
    forget_all()
    with monkeypatch.context() as patch:
        interrupt_every(patch, 5)
        with pytest.raises(Interrupted):
            train([spec], checkpoint_seconds=0)
    return spec, expected


def test_the_last_two_checkpoints_are_kept(stopped):
    names = [path.name for path in checkpoints()]
    kept = [f"0000000{step}.{kind}" for step in (4, 5) for kind in ("json", "safetensors")]
    assert names == kept
    assert KEPT == 2


def flip(path: Path, where: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * where)] ^= 1
    path.write_bytes(data)


DAMAGES = {
    "flipped weight": lambda: flip(checkpoints()[3], 0.9),
    "flipped header": lambda: flip(checkpoints()[3], 0.01),
    "flipped state": lambda: flip(checkpoints()[2], 0.7),
    "cut weights": lambda: checkpoints()[3].write_bytes(checkpoints()[3].read_bytes()[:-100]),
    "cut state": lambda: checkpoints()[2].write_bytes(checkpoints()[2].read_bytes()[:-9]),
    "empty weights": lambda: checkpoints()[3].write_bytes(b""),
    "empty state": lambda: checkpoints()[2].write_bytes(b""),
    "list": lambda: checkpoints()[2].write_bytes(b"[]"),
    "no weights": lambda: checkpoints()[3].unlink(),
    "no state": lambda: checkpoints()[2].unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(stopped, damage, capsys):
    spec, expected = stopped
    DAMAGES[damage]()
    assert train([spec]) == []
    out = capsys.readouterr().out
    assert "resumed at step 4" in out
    assert ("00000005.json is damaged and not used" in out) == (damage != "no state")
    assert outcome(spec) == expected


def test_without_any_good_checkpoint_it_starts_anew(stopped, capsys):
    spec, expected = stopped
    for path in checkpoints():
        flip(path, 0.5)
    assert train([spec]) == []
    assert "resumed" not in capsys.readouterr().out
    assert outcome(spec) == expected


def test_a_checkpoint_counts_once_its_json_is_there(tmp_path, monkeypatch):
    tensors = {"a": torch.arange(3.0)}
    save_checkpoint(tmp_path, 1, tensors, {"n": 1})

    def fail(path, value):
        raise OSError

    monkeypatch.setattr(checkpoint, "atomic_write_json", fail)
    with pytest.raises(OSError):  # noqa: PT011
        save_checkpoint(tmp_path, 2, {"a": torch.zeros(3)}, {"n": 2})
    step, loaded, state = load_checkpoint(tmp_path)
    assert (step, state) == (1, {"n": 1})
    assert torch.equal(loaded["a"], tensors["a"])


def test_no_checkpoint_is_none(tmp_path):
    assert load_checkpoint(tmp_path / "absent") is None


def test_a_resumed_run_trains_only_what_is_left(stopped, monkeypatch):
    steps, real = [], Student.train_step

    def count(self, *args):
        steps.append(self.step)
        real(self, *args)

    monkeypatch.setattr(Student, "train_step", count)
    train([stopped[0]])
    assert steps == [5]
