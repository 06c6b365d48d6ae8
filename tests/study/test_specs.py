import json
from pathlib import Path

import pytest
from small_study import small_study

from linvit import catalog
from linvit.errors import LinvitError
from linvit.fingerprint import fingerprint, science
from linvit.study.cell import Cell
from linvit.study.config import load_study
from linvit.study.schema import Recipe, Size, View
from linvit.study.specs import source_spec_path, spec_path, write_specs

DISTILLED = Cell.from_path("mnist-200/micro/relu/mlpcopy/output-10/fashion/seed0")
COPIED = Cell.from_path("mnist-200/micro/relu/mlpcopy/none/fashion/seed0")
RANDOM = Cell.from_path("mnist-200/micro/relu/random/none/scratch/seed0")
SCRATCH = Cell.from_path("fashion-500/wide/elu/random/none/scratch/seed0")
CELLS = (DISTILLED, COPIED, RANDOM, SCRATCH)

RECIPE = {
    "epochs": 7,
    "batch_size": 25,
    "lr": 2e-3,
    "min_lr": 1e-6,
    "warmup_epochs": 0,
    "weight_decay": 0.1,
    "clip_grad": 0.5,
    "drop_path": 0.1,
    "label_smoothing": 0.1,
    "eval_every": 2,
    "view": {"mean": [0.2], "std": [0.3]},
}
VIEW = {"mean": [0.3], "std": [0.4], "shift": 1, "hflip": True}
SIZE = {
    "img_size": 56,
    "in_chans": 3,
    "patch_size": 14,
    "embed_dim": 32,
    "depth": 2,
    "num_heads": 4,
}


def digest_of(study, cell):
    return fingerprint(study.spec(cell), "data", cell.source and "weights")


def fingerprints(data):
    study = load_study(data)
    return {cell: digest_of(study, cell) for cell in CELLS if cell in study.cells()}


BEFORE = fingerprints(small_study())


def changed_by(**changes):
    after = fingerprints(small_study(**changes))
    assert after.keys() == BEFORE.keys()
    return {cell for cell in CELLS if after[cell] != BEFORE[cell]}


def test_every_cell_has_its_own_fingerprint():
    study = load_study(small_study())
    assert len({digest_of(study, cell) for cell in study.cells()}) == len(study.cells())


def test_the_samples_cover_every_key():
    assert RECIPE.keys() == Recipe.model_fields.keys()
    assert VIEW.keys() == View.model_fields.keys()
    assert SIZE.keys() == Size.model_fields.keys()


@pytest.mark.parametrize("key", RECIPE)
def test_every_recipe_key_counts(key):
    assert changed_by(**{f"recipes__fewshot__{key}": RECIPE[key]}) == set(CELLS)


@pytest.mark.parametrize("key", VIEW)
def test_every_key_of_the_view_counts(key):
    assert changed_by(**{f"recipes__fewshot__view__{key}": VIEW[key]}) == set(CELLS)


@pytest.mark.parametrize("key", SIZE)
def test_every_key_of_a_size_counts(key):
    spec = load_study(small_study()).spec(SCRATCH)
    before = fingerprint(spec, "data", None)
    spec["model"][key] = SIZE[key]
    assert fingerprint(spec, "data", None) != before


@pytest.mark.parametrize("axis", DISTILLED.axes)
def test_every_axis_counts(axis):
    spec = load_study(small_study()).spec(DISTILLED)
    before = fingerprint(spec, "data", "weights")
    spec["cell"] = spec["cell"] | {axis: "another"}
    assert fingerprint(spec, "data", "weights") != before


def test_what_else_counts_for_the_cells_it_touches():
    assert changed_by(device="cuda-bf16") == set(CELLS)
    assert changed_by(distillation__tap="pre") == {DISTILLED}
    assert changed_by(**{"datasets__mnist-200__shots": 10}) == {DISTILLED, COPIED, RANDOM}
    assert changed_by(**{"datasets__mnist-200__from": "digits"}) == {DISTILLED, COPIED, RANDOM}
    assert changed_by(sizes__wide__depth=3) == {SCRATCH}


