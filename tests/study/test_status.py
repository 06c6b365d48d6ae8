"""`linvit status` reads the side store, not the files that Snakemake deletes and makes again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from small_study import small_study

from linvit.fingerprint import fingerprint
from linvit.progress_line import line
from linvit.store import Entry
from linvit.study.config import load_study
from linvit.study.state import Costs, State, cell_states, source_states
from linvit.study.status import print_status

DIGEST, WEIGHTS = "d" * 64, "w" * 64
PROGRESS = {"epoch": 3.0, "epochs": 6, "train_loss": 0.4, "val_top1": 78.25}
PROGRESS |= {"images_per_s": 2105.0, "seconds_left": 72.9, "pid": 11, "host": "here", "time": 0.0}


def put(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study whose data and source are there, and nothing trained."""
    monkeypatch.chdir(tmp_path)
    made = load_study(small_study())
    for name in ("fashion-mnist", "mnist-5k"):
        put(Path(f"results/data/{name}/manifest.json"), {"digest": DIGEST})
    put(made.root / "sources" / "fashion.json", {"sha256": WEIGHTS})
    return made


def entry(study, cell) -> Entry:
    spec = study.spec(cell)
    return Entry(fingerprint(spec, DIGEST, spec["source"] and WEIGHTS))


def finish(study, cell, status="ok", cpu_s=10.0) -> None:
    folder = entry(study, cell).folder
    put(folder / "metrics.json", {"status": status})
    put(folder / "run.json", {"cpu_s": cpu_s})
    put(folder / "complete.json", {})


def names(study) -> dict[str, int]:
    found = [state.name for state in cell_states(study).values()]
    return {name: found.count(name) for name in set(found)}


def test_a_study_of_which_nothing_exists_is_all_to_go(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    study = load_study(small_study())
    print_status(study)
    out = capsys.readouterr().out
    assert names(study) == {"to go": len(study.cells())}
    assert "not known until a first cell is done" in out
    assert list(tmp_path.iterdir()) == []  # looking makes nothing


def test_every_state_is_told_apart(study, capsys):
    done, diverged, failed, cut, begun, *_ = study.cells()
    finish(study, done)
    finish(study, diverged, "diverged")
    put(entry(study, failed).failure, {"error": "boom", "lines": ["Traceback", "  boom"]})
    put(entry(study, cut).folder / "checkpoints" / "00000007.json", {})
    running = entry(study, begun)
    running.lock()
    put(running.progress, PROGRESS)
    try:
        states = cell_states(study)
        print_status(study)
    finally:
        running.unlock()
    cells = (done, diverged, failed, cut, begun)
    expected = ["done", "diverged", "failed", "interrupted", "running"]
    assert [states[cell].name for cell in cells] == expected
    out = capsys.readouterr().out
    assert f"running  {begun.path}  {line(PROGRESS)}" in out
    assert f"failed  {failed.path}  boom\n    Traceback\n      boom" in out
    assert f"diverged  {diverged.path}" in out
    assert "go on from their last checkpoint" in out


def test_a_pack_whose_declared_files_are_deleted_is_still_done(study):
    finish(study, study.cells()[0])
    assert not (study.root / "cells").exists()
    assert names(study)["done"] == 1


def test_evaluation_that_holds_the_lock_is_not_training(study):
    finish(study, study.cells()[0])
    held = entry(study, study.cells()[0])
    held.lock()
    assert "running" not in names(study)
    held.unlock()


def test_a_damaged_result_is_not_done(study):
    finish(study, study.cells()[0])
    (entry(study, study.cells()[0]).folder / "metrics.json").write_text("{")
    assert names(study) == {"to go": len(study.cells())}


def test_another_recipe_is_another_state(study):
    finish(study, study.cells()[0])
    changed = load_study(small_study(recipes__fewshot__lr=0.5))
    assert names(changed) == {"to go": len(study.cells())}


def test_sources_count_too(study, capsys):
    spec = study.source_spec("fashion")
    running = Entry(fingerprint(spec, DIGEST, None))
    running.lock()
    print_status(study)
    running.unlock()
    assert set(source_states(study)) == {"fashion"}  # `mine` is a file, trained by nobody
    assert "source fashion: before its first validation" in capsys.readouterr().out


def test_time_left_is_shared_among_the_running_processes(study, capsys):
    cells = study.cells()
    for cell in cells[:-2]:
        finish(study, cell, cpu_s=100.0)
    held = [entry(study, cell) for cell in cells[-2:]]
    for pid, one in enumerate(held):
        one.lock()
        put(one.progress, PROGRESS | {"pid": pid})  # half of the epochs are ahead
    print_status(study)
    for one in held:
        one.unlock()
    assert "about 0:00:50 with 2 processes (100.0 s a cell" in capsys.readouterr().out


def test_costs_prefer_cells_of_the_same_kind(study):
    relu = [c for c in study.cells() if c.operator == "relu" and c.distill == "none"]
    other = next(c for c in study.cells() if c.operator == "elu")
    costs = Costs({relu[0]: 10.0, relu[1]: 20.0, other: 90.0})
    assert costs.of(relu[2]) == 15.0
    assert costs.of(next(c for c in study.cells() if c.operator == "mhla")) == 40.0
    with pytest.raises(ValueError, match="no cell"):
        Costs({}).of(other)


def test_fraction_left():
    assert State("running", PROGRESS).fraction_left == 0.5
    assert State("to go").fraction_left == 1.0
    assert State("done").fraction_left == 0.0


def test_many_failures_show_their_lines_only_at_first(study, capsys):
    for cell in study.cells():
        put(entry(study, cell).failure, {"error": "boom", "lines": ["trace"]})
    print_status(study)
    out = capsys.readouterr().out
    assert out.count("    trace\n") == 5
    assert out.count("\nfailed  ") == len(study.cells())


def test_a_pipe_gets_plain_text_and_no_torch_is_loaded():
    code = (
        "import sys; from linvit.study import status, plan; "
        "print({'torch', 'pandas', 'mlflow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_table_is_plain_outside_a_terminal(study, capsys):
    print_status(study)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "─" not in out
    assert "components" in out
