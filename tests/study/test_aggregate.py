import json
from pathlib import Path

import pytest
from synthetic import make_study, more_grids, write_results

from linvit.errors import LinvitError
from linvit.study.aggregate import aggregate
from linvit.study.cell import Cell
from linvit.study.select import CELL_COLUMNS, CURVE_COLUMNS, read_cells, read_curves

PATH = "digits/micro/relu/mlpcopy/output-10/fashion/seed3"


@pytest.fixture
def study():
    return make_study(grids=more_grids(("relu",)))


@pytest.fixture
def root(study, tmp_path):
    write_results(study, tmp_path, diverged=("digits/micro/relu/copy/none/fashion/seed2",))
    return tmp_path


def edit(root: Path, name: str, change, path: str = PATH) -> Path:
    file = root / "cells" / path / name
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    return file


def test_one_row_per_cell_with_its_numbers(study, root):
    aggregate(study, root)
    cells = read_cells(root / "cells.csv")
    assert tuple(cells.columns) == CELL_COLUMNS
    assert list(cells["path"]) == [cell.path for cell in study.cells()]
    row = cells.set_index("path").loc[PATH]
    test = json.loads((root / "cells" / PATH / "test.json").read_text())
    assert row["test_top1"] == pytest.approx(test["top1"])
    assert (row["lambda"], row["chosen_lambda"], row["seed"]) == (10, 10, 3)
    assert row["distill_relative"] == pytest.approx(0.3 / 20)
    assert (row["grids"], row["device"], row["status"]) == ("components", "cpu-fp32", "ok")


def test_a_shared_cell_names_all_its_grids(study, root):
    cells, _ = aggregate(study, root)
    shared = cells.set_index("path").loc["digits/micro/relu/mlpcopy/output-10/fashion/seed0"]
    assert shared["grids"] == "components;lambda-sweep"


def test_curves_have_one_row_per_point(study, root):
    aggregate(study, root)
    curves = read_curves(root / "curves.csv")
    assert tuple(curves.columns) == CURVE_COLUMNS
    rows = curves[(curves["init"] == "mlpcopy") & (curves["lambda"] == 10) & (curves["seed"] == 3)]
    rows = rows[rows["dataset"] == "digits"]
    assert list(rows["epoch"]) == [5, 10, 15, 20]
    assert rows["distill_loss"].notna().all()
    assert curves[curves["distill"] == "none"]["distill_loss"].isna().all()


def test_diverged_cells_stay_as_rows_without_accuracy(study, root):
    aggregate(study, root)
    cells = read_cells(root / "cells.csv")
    row = cells[cells["status"] == "diverged"]
    assert len(row) == 1
    assert row[["test_top1", "val_top1"]].isna().all(axis=None)


def test_same_results_same_bytes(study, root):
    aggregate(study, root)
    before = [(root / name).read_bytes() for name in ("cells.csv", "curves.csv")]
    aggregate(study, root)
    assert before == [(root / name).read_bytes() for name in ("cells.csv", "curves.csv")]


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("metrics.json", lambda m: m["spec"].update(device="cuda-bf16"), "device class"),
        ("metrics.json", lambda m: m["spec"]["numerics"].update(operator=9), "operator relu"),
        ("metrics.json", lambda m: m["spec"]["numerics"].update(init=9), "init mlpcopy"),
        ("metrics.json", lambda m: m["spec"]["numerics"].update(distill=9), "distill output"),
        ("metrics.json", lambda m: m["spec"]["numerics"].update(loop=9), "numerics of the loop"),
        ("metrics.json", lambda m: m["digests"].update(data="x"), "data digest of digits"),
        ("metrics.json", lambda m: m["digests"].update(source="x"), "source fashion"),
        ("metrics.json", lambda m: m["cell"].update(seed=9), "another cell"),
        ("metrics.json", lambda m: m.update(schema=2), "schema"),
        ("metrics.json", lambda m: m.pop("history"), "history"),
        ("metrics.json", lambda m: m["final"].update(val_top1=None), "missing numbers"),
        ("test.json", lambda t: t.update(fingerprint="0" * 64), "other weights"),
        ("test.json", lambda t: t.update(top1=101.0), "top1"),
        ("test.json", lambda t: t.update(top1=None), "top1 or loss is missing"),
        ("test.json", lambda t: t.update(top1="90"), "top1"),
    ],
)
def test_what_cannot_be_compared_is_refused(study, root, name, change, says):
    edit(root, name, change)
    with pytest.raises(LinvitError, match=says) as error:
        aggregate(study, root)
    assert PATH in str(error.value)
    assert not (root / "cells.csv").exists()


@pytest.mark.parametrize("name", ["metrics.json", "test.json"])
def test_missing_and_damaged_files_are_named(study, root, name):
    file = root / "cells" / PATH / name
    file.write_text("{")
    with pytest.raises(LinvitError, match=f"{PATH}/{name} is damaged"):
        aggregate(study, root)
    file.unlink()
    with pytest.raises(LinvitError, match=f"{PATH}/{name} is missing"):
        aggregate(study, root)


def test_columns_of_a_foreign_csv_are_refused(tmp_path):
    (tmp_path / "cells.csv").write_text("a,b\n1,2\n")
    with pytest.raises(LinvitError, match="lacks the columns"):
        read_cells(tmp_path / "cells.csv")
    with pytest.raises(LinvitError, match="is missing"):
        read_cells(tmp_path / "other.csv")
    (tmp_path / "cells.csv").write_text("")
    with pytest.raises(LinvitError, match="is empty"):
        read_cells(tmp_path / "cells.csv")


def test_results_beyond_the_study_are_left_alone(study, root):
    stranger = Cell.from_path("digits/micro/relu/random/none/scratch/seed9")
    (root / "cells" / stranger.path).mkdir(parents=True)
    cells, _ = aggregate(study, root)
    assert stranger.path not in set(cells["path"])
