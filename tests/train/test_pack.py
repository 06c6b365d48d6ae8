"""Packs: a packed cell is, bit for bit, the cell alone, whatever happens to its mates."""

import contextlib
import shutil
from pathlib import Path

import pytest
import torch

from linvit.catalog import OPERATORS
from linvit.distill import Teacher
from linvit.files import read_json
from linvit.store import Entry
from linvit.train.student import Student
from linvit.train.train import train
from tiny_study import (
    draw_source,
    edit,
    forget_all,
    metrics_of,
    one_cell,
    outcome,
    store_of,
    write_cells,
    write_source,
)


def solo(spec: Path) -> tuple[bytes, bytes]:
    forget_all()
    assert train([spec]) == []
    return outcome(spec)


@pytest.fixture(scope="module")
def packed(prepared, tmp_path_factory):
    """spec path -> outcome of all 48 cells, trained in two packs: with and without a source."""
    home = tmp_path_factory.mktemp("packed") / "work"
    shutil.copytree(prepared, home)
    with contextlib.chdir(home):
        specs = write_cells()
        assert train(specs) == []
        return {spec: outcome(spec) for spec in specs}


@pytest.mark.parametrize("operator", OPERATORS)
def test_packed_is_solo(packed, tiny, operator):
    """Each of {random, mlpcopy, fullcopy} x {none, output}."""
    specs = write_cells(f"operator={operator}")
    assert len(specs) == 6
    for spec in specs:
        assert solo(spec) == packed[spec], spec


def test_the_metrics_are_those_of_the_cell(packed, tiny):
    assert len({weights for _, weights in packed.values()}) == len(packed) == 48
    assert len({metrics for metrics, _ in packed.values()}) == 48


def test_packed_is_solo_with_drop_path_and_pre(tiny):
    choice = ["operator=ttt,mhla,softmax", "init=mlpcopy", "distill=output"]
    specs = write_cells(*choice, drop_path=0.3, tap="pre", label_smoothing=0.1)
    assert train(specs) == []
    together = {spec: outcome(spec) for spec in specs}
    for spec in specs:
        assert solo(spec) == together[spec], spec


def test_a_pack_runs_its_teacher_once_per_batch(tiny, monkeypatch):
    calls, real = [], Teacher.outputs
    monkeypatch.setattr(Teacher, "outputs", lambda self, x: calls.append(1) or real(self, x))
    train(write_cells("operator=elu,relu", "init=mlpcopy,fullcopy", "distill=output"))
    assert len(calls) == 6


def test_nan_is_a_result_and_the_mates_do_not_notice(tiny):
    wild, calm = write_cells("operator=relu,elu", "init=mlpcopy", "distill=output")
    edit(wild, "recipe", lr=1e30)
    expected = solo(calm)
    forget_all()
    assert train([wild, calm]) == []
    assert outcome(calm) == expected
    metrics = metrics_of(wild)
    assert (metrics["status"], metrics["diverged_step"]) == ("diverged", 1)
    assert (metrics["final"], metrics["history"]) == (None, [])
    assert not (store_of(wild) / "model.safetensors").exists()
    before = (store_of(wild) / "run.json").read_bytes()
    assert train([wild]) == []  # a result like any other: re-emitted
    assert (store_of(wild) / "run.json").read_bytes() == before


def test_a_last_update_that_ruins_the_weights_is_a_divergence(tiny):
    """Every loss of the interval is finite; the validation split shows it."""
    spec = edit(one_cell(batch_size=30), "recipe", lr=1e30)
    assert train([spec]) == []
    metrics = metrics_of(spec)
    assert (metrics["status"], metrics["diverged_step"]) == ("diverged", 1)


def test_a_divergence_late_in_a_run_keeps_its_history(tiny, monkeypatch):
    real = Student.train_step

    def ruin(self, images, labels, target):
        if self.step == 4:
            self.model.head.bias.data.fill_(torch.nan)
        real(self, images, labels, target)

    monkeypatch.setattr(Student, "train_step", ruin)
    spec = one_cell()
    assert train([spec]) == []
    metrics = metrics_of(spec)
    assert (metrics["status"], metrics["diverged_step"]) == ("diverged", 4)
    assert [point["step"] for point in metrics["history"]] == [3]


