"""Decoded data sets on disk: memory-mapped arrays and a manifest that vouches for them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linvit.data.decoded import check_arrays
from linvit.data.specs import DatasetSpec, dataset_spec
from linvit.data.splits import all_splits, split_indices, train_indices
from linvit.errors import LinvitError
from linvit.files import canonical_json, read_json

SCHEMA = 1
DATA_FOLDER = Path("results/data")
CHUNK = 4096  # images hashed at a time
_verified: set[tuple] = set()


@dataclass(frozen=True, eq=False)
class Dataset:
    """images uint8 (N, H, W) or (N, H, W, C), a read-only memory map; labels int64 (N,)."""

    spec: DatasetSpec
    images: np.ndarray
    labels: np.ndarray
    digest: str

    def split(self, name: str) -> np.ndarray:
        """Ascending int64 indices of "source", "pool", "val" or "test"."""
        return split_indices(self.spec, self.labels, name)

    def train_indices(self, train: str, shots: int | None, seed: int) -> np.ndarray:
        """Ascending int64 indices that a study's `train:` (and `shots:`) selects."""
        return train_indices(self.spec, self.labels, train, shots, seed)


def dataset_digest(spec: DatasetSpec, images: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 over shapes, pixels, labels and the split indices; the same on every machine."""
    splits = all_splits(spec, labels)
    header = {"images": images.shape, "labels": labels.shape, "splits": list(splits)}
    digest = hashlib.sha256(canonical_json(header).encode())
    for start in range(0, len(images), CHUNK):
        digest.update(np.ascontiguousarray(images[start : start + CHUNK]))
    for indices in (labels, *splits.values()):
        digest.update(np.ascontiguousarray(indices, dtype="<i8"))
    return digest.hexdigest()


def open_dataset(name: str, folder: Path = DATA_FOLDER, verify: bool = True) -> Dataset:
    """Open what `prepare` made below `folder`; raises LinvitError when it is missing or damaged.

    verify: hash the arrays too (0.1 s for Fashion-MNIST), once per process and state of the files.
    """
    spec = dataset_spec(name)
    home = Path(folder) / name
    manifest = _read_manifest(spec, home)
    images, labels = _load(home, "images.npy", "r"), _load(home, "labels.npy", None)
    try:
        check_arrays(spec, images, labels, f"{home}")
    except LinvitError as error:
        raise _damaged(home, f"{error}") from None
    if verify:
        _verify_digest(spec, home, images, labels)
    return Dataset(spec, images, labels, manifest["digest"])


def _read_manifest(spec: DatasetSpec, home: Path) -> dict[str, Any]:
    manifest = read_json(home / "manifest.json")
    expected = {"schema": SCHEMA, "name": spec.name, "digest": spec.digest}
    for key, value in expected.items():
        found = manifest.get(key) if isinstance(manifest, dict) else None
        if found != value:
            raise _damaged(home, f"{key} in manifest.json is {found!r}, expected {value!r}")
    return manifest


def _load(home: Path, file: str, mmap_mode: str | None) -> np.ndarray:
    try:
        return np.load(home / file, mmap_mode=mmap_mode, allow_pickle=False)
    except FileNotFoundError:
        raise _damaged(home, f"{file} is missing") from None
    except (ValueError, EOFError, OSError) as error:
        raise _damaged(home, f"{file}: {error}") from None


def _verify_digest(spec: DatasetSpec, home: Path, images: np.ndarray, labels: np.ndarray) -> None:
    stats = [(home / name).stat() for name in ("images.npy", "labels.npy")]
    state = (home.resolve(), spec.digest, *((s.st_ino, s.st_mtime_ns, s.st_size) for s in stats))
    if state in _verified:
        return
    found = dataset_digest(spec, images, labels)
    if found != spec.digest:
        raise _damaged(home, f"digest of the arrays is {found}, expected {spec.digest}")
    _verified.add(state)


def _damaged(home: Path, reason: str) -> LinvitError:
    return LinvitError(
        f"{home} is damaged or of another version: {reason}; delete it and run again"
    )
