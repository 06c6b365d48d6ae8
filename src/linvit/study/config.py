"""The study: a validated config, the cells it spans and the full specification of each."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from linvit.catalog import numerics
from linvit.data.specs import DATASETS
from linvit.errors import LinvitError
from linvit.study.cell import Cell
from linvit.study.checks import find_problems
from linvit.study.grid import expand, sizes_of
from linvit.study.lines import Locator, read_config
from linvit.study.problems import choose, empty_values, from_pydantic, raise_if_any
from linvit.study.schema import Dataset, Grid, Source, StudyConfig

RESULTS = Path("results")


def load_study(source: Path | str | Mapping[str, Any], files: Sequence[Path] = ()) -> "Study":
    """Read and check a study.

    source: a YAML file, or the config that Snakemake has merged from `files` and --config.
    Raises one LinvitError that lists every problem found, each with file and line, key, value,
    what is allowed and the cure.
    """
    if isinstance(source, Path | str):
        source, files = None, (source,)
    parsed = [read_config(path) for path in files]
    data = parsed[0].data if source is None else source
    locator = Locator(data, parsed)
    raise_if_any(empty_values(data), locator)
    try:
        config = StudyConfig.model_validate(data)
    except ValidationError as error:
        raise_if_any(from_pydantic(error, StudyConfig), locator)
        raise
    raise_if_any(find_problems(config), locator)
    return Study(config)


class Study:
    """What a study declares. All paths are relative to the folder that holds results/."""

    def __init__(self, config: StudyConfig):
        self.config = config
        self.name: str = config.study
        self.device: str = config.device
        self.seeds: tuple[int, ...] = tuple(config.seeds)
        self.root: Path = RESULTS / config.study

    @property
    def grids(self) -> Mapping[str, Grid]:
        return self.config.grids

    @property
    def sources(self) -> Mapping[str, Source]:
        return self.config.sources

    @property
    def datasets(self) -> Mapping[str, Dataset]:
        return self.config.datasets

    @property
    def data_folders(self) -> Mapping[str, Path]:
        """Raw data that the user already has: name of the data set -> folder."""
        return {name: Path(folder) for name, folder in self.config.data.items()}

    @cached_property
    def _cells_by_grid(self) -> dict[str, tuple[Cell, ...]]:
        return {name: expand(self.config, grid) for name, grid in self.grids.items()}

    @cached_property
    def _kept(self) -> frozenset[Cell]:
        return frozenset(c for name in self.config.keep_models for c in self.grid_cells(name))

    def cells(self) -> tuple[Cell, ...]:
        """Every cell of every grid once, sorted."""
        return self._all_cells

    @cached_property
    def _all_cells(self) -> tuple[Cell, ...]:
        return tuple(sorted({cell for cells in self._cells_by_grid.values() for cell in cells}))

    def grid_cells(self, name: str) -> tuple[Cell, ...]:
        problem = choose(name, "a grid of this study", self.grids)
        if problem:
            raise LinvitError(problem)
        return self._cells_by_grid[name]

    def keeps_model(self, cell: Cell) -> bool:
        """Whether a grid of `keep_models` holds the cell."""
        return cell in self._kept

    def chosen_lambda(self, cell: Cell) -> float | None:
        """The weight that the study has chosen for the cell's dataset."""
        return self.datasets[cell.dataset].lam

    def weights(self, source: str) -> Path:
        """Where the weights of a source lie once its rule has run."""
        return self.root / "sources" / f"{source}.safetensors"

    def source_shape(self, name: str) -> dict[str, int]:
        """The shape (img_size, embed_dim, depth, ...) of a source that is a file."""
        files = [known for known, source in self.sources.items() if source.file]
        if name not in files:
            known = ", ".join(files) or "none"
            raise LinvitError(
                f"{name!r} is no source that names a file; those of the study: {known}"
            )
        return sizes_of(self.config)[self.sources[name].size].model_dump()

    def spec(self, cell: Cell) -> dict[str, Any]:
        """All that training the cell needs, with every default filled in."""
        spec = self._spec(cell, self.datasets[cell.dataset].recipe)
        return spec | ({"keep_model": True} if self.keeps_model(cell) else {})

    def source_spec(self, name: str) -> dict[str, Any]:
        """The spec of the run that makes a `pretrain` source: a Softmax ViT from random weights."""
        pretrain = self.sources[name].pretrain if name in self.sources else None
        if pretrain is None:
            known = ", ".join(n for n, s in self.sources.items() if s.pretrain)
            raise LinvitError(f"{name!r} is not pre-trained here; sources that are: {known}")
        cell = Cell(
            *(pretrain.dataset, pretrain.size, "softmax", "random", "none", None, None),
            seed=pretrain.seed,
        )
        return self._spec(cell, pretrain.recipe) | {"keep_model": True}

    def _spec(self, cell: Cell, recipe: str) -> dict[str, Any]:
        dataset = self.datasets[cell.dataset]
        classes = len(DATASETS[dataset.from_].classes)
        size = sizes_of(self.config)[cell.size]
        return {
            "cell": cell.axes,
            "device": self.device,
            "model": size.model_dump() | {"num_classes": classes},
            "dataset": _dataset_spec(cell.dataset, dataset),
            "recipe": self.config.recipes[recipe].model_dump(),
            "distill": self._distill_spec(cell),
            "source": self._source_entry(cell),
            "numerics": numerics(cell.operator, cell.init, cell.distill),
        }

    def _distill_spec(self, cell: Cell) -> dict[str, Any] | None:
        if cell.distill == "none":
            return None
        return {
            "kind": cell.distill,
            "tap": self.config.distillation.tap,
            "lambda": cell.lam,
        }

    def _source_entry(self, cell: Cell) -> dict[str, str] | None:
        if cell.source is None:
            return None
        return {"name": cell.source, "weights": str(self.weights(cell.source))}


def _dataset_spec(name: str, dataset: Dataset) -> dict[str, Any]:
    spec = {"name": name, "from": dataset.from_, "train": dataset.train}
    return spec if dataset.shots is None else spec | {"shots": dataset.shots}
