"""Whether the blocks of a study fit together: operators, sizes, data, recipes and sources."""

from collections.abc import Iterator
from itertools import product

from linvit.catalog import DISTILLS, INITS, OPERATORS
from linvit.data.specs import DATASETS
from linvit.study.cell import takes_from_source
from linvit.study.grid import expand, sizes_of
from linvit.study.problems import Problem
from linvit.study.schema import Dataset, Grid, Source, StudyConfig

MAX_WINDOWS = 16


def misfits(config: StudyConfig) -> list[Problem]:
    """For a config in which every name that is used exists."""
    problems = [
        *(p for source in config.sources.values() for p in _pretrain(config, source)),
        *(p for name, grid in config.grids.items() for p in _grid_fit(config, name, grid)),
    ]
    return problems or list(_same_grids(config))


def _pretrain(config: StudyConfig, source: Source) -> Iterator[Problem]:
    made = source.pretrain
    if made is not None:
        yield from _fits_data(config, made.dataset, made.recipe, made.size)


def _grid_fit(config: StudyConfig, name: str, grid: Grid) -> Iterator[Problem]:
    path = ("grids", name)
    yield from _operators_fit(config, path, grid)
    for place, dataset in enumerate(grid.dataset):
        yield from _dataset_fits(config, (*path, "dataset", place), grid, dataset)
    if grid.source is None:
        yield from _source_missing(path, grid)
    for place, source in enumerate(grid.source or []):
        yield from _source_fits(config, (*path, "source", place), grid, source)


def _operators_fit(config: StudyConfig, path: tuple, grid: Grid) -> Iterator[Problem]:
    for (place, operator), size in product(enumerate(grid.operator), grid.size):
        side = sizes_of(config)[size].img_size // sizes_of(config)[size].patch_size
        if OPERATORS[operator].windows and window_side(side) is None:
            text = f"{operator!r} finds no window in the {side} x {side} patches of size {size}: "
            text += f"no divisor from 2 on leaves at most {MAX_WINDOWS} windows"
            yield Problem((*path, "operator", place), text)
    mapless = [operator for operator in grid.operator if not OPERATORS[operator].has_map]
    for place, distill in enumerate(grid.distill):
        if DISTILLS[distill].needs_map and mapless:
            able = ", ".join(name for name, traits in OPERATORS.items() if traits.has_map)
            text = f"{distill!r} needs an attention map, which {', '.join(mapless)} lack(s); "
            yield Problem((*path, "distill", place), f"{text}allowed operators: {able}")


def window_side(side: int) -> int | None:
    """The window that mhla takes in a grid of side x side patches, None where there is none."""
    for window in range(2, side):
        if side % window == 0 and (side // window) ** 2 <= MAX_WINDOWS:
            return window
    return None


def _dataset_fits(config: StudyConfig, path: tuple, grid: Grid, name: str) -> Iterator[Problem]:
    dataset = config.datasets[name]
    if dataset.recipe is None:
        yield Problem(path, f"{name!r} is trained on here; give datasets.{name} a recipe")
        return
    if dataset.lam is None and grid.lam is None and grid.distill != ["none"]:
        text = f"{name!r} is distilled on here; give datasets.{name} or this grid a lambda"
        yield Problem(path, text)
    for size in grid.size:
        yield from _fits_data(config, name, dataset.recipe, size)


def _fits_data(config: StudyConfig, name: str, recipe: str, size: str) -> Iterator[Problem]:
    """Whether `recipe` can train a model of `size` on a dataset."""
    dataset, model = config.datasets[name], sizes_of(config)[size]
    known = DATASETS[dataset.from_]
    settings, path = config.recipes[recipe], ("recipes", recipe)
    if known.in_chans not in (1, model.in_chans):  # grey images serve any number of channels
        text = f"{known.name!r} has {known.in_chans} channels, size {size} reads {model.in_chans}"
        yield Problem(("datasets", name, "from"), text)
    if len(settings.view.mean) != model.in_chans:
        text = f"{settings.view.mean} must have {model.in_chans} number(s), "
        yield Problem((*path, "view", "mean"), f"{text}one per channel of size {size}")
    if settings.view.shift >= model.img_size:
        text = f"{settings.view.shift} must be less than the {model.img_size} pixels of size {size}"
        yield Problem((*path, "view", "shift"), text)
    if settings.batch_size > _images(dataset):
        text = f"{settings.batch_size} must be at most the {_images(dataset)} images of {name}"
        yield Problem((*path, "batch_size"), text)


def _images(dataset: Dataset) -> int:
    known = DATASETS[dataset.from_]
    if dataset.shots is not None:
        return dataset.shots * len(known.classes)
    return known.splits[dataset.train]


def _source_missing(path: tuple, grid: Grid) -> Iterator[Problem]:
    for axis, values in (("init", grid.init), ("distill", grid.distill)):
        for place, value in enumerate(values):
            pair = (value, "none") if axis == "init" else ("random", value)
            if takes_from_source(*pair):
                yield Problem(
                    (*path, axis, place), f"{value!r} needs a source; add source: [...] to the grid"
                )


def _source_fits(config: StudyConfig, path: tuple, grid: Grid, name: str) -> Iterator[Problem]:
    source = config.sources[name]
    has = sizes_of(config)[source.pretrain.size if source.pretrain else source.size]
    for size, key in product(grid.size, _shared_keys(grid)):
        there, here = getattr(has, key), getattr(sizes_of(config)[size], key)
        if there != here:
            text = f"{name!r} has {key} {there}, size {size} has {here}; they must be equal"
            yield Problem(path, text)


def _shared_keys(grid: Grid) -> list[str]:
    """What source and student must have in common for all that the grid takes from a source."""
    if not any(takes_from_source(*pair) for pair in product(grid.init, grid.distill)):
        return []
    keys = ["embed_dim", "depth", "num_heads"]
    distilled = grid.distill != ["none"]
    if distilled or any("stem" in INITS[init].components for init in grid.init):
        keys += ["patch_size", "in_chans"]
    # copied positions are resampled; a teacher sees the student's own images, token by token
    return [*keys, "img_size"] if distilled else keys


def _same_grids(config: StudyConfig) -> Iterator[Problem]:
    seen: dict[frozenset, str] = {}
    for name, grid in config.grids.items():
        cells = frozenset(expand(config, grid))
        if cells in seen:
            text = f"has exactly the cells of grids.{seen[cells]}; keep one"
            yield Problem(("grids", name), text)
        seen.setdefault(cells, name)
