"""What spans several keys of a study: names that must exist, sizes and data that must fit."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from linvit.catalog import DISTILLS, INITS, OPERATORS, SIZES
from linvit.data.specs import DATASETS
from linvit.study.cell import SCRATCH, takes_from_source
from linvit.study.grid import expand, sizes_of
from linvit.study.problems import Problem, choose
from linvit.study.schema import Dataset, Grid, Recipe, Size, Source, StudyConfig

MAX_WINDOWS = 16
RESERVED_STUDIES = ("data",)  # results/data holds the decoded data sets


def find_problems(config: StudyConfig) -> list[Problem]:
    problems = [
        *_top(config),
        *(p for name, size in config.sizes.items() for p in _size(name, size)),
        *(p for name, recipe in config.recipes.items() for p in _recipe(name, recipe)),
        *(p for name, dataset in config.datasets.items() for p in _dataset(config, name, dataset)),
        *(p for name, source in config.sources.items() for p in _source(config, name, source)),
        *(p for name, grid in config.grids.items() for p in _grid_names(config, name, grid)),
    ]
    if problems:  # what fits together can only be judged once every name exists
        return problems
    problems = [
        *(p for name, source in config.sources.items() for p in _pretrain(config, name, source)),
        *(p for name, grid in config.grids.items() for p in _grid_fit(config, name, grid)),
    ]
    return problems or list(_same_grids(config))


def _names(path: tuple, values: list[Any], kind: str, allowed: Any) -> Iterator[Problem]:
    """Unknown and repeated entries of a list."""
    for place, value in enumerate(values):
        text = choose(value, kind, allowed)
        if text:
            yield Problem((*path, place), text)
    yield from _repeats(path, values)


def _repeats(path: tuple, values: list[Any]) -> Iterator[Problem]:
    for place, value in enumerate(values):
        if value in values[:place]:
            yield Problem((*path, place), f"{value!r} is listed twice; keep one")


def _name(path: tuple, value: str, kind: str, allowed: Any) -> Iterator[Problem]:
    text = choose(value, kind, allowed)
    if text:
        yield Problem(path, text)


def _top(config: StudyConfig) -> Iterator[Problem]:
    if config.study in RESERVED_STUDIES:
        yield Problem(("study",), f"{config.study!r} is a folder of results/; choose another name")
    yield from _repeats(("seeds",), config.seeds)
    yield from _names(("keep_models",), config.keep_models, "a grid", config.grids)
    for name in config.data:
        yield from _name(("data", name), name, "a data set", DATASETS)


def _size(name: str, size: Size) -> Iterator[Problem]:
    path = ("sizes", name)
    if name in SIZES:
        yield Problem(path, f"{name!r} is built in ({', '.join(SIZES)}); choose another name")
    if size.img_size % size.patch_size:
        text = f"{size.patch_size} does not divide img_size {size.img_size}; choose a divisor"
        yield Problem((*path, "patch_size"), text)
    if size.embed_dim % size.num_heads:
        text = f"{size.num_heads} does not divide embed_dim {size.embed_dim}; choose a divisor"
        yield Problem((*path, "num_heads"), text)


def _recipe(name: str, recipe: Recipe) -> Iterator[Problem]:
    path = ("recipes", name)
    if recipe.warmup_epochs >= recipe.epochs:
        text = f"{recipe.warmup_epochs} must be less than epochs ({recipe.epochs})"
        yield Problem((*path, "warmup_epochs"), text)
    if recipe.eval_every > recipe.epochs:
        text = f"{recipe.eval_every} must be at most epochs ({recipe.epochs})"
        yield Problem((*path, "eval_every"), text)
    if recipe.min_lr > recipe.lr:
        yield Problem((*path, "min_lr"), f"{recipe.min_lr} must be at most lr ({recipe.lr})")
    if len(recipe.view.mean) != len(recipe.view.std):
        text = f"{recipe.view.std} must have one number per channel, as mean {recipe.view.mean}"
        yield Problem((*path, "view", "std"), text)


def _dataset(config: StudyConfig, name: str, dataset: Dataset) -> Iterator[Problem]:
    path = ("datasets", name)
    yield from _name((*path, "from"), dataset.from_, "a data set", DATASETS)
    if dataset.recipe is not None:
        yield from _name((*path, "recipe"), dataset.recipe, "a recipe", config.recipes)
    if dataset.train == "fewshot" and dataset.shots is None:
        yield Problem(path, "train: fewshot needs shots, the number of images per class")
    if dataset.train != "fewshot" and dataset.shots is not None:
        text = f"{dataset.shots} has no meaning with train: {dataset.train}; remove it"
        yield Problem((*path, "shots"), text)
    if dataset.from_ in DATASETS:
        yield from _split(path, dataset)


def _split(path: tuple, dataset: Dataset) -> Iterator[Problem]:
    known = DATASETS[dataset.from_]
    split = "pool" if dataset.train == "fewshot" else dataset.train
    if split not in known.splits:
        allowed = [s for s in ("source", "pool") if s in known.splits]
        allowed += ["fewshot"] if "pool" in allowed else []
        text = f"{dataset.train!r} needs a split that {known.name} lacks; allowed: "
        yield Problem((*path, "train"), text + ", ".join(allowed))
    elif dataset.shots is not None:
        most = known.splits["pool"] // len(known.classes)
        if dataset.shots > most:
            text = f"{dataset.shots} images per class are not in the pool of {known.name}; "
            yield Problem((*path, "shots"), text + f"at most {most}")


def _source(config: StudyConfig, name: str, source: Source) -> Iterator[Problem]:
    path, sizes = ("sources", name), sizes_of(config)
    if name == SCRATCH:
        yield Problem(path, f"{name!r} is how a path writes 'no source'; choose another name")
    if (source.pretrain is None) == (source.file is None):
        yield Problem(path, "must have either pretrain, or file and size")
    elif source.pretrain is None:
        if source.size is None:
            yield Problem(path, "file needs size, the name of the model that the weights are of")
    elif source.size is not None:
        yield Problem((*path, "size"), "goes inside pretrain; remove it here")
    if source.size is not None and source.pretrain is None:
        yield from _name((*path, "size"), source.size, "a size", sizes)
    if source.pretrain is not None:
        inner = (*path, "pretrain")
        yield from _name((*inner, "size"), source.pretrain.size, "a size", sizes)
        yield from _name((*inner, "dataset"), source.pretrain.dataset, "a dataset", config.datasets)
        yield from _name((*inner, "recipe"), source.pretrain.recipe, "a recipe", config.recipes)


def _pretrain(config: StudyConfig, name: str, source: Source) -> Iterator[Problem]:
    if source.pretrain is not None:
        made = source.pretrain
        yield from _fits_data(config, made.dataset, made.recipe, made.size)


def _grid_names(config: StudyConfig, name: str, grid: Grid) -> Iterator[Problem]:
    path = ("grids", name)
    axes = {
        "operator": (grid.operator, "an operator", OPERATORS),
        "size": (grid.size, "a size", sizes_of(config)),
        "dataset": (grid.dataset, "a dataset", config.datasets),
        "init": (grid.init, "an init", INITS),
        "distill": (grid.distill, "a distillation", DISTILLS),
        "source": (grid.source or [], "a source", config.sources),
    }
    for axis, (values, kind, allowed) in axes.items():
        yield from _names((*path, axis), values, kind, allowed)
    yield from _repeats((*path, "lambda"), grid.lam or [])
    yield from _repeats((*path, "seeds"), grid.seeds or [])
    if grid.lam and grid.distill == ["none"]:
        yield Problem((*path, "lambda"), f"{grid.lam} weighs nothing, distill is only none")


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
    dataset, path = config.datasets[name], ("recipes", recipe)
    known, chans = DATASETS[dataset.from_], sizes_of(config)[size].in_chans
    if known.in_chans not in (1, chans):
        text = f"{known.name} has {known.in_chans} channels, size {size} reads {chans}"
        yield Problem(("datasets", name, "from"), text)
    if len(config.recipes[recipe].view.mean) != chans:
        mean = config.recipes[recipe].view.mean
        text = f"{mean} must have {chans} number(s), one per channel of size {size}"
        yield Problem((*path, "view", "mean"), text)
    count = _images(dataset)
    if config.recipes[recipe].batch_size > count:
        text = f"{config.recipes[recipe].batch_size} is more than the {count} images of {name}"
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
    keys = {"embed_dim", "depth", "num_heads"}
    if not any(takes_from_source(*pair) for pair in product(grid.init, grid.distill)):
        return
    if any("stem" in INITS[init].components for init in grid.init):
        keys |= {"patch_size", "in_chans"}
    if grid.distill != ["none"]:  # the teacher sees the student's images, token by token
        keys |= {"patch_size", "in_chans", "img_size"}
    for size in grid.size:
        wants = sizes_of(config)[size]
        for key in sorted(keys):
            if getattr(has, key) != getattr(wants, key):
                text = f"{name!r} has {key} {getattr(has, key)}, size {size} has "
                yield Problem(path, f"{text}{getattr(wants, key)}; they must be equal")


def _same_grids(config: StudyConfig) -> Iterator[Problem]:
    seen: dict[frozenset, str] = {}
    for name, grid in config.grids.items():
        cells = frozenset(expand(config, grid))
        if cells in seen:
            text = f"has exactly the cells of grids.{seen[cells]}; keep one"
            yield Problem(("grids", name), text)
        seen.setdefault(cells, name)
