"""A grid's cells: the product of its axes in canonical form, each cell once."""

from collections.abc import Mapping
from itertools import product

from linvit.catalog import SIZES
from linvit.study.cell import Cell
from linvit.study.schema import Grid, Size, StudyConfig

BUILT_IN = {name: Size(**shape) for name, shape in SIZES.items()}


def sizes_of(config: StudyConfig) -> Mapping[str, Size]:
    return BUILT_IN | config.sizes


def expand(config: StudyConfig, grid: Grid) -> tuple[Cell, ...]:
    """Sorted and unique, whatever the order in which the YAML lists its values."""
    names = ("size", "dataset", "operator", "init", "distill", "source")
    values = [getattr(grid, name) or [None] for name in names]
    combinations = [dict(zip(names, combination, strict=True)) for combination in product(*values)]
    cells = {
        Cell.from_axes(axes | {"lambda": lam, "seed": seed})
        for axes in combinations
        for lam in grid.lam or [config.datasets[axes["dataset"]].lam]
        for seed in grid.seeds or config.seeds
    }
    return tuple(sorted(cells))
