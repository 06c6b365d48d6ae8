import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_study import TEXT, small_study

from linvit.catalog import INITS, OPERATORS
from linvit.errors import LinvitError
from linvit.study.cell import Cell
from linvit.study.config import load_study
from linvit.study.filters import select
from linvit.study.fit import window_side

ROOT = Path(__file__).parents[2]
SHIPPED = [ROOT / "config.yaml", *sorted((ROOT / "workflow/studies").glob("*.yaml"))]


def some(values):
    return st.lists(st.sampled_from(list(values)), min_size=1, unique=True)


grids = st.fixed_dictionaries(
    {
        "purpose": st.just("a test"),
        "operator": some(OPERATORS),
        "size": st.just(["micro"]),
        "dataset": some(["mnist-200", "fashion-source"]),
        "init": some(INITS),
        "distill": st.sampled_from([["none", "output"], ["output", "none"], ["output"]]),
        "source": some(["fashion", "mine"]),
        "lambda": some([1, 2.5, 10, 50.0]),
        "seeds": some(range(5)),
    }
)


def study_of(*all_grids):
    named = {f"g{place}": grid for place, grid in enumerate(all_grids)}
    data = small_study(grids=named, keep_models=[])
    data["datasets"]["fashion-source"]["recipe"] = "pretrain"
    return load_study(data)


@settings(max_examples=40, deadline=None)
@given(grids)
def test_a_grid_spans_each_canonical_cell_once(grid):
    cells = study_of(grid).cells()
    assert len({cell.path for cell in cells}) == len(cells)
    assert list(cells) == sorted(cells)
    assert all(Cell.from_axes(cell.axes) == cell == Cell.from_path(cell.path) for cell in cells)
    assert {(c.operator, c.init, c.dataset, c.seed) for c in cells} == {
        (o, i, d, s)
        for o in grid["operator"]
        for i in grid["init"]
        for d in grid["dataset"]
        for s in grid["seeds"]
    }


@settings(max_examples=20, deadline=None)
@given(grids, st.randoms())
def test_the_order_of_the_yaml_means_nothing(grid, random):
    shuffled = {
        axis: random.sample(values, len(values)) if isinstance(values, list) else values
        for axis, values in random.sample(list(grid.items()), len(grid))
    }
    assert study_of(grid).cells() == study_of(shuffled).cells()


@settings(max_examples=20, deadline=None)
@given(grids, grids)
def test_shared_cells_exist_once(one, two):
    assume(set(study_of(one).cells()) != set(study_of(two).cells()))
    study = study_of(one, two)
    assert set(study.cells()) == set(study.grid_cells("g0")) | set(study.grid_cells("g1"))
    assert len(set(study.cells())) == len(study.cells())


def test_a_grid_overrides_seeds_and_lambda():
    data = small_study()
    data["grids"]["components"] |= {"seeds": [7], "lambda": [1, 2]}
    cells = load_study(data).grid_cells("components")
    assert {cell.seed for cell in cells} == {7}
    assert {cell.lam for cell in cells} == {None, 1.0, 2.0}


def test_spec_is_complete():
    study = load_study(small_study())
    cell = Cell.from_path("mnist-200/micro/relu/mlpcopy/output-10/fashion/seed1")
    assert study.spec(cell) == {
        "cell": cell.axes,
        "device": "cpu-fp32",
        "model": {
            "img_size": 28,
            "in_chans": 1,
            "patch_size": 7,
            "embed_dim": 64,
            "depth": 4,
            "num_heads": 2,
            "num_classes": 10,
        },
        "dataset": {"name": "mnist-200", "from": "mnist-5k", "train": "fewshot", "shots": 20},
        "recipe": {
            "epochs": 6,
            "batch_size": 50,
            "lr": 0.001,
            "min_lr": 1e-5,
            "warmup_epochs": 1,
            "weight_decay": 0.05,
            "clip_grad": 1.0,
            "drop_path": 0.0,
            "label_smoothing": 0.0,
            "eval_every": 3,
            "view": {"mean": [0.286], "std": [0.353], "shift": 2, "hflip": False},
        },
        "distill": {"kind": "output", "tap": "post", "lambda": 10.0},
        "source": {"name": "fashion", "weights": "results/small/sources/fashion.safetensors"},
        "numerics": {"operator": 1, "init": 1, "distill": 1, "view": 1, "loop": 1},
    }
    assert study.chosen_lambda(cell) == 10.0


