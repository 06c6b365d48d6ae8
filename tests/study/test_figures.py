import subprocess
import sys
from pathlib import Path

import matplotlib.image
import pandas as pd
import pytest
from synthetic import finished, make_study, more_grids, shipped_claims

from linvit.errors import LinvitError
from linvit.figures import FIGURES
from linvit.figures.style import Data, draw
from linvit.study.select import read_cells, read_claims, read_curves

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
DIVERGED = "digits/micro/ttt/copy/none/fashion/seed2"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    finished(root, make_study(grids=more_grids()), shipped_claims(), diverged=(DIVERGED,))
    return root


@pytest.fixture(scope="module")
def data(root):
    return Data(
        read_cells(root / "cells.csv"),
        read_curves(root / "curves.csv"),
        read_claims(root / "claims.csv"),
    )


@pytest.mark.parametrize("name", FIGURES)
def test_drawn_twice_the_files_are_the_same_bytes(data, tmp_path, name):
    draw(name, data, tmp_path / "a")
    draw(name, data, tmp_path / "b")
    for suffix in ("pdf", "png"):
        one = (tmp_path / f"a.{suffix}").read_bytes()
        assert one == (tmp_path / f"b.{suffix}").read_bytes()
    assert b"CreationDate" not in (tmp_path / "a.pdf").read_bytes()
    assert b"Type3" not in (tmp_path / "a.pdf").read_bytes()  # journals refuse such fonts
    height, width, _ = matplotlib.image.imread(tmp_path / "a.png").shape
    assert width == 1440
    assert height > 200


@pytest.mark.parametrize("name", FIGURES)
def test_a_study_with_nothing_to_show_says_so(data, tmp_path, name):
    nothing = Data(data.cells.iloc[:0], data.curves.iloc[:0], data.claims.iloc[:0])
    draw(name, nothing, tmp_path / name)
    assert (tmp_path / f"{name}.pdf").exists()


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "effects"])
def test_one_seed_has_no_interval_and_still_draws(data, tmp_path, name):
    cells, curves = data.cells, data.curves
    one = Data(cells[cells["seed"] == 0], curves[curves["seed"] == 0])
    draw(name, one, tmp_path / name)


@pytest.mark.parametrize("name", FIGURES)
def test_many_sizes_and_sources_draw(data, tmp_path, name):
    cells = pd.concat([data.cells, data.cells.assign(size="tiny")])
    curves = pd.concat([data.curves, data.curves.assign(size="tiny")])
    draw(name, Data(cells, curves, data.claims), tmp_path / name)


def test_an_arm_that_diverged_altogether_draws(data, tmp_path):
    gone = data.cells["operator"] == "relu"
    cells = data.cells.assign(
        status=data.cells["status"].mask(gone, "diverged"),
        test_top1=data.cells["test_top1"].mask(gone),
        val_top1=data.cells["val_top1"].mask(gone),
    )
    curves = data.curves[data.curves["operator"] != "relu"]
    for name in FIGURES:
        draw(name, Data(cells, curves, data.claims), tmp_path / name)


def test_unknown_figure_and_missing_claims(data, tmp_path):
    with pytest.raises(LinvitError, match="there are components"):
        draw("other", data, tmp_path / "other")
    with pytest.raises(LinvitError, match="give --claims"):
        draw("effects", Data(data.cells, data.curves), tmp_path / "effects")


def run(script, *arguments):
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_scripts(root, tmp_path):
    cells, curves = root / "cells.csv", root / "curves.csv"
    common = ("--cells", cells, "--curves", curves, "--out", tmp_path / "figures" / "effects")
    assert run("figure.py", "effects", *common, "--claims", root / "claims.csv").returncode == 0
    assert (tmp_path / "figures" / "effects.png").exists()
    refused = run("figure.py", "effects", *common)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    table = run("table.py", "main", "--cells", cells, "--out", tmp_path / "tables" / "main")
    assert table.returncode == 0
    assert (tmp_path / "tables" / "main.tex").exists()
    frozen = (
        "--frozen",
        root / "claims.frozen.json",
        "--cells",
        cells,
        "--out",
        tmp_path / "claims.md",
    )
    judged = run("claims.py", "--claims", shipped_claims(), *frozen)
    assert judged.returncode == 0
    assert (tmp_path / "claims.md").read_bytes() == (root / "claims.md").read_bytes()


def test_views_need_no_torch():
    code = (
        "import sys, linvit.figures.style, linvit.study.claims_report, linvit.study.tables,"
        "linvit.study.aggregate, linvit.study.freeze; assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
