"""`linvit plan`: what a study costs, and the smallest effect that each sub-grid can resolve.

The noise is that of paired differences: two arms of one data set, size and operator, compared
within a seed. It is measured on validation accuracies where cells are finished, since no test
number may be looked at while claims are still being made, and assumed elsewhere.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

from linvit.progress_line import duration
from linvit.study.cell import Cell
from linvit.study.config import Study
from linvit.study.packs import packs
from linvit.study.state import Costs, peek
from linvit.study.stats import paired_difference, smallest_effect, summarise
from linvit.study.terminal import print_table

PACK_SIZE = 16
ASSUMED_SD = 2.0  # points, of one cell between seeds
HEAD = ("grid", "purpose", "cells", "new", "seeds", "pairs", "sd", "from", "one pair", "mean")

Unit = tuple[str, str, str]  # dataset, size, operator: arms are compared within it
Arm = tuple[str, str, float | None, str | None]  # init, distill, lambda, source
Values = dict[Arm, dict[Unit, dict[int, float]]]  # accuracies by seed


class Noise(NamedTuple):
    """Standard deviations over seeds, in points: of a pair's difference, of its mean over pairs."""

    pair: float
    mean: float
    origin: str


def print_plan(study: Study, pack_size: int = PACK_SIZE) -> None:
    accuracies, seconds = finished_numbers(study)
    print(f"study {study.name} on {study.device}")
    print_table(HEAD, list(_rows(study, accuracies)), left=2)
    cells = study.cells()
    total = sum(len(study.grid_cells(name)) for name in study.grids)
    count = len(packs(study, cells, pack_size))
    print(f"{len(cells)} cells ({total} before sharing) in {count} packs of at most {pack_size}")
    print(_time(cells, Costs(seconds)))
    print(_legend())


def finished_numbers(study: Study) -> tuple[dict[Cell, float], dict[Cell, float]]:
    """Validation top-1 (%) and seconds of training of the finished cells."""
    accuracies, seconds = {}, {}
    for cell in study.cells():
        folder = study.root / "cells" / cell.path
        final = peek(folder / "metrics.json").get("final")
        if final:
            accuracies[cell] = final["val_top1"]
        if cpu := peek(folder / "run.json").get("cpu_s"):
            seconds[cell] = cpu
    return accuracies, seconds


def _rows(study: Study, accuracies: Mapping[Cell, float]) -> Iterable[tuple]:
    seen: set[Cell] = set()
    for name, grid in study.grids.items():
        cells = set(study.grid_cells(name))
        seeds, units = {cell.seed for cell in cells}, {_unit(cell) for cell in cells}
        known = {cell: accuracies[cell] for cell in cells if cell in accuracies}
        noise = measured_noise(known) or assumed_noise(len(units))
        effects = [smallest_effect(len(seeds), sd) for sd in (noise.pair, noise.mean)]
        yield (
            *(name, grid.purpose, len(cells), len(cells - seen), len(seeds), len(units)),
            *(f"{noise.pair:.2f}", noise.origin, *map(_points, effects)),
        )
        seen |= cells


def _unit(cell: Cell) -> Unit:
    return cell.dataset, cell.size, cell.operator


def _arm(cell: Cell) -> Arm:
    return cell.init, cell.distill, cell.lam, cell.source


def _points(effect: float | None) -> str:
    return "-" if effect is None else f"{effect:.2f}"


def assumed_noise(pairs: int) -> Noise:
    """Cells that vary independently: a difference of two by sqrt(2) more, a mean by less."""
    pair = math.sqrt(2) * ASSUMED_SD
    return Noise(pair, pair / math.sqrt(pairs), "assumed")


def measured_noise(accuracies: Mapping[Cell, float]) -> Noise | None:
    """Pooled over all pairs of arms; None before two arms share two seeds in some unit."""
    values: Values = defaultdict(lambda: defaultdict(dict))
    for cell, top1 in accuracies.items():
        values[_arm(cell)][_unit(cell)][cell.seed] = top1
    single, averaged = [], []
    for one, other in combinations(values.values(), 2):
        differences = [
            dict(zip(sorted(seeds), paired_difference(one[unit], other[unit]), strict=True))
            for unit in one.keys() & other.keys()
            if len(seeds := one[unit].keys() & other[unit].keys()) > 1
        ]
        single += [_variance(list(by_seed.values())) for by_seed in differences]
        averaged += _variance_of_mean(differences)
    if not (single and averaged):
        return None
    pair, over_units = (math.sqrt(sum(v) / len(v)) for v in (single, averaged))
    return Noise(pair, over_units, f"{len(accuracies)} cells")


def _variance(values: list[float]) -> float:
    return summarise(values).sd ** 2


def _variance_of_mean(differences: list[dict[int, float]]) -> list[float]:
    """Of the mean over units, in the seeds that all of them have; [] for fewer than two seeds."""
    if not differences:
        return []
    seeds = set.intersection(*(set(by_seed) for by_seed in differences))
    if len(seeds) < 2:
        return []
    means = [sum(by_seed[seed] for by_seed in differences) for seed in sorted(seeds)]
    return [_variance([total / len(differences) for total in means])]


def _time(cells: Iterable[Cell], costs: Costs) -> str:
    if costs.mean is None:
        return "time: not known before a first cell is done"
    seconds = sum(costs.of(cell) for cell in cells)
    return (
        f"time: about {duration(seconds)} of training in one process, divided by how many you run "
        f"({costs.mean:.1f} s a cell, mean of {costs.count} done)"
    )


def _legend() -> str:
    return (
        "smallest effect in points that a one-sided t test over the seeds finds (level 5 %, power "
        "80 %, before Holm's correction):\n"
        "  one pair: two arms of one data set, size and operator; mean: their difference averaged "
        "over all `pairs` of these\n"
        "  sd: of a pair's difference between seeds, in points, measured on validation images of "
        "finished cells;\n"
        f"  where it says assumed: a cell varies by {ASSUMED_SD:g} points between seeds, "
        "independently of all others"
    )