def test_a_failing_student_leaves_its_mates(tiny, monkeypatch, capsys):
    bad, good = write_cells("operator=relu,elu", "init=fullcopy", "distill=none")
    expected = solo(good)
    forget_all()
    real = Student.train_step

    def fail(self, *args):
        if self.step == 2 and self.spec["cell"]["operator"] == bad.parts[5]:
            raise RuntimeError("a bug of this operator")
        real(self, *args)

    monkeypatch.setattr(Student, "train_step", fail)
    (failed,) = train([bad, good])
    assert failed == str(bad.parent / bad.stem).replace("/specs/", "/cells/")
    assert outcome(good) == expected
    assert not Path(failed, "metrics.json").exists()
    assert f"{failed}: failed: a bug of this operator" in capsys.readouterr().out
    (note,) = Path("results/.store").glob("*/failed.json")
    assert read_json(note)["error"] == "a bug of this operator"
    monkeypatch.setattr(Student, "train_step", real)
    assert train([bad]) == []
    assert not note.exists()


def test_a_source_of_another_shape_fails_its_student_alone(tiny):
    bad, good = write_cells("operator=relu,elu", "init=fullcopy", "distill=none")
    write_source(Path("results/tiny/sources/bad.safetensors"), draw_source(7), num_heads=4)
    edit(bad, "source", weights="results/tiny/sources/bad.safetensors")
    assert len(train([bad, good])) == 1
    assert metrics_of(good)["status"] == "ok"
    (note,) = Path("results/.store").glob("*/failed.json")
    assert "has num_heads 4, the cell's size has 2" in read_json(note)["error"]


@pytest.mark.parametrize(
    ("block", "change"),
    [
        ("cell", {"seed": 1}),
        ("recipe", {"batch_size": 15}),
        ("recipe", {"epochs": 3}),
        ("recipe", {"view": {"mean": [0.3], "std": [0.4]}}),
        ("dataset", {"shots": 4}),
        ("distill", {"tap": "pre"}),
        ("source", {"weights": "results/tiny/sources/other.safetensors"}),
    ],
)
def test_cells_of_other_streams_or_teachers_train_after_each_other(tiny, block, change):
    write_source(Path("results/tiny/sources/other.safetensors"), draw_source(7))
    one, other = write_cells("operator=relu,elu", "init=random", "distill=output")
    edit(other, block, **change)
    expected = solo(one), solo(other)
    forget_all()
    assert train([one, other]) == []
    assert (outcome(one), outcome(other)) == expected
    assert read_json(store_of(one) / "run.json")["pack"] == 1


def entries() -> list[Entry]:
    return [Entry(folder.name) for folder in Path("results/.store").iterdir()]


def test_an_entry_removed_under_a_run_stops_it_and_no_other(tiny, monkeypatch):
    lost, kept = one_cell("relu"), one_cell("elu")
    expected = solo(kept)
    forget_all()
    real, folders = Student.train_step, []

    def remove(self, *args):
        real(self, *args)
        if self.step == 2 and self.spec["cell"]["operator"] == "relu":
            folders.extend(e.folder for e in entries() if e.folder != store_of_kept)
            shutil.rmtree(folders[0])

    train([kept])
    store_of_kept = store_of(kept)
    forget_all()
    monkeypatch.setattr(Student, "train_step", remove)
    (failed,) = train([lost, kept])
    assert "relu" in failed
    assert not Path(failed).exists()
    assert not folders[0].exists()
    assert outcome(kept) == expected


def test_checkpoints_of_a_removed_entry_are_not_written(tiny, monkeypatch):
    real = Student.train_step

    def remove(self, *args):
        real(self, *args)
        if self.step == 2:
            shutil.rmtree(next(Path("results/.store").iterdir()))

    monkeypatch.setattr(Student, "train_step", remove)
    assert len(train([one_cell()], checkpoint_seconds=0)) == 1
    assert list(Path("results/.store").iterdir()) == []
    assert not Path("results/tiny/cells").exists()