@pytest.mark.parametrize(
    ("where", "name", "table", "cells"),
    [
        ("OPERATORS", "relu", catalog.Operator(2), {DISTILLED, COPIED, RANDOM}),
        ("INITS", "mlpcopy", catalog.Init(2, frozenset({"mlp"})), {DISTILLED, COPIED}),
        ("DISTILLS", "output", catalog.Distill(2), {DISTILLED}),
    ],
)
def test_numerics_of_a_component_count_for_its_cells(where, name, table, cells, monkeypatch):
    monkeypatch.setitem(getattr(catalog, where), name, table)
    assert changed_by() == cells


@pytest.mark.parametrize("name", ["LOOP_NUMERICS", "VIEW_NUMERICS"])
def test_numerics_of_loop_and_view_count_for_all(name, monkeypatch):
    monkeypatch.setattr(catalog, name, 2)
    assert changed_by() == set(CELLS)


@pytest.mark.parametrize(
    "changes",
    [
        {"study": "renamed"},
        {"keep_models": ["components"]},
        {"seeds": [0, 1, 2]},
        {"grids__components__purpose": "another"},
        {"grids__components__operator": ["relu"]},
        {"data": {}},
        {"datasets__fashion-source__train": "pool"},
        {"recipes__pretrain__epochs": 3},
        {"sources__mine__file": "elsewhere.safetensors"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_names_paths_and_other_cells_do_not_count(changes):
    assert changed_by(**changes) == set()


def test_digests_count():
    spec = load_study(small_study()).spec(DISTILLED)
    prints = {fingerprint(spec, data, weights) for data in "ab" for weights in "ab"}
    assert len(prints) == 4


@pytest.mark.parametrize(
    ("cell", "data", "weights"), [(DISTILLED, "d", None), (RANDOM, "d", "w"), (RANDOM, "", None)]
)
def test_a_fingerprint_needs_exactly_the_digests_of_what_is_used(cell, data, weights):
    spec = load_study(small_study()).spec(cell)
    with pytest.raises(LinvitError, match="the fingerprint needs the digest"):
        fingerprint(spec, data, weights)


def test_fingerprint_survives_the_way_through_a_file():
    spec = load_study(small_study()).spec(DISTILLED)
    assert fingerprint(json.loads(json.dumps(spec)), "d", "w") == fingerprint(spec, "d", "w")
    assert "weights" not in science(spec)["source"]
    assert "weights" in spec["source"]


@pytest.mark.parametrize("key", RECIPE)
def test_a_recipe_of_a_source_is_in_the_spec_of_no_cell(key):
    before = load_study(small_study())
    after = load_study(small_study(**{f"recipes__pretrain__{key}": RECIPE[key]}))
    assert [after.spec(cell) for cell in CELLS] == [before.spec(cell) for cell in CELLS]
    assert after.source_spec("fashion") != before.source_spec("fashion")


class TestFiles:
    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def test_every_cell_and_pretrained_source_has_one(self):
        study = load_study(small_study())
        written = set(write_specs(study))
        assert written == {
            *(spec_path(study, cell) for cell in study.cells()),
            source_spec_path(study, "fashion"),
        }
        path = Path("results/small/specs") / f"{DISTILLED.path}.json"
        assert json.loads(path.read_text()) == study.spec(DISTILLED)
        assert {p for p in Path("results").rglob("*") if p.is_file()} == written

    def test_unchanged_files_are_left_alone(self):
        study = load_study(small_study())
        times = {path: path.stat().st_mtime_ns for path in write_specs(study)}
        assert write_specs(load_study(small_study())) == []
        assert times == {path: path.stat().st_mtime_ns for path in times}

    def test_an_added_seed_writes_exactly_the_new_cells(self):
        write_specs(load_study(small_study()))
        study = load_study(small_study(seeds=[0, 1, 2]))
        new = {spec_path(study, cell) for cell in study.cells() if cell.seed == 2}
        assert set(write_specs(study)) == new
        assert new

    def test_a_changed_recipe_writes_exactly_its_cells(self):
        write_specs(load_study(small_study()))
        study = load_study(small_study(recipes__pretrain__lr=0.01))
        assert write_specs(study) == [source_spec_path(study, "fashion")]

    def test_specs_of_cells_that_left_stay(self):
        before = write_specs(load_study(small_study()))
        write_specs(load_study(small_study(seeds=[0])))
        assert all(path.exists() for path in before)

    def test_a_torn_file_is_written_again(self):
        study = load_study(small_study())
        path = write_specs(study)[0]
        whole = path.read_bytes()
        path.write_bytes(whole[:10])
        assert write_specs(study) == [path]
        assert path.read_bytes() == whole
