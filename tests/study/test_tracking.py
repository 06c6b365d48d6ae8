"""The MLflow view: real imports into SQLite, from files as training leaves them."""

import json
import logging
from pathlib import Path

import pytest
from tracked import START, cell_runs, client, folder, ids, runs, write_run

from linvit.study.filters import axis_text
from linvit.tracking import import_study


@pytest.fixture
def study(tracked_study):
    return tracked_study


def test_each_finished_cell_is_a_run_with_its_numbers(study):
    assert import_study(study) == len(study.cells()) == 8
    cell = study.cells()[0]
    metrics = json.loads((folder(study, cell) / "metrics.json").read_text())
    test = json.loads((folder(study, cell) / "test.json").read_text())
    run = cell_runs(study)[cell.path]
    assert run.data.tags["cell_id"] == metrics["fingerprint"]
    for axis in cell.axes:
        assert run.data.tags[axis] == run.data.params[axis] == axis_text(cell, axis)
    assert run.data.tags["grids"] == "few"
    assert run.data.tags["data_digest"] == "data-digits"
    assert run.data.tags["commit"] == "abc+"
    assert run.data.params["recipe.view.mean"] == "[0.286]"
    assert run.data.metrics["test_top1"] == pytest.approx(test["top1"])
    assert run.data.metrics["train_top1"] == 99.0
    assert run.data.metrics["images_per_s"] == 1234.5
    assert (run.info.status, run.info.start_time) == ("FINISHED", START * 1000)
    assert run.info.end_time == (START + 90) * 1000
    assert run.inputs.dataset_inputs[0].dataset.name == "digits"


def test_curves_have_their_steps_and_their_real_times(study):
    import_study(study)
    cell = study.cells()[0]
    history = json.loads((folder(study, cell) / "metrics.json").read_text())["history"]
    points = client(study).get_metric_history(ids(study)[cell.path], "val_top1")
    assert [point.step for point in points] == [entry["step"] for entry in history]
    assert [point.value for point in points] == pytest.approx([e["val_top1"] for e in history])
    assert [point.timestamp for point in points] == [(START + 10 * k) * 1000 for k in (1, 2, 3, 4)]


def test_files_are_artifacts_below_the_study(study):
    import_study(study)
    run = cell_runs(study)[study.cells()[0].path]
    artifacts = study.root / "mlartifacts" / run.info.run_id / "artifacts"
    original = folder(study, study.cells()[0])
    for name in ("metrics.json", "run.json", "test.json"):
        assert (artifacts / name).read_bytes() == (original / name).read_bytes()
    listed = client(study).list_artifacts(run.info.run_id)
    assert sorted(file.path for file in listed) == ["metrics.json", "run.json", "test.json"]
    assert not Path("mlruns").exists()


def test_a_diverged_cell_is_a_failed_run(study):
    import_study(study)
    (run,) = runs(study, "tags.status = 'diverged'")
    assert run.data.tags["path"] == study.cells()[-1].path
    assert run.info.status == "FAILED"
    assert "test_top1" not in run.data.metrics


def test_runs_are_children_of_the_study(study):
    import_study(study)
    (parent,) = runs(study, "tags.kind = 'study'")
    children = runs(study, f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    assert len(children) == 8
    assert parent.data.params["device"] == "cpu-fp32"
    assert (parent.data.tags["cells"], parent.data.tags["finished_cells"]) == ("8", "8")
    assert (parent.info.status, parent.info.start_time) == ("FINISHED", START * 1000)


def test_filters_find_runs_by_axes(study):
    import_study(study)
    found = runs(study, "tags.init = 'mlpcopy' and tags.distill = 'none' and tags.seed = '1'")
    assert [run.data.tags["path"] for run in found] == [
        "digits/micro/relu/mlpcopy/none/fashion/seed1"
    ]


def test_long_histories_are_imported_whole(study):
    cell = study.cells()[0]
    path = folder(study, cell) / "metrics.json"
    metrics = json.loads(path.read_text())
    entry = metrics["history"][0]
    metrics["history"] = [entry | {"epoch": float(e), "step": e} for e in range(1, 301)]
    path.write_text(json.dumps(metrics))
    write_run(study, cell, START)
    import_study(study)
    assert len(client(study).get_metric_history(ids(study)[cell.path], "val_loss")) == 300


def test_an_import_is_silent(study, caplog, capfd, recwarn):
    with caplog.at_level(logging.INFO):
        import_study(study)
    assert caplog.messages == []
    assert capfd.readouterr() == ("", "")
    assert [str(warning.message) for warning in recwarn.list] == []
