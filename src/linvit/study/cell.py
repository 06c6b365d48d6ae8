"""A cell is one training run; its axes are its identity and its path is their readable form."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from linvit.catalog import DISTILLS, INITS, OPERATORS
from linvit.errors import LinvitError

AXES = ("operator", "size", "dataset", "init", "distill", "lambda", "source", "seed")
SCRATCH = "scratch"  # how a path writes "no source"
NAME_RULE = "a-z, 0-9, '.', '_' and '-', a letter or digit first, at most 64 characters"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SHAPE = "dataset/size/operator/init/distill[-lambda]/source/seedN"


def is_name(text: object) -> bool:
    """Names become parts of paths, rule names and job names, so they are kept plain."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def takes_from_source(init: str, distill: str) -> bool:
    return INITS[init].needs_source or distill != "none"


@total_ordering
@dataclass(frozen=True)
class Cell:
    """One training run, in canonical form only (`Cell.from_axes` brings any axes into it).

    lam: weight of the distillation loss, None exactly when distill is "none".
    source: whose weights and teacher, None exactly when the cell uses neither.
    Raises LinvitError for axes that do not make a cell.
    """

    dataset: str
    size: str
    operator: str
    init: str
    distill: str
    lam: float | None
    source: str | None
    seed: int

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise LinvitError(f"not a cell: {problem}")
        if self.lam is not None:  # 10 and 10.0 are one weight and must be written as one
            object.__setattr__(self, "lam", float(self.lam))

    @property
    def path(self) -> str:
        distill = self.distill if self.lam is None else f"{self.distill}-{self.lam:g}"
        source = self.source or SCRATCH
        return "/".join(
            (
                *(self.dataset, self.size, self.operator, self.init),
                *(distill, source, f"seed{self.seed}"),
            )
        )

    @property
    def axes(self) -> dict[str, Any]:
        return {axis: getattr(self, "lam" if axis == "lambda" else axis) for axis in AXES}

    def __lt__(self, other: "Cell") -> bool:
        return _order(self) < _order(other)

    @classmethod
    def from_axes(cls, axes: Mapping[str, Any]) -> "Cell":
        """The canonical cell of these axes: what the cell does not use becomes None."""
        if set(axes) != set(AXES):
            raise LinvitError(f"a cell has the axes {', '.join(AXES)}; got {', '.join(axes)}")
        values = dict(axes)
        lam, distill = values.pop("lambda"), values["distill"]
        if distill == "none":
            lam = None
        if values["init"] in INITS and not takes_from_source(values["init"], distill):
            values["source"] = None
        return cls(lam=lam, **values)

    @classmethod
    def from_path(cls, path: str) -> "Cell":
        """Inverse of `path`. Raises LinvitError for any text that is not exactly a cell's path."""
        try:
            dataset, size, operator, init, distilled, source, seed = path.split("/")
            distill, _, lam = distilled.partition("-")
            cell = cls(
                *(dataset, size, operator, init, distill),
                lam=float(lam) if lam else None,
                source=None if source == SCRATCH else source,
                seed=int(seed.removeprefix("seed")),
            )
        except LinvitError as error:
            raise LinvitError(f"{path!r}: {error}") from None
        except ValueError:
            raise LinvitError(f"{path!r} is not the path of a cell: expected {_SHAPE}") from None
        if cell.path != path:
            raise LinvitError(f"{path!r} is not the path of a cell; did you mean {cell.path!r}?")
        return cell


def _order(cell: Cell) -> tuple:
    return (
        *(cell.dataset, cell.size, cell.operator, cell.init, cell.distill),
        *(cell.lam or 0.0, cell.source or "", cell.seed),
    )


def is_weight(lam: object) -> bool:
    """Whether `lam` can weigh a loss and survives the six digits that a path shows."""
    plain = isinstance(lam, int | float) and not isinstance(lam, bool)
    return plain and 0 < lam < float("inf") and float(f"{lam:g}") == lam


def _problem(cell: Cell) -> str | None:
    for axis, known in (("operator", OPERATORS), ("init", INITS), ("distill", DISTILLS)):
        value = getattr(cell, axis)
        if value not in known:
            return f"{value!r} is not known as {axis}; allowed: {', '.join(known)}"
    for value in (cell.dataset, cell.size, cell.source or "unused"):
        if not is_name(value):
            return f"{value!r} is not a name: use {NAME_RULE}"
    if cell.source == SCRATCH:
        return f"a source cannot be called {SCRATCH!r}"
    if isinstance(cell.seed, bool) or not isinstance(cell.seed, int) or cell.seed < 0:
        return f"seed {cell.seed!r} is not a whole number from 0 on"
    return _not_canonical(cell)


def _not_canonical(cell: Cell) -> str | None:
    if cell.distill == "none" and cell.lam is not None:
        return f"lambda {cell.lam!r} without distillation"
    if cell.distill != "none" and not is_weight(cell.lam):
        return f"distill {cell.distill} needs a lambda > 0 of at most six digits, not {cell.lam!r}"
    uses = takes_from_source(cell.init, cell.distill)
    if uses and cell.source is None:
        return f"init {cell.init} with distill {cell.distill} needs a source"
    if not uses and cell.source is not None:
        return f"source {cell.source!r}, from which the cell takes nothing"
    return None
