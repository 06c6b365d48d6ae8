"""Judge the claims of a study: claims.py --claims YAML --frozen JSON --cells CSV --out CLAIMS.md

Writes a CSV beside the Markdown. `linvit freeze` makes the frozen file.
"""

import argparse
import sys
from pathlib import Path

from linvit.errors import USAGE, LinvitError
from linvit.study.claims import judge
from linvit.study.claims_report import write_claims
from linvit.study.declaration import load_claims
from linvit.study.freeze import read_frozen
from linvit.study.select import read_cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=Path, required=True)
    parser.add_argument("--frozen", type=Path, required=True)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    try:
        frozen = read_frozen(options.frozen)
        judged = judge(load_claims(options.claims), frozen, read_cells(options.cells))
        write_claims(judged, frozen, options.out)
    except LinvitError as error:
        print(f"claims: {error}", file=sys.stderr)
        return USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
