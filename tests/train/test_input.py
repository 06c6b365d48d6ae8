"""Specs, data and sources that are missing, damaged or of another kind; sources that are made."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from linvit.errors import LinvitError
from linvit.files import read_json
from linvit.study.config import load_study
from linvit.study.specs import source_spec_path, write_specs
from linvit.train.source import load_source, make_teacher
from linvit.train.student import Student
from linvit.train.train import pretrain, train
from tiny_study import (
    SOURCE,
    config,
    edit,
    one_cell,
    write_cells,
    write_source,
)


def test_a_missing_spec(tiny):
    with pytest.raises(LinvitError, match="is missing"):
        train([Path("results/tiny/specs/absent.json")])


@pytest.mark.parametrize("content", ["[]", "{}", '{"cell": 1}', "nonsense"])
def test_a_file_that_is_no_spec(tiny, content):
    path = Path("results/tiny/specs/x.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    with pytest.raises(LinvitError, match=r"specs/x\.json"):
        train([path])


def test_a_spec_outside_of_specs(tiny):
    shutil.copy(one_cell(), "spec.json")
    with pytest.raises(LinvitError, match=r"spec\.json is not below a folder specs/"):
        train([Path("spec.json")])


def test_a_spec_of_another_version_is_not_trained_under_its_name(tiny):
    spec = edit(one_cell(), "numerics", operator=99)
    with pytest.raises(LinvitError, match="was written by another version of linvit"):
        train([spec])


def test_missing_data(tiny):
    shutil.rmtree("results/data")
    with pytest.raises(LinvitError, match=r"results/data/digits/manifest\.json is missing"):
        train([one_cell()])


def test_missing_source(tiny):
    SOURCE.unlink()
    with pytest.raises(LinvitError, match=f"source weights {SOURCE} are missing"):
        train([one_cell("relu", "fullcopy")])


def test_a_source_that_its_description_does_not_know(tiny):
    described = read_json(SOURCE.with_suffix(".json"))
    write_source(SOURCE, {"head.weight": torch.zeros(2, 2)})
    SOURCE.with_suffix(".json").write_text(json.dumps(described))
    with pytest.raises(LinvitError, match="its description says"):
        load_source(SOURCE)


def test_a_damaged_source(tiny):
    SOURCE.write_bytes(b"\x08")
    with pytest.raises(LinvitError, match="cannot be read"):
        load_source(SOURCE)


def test_a_source_with_nan(tiny):
    state = load_source(SOURCE).state
    state["blocks.0.norm1.bias"][3] = torch.nan
    with pytest.raises(LinvitError, match=r"'blocks.0.norm1.bias' holds NaN or Inf"):
        load_source(write_source(SOURCE, state))


def test_a_teacher_with_a_missing_key(tiny):
    state = load_source(SOURCE).state
    del state["norm.weight"]
    source = load_source(write_source(SOURCE, state))
    with pytest.raises(LinvitError, match=r"own\.safetensors does not fit .*norm\.weight") as error:
        make_teacher(source, "post", torch.device("cpu"))
    assert "\n" not in str(error.value)


def test_pretrain_makes_a_source_that_can_be_copied_and_teach(tiny, steps):
    data = config()
    data["sources"]["own"] = {
        "pretrain": {"dataset": "digits-30", "size": "nano", "recipe": "short", "seed": 0}
    }
    study = load_study(data)
    write_specs(study)
    spec, out = source_spec_path(study, "own"), study.weights("own")
    pretrain(spec, out)
    first = out.read_bytes(), out.with_suffix(".json").read_bytes()
    assert len(steps) == 6
    out.unlink()
    out.with_suffix(".json").unlink()
    pretrain(spec, out)
    assert (out.read_bytes(), out.with_suffix(".json").read_bytes()) == first
    assert len(steps) == 6
    assert load_source(out).model["num_heads"] == 2
    assert train(write_cells("operator=relu", "init=fullcopy", "distill=output")) == []


def test_pretraining_that_fails_or_diverges_makes_no_source(tiny, monkeypatch):
    spec, out = one_cell("softmax"), Path("results/tiny/sources/new.safetensors")
    edit(spec, "recipe", lr=1e30)
    with pytest.raises(LinvitError, match="diverged; lower the lr"):
        pretrain(spec, out)

    def fail(*args):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Student, "train_step", fail)
    with pytest.raises(LinvitError, match="failed; the log above says why"):
        pretrain(one_cell("softmax"), out)
    assert not out.exists()
