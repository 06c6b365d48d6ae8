"""The whole workflow end to end: what a run makes, and what a change makes it do again."""

import re

import pytest

pytestmark = pytest.mark.slow
CELL = "digits-50/nano/relu/mlpcopy/output-10/digits/seed1"


def test_everything_is_made(finished):
    root = finished.folder / "results/nano"
    for suffix in ("csv", "md", "tex"):
        assert (root / f"tables/main.{suffix}").stat().st_size > 100
    figures = {path.name for path in (root / "figures").iterdir()}
    assert {"components.pdf", "components.png", "effects.pdf", "learning_curves.png"} <= figures
    assert "## Verdicts" in (root / "claims.md").read_text()
    assert (root / "mlflow.db").exists()
    cells = finished.linvit("cells", "--study", str(finished.study_file())).split()
    assert all((root / "cells" / cell / "test.json").exists() for cell in cells)
    status = finished.linvit("status", "--study", str(finished.study_file()))
    assert "every cell is done" in status


def test_second_run_plans_nothing(again):
    output = again.run()
    assert "workflow specific profile profiles/default" in output
    assert "Nothing to be done" in output


def test_edited_figure_redraws_that_figure(again):
    before = again.results("figures/components.*")
    with open(again.folder / "src/linvit/figures/components.py", "a") as code:
        code.write("# edited\n")
    assert again.planned() == {"figure": 1}
    again.run()
    assert again.results("figures/components.*") == before


def test_deleted_views_come_back_byte_for_byte(again):
    before = again.results("[tfc]*/*.*") | again.results("*.csv") | again.results("claims.md")
    for path in list((again.folder / "results/nano").glob("*/*.*")):
        if path.parent.name in ("tables", "figures"):
            path.unlink()
    for name in ("cells.csv", "curves.csv", "claims.md", "claims.csv"):
        (again.folder / "results/nano" / name).unlink()
    planned = again.planned()
    assert not [rule for rule in planned if rule.startswith(("train", "evaluate", "source"))]
    again.run()
    after = again.results("[tfc]*/*.*") | again.results("*.csv") | again.results("claims.md")
    assert after == before


def test_added_seed_trains_only_the_new_cells(again):
    text = again.study_file().read_text()
    again.study_file().write_text(text.replace("seeds: [0, 1]", "seeds: [0, 1, 2]"))
    planned = {rule for rule in again.planned() if rule.startswith(("train", "evaluate", "source"))}
    assert planned
    assert all("seed2" in rule for rule in planned)


def test_changed_lambda_trains_only_distilled_cells(again):
    text = again.study_file().read_text()
    again.study_file().write_text(text.replace("lambda: 10}", "lambda: 20}"))
    assert not [rule for rule in again.planned() if "scratch" in rule or "source" in rule]
    before = {path.name for path in (again.folder / "results/.store").iterdir()}
    again.run()
    added = {path.name for path in (again.folder / "results/.store").iterdir()} - before
    cells = again.linvit("cells", "--study", str(again.study_file()), "distill=output").split()
    assert len(added) == len(cells)


def test_one_cell_alone(again):
    metrics = f"results/nano/cells/{CELL}/metrics.json"
    before = (again.folder / metrics).read_bytes()
    again.linvit("forget", "--study", str(again.study_file()), CELL)
    planned = again.planned(metrics)
    assert sum(planned.values()) == 1
    assert next(iter(planned)).startswith("train")
    output = again.run(metrics)
    assert len(re.findall(r"epoch 20/20", output)) == 1
    assert (again.folder / metrics).read_bytes() == before


def test_one_cell_by_its_axes(again):
    before = again.results(f"cells/{CELL}/metrics.json")
    study = ["--study", str(again.study_file())]
    axes = ["operator=relu", "init=mlpcopy", "distill=output", "seed=1"]
    again.linvit("forget", *study, *axes)
    again.linvit("train", *study, *axes)
    assert again.results(f"cells/{CELL}/metrics.json") == before


def test_tracking_is_rebuilt(again):
    (again.folder / "results/nano/tracked.json").unlink()
    assert "28 runs imported" in again.run()
    (again.folder / "results/nano/tracked.json").unlink()
    assert "0 runs imported" in again.run()
