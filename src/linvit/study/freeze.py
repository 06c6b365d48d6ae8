"""Fix claims and plan before any test number is read: results/<study>/claims.frozen.json.

The first copy lies in a hidden, undeclared file, because Snakemake deletes a declared output
before it runs the output's rule again, and what was frozen must outlive that.
"""

from pathlib import Path
from typing import Any

from linvit.errors import LinvitError
from linvit.files import atomic_write_json, pretty_json, read_json, sha256_json, write_if_changed
from linvit.fingerprint import science
from linvit.study.config import Study
from linvit.study.declaration import load_claims

NAME = "claims.frozen.json"
KEPT = ".claims.frozen.json"


def freeze(claims_file: Path, study: Study, root: Path) -> dict[str, Any]:
    """Write root/claims.frozen.json and return its content.

    It follows declaration and plan until the first test.json lies under root/cells, and never
    changes after that. Raises LinvitError on a bad declaration or a damaged freeze.
    """
    root = Path(root)
    late, kept = test_numbers_read(root), root / KEPT
    if not (late and kept.exists()):
        atomic_write_json(kept, _content(claims_file, study, late))
    content = read_frozen(kept)
    write_if_changed(root / NAME, pretty_json(content))
    return content


def test_numbers_read(root: Path) -> bool:
    return any((Path(root) / "cells").rglob("test.json"))


def read_frozen(path: Path) -> dict[str, Any]:
    """Raises LinvitError when the content is not what its own digest says."""
    content = read_json(path)
    body = {key: value for key, value in content.items() if key != "sha256"}
    if content.get("sha256") != sha256_json(body):
        raise LinvitError(
            f"{path} was edited: its digest does not match. Restore it; a study whose test numbers "
            "were read cannot be frozen again"
        )
    return content


def _content(claims_file: Path, study: Study, late: bool) -> dict[str, Any]:
    """A first freeze after evaluation began holds no claims: all of them would be late."""
    claims = [] if late else load_claims(claims_file)
    cells = study.cells()
    content = {
        "schema": 1,
        "study": study.name,
        "claims": [claim.declaration() for claim in claims],
        "cells": {cell.path: sha256_json(science(study.spec(cell))) for cell in cells},
        "lambda": {cell.dataset: study.chosen_lambda(cell) for cell in cells},
    }
    return content | {"sha256": sha256_json(content)}
