"""Tables for people: framed in a terminal, plain aligned columns in a pipe or a log."""

import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 500  # a log has no width to fit into, and nothing may be cut


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> None:
    """left: how many of the first columns hold text; numbers are aligned to the right."""
    terminal = sys.stdout.isatty()
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=terminal)
    for place, name in enumerate(head):
        table.add_column(Text(name), justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row))
    Console(width=None if terminal else WIDE, highlight=False).print(table)
