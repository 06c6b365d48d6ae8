"""Write one table of a study as CSV, Markdown and LaTeX: table.py NAME --cells CSV --out STEM"""

import argparse
import sys
from pathlib import Path

from linvit.errors import USAGE, LinvitError
from linvit.study.select import read_cells
from linvit.study.tables import TABLES, write_table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=TABLES)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="without suffix")
    options = parser.parse_args()
    try:
        write_table(options.name, read_cells(options.cells), options.out)
    except LinvitError as error:
        print(f"table {options.name}: {error}", file=sys.stderr)
        return USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
