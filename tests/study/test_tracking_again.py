"""Imports after the first one: nothing new, changed and vanished results, kills, foreign stores."""

import os
import shutil
import subprocess
import sys

import pytest
import synthetic
from tracked import START, cell_runs, changed, client, folder, ids, runs, write_run

from linvit.errors import LinvitError
from linvit.tracking import import_study


@pytest.fixture
def study(tracked_study):
    return tracked_study


def test_a_second_import_adds_nothing(study):
    import_study(study)
    before = {r.info.run_id: r.to_dictionary() for r in runs(study, view=3)}
    assert import_study(study) == 0
    assert {r.info.run_id: r.to_dictionary() for r in runs(study, view=3)} == before


def test_a_deleted_store_is_rebuilt(study):
    from linvit.tracking.database import quick_connections

    import_study(study)
    with quick_connections():  # so that nothing of this test goes on reading the deleted file
        first = {path: run.data.metrics for path, run in cell_runs(study).items()}
    (study.root / "mlflow.db").unlink()
    assert import_study(study) == 8
    assert {path: run.data.metrics for path, run in cell_runs(study).items()} == first


def test_an_evaluated_cell_replaces_its_run(study):
    cell = study.cells()[0]
    test = folder(study, cell) / "test.json"
    late = test.read_bytes()
    test.unlink()
    import_study(study)
    assert "test_top1" not in cell_runs(study)[cell.path].data.metrics
    before = ids(study)
    test.write_bytes(late)
    assert import_study(study) == 1
    assert changed(before, ids(study)) == {cell.path}
    assert "test_top1" in cell_runs(study)[cell.path].data.metrics


def test_the_evaluation_of_older_weights_is_not_shown(study):
    cell = study.cells()[0]
    test = folder(study, cell) / "test.json"
    test.write_text(test.read_text().replace('"fingerprint": "', '"fingerprint": "old'))
    import_study(study)
    run = cell_runs(study)[cell.path]
    assert run.data.tags["evaluated"] == "false"
    assert "test_top1" not in run.data.metrics


def test_a_changed_result_replaces_its_run(study):
    import_study(study)
    before, cell = ids(study), study.cells()[0]
    synthetic.write_cell(study, study.root, cell, 12.5)
    assert import_study(study) == 1
    assert changed(before, ids(study)) == {cell.path}
    assert cell_runs(study)[cell.path].data.metrics["test_top1"] == 12.5


def test_a_cell_that_is_forgotten_loses_its_run(study):
    import_study(study)
    cell = study.cells()[0]
    shutil.rmtree(folder(study, cell))
    assert import_study(study) == 0
    assert cell.path not in ids(study)
    (parent,) = runs(study, "tags.kind = 'study'")
    assert (parent.info.status, parent.data.tags["finished_cells"]) == ("RUNNING", "7")


def test_a_run_that_was_cut_off_is_imported_again(study, monkeypatch):
    from linvit.tracking import runs as module

    def killed(cell, uri):
        if cell.cell == study.cells()[3]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "copy_artifacts", killed)
        with pytest.raises(KeyboardInterrupt):
            import_study(study)
    half = cell_runs(study)[study.cells()[3].path]
    assert (len(ids(study)), half.info.status) == (4, "RUNNING")
    assert import_study(study) == 5
    assert ids(study).keys() == {cell.path for cell in study.cells()}
    assert half.info.run_id not in ids(study).values()
    assert len(runs(study, "tags.kind = 'study'")) == 1


def test_runs_of_others_are_left_alone(study):
    import_study(study)
    opened = client(study)
    mine = opened.create_run(opened.get_experiment_by_name(study.name).experiment_id)
    assert import_study(study) == 0
    assert mine.info.run_id in {run.info.run_id for run in runs(study)}


def test_a_deleted_experiment_comes_back(study):
    import_study(study)
    opened = client(study)
    opened.delete_experiment(opened.get_experiment_by_name(study.name).experiment_id)
    import_study(study)
    assert len(ids(study)) == 8


def test_a_study_without_results_makes_an_empty_experiment(study):
    shutil.rmtree(study.root)
    assert import_study(study) == 0
    assert import_study(study) == 0
    assert len(runs(study)) == 1


def test_the_users_mlflow_settings_are_neither_used_nor_lost(study, monkeypatch):
    """mlflow_15713: nesting breaks with MLFLOW_RUN_ID set; a tracking server must not be asked."""
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "77")
    assert import_study(study) == 8
    assert os.environ["MLFLOW_RUN_ID"] == "0" * 32
    assert os.environ["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:9"
    assert "MLFLOW_DISABLE_TELEMETRY" not in os.environ


def test_a_store_of_another_folder_is_refused(study, monkeypatch):
    import_study(study)
    moved = study.root.parent.parent / "elsewhere"
    shutil.copytree("results", moved / "results")
    monkeypatch.chdir(moved)
    with pytest.raises(LinvitError, match=r"made in another folder .* delete it and run again"):
        import_study(study)


@pytest.mark.parametrize("content", [b"not a database, and long enough" * 40, b""])
def test_a_damaged_store_is_named_with_its_cure(study, content):
    study.root.joinpath("mlflow.db").write_bytes(content)
    with pytest.raises(LinvitError, match=r"mlflow\.db cannot be used .* delete it and run again"):
        import_study(study)


def test_a_damaged_result_is_named(study):
    cell = study.cells()[0]
    (folder(study, cell) / "metrics.json").write_text("{")
    with pytest.raises(LinvitError, match=f"{cell.path}/metrics.json is damaged"):
        import_study(study)
    write_run(study, study.cells()[1], START)
    synthetic.write_cell(study, study.root, cell, 50.0)
    run = folder(study, cell) / "run.json"
    run.write_text(run.read_text().replace('"history_times": [', '"history_times": [1.0, '))
    with pytest.raises(LinvitError, match="history_times has 5 entries, the history 4"):
        import_study(study)


def test_a_parallel_import_waits(study):
    """mlflow_4123: parallel writers break a SQLite store."""
    code = (
        "import fcntl, sys, time; file = open('mlflow.lock', 'w'); "
        "fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); time.sleep(3); "
        "open('given-up', 'w').close()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=study.root, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        import_study(study)
        assert (study.root / "given-up").exists()
