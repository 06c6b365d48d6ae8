"""Where everything of a study lies, as the rules of the workflow need it (no torch, no pandas)."""

from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import yaml

from linvit.files import write_if_changed
from linvit.study.cell import Cell
from linvit.study.config import RESULTS, Study
from linvit.study.packs import Pack, packs
from linvit.study.specs import source_spec_path, spec_path, write_specs

TABLES = ("main", "attention_only", "strict", "lambda")
FIGURES = ("components", "routing", "attention_only", "lambda_sweep", "learning_curves", "effects")


class TestSet(NamedTuple):
    """The cells that one process evaluates: those of a dataset and a seed."""

    name: str
    cells: tuple[Cell, ...]
    dataset: str


class Layout:
    """Paths and groups of a study; `write` brings the spec files up to date."""

    def __init__(self, study: Study, pack_size: int):
        self.study, self.pack_size, self.root = study, pack_size, study.root

    def write(self) -> None:
        """Write the specs and study.yaml, each only where its bytes changed."""
        write_specs(self.study)
        config = self.study.config.model_dump(by_alias=True, exclude_none=True)
        write_if_changed(self.study_file, yaml.safe_dump(config, sort_keys=True))

    @property
    def study_file(self) -> Path:
        return self.root / "study.yaml"

    @cached_property
    def packs(self) -> list[Pack]:
        return packs(self.study, self.study.cells(), self.pack_size)

    @cached_property
    def test_sets(self) -> list[TestSet]:
        def group(cell: Cell) -> tuple[str, int]:
            return cell.dataset, cell.seed

        return [
            TestSet(f"{dataset}-seed{seed}", tuple(cells), dataset)
            for (dataset, seed), cells in groupby(sorted(self.study.cells(), key=group), group)
        ]

    @property
    def sources(self) -> list[str]:
        """Sources that this study pre-trains."""
        return [name for name, source in self.study.sources.items() if source.pretrain]

    @property
    def source_files(self) -> dict[str, str]:
        """Sources whose weights the user has, and where."""
        return {name: s.file for name, s in self.study.sources.items() if s.file}

    def source_spec(self, name: str) -> Path:
        return source_spec_path(self.study, name)

    def data_of(self, dataset: str) -> Path:
        """The manifest that says the dataset's images are decoded."""
        return RESULTS / "data" / self.study.datasets[dataset].from_ / "manifest.json"

    def specs(self, cells: tuple[Cell, ...]) -> list[Path]:
        return [spec_path(self.study, cell) for cell in cells]

    def results(self, cells: tuple[Cell, ...], file: str) -> list[Path]:
        return [self.root / "cells" / cell.path / file for cell in cells]

    @property
    def tables(self) -> list[Path]:
        suffixes = ("csv", "md", "tex")
        return [self.root / "tables" / f"{name}.{suffix}" for name in TABLES for suffix in suffixes]

    @property
    def figures(self) -> list[Path]:
        suffixes = ("pdf", "png")
        names = [f"{name}.{suffix}" for name in FIGURES for suffix in suffixes]
        return [self.root / "figures" / name for name in names]
