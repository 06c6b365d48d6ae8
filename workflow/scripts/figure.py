"""Draw one figure of a study: figure.py NAME --cells CSV --curves CSV [--claims CSV] --out STEM"""

import argparse
import sys
from pathlib import Path

from linvit.errors import USAGE, LinvitError
from linvit.figures import FIGURES
from linvit.figures.style import Data, draw
from linvit.study.select import read_cells, read_claims, read_curves


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=FIGURES)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--curves", type=Path, required=True)
    parser.add_argument("--claims", type=Path, help="claims.csv, for the figure `effects`")
    parser.add_argument("--out", type=Path, required=True, help="without suffix")
    options = parser.parse_args()
    try:
        claims = read_claims(options.claims) if options.claims else None
        data = Data(read_cells(options.cells), read_curves(options.curves), claims)
        draw(options.name, data, options.out)
    except LinvitError as error:
        print(f"figure {options.name}: {error}", file=sys.stderr)
        return USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
