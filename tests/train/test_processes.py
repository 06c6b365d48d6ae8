"""Kills, signals and rivals: what happens to a cell when its process is not left in peace."""

import shutil
import signal
import time
from pathlib import Path

import pytest
from processes import Linvit, RealLinvit, wait_for

from linvit.counter import key
from linvit.errors import REQUEUE
from linvit.files import read_json
from linvit.store import Entry
from linvit.train.interrupt import ASKING
from linvit.train.train import train
from tiny_study import edit, forget_all, metrics_of, one_cell, outcome, store_of, write_cells

LONG = {"epochs": 20, "eval_every": 5, "drop_path": 0.2}  # 60 steps, about a second
ENDLESS = {"epochs": 100_000, "eval_every": 10}


def checkpoints() -> list[Path]:
    return sorted(Path("results/.store").glob("*/checkpoints/*.json"))


def newest_step() -> int:
    return max((int(path.stem) for path in checkpoints()), default=0)


def undisturbed(specs: list[Path]) -> dict[Path, tuple[bytes, bytes]]:
    train(specs)
    expected = {spec: outcome(spec) for spec in specs}
    forget_all()
    return expected


@pytest.mark.slow
def test_a_real_process_killed_at_several_moments(tiny):
    specs = write_cells("operator=ttt,relu", "init=mlpcopy", "distill=output", **LONG)
    expected = undisturbed(specs)
    for step in (1, 40):
        process = RealLinvit("train", *specs, "--checkpoint-seconds", 0)
        wait_for(lambda step=step: newest_step() >= step)
        process.send(signal.SIGKILL)
        assert process.code() == -signal.SIGKILL
    process = RealLinvit("train", *specs, "--checkpoint-seconds", 0)
    assert process.code() == 0, process.text()
    assert process.text().count("resumed at step") == len(specs)
    assert {spec: outcome(spec) for spec in specs} == expected
    assert read_json(store_of(specs[0]) / "run.json")["interruptions"] >= 1


@pytest.mark.slow
def test_killed_at_many_moments(tiny):
    spec = one_cell("mhla", "fullcopy", "output", **LONG | {"epochs": 10})
    expected = undisturbed([spec])
    kills = 0
    for attempt in range(40):
        target, process = newest_step() + 1, Linvit("train", spec, "--checkpoint-seconds", 0)
        wait_for(lambda to=target, it=process: newest_step() >= to or it.process.exitcode == 0)
        time.sleep(key("kill", attempt) % 40 / 1000)
        process.send(signal.SIGKILL)
        if process.code() == 0:
            break
        kills += 1
    assert kills >= 3
    assert outcome(spec) == expected[spec]


@pytest.mark.slow
def test_killed_in_every_atomic_write(tiny):
    """Checkpoints of five steps, progress, the result, and the declared files: 18 writes."""
    spec = one_cell("inline", "mlpcopy", "output", drop_path=0.2)
    expected = undisturbed([spec])
    for number in range(1, 100):
        killed = Linvit("train", spec, "--checkpoint-seconds", 0, die_at=number)
        if killed.code() == 0:
            break
        assert killed.code() == -signal.SIGKILL
        assert train([spec]) == []
        assert outcome(spec) == expected[spec], number
        forget_all()
    assert number == 19


@pytest.mark.parametrize("number", ASKING)
def test_a_signal_ends_with_a_checkpoint_and_the_code_to_requeue(tiny, number):
    spec = one_cell("relu", **ENDLESS)
    process = Linvit("train", spec, "--checkpoint-seconds", 1000)
    wait_for(lambda: list(Path("results/.store").glob("*/progress.json")))
    assert checkpoints() == []
    process.send(number)
    assert process.code() == REQUEUE == 75
    assert len(checkpoints()) == 1
    assert f"linvit: stopped by {signal.Signals(number).name}" in process.text()
    assert "Traceback" not in process.text()
    assert not Path("results/tiny/cells").exists()
    again = Linvit("train", spec, "--checkpoint-seconds", 1000)
    wait_for(lambda: f"resumed at step {newest_step()}" in again.text())
    again.send(signal.SIGTERM)
    again.send(number)  # one more while it ends
    assert again.code() == REQUEUE


