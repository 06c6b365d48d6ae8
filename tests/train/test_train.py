"""`linvit train` from spec files to results: no work twice, metrics of what was promised."""

import json
import shutil
from pathlib import Path

import pytest

from linvit.cli import main
from linvit.errors import LinvitError
from linvit.files import read_json
from linvit.store import Entry
from linvit.study.config import load_study
from linvit.study.specs import write_specs
from linvit.train.train import forget, make_jobs, result_folder, train
from tiny_study import (
    SOURCE,
    config,
    edit,
    forget_all,
    metrics_of,
    one_cell,
    outcome,
    store_of,
    write_cells,
    write_source,
)


def test_a_finished_cell_is_emitted_again_without_training(tiny, steps):
    specs = write_cells("operator=relu", "init=random,fullcopy")
    train(specs)
    expected = {spec: outcome(spec) for spec in specs}
    assert len(steps) == 6 * len(specs)
    shutil.rmtree("results/tiny/cells")  # as Snakemake does before it makes a rule again
    assert train(specs) == []
    assert len(steps) == 6 * len(specs)
    assert {spec: outcome(spec) for spec in specs} == expected


def test_only_what_is_missing_is_trained(tiny, steps):
    first, second = write_cells("operator=relu,elu", "init=random", "distill=none")
    train([first])
    train([first, second])
    assert len(steps) == 12
    assert metrics_of(second)["status"] == "ok"


@pytest.mark.parametrize("name", ["metrics.json", "run.json", "model.safetensors"])
def test_a_damaged_stored_result_is_trained_again(tiny, steps, name):
    spec = one_cell()
    train([spec])
    expected, path = outcome(spec), store_of(spec) / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert train([spec]) == []
    assert len(steps) == 12
    assert outcome(spec) == expected


def test_a_run_declared_twice_is_trained_once(tiny, steps):
    spec = one_cell()
    twin = Path(str(spec).replace("results/tiny/", "results/other/"))
    twin.parent.mkdir(parents=True)
    shutil.copy(spec, twin)
    assert train([spec, twin, spec]) == []
    assert len(steps) == 6
    assert (result_folder(twin) / "metrics.json").read_bytes() == outcome(spec)[0]


def test_what_a_study_keeps_lies_beside_its_metrics(tiny, steps):
    (spec,) = write_cells("operator=relu", "init=random", "distill=none")
    train([spec])
    write_specs(load_study(config() | {"keep_models": ["all"]}))
    assert train([spec]) == []
    assert len(steps) == 6
    model = result_folder(spec) / "model.safetensors"
    assert model.read_bytes() == outcome(spec)[1]
    forget(spec)
    assert not model.exists()


def test_metrics_are_a_function_of_the_fingerprint(tiny):
    """Where weights lie and what is kept is not in them, so any study can have them."""
    spec = one_cell("relu", "fullcopy")
    train([spec])
    expected = outcome(spec)
    write_source(Path("elsewhere/w.safetensors"))
    edit(spec, "source", weights="elsewhere/w.safetensors")
    content = json.loads(spec.read_text()) | {"keep_model": True}
    spec.write_text(json.dumps(content))
    forget_all()
    train([spec])
    assert outcome(spec) == expected
    assert b"safetensors" not in expected[0]


def test_the_record_says_how_it_ran(tiny):
    specs = write_cells("operator=relu,elu", "init=random", "distill=none")
    train(specs)
    record = read_json(result_folder(specs[0]) / "run.json")
    assert record["pack"] == 2
    assert record["interruptions"] == 0
    assert len(record["history_times"]) == len(metrics_of(specs[0])["history"]) == 2
    assert record["started"] <= record["history_times"][0] <= record["ended"]
    assert record["wall_s"] == record["ended"] - record["started"]
    assert record["images_per_s"] == pytest.approx(60 / record["cpu_s"])


def test_metrics_hold_what_was_promised(tiny):
    spec = one_cell("ttt", "fullcopy", "output")
    train([spec])
    metrics = metrics_of(spec)
    assert metrics["cell"] == read_json(spec)["cell"]
    assert metrics["digests"]["source"] == read_json(SOURCE.with_suffix(".json"))["sha256"]
    assert [point["epoch"] for point in metrics["history"]] == [1, 2]
    assert all(None not in point.values() for point in metrics["history"])
    assert set(metrics["final"]) == {"train_loss", "train_top1", "val_loss", "val_top1"}
    assert metrics["final"]["val_top1"] == metrics["history"][-1]["val_top1"]
    assert 0 <= metrics["final"]["train_top1"] <= 100
    assert metrics["ledger"]["partly"] > 0
    counted = sum(metrics["ledger"][status] for status in ("copied", "partly", "resized", "fresh"))
    assert counted == metrics["parameters"]


def test_forget_removes_one_cell(tiny, steps, capsys):
    gone, kept = write_cells("operator=relu,elu", "init=random", "distill=none")
    train([gone, kept])
    before, folder = outcome(gone), result_folder(gone)
    assert main(["forget", str(gone)]) == 0
    assert f"forgot {folder}" in capsys.readouterr().out
    assert not list(folder.glob("*"))
    assert metrics_of(kept)["status"] == "ok"
    steps.clear()
    train([gone, kept])
    assert len(steps) == 6
    assert outcome(gone) == before


def test_a_running_cell_is_not_forgotten(tiny):
    spec = one_cell()
    train([spec])
    (job,) = make_jobs([spec])
    job.entry.lock()
    with pytest.raises(LinvitError, match="is being trained right now"):
        forget(spec)
    job.entry.unlock()
    assert Entry(job.entry.fingerprint).finished()
    assert metrics_of(spec)["status"] == "ok"
