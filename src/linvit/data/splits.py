"""Fixed splits and few-shot subsets: functions of the data set, the labels and a seed alone."""

import numpy as np

from linvit.counter import words
from linvit.data.specs import DatasetSpec
from linvit.errors import LinvitError


def _stratified_order(labels: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Order samples so that every contiguous run holds the classes in proportion (within one).

    labels (N,), ranks (N,) random words. Sample j of a class of n stands at (j + 1/2) / n.
    """
    order = np.lexsort((ranks, labels))
    sizes = np.bincount(labels)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    sorted_labels = labels[order]
    place_in_class = np.arange(len(labels)) - starts[sorted_labels]
    position = (place_in_class + 0.5) / sizes[sorted_labels]
    return order[np.lexsort((sorted_labels, position))]


def all_splits(spec: DatasetSpec, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Every split as ascending int64 indices; disjoint, together all samples."""
    if len(labels) != spec.count:
        raise LinvitError(f"{spec.name} has {len(labels)} labels, its splits need {spec.count}")
    drawn = spec.count - spec.official_test
    ranks = words(drawn, "splits", spec.name)
    order = _stratified_order(labels[:drawn], ranks)
    # The official test set keeps its place at the end.
    order = np.concatenate([order, np.arange(drawn, spec.count)])
    ends = np.cumsum(list(spec.splits.values()))[:-1]
    parts = np.split(order.astype(np.int64), ends)
    return {name: np.sort(part) for name, part in zip(spec.splits, parts, strict=True)}


def split_indices(spec: DatasetSpec, labels: np.ndarray, name: str) -> np.ndarray:
    """Ascending int64 indices of one split. Raises LinvitError for a split the set lacks."""
    if name not in spec.splits:
        known = ", ".join(spec.splits)
        raise LinvitError(f"{spec.name} has no split {name!r}; its splits are {known}")
    return all_splits(spec, labels)[name]


def fewshot_indices(spec: DatasetSpec, labels: np.ndarray, shots: int, seed: int) -> np.ndarray:
    """`shots` images per class from the pool, ascending int64; more shots only add images."""
    pool = split_indices(spec, labels, "pool")
    smallest = int(np.bincount(labels[pool], minlength=len(spec.classes)).min())
    if not 1 <= shots <= smallest:
        raise LinvitError(
            f"shots: {shots} images per class cannot be drawn from {spec.name}, "
            f"whose pool holds {smallest} of its rarest class; choose 1..{smallest}"
        )
    shuffled = pool[np.argsort(words(spec.count, seed, "shots")[pool], kind="stable")]
    chosen = [shuffled[labels[shuffled] == c][:shots] for c in range(len(spec.classes))]
    return np.sort(np.concatenate(chosen))


def train_indices(
    spec: DatasetSpec, labels: np.ndarray, train: str, shots: int | None, seed: int
) -> np.ndarray:
    """What a study's `train:` means: "source" or "pool" whole, or "fewshot" from the pool."""
    if train == "fewshot":
        if shots is None:
            raise LinvitError(f"train: fewshot on {spec.name} needs shots: images per class")
        return fewshot_indices(spec, labels, shots, seed)
    return split_indices(spec, labels, train)
