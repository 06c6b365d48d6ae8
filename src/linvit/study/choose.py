"""Cells as a user names them on a command line: by path, or by axes."""

from collections.abc import Iterable, Sequence

from linvit.errors import LinvitError
from linvit.study.cell import Cell
from linvit.study.filters import select


def choose_cells(cells: Iterable[Cell], texts: Sequence[str]) -> list[Cell]:
    """Cells whose paths are among `texts`, or that satisfy all of its axis=value[,value] parts.

    Without any text: all cells. Raises LinvitError for a path or a value the study does not have.
    """
    cells = list(cells)
    filters = {}
    for text in texts:
        axis, equals, values = text.partition("=")
        if equals:
            filters.setdefault(axis, []).extend(values.split(","))
    chosen = select(cells, filters)
    paths = {text for text in texts if "=" not in text}
    if not paths:
        return chosen
    missing = sorted(paths - {cell.path for cell in chosen})
    if missing:
        raise LinvitError(f"{missing[0]!r} is no cell of this study; `linvit cells` lists them")
    return [cell for cell in chosen if cell.path in paths]
