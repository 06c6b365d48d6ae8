import hashlib

import numpy as np
import pytest

from linvit.data import digits, mnist5k
from linvit.data.specs import DATASETS, DIGITS, FASHION_MNIST, MNIST_5K, dataset_spec
from linvit.data.splits import all_splits, fewshot_indices, split_indices, train_indices
from linvit.errors import LinvitError


def balanced_labels(spec):
    return np.arange(spec.count) % len(spec.classes)


def labels_of(spec):
    """The true labels where a package holds them, the true class sizes elsewhere."""
    readers = {"mnist-5k": mnist5k.read, "digits": digits.read}
    return readers[spec.name](spec, None).labels if spec.name in readers else balanced_labels(spec)


def digest_of(indices):
    return hashlib.sha256(np.ascontiguousarray(indices, "<i8")).hexdigest()[:16]


@pytest.mark.parametrize("spec", DATASETS.values(), ids=DATASETS)
def test_splits_are_disjoint_exhaustive_and_stratified(spec):
    labels = labels_of(spec)
    splits = all_splits(spec, labels)
    assert {name: len(part) for name, part in splits.items()} == spec.splits
    assert np.array_equal(np.sort(np.concatenate(list(splits.values()))), np.arange(spec.count))
    shares = np.bincount(labels) / spec.count
    for part in splits.values():
        assert part.dtype == np.int64
        assert np.all(np.diff(part) > 0)
        assert np.all(np.abs(np.bincount(labels[part]) - shares * len(part)) < 1.5)


def test_official_test_images_stay_the_test_split():
    test = split_indices(FASHION_MNIST, balanced_labels(FASHION_MNIST), "test")
    assert np.array_equal(test, np.arange(60_000, 70_000))


PINNED = {
    ("fashion-mnist", "source"): "e3b4b9d64dd5ec38",
    ("fashion-mnist", "pool"): "97200d760fbee670",
    ("fashion-mnist", "val"): "9cfb13c1982bada9",
    ("mnist-5k", "pool"): "24be0b64e8f4ba73",
    ("mnist-5k", "val"): "2dc79c78217efce6",
    ("mnist-5k", "test"): "90a6a9da4ca639e6",
    ("digits", "pool"): "ab97c0870947c0cb",
    ("digits", "val"): "d4c3f668f0602980",
    ("digits", "test"): "355f14f145591171",
}


@pytest.mark.parametrize(("name", "split"), PINNED)
def test_splits_never_change(name, split):
    spec = DATASETS[name]
    assert digest_of(split_indices(spec, labels_of(spec), split)) == PINNED[name, split]


def test_fewshot_draws_from_the_pool_by_seed():
    labels = labels_of(MNIST_5K)
    subset = fewshot_indices(MNIST_5K, labels, 20, seed=0)
    assert np.array_equal(np.bincount(labels[subset]), [20] * 10)
    assert set(subset) <= set(split_indices(MNIST_5K, labels, "pool"))
    assert not np.array_equal(subset, fewshot_indices(MNIST_5K, labels, 20, seed=1))
    assert digest_of(subset) == "79a91d8c48d4ffb4"


def test_more_shots_add_images():
    labels = balanced_labels(FASHION_MNIST)
    few, many = (fewshot_indices(FASHION_MNIST, labels, shots, seed=3) for shots in (5, 50))
    assert set(few) < set(many)


@pytest.mark.parametrize("shots", [0, 59])
def test_shots_beyond_the_pool_are_refused(shots):
    with pytest.raises(LinvitError, match=r"digits, whose pool holds 58 .*; choose 1..58"):
        fewshot_indices(DIGITS, labels_of(DIGITS), shots, seed=0)


def test_train_selects_a_split_or_a_subset():
    labels = labels_of(DIGITS)
    pool = train_indices(DIGITS, labels, "pool", None, seed=0)
    assert np.array_equal(pool, split_indices(DIGITS, labels, "pool"))
    assert len(train_indices(DIGITS, labels, "fewshot", 3, seed=0)) == 30
    with pytest.raises(LinvitError, match="needs shots"):
        train_indices(DIGITS, labels, "fewshot", None, seed=0)
    with pytest.raises(LinvitError, match="digits has no split 'source'; its splits are pool"):
        train_indices(DIGITS, labels, "source", None, seed=0)


def test_wrong_number_of_labels():
    with pytest.raises(LinvitError, match="digits has 3 labels, its splits need 1797"):
        all_splits(DIGITS, np.zeros(3, np.int64))


def test_unknown_name():
    with pytest.raises(LinvitError, match="'cifar' is not known; choose one of fashion-mnist"):
        dataset_spec("cifar")
