"""Picking cells by their axes, as `linvit cells operator=relu,elu init=copy` does."""

from collections.abc import Iterable, Mapping

from linvit.errors import LinvitError
from linvit.study.cell import AXES, SCRATCH, Cell
from linvit.study.problems import choose


def axis_text(cell: Cell, axis: str) -> str:
    """How a user writes the value: lambda "none" without distillation, source "scratch"."""
    value = cell.axes[axis]
    if axis == "lambda":
        return "none" if value is None else f"{value:g}"
    return SCRATCH if value is None else str(value)


def select(cells: Iterable[Cell], filters: Mapping[str, list[str]]) -> list[Cell]:
    """The cells that have one of the given values on every given axis, in their order.

    Raises LinvitError for an unknown axis, no value, or a value that none of `cells` has.
    """
    chosen = cells = list(cells)
    for axis, values in filters.items():
        _check(axis, values, cells)
        chosen = [cell for cell in chosen if axis_text(cell, axis) in values]
    return chosen


def _check(axis: str, values: list[str], cells: list[Cell]) -> None:
    problem = choose(axis, "an axis of a cell", AXES)
    if problem:
        raise LinvitError(problem)
    present = list(dict.fromkeys(axis_text(cell, axis) for cell in sorted(cells)))
    problems = [choose(value, f"a value of {axis} in these cells", present) for value in values]
    problems = [problem for problem in problems or [f"{axis}= needs at least one value"] if problem]
    if problems:
        raise LinvitError("; ".join(problems))