def test_spec_of_a_source_is_a_softmax_run_whose_weights_are_kept():
    study = load_study(small_study())
    spec = study.source_spec("fashion")
    assert spec["cell"]["operator"] == "softmax"
    assert spec["cell"]["init"] == "random"
    assert spec["source"] is None
    assert spec["distill"] is None
    assert spec["keep_model"] is True
    assert spec["recipe"]["view"] == {"mean": [0.286], "std": [0.353], "shift": 0, "hflip": False}
    assert spec["dataset"] == {"name": "fashion-source", "from": "fashion-mnist", "train": "source"}
    with pytest.raises(LinvitError, match=r"'mine' is not pre-trained here.*fashion"):
        study.source_spec("mine")


def test_kept_models_are_those_of_the_named_grids():
    study = load_study(small_study())
    kept = {cell for cell in study.cells() if study.spec(cell).get("keep_model")}
    assert kept == set(study.grid_cells("scratch"))


def test_unknown_grid_names_the_known_ones():
    with pytest.raises(LinvitError, match="did you mean 'components'"):
        load_study(small_study()).grid_cells("component")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_studies_load(path):
    study = load_study(path)
    assert study.cells()
    assert all(study.spec(cell)["recipe"]["view"] for cell in study.cells())


def test_the_laptop_study_has_every_arm_with_five_seeds():
    cells = load_study(ROOT / "config.yaml").grid_cells("components")
    assert {cell.operator for cell in cells} == {"elu", "relu", "inline", "mhla", "ttt"}
    assert len(cells) == 5 * 4 * 2 * 2 * 5


def test_aliases_and_merge_keys_work_as_in_safe_load(tmp_path):
    text = TEXT.replace("  fewshot:\n", "  fewshot: &few\n").replace(
        "distillation:", "  slow: {<<: *few, epochs: 9}\n\ndistillation:"
    )
    path = tmp_path / "study.yaml"
    path.write_text(text)
    study = load_study(path)
    assert study.config.recipes["slow"].epochs == 9
    assert study.config.recipes["slow"].batch_size == 50


@pytest.mark.parametrize(
    ("side", "window"), [(14, 7), (16, 4), (8, 2), (4, 2), (64, 16), (7, None), (2, None)]
)
def test_window_side(side, window):
    assert window_side(side) == window


def test_loading_a_study_needs_neither_torch_nor_numpy():
    code = (
        "import sys; from linvit.study.config import load_study; import linvit.study.packs, "
        "linvit.study.specs, linvit.study.filters; load_study('config.yaml'); "
        "heavy = {'torch', 'timm', 'pandas', 'numpy', 'scipy', 'mlflow'} & set(sys.modules); "
        "assert not heavy, heavy; assert len(sys.modules) < 500, len(sys.modules)"
    )
    environment = {"PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


class TestFilters:
    cells = load_study(yaml.safe_load(TEXT)).cells()

    def test_values_of_an_axis_add_up_and_axes_narrow(self):
        chosen = select(self.cells, {"operator": ["relu", "mhla"], "init": ["mlpcopy"]})
        assert {(c.operator, c.init) for c in chosen} == {("relu", "mlpcopy"), ("mhla", "mlpcopy")}

    def test_numbers_and_absent_values_are_written_as_in_paths(self):
        assert {c.lam for c in select(self.cells, {"lambda": ["10"]})} == {10.0}
        assert {c.lam for c in select(self.cells, {"lambda": ["none"]})} == {None}
        assert {c.source for c in select(self.cells, {"source": ["scratch"]})} == {None}
        assert {c.seed for c in select(self.cells, {"seed": ["1"]})} == {1}

    def test_no_filter_chooses_all(self):
        assert select(self.cells, {}) == list(self.cells)

    @pytest.mark.parametrize(
        ("filters", "says"),
        [
            ({"operater": ["relu"]}, "'operater' is not an axis of a cell; did you mean"),
            ({"operator": ["rellu"]}, "did you mean 'relu'? allowed: elu, mhla, relu, softmax"),
            ({"seed": ["9"]}, "'9' is not a value of seed in these cells; allowed: 0, 1"),
            ({"seed": []}, "needs at least one value"),
        ],
    )
    def test_unknown_axes_and_values_name_the_known(self, filters, says):
        with pytest.raises(LinvitError) as caught:
            select(self.cells, filters)
        assert says in str(caught.value)
