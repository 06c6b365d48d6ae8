"""The test split is read once per result, from the last epoch's raw weights."""

import shutil

import pytest
import safetensors.torch
import torch

from linvit.cli import main
from linvit.data.store import DATA_FOLDER, Dataset, open_dataset
from linvit.data.views import View
from linvit.errors import USAGE
from linvit.files import read_json
from linvit.store import Entry
from linvit.train.evaluate import evaluate_cells
from linvit.train.student import build_model
from linvit.train.train import make_jobs, result_folder, train
from tiny_study import edit, metrics_of, one_cell, store_of, write_cells


@pytest.fixture
def reads(monkeypatch):
    """Splits that are read from here on."""
    seen, real = [], Dataset.split
    monkeypatch.setattr(Dataset, "split", lambda self, name: seen.append(name) or real(self, name))
    return seen


def test_training_never_reads_the_test_split(tiny, reads):
    train([one_cell()])
    assert "val" in reads
    assert "test" not in reads


def test_the_test_split_is_read_once(tiny, reads):
    specs = write_cells("operator=relu", "init=random")
    train(specs)
    evaluate_cells(specs)
    assert reads.count("test") == len(specs)
    written = [(result_folder(spec) / "test.json").read_bytes() for spec in specs]
    for spec in specs:
        (result_folder(spec) / "test.json").unlink()
    evaluate_cells(specs)
    assert reads.count("test") == len(specs)
    assert [(result_folder(spec) / "test.json").read_bytes() for spec in specs] == written


@pytest.mark.parametrize("operator", ["softmax", "mhla", "ttt"])
def test_the_numbers_are_those_of_the_stored_weights(tiny, operator):
    spec = one_cell(operator, "mlpcopy", "output", drop_path=0.3)
    train([spec])
    evaluate_cells([spec])
    result, described = read_json(result_folder(spec) / "test.json"), read_json(spec)
    model = build_model(described).eval()
    model.load_state_dict(safetensors.torch.load_file(store_of(spec) / "model.safetensors"))
    dataset = open_dataset("digits", DATA_FOLDER)
    ids = dataset.split("test")
    view = View(img_size=8, **described["recipe"]["view"])
    with torch.no_grad():
        logits = model(view.eval(torch.from_numpy(dataset.images[ids])))
    labels = torch.from_numpy(dataset.labels[ids])
    right = (logits.argmax(1) == labels).float().mean().item()
    assert result["top1"] == pytest.approx(100 * right)
    assert result["loss"] == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item())
    assert (result["n"], result["status"]) == (797, "ok")
    assert result["fingerprint"] == metrics_of(spec)["fingerprint"]
    assert result["cell"] == described["cell"]


def test_a_diverged_cell_has_no_numbers(tiny):
    spec = edit(one_cell(), "recipe", lr=1e30)
    train([spec])
    evaluate_cells([spec])
    result = read_json(result_folder(spec) / "test.json")
    assert (result["status"], result["top1"], result["loss"]) == ("diverged", None, None)


def test_a_cell_that_is_not_trained_is_refused(tiny, capsys):
    assert main(["evaluate", str(one_cell())]) == USAGE
    assert "has no finished result; train it first" in capsys.readouterr().err


def test_retraining_after_a_loss_needs_a_new_evaluation(tiny, reads):
    """Forgetting forgets the evaluation too; the numbers come back the same."""
    spec = one_cell()
    train([spec])
    evaluate_cells([spec])
    before = (result_folder(spec) / "test.json").read_bytes()
    shutil.rmtree(store_of(spec))
    train([spec])
    evaluate_cells([spec])
    assert reads.count("test") == 2
    assert (result_folder(spec) / "test.json").read_bytes() == before


def test_an_evaluation_of_other_weights_is_not_used(tiny):
    spec = one_cell()
    train([spec])
    (job,) = make_jobs([spec])
    job.entry.lock()
    job.entry.note("test.json", {"fingerprint": "of another"})
    job.entry.unlock()
    evaluate_cells([spec])
    assert read_json(result_folder(spec) / "test.json")["fingerprint"] == job.entry.fingerprint
    assert not Entry(job.entry.fingerprint).running()
