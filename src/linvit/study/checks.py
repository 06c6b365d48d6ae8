"""Each block of a study for itself: names that must exist, numbers that must agree."""

from collections.abc import Iterator
from typing import Any

from linvit.catalog import DISTILLS, INITS, OPERATORS, SIZES
from linvit.data.specs import DATASETS
from linvit.study.cell import SCRATCH
from linvit.study.fit import misfits
from linvit.study.grid import sizes_of
from linvit.study.problems import Problem, choose
from linvit.study.schema import Dataset, Grid, Recipe, Size, Source, StudyConfig

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
    # what fits together can only be judged once every name exists
    return problems or misfits(config)


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
    path = ("sources", name)
    if name == SCRATCH:
        yield Problem(path, f"{name!r} is how a path writes 'no source'; choose another name")
    if (source.pretrain is None) == (source.file is None):
        yield Problem(path, "must have either pretrain, or file and size")
    elif source.pretrain is not None:
        yield from _pretrained(config, path, source)
    elif source.size is None:
        yield Problem(path, "file needs size, the name of the model that the weights are of")
    else:
        yield from _name((*path, "size"), source.size, "a size", sizes_of(config))


def _pretrained(config: StudyConfig, path: tuple, source: Source) -> Iterator[Problem]:
    made, inner = source.pretrain, (*path, "pretrain")
    if source.size is not None:
        yield Problem((*path, "size"), "goes inside pretrain; remove it here")
    yield from _name((*inner, "size"), made.size, "a size", sizes_of(config))
    yield from _name((*inner, "dataset"), made.dataset, "a dataset", config.datasets)
    yield from _name((*inner, "recipe"), made.recipe, "a recipe", config.recipes)


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
