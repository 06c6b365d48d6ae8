"""Specs as files, which are what Snakemake watches.

One is rewritten only when its bytes change, so an added seed or a new figure leaves every other
cell alone.
"""

import os
from pathlib import Path
from typing import Any

from linvit.files import canonical_json
from linvit.study.cell import Cell
from linvit.study.config import Study


def spec_path(study: Study, cell: Cell) -> Path:
    return study.root / "specs" / f"{cell.path}.json"


def source_spec_path(study: Study, name: str) -> Path:
    return study.root / "specs" / "sources" / f"{name}.json"


def spec_text(spec: dict[str, Any]) -> str:
    """JSON with one line per block: readable in a diff, and fast enough for thousands of cells."""
    blocks = [f'"{key}": {canonical_json(spec[key])}' for key in sorted(spec)]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


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
    return [path for path, spec in specs.items() if _replace_if_changed(path, spec_text(spec))]


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
