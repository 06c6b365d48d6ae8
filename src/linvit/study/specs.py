"""Specs as files, and the fingerprint of what decides a cell's result.

The files are what Snakemake watches: one is rewritten only when its bytes change, so an added seed
or a new figure leaves every other cell alone.
"""

import os
from pathlib import Path
from typing import Any

from linvit.errors import LinvitError
from linvit.files import pretty_json, sha256_json
from linvit.study.cell import Cell
from linvit.study.config import Study


def science(spec: dict[str, Any]) -> dict[str, Any]:
    """The part of a spec that can change a result: no paths, no choice of what is kept."""
    kept = {key: value for key, value in spec.items() if key != "keep_model"}
    if spec["source"] is not None:
        kept["source"] = {k: v for k, v in spec["source"].items() if k != "weights"}
    return kept


def fingerprint(spec: dict[str, Any], data_digest: str, source_digest: str | None) -> str:
    """SHA-256 in hex: equal exactly when two runs must end with the same numbers.

    source_digest: of the source's weights, None exactly when the spec has no source.
    """
    if (spec["source"] is None) != (source_digest is None) or not data_digest:
        raise LinvitError(
            f"the fingerprint needs the digest of the data ({data_digest!r}) and that of the "
            f"weights of source {spec['source']!r} ({source_digest!r})"
        )
    return sha256_json({"spec": science(spec), "data": data_digest, "source": source_digest})


def spec_path(study: Study, cell: Cell) -> Path:
    return study.root / "specs" / f"{cell.path}.json"


def source_spec_path(study: Study, name: str) -> Path:
    return study.root / "specs" / "sources" / f"{name}.json"


def write_specs(study: Study) -> list[Path]:
    """Write the spec of every cell and pre-trained source; return the files that changed.

    Removes nothing: a cell that left the study keeps its spec beside its results.
    """
    specs = {spec_path(study, cell): study.spec(cell) for cell in study.cells()}
    specs |= {
        source_spec_path(study, name): study.source_spec(name)
        for name, source in study.sources.items()
        if source.pretrain
    }
    return [path for path, spec in specs.items() if _replace_if_changed(path, pretty_json(spec))]


def _replace_if_changed(path: Path, text: str) -> bool:
    """As files.write_if_changed without fsync: thousands are written when a study starts, and one
    that a power cut tears differs from its text and is written again."""
    data = text.encode()
    try:
        if path.read_bytes() == data:
            return False
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)
    return True
