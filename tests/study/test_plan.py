"""`linvit plan`: cells, packs and the smallest effect a sub-grid resolves."""

import json
import math

import pytest
import synthetic

from linvit.study.plan import (
    ASSUMED_SD,
    assumed_noise,
    finished_numbers,
    measured_noise,
    print_plan,
)
from linvit.study.stats import smallest_effect


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return synthetic.make_study(grids=synthetic.more_grids())


def row(out: str, grid: str) -> list[str]:
    return next(text for text in out.splitlines() if text.startswith(grid)).split()


def test_a_study_of_which_nothing_exists_states_its_assumption(study, capsys):
    print_plan(study, pack_size=16)
    out = capsys.readouterr().out
    pair = math.sqrt(2) * ASSUMED_SD
    expected = smallest_effect(5, pair), smallest_effect(5, pair / 2)  # 2 data sets x 2 operators
    assert row(out, "components")[-8:] == [
        *("160", "160", "5", "4", f"{pair:.2f}", "assumed"),
        *(f"{effect:.2f}" for effect in expected),
    ]
    assert "where it says assumed: a cell varies by 2 points" in out
    assert "time: not known" in out


def test_shared_cells_are_counted_once(study, capsys):
    print_plan(study, pack_size=16)
    out = capsys.readouterr().out
    total = sum(len(study.grid_cells(name)) for name in study.grids)
    assert total > len(study.cells())
    assert f"{len(study.cells())} cells ({total} before sharing)" in out
    new = sum(int(row(out, name)[3]) for name in study.grids)
    assert new == len(study.cells())


def test_pack_size_counts_packs(study, capsys):
    print_plan(study, pack_size=1)
    assert f"in {len(study.cells())} packs of at most 1" in capsys.readouterr().out


def test_noise_is_measured_from_finished_cells(study, capsys):
    synthetic.write_results(study, study.root, shared=3.0, own=0.5)
    accuracies, _ = finished_numbers(study)
    noise = measured_noise({c: accuracies[c] for c in study.grid_cells("components")})
    # shared noise cancels within a seed; what is left is that of two cells, and less of it in means
    assert noise.pair == pytest.approx(0.5 * math.sqrt(2), rel=0.25)
    assert noise.mean < noise.pair
    print_plan(study)
    assert "160 cells" in capsys.readouterr().out


def test_one_finished_seed_is_not_enough_to_measure(study):
    synthetic.write_results(study, study.root)
    accuracies, _ = finished_numbers(study)
    assert measured_noise({c: a for c, a in accuracies.items() if c.seed == 0}) is None
    assert measured_noise({}) is None


def test_diverged_and_damaged_cells_are_left_out(study):
    cells = study.cells()
    synthetic.write_results(study, study.root, diverged=(cells[0].path,))
    (study.root / "cells" / cells[1].path / "metrics.json").write_text("{")
    accuracies, _ = finished_numbers(study)
    assert set(cells) - set(accuracies) == {cells[0], cells[1]}


def test_test_numbers_are_never_read(study):
    synthetic.write_results(study, study.root)
    for path in study.root.rglob("test.json"):
        path.unlink()
    assert len(finished_numbers(study)[0]) == len(study.cells())


def test_time_is_learnt_from_finished_cells(study, capsys):
    synthetic.write_results(study, study.root)
    first = study.root / "cells" / study.cells()[0].path
    (first / "run.json").write_text(json.dumps({"cpu_s": 36.0}))
    print_plan(study)
    hours, rest = divmod(36 * len(study.cells()), 3600)
    expected = f"about {hours}:{rest // 60:02}:{rest % 60:02} of training in one process"
    assert expected in capsys.readouterr().out


def test_one_seed_resolves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    print_plan(synthetic.make_study(seeds=[0]))
    assert row(capsys.readouterr().out, "baselines")[-2:] == ["-", "-"]


def test_assumed_noise_shrinks_with_the_number_of_pairs():
    assert assumed_noise(4).mean == assumed_noise(1).pair / 2