def test_a_signal_to_a_real_process_during_its_imports(tiny):
    process = RealLinvit("train", one_cell(**ENDLESS))
    wait_for(lambda: process.maps("libtorch_cpu"))
    process.send(signal.SIGTERM)
    assert process.code() == REQUEUE
    assert "Traceback" not in process.text()


def test_a_second_process_waits_and_then_emits(tiny):
    spec = one_cell("relu", "fullcopy", **LONG)
    expected = undisturbed([spec])
    first = Linvit("train", spec)
    wait_for(lambda: list(Path("results/.store").glob("*/lock")))
    second = Linvit("train", spec)
    wait_for(lambda: "another process is training it; waiting" in second.text())
    assert (first.code(), second.code()) == (0, 0)
    assert "epoch 20/20" in first.text()
    assert "epoch" not in second.text()
    assert outcome(spec) == expected[spec]


def test_a_second_process_takes_over_from_a_killed_one(tiny):
    spec = one_cell("relu", "fullcopy", **LONG)
    expected = undisturbed([spec])
    first = Linvit("train", spec, "--checkpoint-seconds", 0)
    wait_for(lambda: newest_step() > 0)
    second = Linvit("train", spec)
    wait_for(lambda: "waiting" in second.text() or second.process.exitcode is not None)
    first.send(signal.SIGKILL)
    assert (first.code(), second.code()) == (-signal.SIGKILL, 0)
    assert "resumed at step" in second.text()
    assert outcome(spec) == expected[spec]


def test_a_waiting_process_ends_at_a_signal(tiny):
    spec = one_cell("relu", **ENDLESS)
    first = Linvit("train", spec)
    wait_for(lambda: list(Path("results/.store").glob("*/progress.json")))
    second = Linvit("train", spec)
    wait_for(lambda: "waiting" in second.text())
    second.send(signal.SIGTERM)
    assert second.code() == REQUEUE
    assert first.process.exitcode is None
    first.send(signal.SIGKILL)
    first.code()


def test_processes_with_common_cells_in_any_order_all_end(tiny):
    specs = write_cells("operator=relu,elu,inline", "init=random", "distill=none", **LONG)
    started = [Linvit("train", *order) for order in (specs, specs[::-1], specs[1:] + specs[:1])]
    assert [process.code() for process in started] == [0, 0, 0]
    trained = sum(process.text().count("epoch 20/20") for process in started)
    assert trained == len(specs)


def test_an_entry_removed_under_a_process_stops_it(tiny):
    spec = one_cell("relu", **ENDLESS)
    process = Linvit("train", spec, "--checkpoint-seconds", 0)
    wait_for(checkpoints)
    (folder,) = Path("results/.store").iterdir()
    removed = Path("results/removed")
    folder.rename(removed)  # at once; rmtree would race with its writes
    shutil.rmtree(removed, ignore_errors=True)
    assert process.code() == 1
    assert "no longer belongs to this process; it stops writing" in process.text()
    assert not list(Path("results/tiny").glob("cells/**/*.json"))
    assert not any((store / "complete.json").exists() for store in Path("results/.store").iterdir())


def test_status_sees_a_running_process(tiny):
    spec = one_cell("relu", **ENDLESS)
    process = Linvit("train", spec)
    wait_for(lambda: list(Path("results/.store").glob("*/progress.json")))
    (folder,) = Path("results/.store").iterdir()
    assert Entry(folder.name).running()
    process.send(signal.SIGKILL)
    process.code()
    assert not Entry(folder.name).running()


def test_forgetting_a_running_cell_is_refused(tiny):
    spec = one_cell("relu", **ENDLESS)
    process = Linvit("train", spec)
    wait_for(lambda: list(Path("results/.store").glob("*/progress.json")))
    forget = Linvit("forget", spec)
    assert forget.code() == 2
    assert "is being trained right now" in forget.text()
    process.send(signal.SIGKILL)
    process.code()


def test_a_reader_that_has_gone_does_not_end_a_training(tiny):
    """`linvit train ... | tee log`, and tee dies: the cell still ends, with the right code."""
    spec = edit(one_cell("relu"), "recipe", epochs=4)
    expected = undisturbed([spec])
    process = Linvit("train", spec, reader_leaves=True)
    assert process.code() == 0, process.text()
    assert outcome(spec) == expected[spec]
    assert metrics_of(spec)["status"] == "ok"
