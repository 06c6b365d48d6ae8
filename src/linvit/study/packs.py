"""Packs: cells that one process trains side by side on one data stream and one teacher.

A pack changes how fast cells run and nothing of their results. Its name and its cells depend only
on the cells of its own group, so an added seed leaves every other pack as it was.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from linvit.errors import LinvitError
from linvit.study.cell import SCRATCH, Cell
from linvit.study.config import Study


class Pack(NamedTuple):
    """sources: whose weights must exist before the pack starts (none, or one)."""

    name: str
    cells: tuple[Cell, ...]
    dataset: str
    sources: tuple[str, ...]


def packs(study: Study, cells: Iterable[Cell], size: int) -> list[Pack]:
    """Packs of at most `size` cells, as even as they can be, in a stable order.

    A group shares dataset (and with it view and recipe), size, seed and source. Cells that use no
    source have groups of their own, which can run while sources are still being pre-trained.
    Raises LinvitError for a size below 1 and for cells of another study.
    """
    if size < 1:
        raise LinvitError(f"a pack holds at least 1 cell, not {size}")
    wanted = frozenset(cells)
    foreign = sorted(wanted - frozenset(study.cells()))
    if foreign:
        raise LinvitError(f"{foreign[0].path} is not a cell of the study {study.name}")
    groups = defaultdict(set)
    for cell in wanted:
        groups[(cell.dataset, cell.size, cell.source or "", cell.seed)].add(cell)
    made = [pack for _, group in sorted(groups.items()) for pack in _group_packs(group, size)]
    _refuse_ambiguous(made)
    return made


def _group_packs(group: set[Cell], size: int) -> Iterator[Pack]:
    # distilled cells side by side, so that as few packs as possible run the teacher
    ordered = sorted(group, key=lambda cell: (cell.distill != "none", cell))
    for number, chunk in enumerate(_even_chunks(ordered, size), start=1):
        first = chunk[0]
        shared = (first.dataset, first.size, f"seed{first.seed}", first.source or SCRATCH)
        sources = () if first.source is None else (first.source,)
        yield Pack("-".join((*shared, f"{number:02d}")), chunk, first.dataset, sources)


def _even_chunks(cells: list[Cell], size: int) -> Iterator[tuple[Cell, ...]]:
    """17 cells at size 16 make 9 + 8: the last pack must not be the only slow one."""
    count = -(-len(cells) // size)
    smaller, larger = divmod(len(cells), count)
    start = 0
    for number in range(count):
        end = start + smaller + (number < larger)
        yield tuple(cells[start:end])
        start = end


def _refuse_ambiguous(made: list[Pack]) -> None:
    seen: dict[str, Pack] = {}
    for pack in made:
        other = seen.setdefault(pack.name, pack)
        if other is not pack:
            raise LinvitError(
                f"{pack.cells[0].path} and {other.cells[0].path} would share the pack name "
                f"{pack.name}; rename a dataset, size or source"
            )
